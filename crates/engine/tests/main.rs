//! Tests of the engine in one program: linking each file by itself would take a minute longer.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod attention;
mod blocks;
mod common;
mod demo;
mod demo_blocks;
mod disk_pages;
mod draft_model;
mod embedding_models;
mod embeddings;
mod fairness;
mod fake;
mod faults;
mod grammar;
mod head;
mod invariance;
mod networks;
mod sliding;
mod thinking;
mod turns;
