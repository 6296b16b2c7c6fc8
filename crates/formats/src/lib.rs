//! Reads and writes model files, and converts between ternary encodings.
//!
//! [`ModelFile::open`] accepts a GGUF file, an SGLBITNT `.bin`, a `.safetensors` file, a Hugging Face
//! directory, or a `.wf` file. The model it returns is valid: every tensor of the network is present,
//! has the right shape, and lies inside its file. No byte is trusted: a damaged or hostile file gives an
//! [`Error`] that names the file, the position and the fault. It never makes this crate panic, or
//! allocate more memory than the size of the file and 64 MiB.

#![deny(unsafe_code)]
// Code that handles untrusted bytes neither indexes nor uses arithmetic that could wrap.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

#[expect(clippy::arithmetic_side_effects, reason = "`size` bounds the shapes")]
pub mod encoding;

mod body;
mod checkpoint;
mod checksum;
mod companions;
mod config;
mod cursor;
mod error;
mod families;
mod gguf;
mod hugging_face;
mod map;
mod model_file;
mod names;
mod parts;
mod safetensors;
mod sglbitnt;
mod size;
mod tensor;
mod text;
mod wf;
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "writes models that were validated when they were opened"
)]
mod write;

pub use body::TensorBody;
pub use checksum::checksum;
pub use config::{BlockDiffusion, MASK_TEXT, ModelInfo, Pooling};
pub use encoding::{EncodingError, Rounding};
pub use encoding::{FloatEncoding, FloatKind, I2sOrder, ScaleUnit, TernaryEncoding, check_scales};
pub use error::Error;
pub use gguf::write::{GgufWriter, MetadataValue};
pub use model_file::{ModelFile, TensorChunks, TensorData};
pub use names::{LayerTensor, TensorName};
pub use parts::{FileSummary, FormatKind, FormatSummary, OpenOptions};
pub use safetensors::write::SafetensorsWriter;
pub use tensor::{Encoding, TensorInfo};
pub use text::{GenerationDefaults, SpecialTokenTexts, TokenizerSource};
pub use wf_core::{RotaryPairs, Scales, Vocabulary};
pub use write::{
    Container, IfExists, PlannedTensor, Staged, TableEncoding, Target, ValueHeadReordering,
    compatible_encodings, scale_unit, vocabulary_from_tokenizer_json,
};
