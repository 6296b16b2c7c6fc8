//! HTTP: connections, the layers around all routes, and bodies.

pub(crate) mod body;
mod fault;
mod idle;
mod json;
pub(crate) mod layers;
pub(crate) mod request_id;
pub(crate) mod routes;
pub(crate) mod serve;
mod stall;
pub(crate) mod viewer;
