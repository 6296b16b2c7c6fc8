//! Tests of `wf bench`.

use std::collections::HashSet;

use super::*;

#[test]
fn bench_json_has_all_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("bench.svg");
    let plot_name = plot.to_str().unwrap();
    let found = json(&[
        "bench", "--demo", "--smoke", "--json", "-t", "2", "--sparse", "off", "--price", "0.2",
        "--plot", plot_name,
    ]);
    assert!(found["stream_gb_s"].as_f64().unwrap() > 0.0);
    assert!(found["isa"].is_string());
    let cases = |list: &str, keys: [&str; 2]| -> Vec<[u64; 2]> {
        let rows = found[list].as_array().unwrap();
        assert!(rows.iter().all(|row| row["tok_s"].as_f64().unwrap() > 0.0), "{list}");
        rows.iter().map(|row| keys.map(|key| row[key].as_u64().unwrap())).collect()
    };
    assert_eq!(cases("decode", ["context", "threads"]), [[0, 2], [40, 2], [0, 1], [40, 1]]);
    assert_eq!(cases("prefill", ["tokens", "threads"]), [[8, 2], [48, 2], [8, 1]]);
    assert_eq!(cases("batch", ["sequences", "threads"]), [[1, 2], [2, 2], [2, 1]]);
    // The ternary weights, the norms, the head, and K/V of one position: bf16, 12 layers, 2 heads.
    let bytes = |case: usize| found["decode"][case]["bytes_per_token"].as_u64().unwrap();
    assert!((17_000_000..18_500_000).contains(&bytes(0)), "{}", bytes(0));
    assert!(found["sparsity"].is_null(), "nothing is skipped");
    assert_eq!(bytes(1) - bytes(0), 40 * (12 * 2 * 64 * 2) * 2);

    let shares: f64 = (found["parts"].as_array().unwrap().iter())
        .filter(|row| row["pass"] == "decode" && row["part"] != "barriers")
        .map(|row| row["share"].as_f64().unwrap())
        .sum();
    assert!((shares - 1.0).abs() < 1e-6, "the parts are the whole: {shares}");
    let isas: Vec<_> = found["kernels"].as_array().unwrap().iter().map(|k| &k["isa"]).collect();
    assert!(isas.contains(&&Value::from("scalar")) && isas.contains(&&found["isa"]), "{isas:?}");
    assert_eq!(found["cost"].as_array().unwrap().len(), 9);
    check_kernels(&found["kernels"]);
    check_scaling(&found);
    check_sampling(&found["sampling"]);
    assert!(std::fs::read_to_string(plot).unwrap().contains("8 tokens"));
}

/// Every ternary product names its layout. Every instruction set is measured in quad lines, which all of
/// them read directly, and no row has a layout that its instruction set would rewrite.
fn check_kernels(kernels: &Value) {
    let rows = || kernels.as_array().expect("rows").iter().filter(|row| row["kernel"] == "ternary");
    let layouts_of = |isa: &Value| -> HashSet<&str> {
        rows()
            .filter(|row| row["isa"] == *isa)
            .map(|row| row["layout"].as_str().expect("text"))
            .collect()
    };
    for row in rows() {
        let layouts = layouts_of(&row["isa"]);
        assert!(layouts.contains("quad-lines"), "{row}");
        let may_read_five_trits = row["isa"].as_str().expect("text").starts_with("avx512");
        assert!(may_read_five_trits || layouts.len() == 1, "{row}");
        assert!(row["in_cache"].is_boolean(), "{row}");
    }
}

/// The rows by number of threads repeat the cases measured on each.
fn check_scaling(found: &Value) {
    let tok_s = |list: &str, key: &str, case: u64, threads: u64| {
        let rows = found[list].as_array().expect("rows");
        let row = rows.iter().find(|row| row[key] == case && row["threads"] == threads);
        row.expect("a measured case")["tok_s"].clone()
    };
    let scaling = found["scaling"].as_array().expect("rows");
    assert_eq!(scaling.len(), 2);
    for (row, threads) in scaling.iter().zip(1..) {
        assert_eq!(row["threads"], threads);
        assert_eq!(row["decode_tok_s"], tok_s("decode", "context", 0, threads));
        assert_eq!(row["prefill_tok_s"], tok_s("prefill", "tokens", 8, threads));
        assert_eq!(row["batch_tok_s"], tok_s("batch", "sequences", 2, threads));
    }
}

/// The first way to sample is greedy, and the others are compared with it.
fn check_sampling(sampling: &Value) {
    let rows = sampling.as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| row["sampling"].as_str().expect("text")).collect();
    assert_eq!((names[0], names[1], names.len()), ("greedy", "temperature 0.8", 6));
    for words in ["top-p 0.95", "min-p 0.05", "penalties"] {
        assert!(names.iter().any(|name| name.contains(words)), "{words} in {names:?}");
    }
    assert_eq!(rows[0]["speedup"], 1.0);
    assert!(rows.iter().all(|row| row["tok_s"].as_f64() > Some(0.0)), "{sampling}");
}

#[test]
fn bench_measures_with_zeros_skipped_and_with_zeros_read() {
    let found = json(&["bench", "--demo", "--smoke", "--json", "-t", "1", "--sparse", "on"]);
    let sparsity = &found["sparsity"];
    assert_eq!(sparsity["layers"], 12);
    for key in ["closed_gates", "zero_codes"] {
        let share = sparsity[key].as_f64().unwrap();
        assert!((0.5..0.98).contains(&share), "{key}: {share}");
    }
    let decode = found["decode"].as_array().unwrap();
    let ways: Vec<_> = decode.iter().map(|case| case["sparse"].as_bool().unwrap()).collect();
    assert_eq!(ways, [true, false, true, false]);
    let bytes = |case: usize| decode[case]["bytes_per_token"].as_u64().unwrap();
    assert!(bytes(0) < bytes(1) && bytes(2) < bytes(3), "what is skipped is not read");
}

#[test]
fn bench_prints_tables_and_reports_errors() {
    let output = wf(&["bench", "--demo", "--smoke", "-t", "1", "--context", "40"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "built-in demo",
        "limits of the machine",
        "decode: one",
        "threads: decode at context 0, a prompt of 8, 2 sequences",
        "temperature 0.8, top-p 0.95",
        "a step of 2 sequences",
        "kernels on one thread",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("does not fit into the context: prefill of 48"), "{text}");
    let text = wf(&["bench", "--demo", "--smoke", "-t", "1", "--context", "2"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("does not fit into the context: sampling"), "{text}");
    assert!(error(&["bench", "nowhere.gguf", "--smoke"]).contains("nowhere.gguf"));
    let message = failed(&wf(&["bench", "--synthetic", "gpt-5"]), 2);
    assert!(message.contains("bitnet-2b"), "{message}");
}

#[test]
fn bench_measures_only_the_requested_cases() {
    let asked = ["--contexts", "3", "--prompts", "5,9", "--sequences", "3"];
    let bench = ["bench", "--demo", "--smoke", "--json", "-t", "2", "--sparse", "off"];
    let found = json(&[&bench[..], &asked[..]].concat());
    let cases = |list: &str, key: &str| -> Vec<[u64; 2]> {
        let rows = found[list].as_array().unwrap().iter();
        rows.map(|row| [key, "threads"].map(|key| row[key].as_u64().unwrap())).collect()
    };
    assert_eq!(cases("decode", "context"), [[3, 2], [3, 1]]);
    assert_eq!(cases("prefill", "tokens"), [[5, 2], [9, 2], [5, 1], [9, 1]]);
    assert_eq!(cases("batch", "sequences"), [[3, 2], [3, 1]]);
    assert!(found["compare"].as_array().unwrap().is_empty());
    let decode = &found["decode"][0];
    let share = decode["gb_s"].as_f64().unwrap() / decode["stream_gb_s"].as_f64().unwrap();
    assert!((share - decode["share_of_stream"].as_f64().unwrap()).abs() < 1e-6);
    let message = failed(&wf(&["bench", "--demo", "--smoke", "--prompts", "8,0"]), 2);
    assert!(message.contains("at least 1"), "{message}");
}

#[test]
fn bench_measures_only_passes_on_all_threads_if_it_has_to_be_brief() {
    let bench = ["bench", "--demo", "--smoke", "--brief", "--json", "-t", "2"];
    let found = json(&[&bench[..], &["--sparse", "off"]].concat());
    for (list, len) in [("decode", 2), ("prefill", 2), ("batch", 2), ("limits", 1), ("scaling", 1)]
    {
        let rows = found[list].as_array().unwrap();
        assert_eq!(rows.len(), len, "{list}");
        assert!(rows.iter().all(|row| row["threads"] == 2), "{list}");
    }
    for list in ["parts", "kernels", "sampling"] {
        assert!(found[list].as_array().unwrap().is_empty(), "{list}");
    }
}

#[test]
fn bench_measures_without_a_missing_comparison() {
    let output = wf(&["bench", "--demo", "--smoke", "-t", "1", "--compare=no-such-python"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing compared: "), "{text}");
    assert!(text.contains("kernels on one thread"), "{text}");
}

#[test]
fn bench_replays_diffusion_on_any_shape() {
    let found = json(&["bench", "--demo", "--decode", "--smoke", "--json", "-t", "2"]);
    let modes = found["modes"].as_array().unwrap();
    assert!(modes.iter().all(|row| row["tok_s"].as_f64().unwrap() > 0.0), "{found}");
    assert_eq!(found["passes"].as_array().unwrap().len(), 6);
    let [plain, diffusion] = &found["replay"].as_array().unwrap()[..] else {
        panic!("{found}");
    };
    assert_eq!(
        (&plain["decode"], &plain["speedup"]),
        (&serde_json::json!("autoregressive"), &serde_json::json!(1.0))
    );
    assert_eq!(plain["tokens"], diffusion["tokens"]);
    // At least the first completion of the trace, which has 12 tokens in eight passes over blocks of 32.
    let of_diffusion = |key: &str| diffusion[key].as_f64().unwrap();
    assert!((1.49..3.0).contains(&of_diffusion("tokens_per_pass")), "{diffusion}");
    assert!((30.0..=32.0).contains(&of_diffusion("rows_per_pass")), "{diffusion}");
}

#[test]
fn attention_is_measured_against_dense() {
    let flags = ["bench", "--demo", "--smoke", "-t", "1", "--attention", "topk=3"];
    let with = |more: &[&'static str]| [&flags[..], more].concat();
    let found = json(&with(&["--contexts", "200,400", "--json"]));
    assert_eq!(found["attention"], "topk=3");
    let rows = found["decode"].as_array().expect("a list");
    let contexts: Vec<_> = rows.iter().map(|row| row["context"].as_u64()).collect();
    assert_eq!(contexts, [Some(200), Some(400)]);
    assert!(rows.iter().all(|row| row["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0)));

    let window = ["bench", "--demo", "--smoke", "-t", "1", "--attention", "window=64,sinks=4"];
    let found = json(&[&window[..], &["--contexts", "200", "--json"]].concat());
    assert_eq!(found["attention"], "window=64,sinks=4");
    let kept = found["kept_bytes"].as_u64().expect("a window keeps some pages");
    assert!(kept > 0 && found["decode"][0]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0));
    let too_long =
        ["bench", "--demo", "--smoke", "--attention", "window=5000", "--contexts", "200"];
    assert!(error(&too_long).contains("window=5000,sinks=4 reads 5004 positions"));

    assert!(error(&with(&["--contexts", "5000"])).contains("context 5000 is too long"));
    let only = failed(&wf(&with(&["--price", "1"])), 2);
    assert!(only.contains("--attention measures decoding at --contexts only"), "{only}");
    let range = failed(&wf(&["run", "--attention", "topk=2", "hello"]), 2);
    assert!(range.contains("topk is \"2\": must be a number from 3"), "{range}");
}
