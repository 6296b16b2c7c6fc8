//! Rows of logits with a value for every token, as tests, checks and measurements read them.

use super::{Logits, Row, TokenLogit};

impl Logits {
    /// Returns the logits of all tokens of one row.
    ///
    /// # Panics
    ///
    /// Panics if only some were computed.
    pub fn row(&self, row: usize) -> &[f32] {
        match self.rows[row] {
            Row::All(at) => &self.all[at * self.vocab_len..][..self.vocab_len],
            Row::Some => panic!("row {row} has the logits of some tokens only"),
        }
    }

    /// Returns the logits of all tokens of one row, −∞ for those that were not needed.
    pub fn filled_row(&self, row: usize) -> Vec<f32> {
        let mut filled = vec![0.0; self.vocab_len];
        self.fill_row(row, &mut filled);
        filled
    }

    /// Writes the logits of all tokens of one row, −∞ for those that were not needed.
    pub(crate) fn fill_row(&self, row: usize, out: &mut [f32]) {
        if let Row::All(_) = self.rows[row] {
            return out.copy_from_slice(self.row(row));
        }
        out.fill(f32::NEG_INFINITY);
        for &TokenLogit { token, logit } in &self.some[row] {
            out[token as usize] = logit;
        }
    }
}
