//! Any bytes as the body of a request, in every dialect: up to tokens and a constraint, without running the model.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&dialect, body)) = bytes.split_first() else { return };
    if let Err(error) = wf_server::fuzzing::read_request(wf_fuzz::demo_app(), dialect, body) {
        // A message may quote a name or a value of the request.
        assert!(error.len() < (1 << 16) + 8 * body.len(), "a very long error");
    }
});
