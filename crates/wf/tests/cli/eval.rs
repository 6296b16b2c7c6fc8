//! Tests of `wf eval` and `wf embed`.

use super::*;

#[test]
fn eval_reports_logits_and_perplexity() {
    let scores = json(&[
        "eval",
        "logits",
        "--json",
        "--all",
        "--ids",
        "0,596,656,262,541,15,409,298,262,579",
    ]);
    assert_eq!(scores["logits"].as_array().unwrap().len(), 8192);
    assert_eq!(scores["top"].as_array().unwrap().len(), 20);
    assert_eq!(scores["top"][0]["id"], 572);
    assert!((scores["mean_nll"].as_f64().unwrap() - 0.4197).abs() < 0.03);
    assert!(error(&["eval", "logits", "--ids", "8192"]).contains("0 to 8191"));

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text.txt");
    std::fs::write(&file, "Once upon a time, there was a little girl named Lily.").unwrap();
    let result = json(&["eval", "perplexity", "--json", file.to_str().unwrap()]);
    let perplexity = result["perplexity"].as_f64().unwrap();
    assert!((1.0..20.0).contains(&perplexity), "{perplexity}");
    let windows = ["eval", "perplexity", "--json", file.to_str().unwrap(), "--window", "8"];
    assert_eq!(json(&windows)["tokens"], result["tokens"], "every token counts once");

    std::fs::write(&file, b"abc\xff").unwrap();
    let message = error(&["eval", "perplexity", file.to_str().unwrap()]);
    assert!(message.contains("invalid UTF-8 at byte 3"), "{message}");
}

#[test]
fn embed_prints_vectors() {
    let line = |args: &[&str]| String::from_utf8(wf(args).stdout).unwrap();
    let one: Vec<f64> = serde_json::from_str(&line(&["embed", "A cat sat."])).unwrap();
    assert!((one.iter().map(|number| number * number).sum::<f64>() - 1.0).abs() < 1e-5);
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("texts.txt");
    std::fs::write(&texts, "A dog ran.\n\nA cat sat.\n".repeat(20)).unwrap();
    let mut command = command(&["embed", "-", "--lines", "--json"]);
    command.stdin(std::fs::File::open(&texts).unwrap());
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let all: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all.len(), 40);
    for (at, vector) in all.iter().enumerate() {
        assert_eq!(vector["index"], at);
        assert_eq!(vector["embedding"] == serde_json::json!(one), at % 2 == 1);
    }
    let short = ["embed", "A cat sat.", "--dimensions", "4", "--pooling", "mean"];
    assert_eq!(serde_json::from_str::<Vec<f64>>(&line(&short)).unwrap().len(), 4);
    assert!(error(&["embed", ""]).contains("the text is empty"));
    assert!(
        error(&["embed", "a", "--dimensions", "9999"]).contains("embeddings of this model have")
    );
    assert!(
        failed(&wf(&["embed", "a", "--pooling", "max"]), 2)
            .contains("must be one of mean, cls, last")
    );
}

#[test]
fn eval_tasks_reports_accuracy() {
    let directory = tempfile::tempdir().unwrap();
    let (file, output) = (directory.path().join("t.jsonl"), directory.path().join("out.jsonl"));
    let (file_name, output_name) = (file.to_str().unwrap(), output.to_str().unwrap());
    let tasks = concat!(
        r#"{"prompt": "The cat sat on the", "choices": ["because.", "floor."], "answer": 1}"#,
        "\n\n",
        r#"{"context": "Tom was very ", "choices": ["happy.", "named."], "answer": "named."}"#,
        "\n",
        r#"{"prompt": "Once upon a time, there was a little girl named", "answers": ["Lily"],
            "max_tokens": 8, "stop": "."}"#,
    );
    std::fs::write(&file, tasks.replace(",\n", ",")).unwrap();
    let scores = json(&["eval", "tasks", file_name, "--json", "--output", output_name]);
    assert_eq!((&scores["tasks"], &scores["acc"]["value"]), (&3.into(), &0.5.into()));
    assert_eq!((&scores["acc"]["right"], &scores["acc"]["count"]), (&1.into(), &2.into()));
    assert_eq!(
        (&scores["acc"]["stderr"], &scores["acc_norm"]["value"]),
        (&0.5.into(), &0.5.into())
    );
    assert_eq!(scores["exact_match"]["value"], 1.0);
    let reports = std::fs::read_to_string(&output).unwrap();
    let reports: Vec<Value> =
        reports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<_> = reports.iter().map(|report| report["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 3, 4]);
    assert_eq!((&reports[0]["picked"], &reports[1]["acc"]), (&1.into(), &false.into()));
    assert_eq!(reports[2]["text"].as_str().unwrap().trim(), "Lily");

    let limited = String::from_utf8(wf(&["eval", "tasks", file_name, "--limit", "1"]).stdout);
    assert!(limited.unwrap().starts_with("acc          1.0000   1 of 1\n"));
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
    let named = json(&["eval", "tasks", demo, file_name, "--json", "--threads", "1"]);
    assert_eq!(named, scores, "the other order of words, and other threads");

    let long = "so ".repeat(3000);
    for (line, named) in [
        (r#"{"prompt": "a", "answer": "b"} x"#.to_owned(), "trailing"),
        (r#"{"prompt": "a", "choices": ["b", "c"], "answer": 2}"#.to_owned(), "answer is 2"),
        (format!(r#"{{"prompt": "{long}", "choices": ["b", "c"], "answer": 1}}"#), "tokens"),
    ] {
        let good = r#"{"prompt": "a", "choices": ["b", "c"], "answer": 1}"#;
        std::fs::write(&file, format!("{good}\n{line}\n")).unwrap();
        let message = error(&["eval", "tasks", file_name]);
        assert!(message.contains("t.jsonl:2: ") && message.contains(named), "{message}");
    }
    std::fs::write(&file, "\n").unwrap();
    assert!(error(&["eval", "tasks", file_name]).contains("no tasks"));
}

#[test]
fn eval_takes_the_head_modes_that_score_every_token() {
    let message = failed(&wf(&["eval", "logits", "--ids", "0", "--head", "scan"]), 2);
    assert!(message.contains("--head"), "{message}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.txt");
    std::fs::write(&file, STORY.repeat(3)).unwrap();
    let file = file.to_str().unwrap();
    let mean_nll = |head: &str| {
        let result = json(&["eval", "perplexity", "--json", file, "--head", head]);
        result["mean_nll"].as_f64().unwrap()
    };
    let (full, int8) = (mean_nll("full"), mean_nll("int8"));
    assert!(full != int8 && (full - int8).abs() < 0.02, "{full}, {int8}");
    let message = failed(&wf(&["eval", "perplexity", "-", "--head", "scan4"]), 2);
    assert!(message.contains("full or int8"), "{message}");
}

#[test]
fn head_check_reports_what_it_compared() {
    let output = wf(&["run", "Once upon a time", "-n", "5", "--head", "check"]);
    let message = String::from_utf8(output.stderr).unwrap();
    for words in ["scan: 5 picks equal", "scan4: 5 picks equal", "candidates each"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn eval_compare_measures_two_settings() {
    let dir = tempfile::tempdir().unwrap();
    let (text, image) = (dir.path().join("story.txt"), dir.path().join("compare.svg"));
    std::fs::write(&text, STORY.repeat(3)).unwrap();
    let (text, image) = (text.to_str().unwrap(), image.to_str().unwrap());
    let compare = |a: &str, b: &str| {
        json(&["eval", "compare", "--json", "--a", a, "--b", b, text, "--svg", image])
    };
    let number = |report: &Value, key: &str| report[key].as_f64().unwrap();

    // Settings that change no bit have no distance; those that do have the perplexities of `wf eval perplexity`.
    let same = compare("threads=1", "threads=2,sparse=on");
    assert_eq!((&same["identical"], number(&same, "kl_max")), (&true.into(), 0.0));
    assert_eq!((number(&same, "agreement"), number(&same, "perplexity_change")), (1.0, 0.0));
    let coarse = compare("kv=f32", "kv=fp8-e5m2,head=int8");
    assert_eq!(coarse["identical"], false);
    let (mean, max) = (number(&coarse, "kl_mean"), number(&coarse, "kl_max"));
    assert!(0.0 < mean && mean < max && mean < 0.1, "{mean}, {max}");
    let perplexity = |args: &[&str]| {
        let report = json(&[&["eval", "perplexity", "--json", text], args].concat());
        report["perplexity"].as_f64().unwrap()
    };
    assert_eq!(number(&coarse["a"], "perplexity"), perplexity(&["--kv", "f32"]));
    let b = perplexity(&["--kv", "fp8-e5m2", "--head", "int8"]);
    assert_eq!(number(&coarse["b"], "perplexity"), b);
    let (a, b) = (&coarse["a"], &coarse["b"]);
    assert!(number(a, "kv_bytes_per_1000_tokens") > 3.0 * number(b, "kv_bytes_per_1000_tokens"));
    assert!(number(b, "weights_bytes") > number(a, "weights_bytes"), "the copy of the head");
    assert!(number(a, "decode_tok_s") > 0.0 && number(b, "prompt_tok_s") > 0.0);
    assert!(std::fs::read_to_string(image).unwrap().contains("b: kv=fp8-e5m2,head=int8"));
    // Only the K/V types differ: the weights are loaded once.
    let kv = compare("kv=f32", "kv=fp8-e5m2");
    assert_eq!(number(&kv["b"], "perplexity"), perplexity(&["--kv", "fp8-e5m2"]));
    assert_eq!(kv["a"]["weights_bytes"], kv["b"]["weights_bytes"]);

    let text_report = String::from_utf8(wf(&["eval", "compare", "--b", "kv=f32", text]).stdout);
    let text_report = text_report.unwrap();
    assert!(text_report.contains("KL divergence: mean"), "{text_report}");
    let message = failed(&wf(&["eval", "compare", "--b", "kv=int9", text]), 2);
    assert!(message.contains("kv=int9") && message.contains("fp8-e4m3"), "{message}");
}

#[test]
fn eval_check_fails_if_a_model_differs_from_its_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (text, out) = (dir.path().join("story.txt"), dir.path().join("before.json"));
    std::fs::write(&text, STORY.repeat(3)).unwrap();
    let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
    let said = String::from_utf8(wf(&["eval", "record", out, text]).stdout).unwrap();
    assert!(said.contains("before.json: predictions of"), "{said}");

    let same = json(&["eval", "check", out, "--json", "--exact", "--threads", "1"]);
    assert_eq!(
        (&same["first_difference"], &same["failures"]),
        (&Value::Null, &Value::Array(vec![]))
    );
    assert_eq!(same["recorded"], same["now"]);

    let strict = ["eval", "check", out, "--settings", "kv=fp8-e5m2", "--max-kl", "0.000001"];
    let output = wf(&strict);
    let message = failed(&output, 1);
    assert!(message.contains("mean KL divergence is 0.0"), "{message}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("FAILED"));
    let exact = ["eval", "check", out, "--settings", "kv=f32", "--exact", "--min-agreement", "0"];
    assert!(error(&exact).contains("do not have the recorded bits"));
    let loose = ["--max-kl", "9", "--max-perplexity-change", "9", "--min-agreement", "0"];
    let loose = [&["eval", "check", out, "--settings", "kv=fp8-e5m2"][..], &loose].concat();
    assert!(String::from_utf8(wf(&loose).stdout).unwrap().ends_with("passed\n"));

    // A file that is no recording is neither read nor replaced, so a swapped argument costs nothing.
    assert!(error(&["eval", "record", text, text]).contains("is not replaced"));
    assert!(error(&["eval", "check", text]).contains("not a recording"));
    let recorded = std::fs::read_to_string(out).unwrap();
    let split = recorded.replacen("[[0,", "[[1,", 1);
    assert_ne!(split, recorded);
    std::fs::write(out, split).unwrap();
    assert!(error(&["eval", "check", out]).contains("the tokenizer splits the text differently"));
}
