//! Any bytes as a `.wf` file: as they are, and as header and data behind a digest that fits.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"WFMODEL\n") {
        return wf_fuzz::read_model(&[("model.wf", bytes)]);
    }
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let (header, data) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
    wf_fuzz::read_model(&[("model.wf", &wf_fuzz::signed(header, data))]);
});
