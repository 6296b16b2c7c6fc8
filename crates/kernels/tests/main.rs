//! Tests of kernels in one program.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod activations;
mod attend;
mod checks;
mod exact;
mod lookup;
mod planted;
mod pool;
mod reference;
mod sparse;
mod support;
