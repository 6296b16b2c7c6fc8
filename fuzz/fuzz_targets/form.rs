//! Any bytes as a form with files, in any pieces.

#![no_main]

const MAX_LEN: u64 = 1 << 16;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[boundary_len, step], rest)) = bytes.split_first_chunk() else { return };
    let Some((boundary, body)) = rest.split_at_checked(usize::from(boundary_len)) else { return };
    let Ok(boundary) = std::str::from_utf8(boundary) else { return };
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let whole = wf_server::fuzzing::read_form(&content_type, [body], MAX_LEN);
    let pieces = body.chunks(usize::from(step) + 1);
    let in_pieces = wf_server::fuzzing::read_form(&content_type, pieces, MAX_LEN);
    // A form that is refused may be refused at another place.
    assert_eq!(whole.as_ref().ok(), in_pieces.as_ref().ok(), "the parts depend on the pieces");
    if let Ok(parts) = &whole {
        let len: usize = parts.iter().map(|(name, content)| name.len() + content.len()).sum();
        assert!(len <= body.len(), "something is added");
    }
});
