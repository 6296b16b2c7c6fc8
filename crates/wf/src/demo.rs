//! The demo model inside the binary.

use wf_engine::ModelSource;

/// Name of the demo model in messages.
pub(crate) const NAME: &str = "built-in demo";

/// Names that requests to a server may use for it.
pub(crate) const ALIASES: [&str; 2] = ["bitnet", "demo"];

/// The GGUF file in `assets/`. A `static` is in the binary once; a `const` would be copied into
/// every codegen unit that uses it.
static BYTES: &[u8] = include_bytes!("../assets/demo.gguf");

pub(crate) fn source() -> ModelSource {
    ModelSource::Embedded { name: NAME, bytes: BYTES }
}
