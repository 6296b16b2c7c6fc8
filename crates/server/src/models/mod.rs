//! The models of a server: which there are, which of them are in memory, and who uses them.
//!
//! A request asks the registry for its model and gets a [`Lease`]. A model that is not in memory is loaded while
//! the request waits, and the least recently used ones without a lease leave to make room.

mod lease;
mod listing;
mod registry;
mod room;
mod served;

pub(crate) use lease::Lease;
pub use listing::Listing;
pub use registry::{ListedModel, LoadModel};
pub(crate) use registry::{ModelStats, Registry};
pub(crate) use served::Profile;
pub use served::{Description, ServedModel};
