//! The output head of a model: one of floats, or one of trits.

use std::sync::Arc;

use wf_core::Network;

use super::ternary::TernaryHead;
use super::{Difference, Head, HeadCounts};
use crate::compute::Compute;
use crate::logits::Logits;
use crate::options::HeadMode;
use crate::segment::Segment;
use crate::table::Table;

pub(crate) enum OutputHead {
    Float(Box<Head>),
    Ternary(TernaryHead),
}

impl OutputHead {
    /// Creates the head of `table`.
    ///
    /// # Panics
    ///
    /// If `mode` requires floats and `table` is ternary, which [`supports`](Self::supports) tells.
    pub(crate) fn new(cx: &Compute, network: &Network, table: &Table, mode: HeadMode) -> Self {
        assert!(Self::supports(table, mode), "head mode {mode} of a ternary head");
        match table {
            Table::Float(table) => Self::Float(Box::new(Head::new(cx, network, table, mode))),
            Table::Ternary(matrix) => Self::Ternary(TernaryHead::new(matrix, network.activations)),
        }
    }

    /// Returns `true` if a head of this table has this mode: trits have fewer bits than any copy that a
    /// scan would read.
    pub(crate) fn supports(table: &Table, mode: HeadMode) -> bool {
        matches!(table, Table::Float(_)) || matches!(mode, HeadMode::Auto | HeadMode::Full)
    }

    /// Bytes held in memory beside the table.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Float(head) => head.size_bytes(),
            Self::Ternary(_) => 0,
        }
    }

    /// Bytes that have to be read to find the best token.
    pub(crate) fn bytes_per_pick(&self, table: &Table) -> usize {
        match (self, table) {
            (Self::Float(head), Table::Float(table)) => head.bytes_per_pick(table),
            _ => table.size_bytes(),
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        match self {
            Self::Float(head) => head.counts(),
            Self::Ternary(_) => Vec::new(),
        }
    }

    /// Computes the logits of the `hidden` rows of segments that need all logits, or of segments of which none
    /// does, and writes them to the rows of `out` from `first` on.
    ///
    /// # Errors
    ///
    /// If scans are checked and one differs from the table.
    pub(crate) fn score(
        &mut self,
        cx: &Compute,
        table: &Table,
        hidden: &[f32],
        segments: &[Segment<'_>],
        (out, first): (&mut Logits, usize),
    ) -> Result<(), Difference> {
        match (self, table) {
            (Self::Float(head), Table::Float(table)) => {
                head.score(cx, table, hidden, segments, (out, first))
            }
            (Self::Ternary(head), Table::Ternary(matrix)) => {
                let rows = hidden.len() / matrix.cols();
                head.score(cx, matrix, hidden, out.rows_mut(first, rows));
                Ok(())
            }
            _ => unreachable!("the head of this table"),
        }
    }
}
