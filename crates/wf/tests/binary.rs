//! Tests of the binary itself.

use std::path::Path;

/// A `const` with the bytes of the demo model would be copied into every codegen unit that uses it.
#[test]
fn the_demo_model_is_in_the_binary_once() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_wf")).expect("the binary");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf");
    let demo = std::fs::read(demo).expect("the demo model");
    let sample = &demo[demo.len() / 2..][..64];
    let copies = binary.windows(sample.len()).filter(|window| *window == sample).count();
    assert_eq!(copies, 1);
}
