//! Other people's JSON for the same work.

pub(crate) mod sglang;
