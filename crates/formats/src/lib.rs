//! Reads and writes model files, and turns every ternary encoding into plain trits and back.
//!
//! [`ModelFile::open`] takes a GGUF file, an SGLBITNT `.bin`, a `.safetensors` file, a Hugging Face
//! directory, or a `.wf` file of our own. What it returns has been checked: every tensor the network needs is there, has the right
//! shape, and lies inside its file. No byte is trusted: a broken or hostile file gives an [`Error`]
//! that names the file, the place and the fault; it never makes this crate panic, or take more memory
//! than the file's size and 64 MiB.

#![deny(unsafe_code)]
// What meets bytes from outside neither indexes nor does arithmetic that could wrap.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

#[expect(clippy::arithmetic_side_effects, reason = "on shapes that `size` has bounded")]
pub mod encoding;

mod checkpoint;
mod checksum;
mod companions;
mod config;
mod cursor;
mod digest;
mod error;
mod generation;
mod gguf;
mod hugging_face;
mod map;
mod model_file;
mod names;
mod pieces;
mod safetensors;
mod scaling;
mod sglbitnt;
mod size;
mod summary;
mod tensor;
mod tensor_data;
mod ternary_floats;
mod vocabulary;
mod wf;
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "writes models that were checked when they were opened"
)]
mod write;

pub use config::gguf::MASK_TEXT;
pub use config::{Activation, BlockDiffusion, ExtraNorms, ModelConfig, Pooling, RotaryPairs};
pub use encoding::{EncodingError, Rounding};
pub use encoding::{FloatEncoding, I2sOrder, ScaleUnit, TernaryEncoding, TritScales};
pub use error::Error;
pub use generation::GenerationDefaults;
pub use gguf::write::{GgufBody, GgufWriter, MetadataValue};
pub use model_file::{ModelFile, OpenOptions};
pub use names::{LayerTensor, TensorName};
pub use pieces::Pieces;
pub use safetensors::write::{SafetensorsBody, SafetensorsWriter};
pub use summary::{FileSummary, FormatKind, FormatSummary};
pub use tensor::{Encoding, TensorInfo};
pub use tensor_data::TensorData;
pub use vocabulary::{GgufVocabulary, SpecialTokenTexts, TokenizerSource};
pub use write::{Container, Existing, PlannedTensor, Staged, Target, fitting};
pub use write::{GgufTarget, write_gguf, write_packed_dir, write_sglbitnt};
