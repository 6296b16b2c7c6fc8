//! Any bytes as an SGLBITNT file.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wf_fuzz::read_model(&[("model.bin", bytes)]);
});
