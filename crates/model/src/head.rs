//! The output head: hidden states become scores.

use std::fmt;
use std::str::FromStr;

use wf_formats::ModelConfig;

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::scan::{SCANNED_AT_ONCE, Scan, ScanScratch};
use crate::segment::Scoring;

/// How the best token is found. Neither way changes which one it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadMode {
    /// `Scan` for tables that are too large for a cache, else `Full`.
    #[default]
    Auto,
    /// Every row of the table is read.
    Full,
    /// An int8 copy is read, and the rows that could win: half the bytes of a 16-bit table, for
    /// half of its memory more.
    Scan,
}

impl HeadMode {
    const ALL: [Self; 3] = [Self::Auto, Self::Full, Self::Scan];
}

impl fmt::Display for HeadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Scan => "scan",
        })
    }
}

/// A name that is no head mode.
#[derive(Debug, thiserror::Error)]
#[error("unknown head mode {0:?}: use auto, full or scan")]
pub struct UnknownHeadMode(String);

impl FromStr for HeadMode {
    type Err = UnknownHeadMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownHeadMode(name.to_owned()))
    }
}

/// Tables below this many bytes are read from a cache anyway.
const WORTH_SCANNING: usize = 32 << 20;

/// Scores rows of hidden state.
pub(crate) struct Head {
    scan: Option<(Scan, ScanScratch)>,
}

impl Head {
    pub(crate) fn new(
        cx: &Compute,
        config: &ModelConfig,
        table: &FloatTable,
        mode: HeadMode,
    ) -> Self {
        let scans = match mode {
            HeadMode::Auto => table.size_bytes() >= WORTH_SCANNING,
            HeadMode::Full => false,
            HeadMode::Scan => true,
        };
        let scan = scans.then(|| {
            let scratch = ScanScratch::new(config.vocab_len, config.hidden_len);
            (Scan::new(cx, table), scratch)
        });
        Self { scan }
    }

    /// Bytes held in memory beside the table.
    pub(crate) fn size_bytes(&self) -> usize {
        self.scan.as_ref().map_or(0, |(scan, _)| scan.size_bytes())
    }

    /// Scores `hidden` rows, all asked for in the same way, into as many rows of `out`.
    pub(crate) fn score(
        &mut self,
        cx: &Compute,
        table: &FloatTable,
        (hidden, scoring): (&[f32], Scoring),
        out: &mut [f32],
        row_buffers: &mut [Vec<f32>],
    ) {
        match (&mut self.scan, scoring) {
            (Some((scan, scratch)), Scoring::Best) => {
                let hidden = hidden.chunks(SCANNED_AT_ONCE * table.cols());
                let out = out.chunks_mut(SCANNED_AT_ONCE * table.rows());
                for (hidden, out) in hidden.zip(out) {
                    scan.best(cx, table, hidden, out, (scratch, row_buffers));
                }
            }
            _ => table.scores(cx, hidden, out, row_buffers),
        }
    }
}
