//! Any bytes as a configuration and a safetensors file.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let len = usize::from(u16::from_le_bytes(*len));
    let Some((config, weights)) = rest.split_at_checked(len) else { return };
    wf_fuzz::read_model(&[("model.safetensors", weights), ("config.json", config)]);
});
