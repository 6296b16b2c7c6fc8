//! Costs of draft rows, as decoders see them.

/// Maximum number of draft tokens per verification.
pub(super) const MAX_DRAFT: usize = 64;

/// Times of passes with draft rows, relative to the same pass without them.
#[derive(Clone, Copy, Debug)]
pub struct DraftCosts {
    /// Number of sequences that decode together, this one included.
    pub(super) sequences: usize,
    /// By number of draft rows.
    passes: [f32; MAX_DRAFT + 1],
    /// Time of the draft model for a token.
    pub(crate) draft_token: f64,
}

impl DraftCosts {
    /// Creates costs from functions of the number of draft rows.
    pub(crate) fn new(sequences: usize, pass: impl Fn(usize) -> f64, draft_token: f64) -> Self {
        let passes = std::array::from_fn(|rows| pass(rows) as f32);
        Self { sequences: sequences.max(1), passes, draft_token }
    }

    /// Returns the time of a pass with `rows` draft rows.
    pub(crate) fn pass(&self, rows: usize) -> f64 {
        f64::from(self.passes[rows.min(MAX_DRAFT)])
    }
}

impl Default for DraftCosts {
    /// Returns costs at which no draft pays.
    fn default() -> Self {
        Self::new(1, |rows| 1.0 + rows as f64, 1.0)
    }
}
