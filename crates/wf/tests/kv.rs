//! What small types of keys and values cost the demo model, over a whole context.
//!
//! The text is the demo model's own: ten prompts, `wf run --raw --temperature 0.5 --seed 1` to `10`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn eight_bits_are_enough_for_the_demo_model() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/demo-stories.txt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wf"));
    command.args(["eval", "kv", "--json"]).arg(text).stdin(Stdio::null());
    // What the developer has set must not decide a test.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WF_")) {
        command.env_remove(name);
    }
    let output = command.output().expect("wf runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["tokens"].as_u64().expect("a number") >= 2000);
    assert_eq!(report["window"], 2048);

    // Per type: bytes of a key or value of 64 elements, the mean cosine, the change of perplexity.
    // One code that rounds the other way moves all later scores, so on 2,000 tokens even types that
    // lose next to nothing, such as f16, change perplexity by some 0.5 % either way. Two bits of
    // fraction are off by 5 % on average: e5m2 does not reach a cosine of 0.999.
    let expected = [
        ("f32", 256, 1.0, 0.0),
        ("bf16", 128, 0.9999, 0.005),
        ("f16", 128, 0.99999, 0.005),
        ("fp8-e4m3", 68, 0.999, 0.01),
        ("fp8-e5m2", 68, 0.996, 0.02),
        ("int8", 68, 0.9999, 0.005),
    ];
    let types = report["types"].as_array().expect("a list");
    assert_eq!(types.len(), expected.len());
    for (row, (name, row_bytes, cosine, change)) in types.iter().zip(expected) {
        assert_eq!(row["kv"], name);
        // Twelve layers, two heads, keys and values.
        assert_eq!(row["bytes_per_1000_tokens"], 12 * 2 * 2 * row_bytes * 1000, "{name}");
        assert!(row["cosine"].as_f64().expect("a number") >= cosine, "{row}");
        assert!(row["perplexity_change"].as_f64().expect("a number").abs() <= change, "{row}");
    }
}
