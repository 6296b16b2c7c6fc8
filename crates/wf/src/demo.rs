//! The demo model, inside the binary.

use wf_engine::ModelSource;

/// What the demo model is called in messages.
pub(crate) const NAME: &str = "built-in demo";

/// The demo model: a GGUF file, exactly the one in `assets/`.
pub(crate) const SOURCE: ModelSource =
    ModelSource::Embedded { name: NAME, bytes: include_bytes!("../assets/demo.gguf") };
