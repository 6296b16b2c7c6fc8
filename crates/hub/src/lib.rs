//! Finds models on the Hugging Face Hub, and keeps what was made of them.
//!
//! [`Hub::fetch`] turns `hf:owner/repo[@revision][:file]` into a path on this machine. Files lie where
//! `huggingface_hub` keeps them, so that what Python has downloaded is found here, and the other way
//! round. What arrives is checked against the digest that the hub names; a download that was cut off
//! goes on where it ended.
//!
//! [`Conversions`] keeps models that were made from others: whole or not there, made once however many
//! processes ask.
//!
//! This crate knows nothing of what is inside a model, and reads no environment: whoever calls it says
//! where things are.

#![forbid(unsafe_code)]

mod api;
mod conversions;
mod digest;
mod download;
mod error;
mod fetch;
mod reference;
mod store;

pub use conversions::{Conversions, Entry, Pruned};
pub use error::HubError;
pub use fetch::{Fetched, Hub, HubSettings, Progress};
pub use reference::Reference;
