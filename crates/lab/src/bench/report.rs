//! The results of a benchmark: rows for the tables, which are also the JSON output.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::limits::Limits;
use super::network::Sparsity;
use crate::table;

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
    pub(super) decode: Vec<Value>,
    pub(super) prefill: Vec<Value>,
    pub(super) batch: Vec<Value>,
    pub(super) kernels: Vec<Value>,
    pub(super) parts: Vec<Value>,
    /// Comparison with llama-cpp-python; empty unless requested.
    pub(super) compare: Vec<Value>,
    pub(super) cost: Vec<Value>,
    /// Cases that do not fit into the context.
    pub(super) left_out: Vec<String>,
    /// Reasons to doubt the figures.
    pub(super) warnings: Vec<String>,
}

/// Maximum spread of reliable measurements.
const MAX_SPREAD: f64 = 0.1;

/// Weights larger than this do not fit into any cache.
const MAX_CACHE: usize = 1 << 30;

/// Utilizations that costs are reported for.
const UTILIZATIONS: [f64; 3] = [1.0, 0.7, 0.5];

/// Returns a number of a row, or 0 if there is none.
pub(super) fn float(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_default()
}

impl Report {
    /// Adds the cost of a million tokens for one sequence, the fastest batch, and prompts.
    pub(super) fn add_cost(&mut self, usd_per_hour: f64) {
        let all_threads = |row: &&Value| row["threads"] == self.threads;
        let fastest = |a: &&Value, b: &&Value| float(a, "tok_s").total_cmp(&float(b, "tok_s"));
        let speeds = [
            self.decode.iter().find(all_threads).map(|row| (row, "decode at context", "context")),
            self.batch.iter().max_by(fastest).map(|row| (row, "decode of", "sequences")),
            self.prefill.iter().rfind(all_threads).map(|row| (row, "prefill of", "tokens")),
        ];
        for (row, pass, key) in speeds.into_iter().flatten() {
            let unit = if key == "sequences" { " sequences" } else { "" };
            let tok_s = float(row, "tok_s");
            self.cost.extend(UTILIZATIONS.map(|used| {
                json!({
                    "what": format!("{pass} {}{unit}", row[key]),
                    "tok_s": tok_s,
                    "use": used,
                    "usd_per_million": usd_per_hour / 3600.0 / (tok_s * used) * 1e6,
                })
            }));
        }
    }

    /// Adds a warning for everything that makes the figures doubtful.
    pub(super) fn add_warnings(&mut self, load_before: Option<f64>) {
        if let Some(load) = load_before.filter(|load| *load > self.threads as f64 * 0.5) {
            self.warnings.push(format!(
                "the machine was busy before the run: load average {load:.1}, with {} threads to use",
                self.threads
            ));
        }
        let cases: Vec<&Value> =
            self.decode.iter().chain(&self.prefill).chain(&self.batch).collect();
        let is_above = |key: &str, max: f64| {
            cases.iter().filter(|row| row[key].as_f64().is_some_and(|value| value > max)).count()
        };
        let (doubtful, total) = (is_above("spread", MAX_SPREAD), cases.len());
        // A network that fits into a cache may be read faster than memory.
        let too_fast = is_above("share_of_stream", 1.0) + is_above("share_of_peak", 1.0);
        if self.weights_bytes > MAX_CACHE && too_fast > 0 {
            self.warnings.push(
                "some cases were faster than the limits: other programs ran while those were measured"
                    .to_owned(),
            );
        }
        if doubtful > 0 {
            self.warnings.push(format!(
                "{doubtful} of {total} cases have a spread of more than 10 %: other programs were running"
            ));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.clock_ghz.map_or(String::new(), |ghz| format!(", {ghz:.1} GHz"));
        let cpu = self.cpu.as_deref().unwrap_or("unknown");
        let gigabytes = |bytes: usize| bytes as f64 / 1e9;
        writeln!(f, "model    {}, {:.2} GB of weights", self.model, gigabytes(self.weights_bytes))?;
        writeln!(f, "machine  {cpu}{clock}, {} threads", self.threads)?;
        writeln!(f, "kernel   {}, K/V in {}", self.isa, self.kv)?;
        if let Some(zeros) = &self.sparsity {
            writeln!(
                f,
                "zeros    skipped in {} layers: {:.0} % of the rows of up, {:.0} % of the columns of \
                 down, using {:.2} GB",
                zeros.layers,
                zeros.closed_gates * 100.0,
                zeros.zero_codes * 100.0,
                gigabytes(zeros.copies_bytes)
            )?;
        }
        let instruction = self.limits.last().map_or("none", |limit| limit.peak_instruction);
        let title = format!("limits of the machine (peak: {instruction})");
        let headers = "threads, memory GB/s, peak GMAC/s, kernel GMAC/s, barrier µs";
        table::write(f, &title, &self.limits, headers)?;
        let headers = "context, threads, zeros, tok/s, MB/token, GB/s, memory, share, spread";
        table::write(f, "decode: one sequence", &self.decode, headers)?;
        let headers = "tokens, threads, tok/s, of peak, spread";
        table::write(f, "prefill: a prompt", &self.prefill, headers)?;
        let headers = "sequences, threads, tok/s, each, spread";
        table::write(f, "batch: sequences decoded together, at context 0", &self.batch, headers)?;
        for parts in self.parts.chunk_by(|a, b| a["pass"] == b["pass"]) {
            let (tokens, threads) = (&parts[0]["tokens"], &parts[0]["threads"]);
            let pass = match &parts[0]["pass"] {
                pass if pass == "decode" => format!("a token at context {tokens}"),
                _ => format!("a prompt of {tokens}"),
            };
            let title = format!("where the time goes: {pass}, {threads} threads");
            table::write(f, &title, parts, "part, µs/token, share")?;
        }
        let headers = "kernel, isa, tokens, GB/s, GMAC/s, weights/cycle, MAC/cycle, spread";
        table::write(f, "kernels on one thread", &self.kernels, headers)?;
        if let Some(first) = self.compare.first() {
            let text = |key: &str| first[key].as_str().unwrap_or_default();
            let (program, encoding) = (text("program"), text("encoding"));
            let title = format!("compared with {program}, {encoding}, alternating");
            let headers = "tokens, threads, ours tok/s, theirs tok/s, ratio, spread";
            table::write(f, &title, &self.compare, headers)?;
        }
        table::write(f, "cost", &self.cost, ", use, tok/s, USD per million")?;
        for case in &self.left_out {
            writeln!(f, "skipped, does not fit into the context: {case}")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
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
            decode: vec![json!({
                "context": 512,
                "threads": 2,
                "sparse": true,
                "tok_s": 10.0,
                "bytes_per_token": 1_000_000_000,
                "gb_s": 10.0,
                "stream_gb_s": 20.0,
                "share_of_stream": 0.5,
                "spread": 0.02,
            })],
            prefill: vec![json!({
                "tokens": 128,
                "threads": 2,
                "tok_s": 40.0,
                "share_of_peak": 0.25,
                "spread": null,
            })],
            batch: vec![json!({"sequences": 16, "threads": 2, "tok_s": 33.0, "spread": 0.3})],
            kernels: vec![json!({
                "kernel": "ternary",
                "isa": "scalar",
                "shape": "gate 6912x2560",
                "tokens": 4,
                "gb_s": 1.0,
                "gmac_s": 16.0,
                "mac_per_cycle": 5.3,
                "weights_per_cycle": null,
                "spread": null,
            })],
            parts: vec![json!({
                "pass": "decode",
                "tokens": 512,
                "threads": 2,
                "part": "gate+up",
                "us_per_token": 1234.0,
                "share": 0.4,
            })],
            compare: vec![json!({
                "program": "another 1.0",
                "encoding": "TQ2_0",
                "pass": "decode",
                "tokens": 16,
                "threads": 2,
                "ours_tok_s": 10.0,
                "theirs_tok_s": 4.0,
                "ratio": 2.5,
                "spread": 0.01,
            })],
            cost: Vec::new(),
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
        let mut report = example();
        report.add_cost(0.36);
        let json = serde_json::to_value(report).unwrap();
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
    fn half_the_utilization_is_twice_the_cost() {
        let mut report = example();
        // 0.36 USD per hour is 100 USD per million seconds.
        report.add_cost(0.36);
        let decode = &report.cost[..3];
        let costs: Vec<f64> = decode.iter().map(|row| float(row, "usd_per_million")).collect();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(costs[0], 10.0) && close(costs[1], 10.0 / 0.7) && close(costs[2], 20.0));
        assert_eq!(decode.iter().map(|row| float(row, "use")).collect::<Vec<_>>(), [1.0, 0.7, 0.5]);
        assert_eq!(decode[0]["what"], "decode at context 512");
        assert_eq!(report.cost[3]["what"], "decode of 16 sequences");
        assert_eq!(report.cost[6]["what"], "prefill of 128");
    }

    #[test]
    fn a_busy_machine_and_wide_spreads_are_warned_about() {
        let warnings = |load, spread| {
            let mut report = example();
            report.batch[0]["spread"] = json!(spread);
            report.add_warnings(load);
            report.warnings
        };
        assert_eq!(warnings(Some(0.9), Some(0.1)), Vec::<String>::new());
        assert_eq!(warnings(None, None), Vec::<String>::new());
        let mut report = example();
        report.batch.clear();
        report.decode[0]["share_of_stream"] = json!(1.2);
        report.add_warnings(None);
        assert!(report.warnings[0].contains("faster than the limits"), "{:?}", report.warnings);
        assert!(warnings(Some(1.1), None)[0].contains("load average 1.1"));
        assert!(warnings(None, Some(0.11))[0].contains("1 of 3 cases"));
    }

    #[test]
    fn all_tables_are_present_and_aligned() {
        let mut report = example();
        report.add_cost(0.36);
        report.add_warnings(Some(9.0));
        let text = report.to_string();
        for words in [
            "model    bitnet-2b, 1.20 GB of weights",
            "zeros    skipped in 30 layers: 73 % of the rows of up, 86 % of the columns of down",
            "  512            2  skipped   10.0      1000  10.0    20.0   50 %   2.0 %",
            "compared with another 1.0, TQ2_0, alternating",
            "  decode 16        2        10.0          4.00   2.50   1.0 %",
            "prefill: a prompt",
            "  16               2   33.0  2.06  30.0 %",
            "a token at context 512, 2 threads",
            "  gate+up      1234   40 %",
            "ternary gate 6912x2560",
            "USD per million",
            "skipped, does not fit into the context: prefill of 2048",
            "warning: the machine was busy before the run: load average 9.0, with 2 threads to use",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(text.lines().all(|line| !line.ends_with(' ')), "no trailing spaces");
    }
}
