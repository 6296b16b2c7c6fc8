//! What a run found, in the words its JSON uses.

use serde::Serialize;

use super::compare::Compared;
use super::cost::Cost;
use super::kernels::KernelRate;
use super::limits::Limits;

/// Everything a run found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) model: String,
    /// Bytes of weights in memory.
    pub(super) weights_bytes: usize,
    pub(super) cpu: Option<String>,
    /// The instruction set of every figure that does not name its own.
    pub(super) isa: &'static str,
    pub(super) kv: String,
    /// The most threads that were used.
    pub(super) threads: usize,
    pub(super) clock_ghz: Option<f64>,
    /// Gigabytes a second that all threads together read from memory, at best.
    pub(super) stream_gb_s: f64,
    /// What all threads together could multiply in a second, in thousand millions.
    pub(super) peak_gmac_s: f64,
    /// The same for fewer threads.
    pub(super) limits: Vec<Limits>,
    /// The zeros that were skipped, if any were.
    pub(super) sparsity: Option<Sparsity>,
    pub(super) decode: Vec<Decode>,
    pub(super) prefill: Vec<Prefill>,
    pub(super) batch: Vec<Batch>,
    pub(super) kernels: Vec<KernelRate>,
    pub(super) parts: Vec<PartShare>,
    /// Beside another program; empty unless asked for.
    pub(super) compare: Vec<Compared>,
    pub(super) cost: Vec<Cost>,
    /// Cases that the model's context has no room for.
    pub(super) left_out: Vec<String>,
    /// Why not to trust these figures.
    pub(super) warnings: Vec<String>,
}

/// What squared ReLU made zero, over all layers where zeros are skipped.
#[derive(Debug, Serialize)]
pub(super) struct Sparsity {
    /// Layers where they are.
    pub(super) layers: usize,
    /// The share of gates that were not positive.
    pub(super) closed_gates: f64,
    /// The share of the inputs of `down` whose int8 code was zero.
    pub(super) zero_codes: f64,
    /// Bytes of memory it takes.
    pub(super) copies_bytes: usize,
}

/// One sequence, one token at a time.
#[derive(Debug, Serialize)]
pub(super) struct Decode {
    /// Tokens before the one that is decoded.
    pub(super) context: usize,
    pub(super) threads: usize,
    /// Whether zeros were skipped.
    pub(super) sparse: bool,
    pub(super) tok_s: f64,
    /// Weights, head and K/V, each counted once.
    pub(super) bytes_per_token: usize,
    pub(super) gb_s: f64,
    /// What as many threads read from memory in turn with these steps: the median.
    pub(super) stream_gb_s: f64,
    /// The one as a share of the other.
    pub(super) share_of_stream: f64,
    pub(super) spread: Option<f64>,
}

/// A prompt.
#[derive(Debug, Serialize)]
pub(super) struct Prefill {
    pub(super) tokens: usize,
    pub(super) threads: usize,
    pub(super) tok_s: f64,
    /// Multiplications by trits, as a share of what as many threads could multiply.
    pub(super) share_of_peak: f64,
    pub(super) spread: Option<f64>,
}

/// Several sequences, one token of each at a time.
#[derive(Debug, Serialize)]
pub(super) struct Batch {
    pub(super) sequences: usize,
    pub(super) threads: usize,
    /// Of all sequences together.
    pub(super) tok_s: f64,
    pub(super) spread: Option<f64>,
}

/// Where the time goes.
#[derive(Debug, Serialize)]
pub(super) struct PartShare {
    /// `decode` or `prefill`.
    pub(super) pass: &'static str,
    /// Tokens before the one decoded, or tokens of the prompt.
    pub(super) tokens: usize,
    pub(super) threads: usize,
    pub(super) part: &'static str,
    pub(super) us_per_token: f64,
    /// Of the whole pass. `barriers` is an estimate, and is contained in the other parts.
    pub(super) share: f64,
}

/// Repeats that lie further apart than this are no measurement.
const LARGEST_SPREAD: f64 = 0.1;

/// Weights beyond this have to come from memory.
const IN_NO_CACHE: usize = 1 << 30;

impl Report {
    /// Warns of everything that makes the figures doubtful.
    pub(super) fn doubt(&mut self, load_before: Option<f64>) {
        if let Some(load) = load_before.filter(|load| *load > self.threads as f64 * 0.5) {
            self.warnings.push(format!(
                "the machine was busy before the run: a load of {load:.1}, with {} threads to use",
                self.threads
            ));
        }
        // A network that fits into a cache may well be read faster than memory.
        let in_memory = self.weights_bytes > IN_NO_CACHE;
        if in_memory && self.largest_share() > 1.0 {
            self.warnings.push(
                "some cases were faster than the limits: something else ran while those were measured"
                    .to_owned(),
            );
        }
        let cases = self.spreads();
        let wide = |spread: &Option<f64>| spread.is_some_and(|spread| spread > LARGEST_SPREAD);
        let (doubtful, total) = (cases.iter().filter(|s| wide(s)).count(), cases.len());
        if doubtful > 0 {
            self.warnings.push(format!(
                "the repeats of {doubtful} of {total} cases lie more than 10 % apart: \
                 something else was running"
            ));
        }
    }

    /// The largest share of a limit.
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

    /// A report with one case of each kind.
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

    /// What stands at the top of the object.
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
    fn a_busy_machine_and_wide_spreads_are_told() {
        let warnings = |load, spread| {
            let mut report = example();
            report.batch[0].spread = spread;
            report.doubt(load);
            report.warnings
        };
        assert_eq!(warnings(Some(0.9), Some(0.1)), Vec::<String>::new());
        assert_eq!(warnings(None, None), Vec::<String>::new());
        let mut report = example();
        report.batch.clear();
        report.decode[0].share_of_stream = 1.2;
        report.doubt(None);
        assert!(report.warnings[0].contains("faster than the limits"), "{:?}", report.warnings);
        assert!(warnings(Some(1.1), None)[0].contains("load of 1.1"));
        assert!(warnings(None, Some(0.11))[0].contains("1 of 3 cases"));
    }
}
