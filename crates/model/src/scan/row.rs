//! One hidden state of a scan: the bounds and the exact scores of its tokens.

use wf_kernels::{NoiseKey, ScoreBounds, VectorBounds};

use super::hidden::HiddenCodes;
use super::{Depth, STRIP, Scan, ScanContext};

/// Product of norms below which scores are finite, in any order of summation.
const LARGEST_SCORE: f64 = 1e37;

/// A hidden state after the scan.
#[derive(Clone, Copy)]
pub(super) struct RowScan<'a> {
    pub(super) scan: &'a Scan,
    pub(super) context: ScanContext<'a>,
    pub(super) depth: Depth,
    pub(super) codes: &'a HiddenCodes,
    pub(super) row: usize,
    /// The hidden state.
    pub(super) x: &'a [f32],
    /// Tokens to search among, one bit each; `None` for all.
    pub(super) searched: Option<&'a [u32]>,
    /// The noise of a draw, and the factor of the scores that it is added to.
    pub(super) noise: Option<(NoiseKey, f32)>,
}

impl RowScan<'_> {
    /// Returns `false` if a score could be infinite.
    pub(super) fn is_finite(&self) -> bool {
        self.scan.largest_norm * self.codes.states()[self.row].norm < LARGEST_SCORE
    }

    /// Computes the bounds of the scores of some strips. They are computed again rather than kept by the
    /// scan: few strips matter.
    pub(super) fn bounds(&self, strips: &[u32], out: &mut [ScoreBounds]) {
        let cx = self.context.cx;
        cx.pool.rows(out, 1, |i, out| {
            let strip = strips[i] as usize;
            out[0] = self.scan.bounds_of(cx, self.depth, strip, self.codes, self.row);
            if let Some(bits) = self.searched {
                out[0].keep(bits_of_strip(bits, strip));
            }
        });
    }

    /// Replaces the bounds of strips by those of perturbed scores, if there is a draw.
    pub(super) fn perturb(&self, strips: &[u32], bounds: &mut [ScoreBounds]) {
        let Some((key, factor)) = self.noise else { return };
        for (&strip, bounds) in strips.iter().zip(bounds) {
            let first = strip * STRIP as u32;
            self.context.cx.kernel.perturb_bounds(key, first, factor, bounds);
        }
    }

    /// Computes exact scores.
    pub(super) fn scores(&self, tokens: &[u32], out: &mut [f32]) {
        self.context.table.scores_of(self.context.cx, tokens, self.x, out);
    }

    /// Returns an upper bound of the error of every estimate.
    pub(super) fn max_error(&self) -> f64 {
        let VectorBounds { per_error, per_norm, base_error, .. } =
            self.codes.states()[self.row].bounds;
        let (error, norm) = self.scan.rows_at(self.depth).largest;
        let off = f64::from(error) * f64::from(per_error) + f64::from(norm) * f64::from(per_norm);
        // Bounds are added in f32.
        (off + f64::from(base_error)) * (1.0 + 1e-6)
    }
}

/// Returns the bits of the tokens of a strip.
pub(super) fn bits_of_strip(bits: &[u32], strip: usize) -> u16 {
    (bits[strip / 2] >> (STRIP * (strip % 2))) as u16
}
