//! The router in process, with the demo model behind it.

mod access;
mod answers;
mod fields;
mod support;
mod wire;
