//! HTTP: connections, the layers around all routes, and bodies.

pub(crate) mod body;
mod chunks;
mod fault;
pub(crate) mod form;
mod idle;
pub(crate) mod json;
pub(crate) mod layers;
pub(crate) mod paths;
mod query;
pub(crate) mod raw_fields;
pub(crate) mod request_id;
pub(crate) mod routes;
pub(crate) mod serve;
mod stall;
pub(crate) mod type_errors;
pub(crate) mod viewer;
