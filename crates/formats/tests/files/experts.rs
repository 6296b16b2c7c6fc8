//! Mixtures of experts whose keys or tensors do not fit.

use wf_core::SharedExpert;
use wf_formats::TensorName;

use crate::patched::{after, data, open, rejected, rename, set};

fn bytes() -> Vec<u8> {
    data("experts/renormalized.gguf")
}

/// Rejects the file with another value of a key, which is a u32 after its type.
#[track_caller]
fn key(name: &str, value: u32, expected: &str) {
    let mut bytes = bytes();
    set(&mut bytes, name, &value.to_le_bytes());
    rejected(&bytes, expected);
}

/// Rejects the file with other dimensions of a tensor.
#[track_caller]
fn dimensions<const N: usize>(name: &str, dimensions: [u64; N], expected: &str) {
    let mut bytes = bytes();
    set(&mut bytes, name, dimensions.map(u64::to_le_bytes).as_flattened());
    rejected(&bytes, expected);
}

#[test]
fn a_tensor_of_all_experts_is_one_tensor_for_each() {
    let file = open(&bytes()).unwrap();
    let experts = *file.network().layers[1].ffn.experts().unwrap();
    assert_eq!((experts.experts, experts.active, experts.renormalize), (8, 2, true));
    let down = |expert| {
        let name = TensorName::Expert(1, expert, wf_formats::LayerTensor::Down);
        file.tensor(name).unwrap()
    };
    assert_eq!(down(7).source_name, "blk.1.ffn_down_exps.weight[7]");
    assert_eq!((down(7).rows, down(7).cols), (128, 128));
    assert_eq!(down(7).offset - down(0).offset, 7 * down(0).size);
}

#[test]
fn counts_that_do_not_fit_name_the_key_and_the_value() {
    key("qwen3moe.expert_count", 0, "expert_count: 0, must be between 1 and 4096");
    key("qwen3moe.expert_count", u32::MAX, "expert_count: 4294967295, must be between 1 and 4096");
    key("qwen3moe.expert_count", 9, "has 8 matrices, the network has 9 experts");
    key("qwen3moe.expert_used_count", 0, "expert_used_count: 0, must be between 1 and 8");
    key("qwen3moe.expert_used_count", 9, "expert_used_count: 9, must be between 1 and 8");
    let len = "qwen3moe.expert_feed_forward_length";
    key(len, 0, "expert_feed_forward_length: 0, must be between 1 and 131072");
    key(len, 256, "ffn_down_exps.weight[0]\" at byte 24320: has shape 128 x 128, the network");
    key(len, u32::MAX, "expert_feed_forward_length: 4294967295, must be between 1 and 131072");
}

#[test]
fn shared_experts_have_the_size_that_a_key_names() {
    let shared =
        |bytes: &[u8]| open(bytes).unwrap().network().layers[0].ffn.experts().unwrap().shared;
    let gated = data("experts/shared.gguf");
    assert_eq!(shared(&gated), Some(SharedExpert { ffn_len: 128, gated: true }));
    let plain = data("experts/ungated.gguf");
    assert_eq!(shared(&plain), Some(SharedExpert { ffn_len: 256, gated: false }));
}

#[test]
fn shared_experts_that_do_not_fit_are_rejected() {
    let mut bytes = bytes();
    // A key of the same length that no reader needs.
    rename(&mut bytes, "qwen3moe.feed_forward_length", "qwen3moe.expert_shared_count");
    set(&mut bytes, "qwen3moe.expert_shared_count", &3u32.to_le_bytes());
    rejected(&bytes, "\"blk.0.ffn_gate_shexp.weight\" in GGUF) is missing");
    for count in [1025, u32::MAX] {
        set(&mut bytes, "qwen3moe.expert_shared_count", &count.to_le_bytes());
        rejected(&bytes, &format!("expert_shared_count: {count}, must be between 1 and 1024"));
    }
    let key = "qwen2moe.expert_shared_feed_forward_length";
    let of_len = |len: u32, expected: &str| {
        let mut bytes = data("experts/shared.gguf");
        set(&mut bytes, key, &len.to_le_bytes());
        rejected(&bytes, expected);
    };
    of_len(64, "has shape 256 x 128, the network requires 256 x 64");
    of_len(u32::MAX, "4294967295, must be between 1 and 131072");
    // Tensors that no key names would change the network.
    of_len(0, "_shexp.weight\" at byte 201632: is not part of this network");
    let mut bytes = data("experts/shared.gguf");
    rename(&mut bytes, "blk.0.ffn_gate_inp_shexp.weight", "blk.0.ffn_gate_inp_other.weight");
    rejected(&bytes, "is not a tensor of this network");
}

#[test]
fn tensors_that_do_not_fit_are_rejected_by_name() {
    let gate = "blk.0.ffn_gate_exps.weight";
    dimensions(gate, [128, 64, 16], "has 16 matrices, the network has 8 experts");
    dimensions(gate, [128, 1, 1024], "has 1024 matrices, the network has 8 experts");
    dimensions(gate, [256, 64, 8], "has shape 64 x 256, the network requires 128 x 128");
    dimensions(
        gate,
        [128, 128, 1 << 20],
        "ffn_gate_exps.weight\" at byte 59136: type 42 (Q2_0) with",
    );
    dimensions(gate, [128, 128, u64::MAX], "a dimension of 18446744073709551615");
    let router = "blk.1.ffn_gate_inp.weight";
    dimensions(router, [128, 7], "has shape 7 x 128, the network requires 8 x 128");
    dimensions(router, [128, 9], "more than there are before the next tensor");
    let mut bytes = bytes();
    rename(&mut bytes, gate, "blk.0.ffn_gate_shep.weight");
    rejected(&bytes, "is not a tensor of this network");
}

#[test]
fn experts_in_an_encoding_of_whole_tensors_are_rejected() {
    let mut bytes = bytes();
    let at = after(&bytes, "blk.0.ffn_up_exps.weight") + 4 + 8 * 3;
    // I2_S has one scale behind all trits.
    bytes[at..at + 4].copy_from_slice(&36u32.to_le_bytes());
    rejected(&bytes, "stores all experts as one matrix with one scale");
}
