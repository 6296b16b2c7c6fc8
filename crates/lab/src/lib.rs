//! The laboratory: the measurements behind `wf bench`, `wf eval`, `wf load` and `wf validate`.
//!
//! Nothing here is needed to serve a model. Entry points take parsed options and return reports,
//! which serialize to JSON and convert to text; the command line prints them.

#![forbid(unsafe_code)]

pub mod bench;
pub mod eval;
pub mod load;
mod parse;
mod progress;
pub mod random;
mod stats;
mod svg;
mod table;
pub mod validate;
