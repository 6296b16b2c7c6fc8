//! The results of a benchmark. Field names are those of the JSON output.

use serde::Serialize;

use super::compare::Compared;
use super::cost::Cost;
use super::kernels::KernelRate;
use super::limits::Limits;
use super::network::Sparsity;

/// The results of a benchmark. Displays as tables.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub(super) model: String,
    pub(super) weights_bytes: usize,
    pub(super) cpu: Option<String>,
    /// Instruction set of all figures that do not name one.
    pub(super) isa: &'static str,
    pub(super) kv: String,
    pub(super) threads: usize,
    pub(super) clock_ghz: Option<f64>,
    /// Memory bandwidth of all threads, in GB/s.
    pub(super) stream_gb_s: f64,
    /// Peak multiplications of all threads, in 10⁹ per second.
    pub(super) peak_gmac_s: f64,
    pub(super) limits: Vec<Limits>,
    /// `None` if no zeros are skipped.
    pub(super) sparsity: Option<Sparsity>,
    pub(super) decode: Vec<Decode>,
    pub(super) prefill: Vec<Prefill>,
    pub(super) batch: Vec<Batch>,
    pub(super) kernels: Vec<KernelRate>,
    pub(super) parts: Vec<PartShare>,
    /// Comparison with llama-cpp-python; empty unless requested.
    pub(super) compare: Vec<Compared>,
    pub(super) cost: Vec<Cost>,
    /// Cases that do not fit into the context.
    pub(super) left_out: Vec<String>,
    /// Reasons to doubt the figures.
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Decode {
    pub(super) context: usize,
    pub(super) threads: usize,
    pub(super) sparse: bool,
    pub(super) tok_s: f64,
    /// Weights, head and K/V that must be read, each counted once.
    pub(super) bytes_per_token: usize,
    pub(super) gb_s: f64,
    /// Median memory bandwidth of the same threads, measured alternating with these steps.
    pub(super) stream_gb_s: f64,
    /// `gb_s` as a fraction of `stream_gb_s`.
    pub(super) share_of_stream: f64,
    pub(super) spread: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Prefill {
    pub(super) tokens: usize,
    pub(super) threads: usize,
    pub(super) tok_s: f64,
    /// Multiplications by trits, as a fraction of the peak of the same threads.
    pub(super) share_of_peak: f64,
    pub(super) spread: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Batch {
    pub(super) sequences: usize,
    pub(super) threads: usize,
    /// Tokens per second of all sequences together.
    pub(super) tok_s: f64,
    pub(super) spread: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct PartShare {
    /// `decode` or `prefill`.
    pub(super) pass: &'static str,
    /// Number of tokens in the context, or in the prompt.
    pub(super) tokens: usize,
    pub(super) threads: usize,
    pub(super) part: &'static str,
    pub(super) us_per_token: f64,
    /// Fraction of the pass. `barriers` is an estimate, and is included in the other parts.
    pub(super) share: f64,
}

/// Maximum spread of reliable measurements.
const MAX_SPREAD: f64 = 0.1;

/// Weights larger than this do not fit into any cache.
const MAX_CACHE: usize = 1 << 30;

impl Report {
    /// Adds a warning for everything that makes the figures doubtful.
    pub(super) fn add_warnings(&mut self, load_before: Option<f64>) {
        if let Some(load) = load_before.filter(|load| *load > self.threads as f64 * 0.5) {
            self.warnings.push(format!(
                "the machine was busy before the run: load average {load:.1}, with {} threads to use",
                self.threads
            ));
        }
        // A network that fits into a cache may be read faster than memory.
        let in_memory = self.weights_bytes > MAX_CACHE;
        if in_memory && self.largest_share() > 1.0 {
            self.warnings.push(
                "some cases were faster than the limits: other programs ran while those were measured"
                    .to_owned(),
            );
        }
        let cases = self.spreads();
        let wide = |spread: &Option<f64>| spread.is_some_and(|spread| spread > MAX_SPREAD);
        let (doubtful, total) = (cases.iter().filter(|s| wide(s)).count(), cases.len());
        if doubtful > 0 {
            self.warnings.push(format!(
                "{doubtful} of {total} cases have a spread of more than 10 %: other programs were running"
            ));
        }
    }

    fn largest_share(&self) -> f64 {
        let decode = self.decode.iter().map(|case| case.share_of_stream);
        let prefill = self.prefill.iter().map(|case| case.share_of_peak);
        decode.chain(prefill).fold(0.0, f64::max)
    }

    fn spreads(&self) -> Vec<Option<f64>> {
        let decode = self.decode.iter().map(|case| case.spread);
        let prefill = self.prefill.iter().map(|case| case.spread);
        let batch = self.batch.iter().map(|case| case.spread);
        decode.chain(prefill).chain(batch).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a report with one case of each kind.
    pub(in super::super) fn example() -> Report {
        let limits = Limits {
            threads: 2,
            stream_gb_s: 22.0,
            peak_gmac_s: 300.0,
            peak_instruction: "multiply",
            kernel_gmac_s: 250.0,
            barrier_us: 1.0,
        };
        Report {
            model: "bitnet-2b".to_owned(),
            weights_bytes: 1_200_000_000,
            cpu: Some("Some <CPU> & more".to_owned()),
            isa: "scalar",
            kv: "f32".to_owned(),
            threads: 2,
            clock_ghz: Some(3.0),
            stream_gb_s: 22.0,
            peak_gmac_s: 300.0,
            limits: vec![Limits { threads: 1, ..limits }, limits],
            sparsity: Some(Sparsity {
                layers: 30,
                closed_gates: 0.73,
                zero_codes: 0.86,
                copies_bytes: 265_000_000,
            }),
            decode: vec![Decode {
                context: 512,
                threads: 2,
                sparse: true,
                tok_s: 10.0,
                bytes_per_token: 1_000_000_000,
                gb_s: 10.0,
                stream_gb_s: 20.0,
                share_of_stream: 0.5,
                spread: Some(0.02),
            }],
            prefill: vec![Prefill {
                tokens: 128,
                threads: 2,
                tok_s: 40.0,
                share_of_peak: 0.25,
                spread: None,
            }],
            batch: vec![Batch { sequences: 16, threads: 2, tok_s: 33.0, spread: Some(0.3) }],
            kernels: vec![KernelRate {
                kernel: "ternary",
                isa: "scalar",
                shape: "gate 6912x2560".to_owned(),
                tokens: 4,
                gb_s: 1.0,
                gmac_s: 16.0,
                mac_per_cycle: Some(5.3),
                weights_per_cycle: None,
                spread: None,
            }],
            parts: vec![PartShare {
                pass: "decode",
                tokens: 512,
                threads: 2,
                part: "gate+up",
                us_per_token: 1234.0,
                share: 0.4,
            }],
            compare: vec![Compared {
                program: "another 1.0".to_owned(),
                encoding: "TQ2_0",
                pass: "decode",
                tokens: 16,
                threads: 2,
                ours_tok_s: 10.0,
                theirs_tok_s: 4.0,
                ratio: 2.5,
                spread: Some(0.01),
            }],
            cost: super::super::cost::costs("decode", 10.0, 0.36).collect(),
            left_out: vec!["prefill of 2048".to_owned()],
            warnings: Vec::new(),
        }
    }

    /// Keys of the top-level object.
    const KEYS: [&str; 10] = [
        "stream_gb_s",
        "isa",
        "sparsity",
        "decode",
        "prefill",
        "batch",
        "kernels",
        "parts",
        "compare",
        "cost",
    ];

    #[test]
    fn json_has_the_keys_that_scripts_read() {
        let json = serde_json::to_value(example()).unwrap();
        for key in KEYS {
            assert!(json.get(key).is_some(), "{key}");
        }
        for (list, keys) in [
            (
                "decode",
                &["context", "threads", "sparse", "tok_s", "bytes_per_token", "share_of_stream"][..],
            ),
            ("prefill", &["tokens", "threads", "tok_s", "share_of_peak"]),
            ("batch", &["sequences", "threads", "tok_s"]),
            ("kernels", &["kernel", "isa", "shape", "tokens", "gb_s", "gmac_s", "mac_per_cycle"]),
            ("parts", &["pass", "part", "us_per_token", "share"]),
            ("limits", &["threads", "stream_gb_s", "peak_gmac_s", "kernel_gmac_s", "barrier_us"]),
            ("compare", &["program", "pass", "threads", "ours_tok_s", "theirs_tok_s", "ratio"]),
            ("cost", &["what", "tok_s", "use", "usd_per_million"]),
        ] {
            for key in keys {
                assert!(json[list][0].get(key).is_some(), "{list}: {key}");
            }
        }
    }

    #[test]
    fn a_busy_machine_and_wide_spreads_are_warned_about() {
        let warnings = |load, spread| {
            let mut report = example();
            report.batch[0].spread = spread;
            report.add_warnings(load);
            report.warnings
        };
        assert_eq!(warnings(Some(0.9), Some(0.1)), Vec::<String>::new());
        assert_eq!(warnings(None, None), Vec::<String>::new());
        let mut report = example();
        report.batch.clear();
        report.decode[0].share_of_stream = 1.2;
        report.add_warnings(None);
        assert!(report.warnings[0].contains("faster than the limits"), "{:?}", report.warnings);
        assert!(warnings(Some(1.1), None)[0].contains("load average 1.1"));
        assert!(warnings(None, Some(0.11))[0].contains("1 of 3 cases"));
    }
}
