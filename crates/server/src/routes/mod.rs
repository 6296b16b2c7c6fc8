//! One file for each group of routes.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod docs;
pub(crate) mod embeddings;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod models;
pub(crate) mod page;
pub(crate) mod tokens;
