//! Keys of weights under a Walsh–Hadamard transform that are not understood, or do not fit the network.

use serde_json::{Value, json};

use crate::families::config;
use crate::patched::{after, data, open, rejected, rename, set};

const FILE: &str = "qwen35/hadamard.gguf";
const TRANSFORM: &str = "normalized-sylvester-walsh-hadamard";

/// Replaces a text that comes behind a key.
fn rename_behind(bytes: &mut [u8], key: &str, found: &str, other: &str) {
    let at = after(bytes, key);
    rename(&mut bytes[at..], found, other);
}

#[test]
fn a_declaration_is_read_whole() {
    let file = open(&data(FILE)).unwrap();
    let hadamard = file.network().hadamard.as_ref().unwrap();
    let negative = hadamard.signs.iter().flatten().filter(|sign| **sign == -1).count();
    assert!((300..600).contains(&negative), "{negative} of 896 signs");
    let notes = file.format().decisions.join("; ");
    assert!(notes.contains("Walsh–Hadamard transform over blocks of 64"), "{notes}");
}

#[test]
fn a_declaration_that_is_not_understood_is_refused_by_its_key() {
    let changed = |change: &dyn Fn(&mut [u8]), expected: &str| {
        let mut bytes = data(FILE);
        change(&mut bytes);
        rejected(&bytes, expected);
    };
    let number = |name: &str, value: u32, expected: &str| {
        let key = format!("prism.hadamard.{name}");
        changed(&|bytes| set(bytes, &key, &value.to_le_bytes()), expected);
    };
    number("version", 2, "prism.hadamard.version: 2, must be 1");
    number("block_size", 1024, "inputs of 128, must be a multiple of blocks of 1024");
    number("block_size", 48, "blocks of 48, must be a power of two from 2 to 16384");
    let text = |found: &str, other: &str, expected: &str| {
        changed(&|bytes| rename_behind(bytes, "prism.hadamard.", found, other), expected);
    };
    text("gdn_v_grouped", "gdn_v_grouper", "gdn_v_grouper: is not known, and may change");
    text(
        TRANSFORM,
        &TRANSFORM.replace("walsh", "paley"),
        "transform: \"normalized-sylvester-paley",
    );
    text(
        "input-last",
        "output-lst",
        "axis: \"output-lst-dimension\", must be input-last-dimension",
    );
    text("explicit", "implicit", "sign_mode: \"implicit\", must be identity or explicit");
    text("explicit", "identity", "sign_mode: identity, but there are signs");
    text("sign_mode", "sign_made", "sign_made: is not known");
    let array = |name: &str, at: usize, value: i32, expected: &str| {
        let change = |bytes: &mut [u8]| {
            let at = after(bytes, &format!("prism.hadamard.{name}")) + 4 + 4 + 8 + 4 * at;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        changed(&change, expected);
    };
    array("sign_values", 5, 2, "sign_values: 2, must be 1 or -1");
    array("sign_widths", 0, -128, "sign_widths: -128, but 896 signs are left of 896");
    array("sign_widths", 0, 64, "sign_values: 64 signs more than sign_widths has");
    array("sign_widths", 2, 513, "sign_widths: 513, but 512 signs are left of 896");
    array("sign_widths", 1, 128, "sign_widths: 128 appears twice");
}

#[test]
fn the_named_tensors_must_be_those_of_the_network() {
    let named = |found: &str, other: &str, expected: &str| {
        let mut bytes = data(FILE);
        rename_behind(&mut bytes, "prism.hadamard.weight_names", found, other);
        rejected(&bytes, expected);
    };
    let missing = "weight_names: \"blk.0.ffn_up.weight\" is missing: all projections must be";
    named("blk.0.ffn_up.weight", "blk.9.ffn_up.weight", missing);
    // The head may be outside, but not in favour of something else.
    let other = "weight_names: \"outpux.weight\" is no projection of the network";
    named("\0output.weight", "\0outpux.weight", other);
    let mut bytes = data(FILE);
    rename_behind(&mut bytes, "inverse_weight_names", "token_embd.weight", "token_embx.weight");
    rejected(&bytes, "inverse_weight_names: \"token_embx.weight\", must be token_embd.weight");
}

type Edit = fn(&mut Value);

#[test]
fn the_setting_of_a_wf_file_is_checked_too() {
    // `.wf` files have the settings of `config.json`.
    let edits: [(Edit, &str); 5] = [
        (|h| h["signs"] = json!(["+*"]), "hadamard.signs: a sign is neither + nor -"),
        (|h| h["order"] = json!(1), "hadamard.order: is not known"),
        (|h| drop(h.as_object_mut().unwrap().remove("head")), "hadamard.head: missing"),
        (|h| h["block_size"] = json!(0), "blocks of 0, must be a power of two"),
        (|h| h["signs"] = json!(["+-"]), "no signs for inputs of 128, only for [2]"),
    ];
    for (edit, expected) in edits {
        let error = config("qwen35/tiled.config.json", |config| {
            config["hadamard"] = json!({
                "block_size": 64, "signs": [], "embedding": true, "head": true, "grouped_values": true
            });
            edit(&mut config["hadamard"]);
        });
        assert!(error.contains(expected), "{error}\nmust contain {expected}");
    }
}
