//! Costs of the output head: its memory, what a pick reads, and the counters of its searches.

use std::sync::Arc;

use super::{Head, HeadCounts, Method};
use crate::embed::FloatTable;
use crate::scan::Scan;

impl Head {
    /// Bytes held in memory beside the table.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.method {
            Method::Full => 0,
            Method::Scan(scan, _) | Method::Int8(scan, _) => scan.size_bytes(),
            Method::Check(check) => check.scans().map(Scan::size_bytes).sum(),
        }
    }

    /// Bytes that have to be read to find the best token, the few rows scored exactly not counted.
    pub(crate) fn bytes_per_pick(&self, table: &FloatTable) -> usize {
        match &self.method {
            Method::Full => table.size_bytes(),
            Method::Scan(scan, _) | Method::Int8(scan, _) => scan.scanned_bytes(),
            Method::Check(check) => {
                table.size_bytes() + check.scans().map(Scan::scanned_bytes).sum::<usize>()
            }
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        match &self.method {
            Method::Full | Method::Int8(..) => Vec::new(),
            Method::Scan(..) => vec![("scan", Arc::clone(&self.counts))],
            Method::Check(check) => check.counts(),
        }
    }
}
