//! Identity and order of sequences, for everything that is divided between them.

use std::cmp::Reverse;

/// Origin of a sequence. Steps, running places and pages of the K/V cache are shared between callers, then
/// between the requests of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Number of the caller.
    pub caller: u64,
    /// Number of the request. Sequences with the same number share its part and run in order.
    pub request: u64,
    /// Requests of a higher tier come before those of all callers of a lower one.
    pub tier: i32,
}

impl Origin {
    /// Returns the part that all requests of its caller in this tier have in common. Higher tiers come first.
    pub(crate) fn party(self) -> Party {
        Party { tier: Reverse(self.tier), caller: self.caller }
    }
}

/// A caller in one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Party {
    pub(crate) tier: Reverse<i32>,
    caller: u64,
}

/// Order of the sequences of one caller: higher priority first, then order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: Reverse<i32>,
    pub(crate) arrival: u64,
}

impl Rank {
    /// `arrival` grows from request to request.
    pub(crate) fn new(priority: i32, arrival: u64) -> Self {
        Self { priority: Reverse(priority), arrival }
    }
}
