//! The results of a benchmark: rows for the tables (`tables.rs`), which are also the JSON output.

use serde::Serialize;
use serde_json::{Value, json};

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
    /// Size of the last-level cache.
    pub(super) cache_bytes: Option<usize>,
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
    /// Decode, prefill and batch by number of threads.
    pub(super) scaling: Vec<Value>,
    pub(super) sampling: Vec<Value>,
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

    /// Adds a row for each number of threads: decoding at the first context, the longest prompt and the
    /// most sequences that were measured on the fewest threads, and so on all numbers of threads.
    pub(super) fn add_scaling(&mut self) {
        let on = |rows: &[Value], threads: usize, key: &str, case: &Value| {
            rows.iter().find(|row| row["threads"] == threads && row[key] == *case).cloned()
        };
        let fewest = self.limits.first().map_or(1, |limits| limits.threads);
        let common = |rows: &[Value], key: &str| {
            let case =
                rows.iter().rfind(|row| row["threads"] == fewest).map(|row| row[key].clone());
            case.unwrap_or_default()
        };
        let context = self.decode.first().map_or(Value::Null, |row| row["context"].clone());
        let (prompt, sequences) =
            (common(&self.prefill, "tokens"), common(&self.batch, "sequences"));
        let row = |limits: &Limits| {
            let threads = limits.threads;
            let decode = on(&self.decode, threads, "context", &context).unwrap_or_default();
            let prefill = on(&self.prefill, threads, "tokens", &prompt).unwrap_or_default();
            let batch = on(&self.batch, threads, "sequences", &sequences).unwrap_or_default();
            json!({
                "threads": threads,
                "context": context,
                "decode_tok_s": decode["tok_s"],
                "share_of_stream": decode["share_of_stream"],
                "tokens": prompt,
                "prefill_tok_s": prefill["tok_s"],
                "sequences": sequences,
                "batch_tok_s": batch["tok_s"],
            })
        };
        self.scaling = self.limits.iter().map(row).collect();
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
        let doubtful = cases.iter().filter(|row| float(row, "spread") > MAX_SPREAD).count();
        let total = cases.len();
        // Weights in a cache may be read faster than memory.
        let is_too_fast = |row: &&Value| {
            let from_memory = row["in_cache"] != true && float(row, "share_of_stream") > 1.0;
            from_memory || float(row, "share_of_peak") > 1.0
        };
        if cases.iter().any(is_too_fast) {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the largest part of each kind of pass.
    fn parts() -> Vec<Value> {
        let part = |(pass, tokens)| {
            json!({
                "pass": pass,
                "tokens": tokens,
                "threads": 2,
                "part": "gate+up",
                "us_per_token": 1234.0,
                "share": 0.4,
            })
        };
        [("decode", 512), ("prefill", 32), ("prefill", 128), ("batch", 16)].map(part).to_vec()
    }

    fn kernels() -> Vec<Value> {
        vec![json!({
            "kernel": "ternary",
            "isa": "scalar",
            "layout": "five-trits",
            "shape": "gate 6912x2560",
            "tokens": 4,
            "in_cache": false,
            "gb_s": 1.0,
            "gmac_s": 16.0,
            "mac_per_cycle": 5.3,
            "weights_per_cycle": null,
            "spread": null,
        })]
    }

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
            cache_bytes: Some(32 << 20),
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
                "speedup": 1.0,
                "bytes_per_token": 1_000_000_000,
                "in_cache": false,
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
            scaling: Vec::new(),
            sampling: vec![json!({
                "sampling": "temperature 0.8",
                "threads": 2,
                "tok_s": 9.0,
                "speedup": 0.9,
                "spread": 0.01,
            })],
            kernels: kernels(),
            parts: parts(),
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
    const KEYS: [&str; 13] = [
        "stream_gb_s",
        "isa",
        "sparsity",
        "decode",
        "prefill",
        "batch",
        "scaling",
        "sampling",
        "cache_bytes",
        "kernels",
        "parts",
        "compare",
        "cost",
    ];

    #[test]
    fn json_has_the_keys_that_scripts_read() {
        let mut report = example();
        report.add_cost(0.36);
        report.add_scaling();
        let json = serde_json::to_value(report).unwrap();
        for key in KEYS {
            assert!(json.get(key).is_some(), "{key}");
        }
        for (list, keys) in [
            (
                "decode",
                &["context", "threads", "sparse", "tok_s", "bytes_per_token", "share_of_stream"][..],
            ),
            ("decode", &["speedup", "in_cache"]),
            ("scaling", &["threads", "decode_tok_s", "share_of_stream"]),
            ("scaling", &["tokens", "prefill_tok_s", "sequences", "batch_tok_s"]),
            ("sampling", &["sampling", "threads", "tok_s", "speedup"]),
            ("kernels", &["layout", "in_cache"]),
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
        report.warnings.clear();
        report.decode[0]["in_cache"] = json!(true);
        report.add_warnings(None);
        assert_eq!(report.warnings, Vec::<String>::new(), "memory is no limit of a cache");
        assert!(warnings(Some(1.1), None)[0].contains("load average 1.1"));
        assert!(warnings(None, Some(0.11))[0].contains("1 of 3 cases"));
    }

    #[test]
    fn scaling_has_what_was_measured_on_every_number_of_threads() {
        let mut report = example();
        let case = |key: &str, case: usize, threads: usize| json!({key: case, "threads": threads, "tok_s": case + threads, "share_of_stream": 0.5});
        report.decode = vec![case("context", 0, 2), case("context", 512, 2), case("context", 0, 1)];
        report.prefill =
            vec![case("tokens", 128, 2), case("tokens", 512, 2), case("tokens", 128, 1)];
        report.batch = vec![case("sequences", 16, 2)];
        report.add_scaling();
        let row = |threads: usize, decode: usize, prefill: usize| {
            json!({
                "threads": threads,
                "context": 0,
                "decode_tok_s": decode,
                "share_of_stream": 0.5,
                "tokens": 128,
                "prefill_tok_s": prefill,
                "sequences": null,
                "batch_tok_s": null,
            })
        };
        assert_eq!(report.scaling, [row(1, 1, 129), row(2, 2, 130)]);
    }
}
