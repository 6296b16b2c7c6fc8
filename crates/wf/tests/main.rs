//! Tests of the program in one program: linking each would take longer than most of them run.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod batch;
mod binary;
mod chat;
mod cli;
mod convert;
mod disk_cache;
mod documents;
mod edge;
mod first_contact;
mod health;
mod hub;
mod kv;
mod layers;
mod load;
mod local_conversion;
mod program;
mod serve;
mod sparsity;
mod weight_only;
