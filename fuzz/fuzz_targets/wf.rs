//! Any bytes as a `.wf` file, or as header and data with a correct digest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"WFMODEL\n") {
        return wf_fuzz::read_model(&[("model.wf", bytes)]);
    }
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let version = 1 + u8::from(rest.len() % 2 == 0);
    let (header, data) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
    wf_fuzz::read_model(&[("model.wf", &wf_fuzz::signed(version, header, data))]);
});
