//! Tests of models in one program.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod attention;
mod dead_neurons;
mod demo;
mod directory;
mod experts;
mod families;
mod golden;
mod hadamard;
mod hybrid;
mod kv;
mod llama;
mod mtp;
mod oracle;
mod phases;
mod qwen35;
mod random_weights;
mod recorded;
mod reference;
mod rotary;
mod sliding;
mod sparse;
mod weight_only;
mod windows;
mod zeros;
