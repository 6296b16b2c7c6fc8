//! Any bytes as a GGUF file.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wf_fuzz::read_model(&[("model.gguf", bytes)]);
});
