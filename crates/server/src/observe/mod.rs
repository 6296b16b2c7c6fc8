//! Metrics, logs, traces and the list of requests in flight.

pub(crate) mod history;
pub(crate) mod in_flight;
pub(crate) mod log;
mod memory;
pub(crate) mod metrics;
pub(crate) mod trace;
