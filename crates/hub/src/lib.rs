//! Downloads models from the Hugging Face Hub, and caches conversions of them.
//!
//! [`Hub::fetch`] resolves `hf:owner/repo[@revision][:file]` to a local path. Files are shared with the
//! cache of `huggingface_hub`. Downloads are verified against the digest that the hub announces, and
//! interrupted downloads are resumed.
//!
//! [`ConversionCache`] stores converted models: entries are created atomically, and once for any number
//! of concurrent processes.
//!
//! This crate does not know the content of models, and does not read the environment: callers pass
//! all paths and settings.

#![forbid(unsafe_code)]

mod api;
mod conversions;
mod digest;
mod download;
mod error;
mod fetch;
mod reference;
mod store;

pub use conversions::{CachedModel, ConversionCache, PruneSummary};
pub use download::Progress;
pub use error::HubError;
pub use fetch::{COMPANIONS, FetchedModel, Hub, HubConfig};
pub use reference::Reference;
