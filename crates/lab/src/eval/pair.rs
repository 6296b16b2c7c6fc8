//! Two ways to run one network, over the same windows of a text.

use std::time::Instant;

use anyhow::Result;
use wf_engine::TokenId;
use wf_model::{Forward, KvPool, Logits, Model, PageId, Segment};

use super::divergence::{Prediction, Tally};
use super::{Windows, check_ids};

/// Number of single tokens whose time is measured.
const DECODE_STEPS: usize = 32;

/// Two runs of a network: `a`, the reference, and `b`.
pub(super) struct Pair<'m> {
    pub(super) a: &'m mut Model,
    pub(super) b: Other<'m>,
}

/// Parts of the second run that it does not share with the first.
pub(super) enum Other<'m> {
    /// Everything.
    Model(&'m mut Model),
    /// K/V pages of another type: the weights are those of the first.
    Pages(&'m mut KvPool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    /// Both, in an order that alternates: whatever slows the machine down slows each as often.
    fn alternating(turn: usize) -> [Self; 2] {
        if turn.is_multiple_of(2) { [Self::A, Self::B] } else { [Self::B, Self::A] }
    }
}

/// Everything measured over a text.
pub(super) struct Measured {
    pub(super) tally: Tally,
    /// Divergence of each predicted token with its position in the window.
    pub(super) divergences: Vec<(usize, f64)>,
    /// True if all logits have the same bits.
    pub(super) identical: bool,
    /// Tokens of all windows, and the seconds each side took for them.
    pub(super) scored: usize,
    pub(super) seconds: [f64; 2],
    /// Seconds of single tokens, one pair for each.
    pub(super) decode: Vec<[f64; 2]>,
}

impl Pair<'_> {
    /// Runs both over all windows, chunk by chunk in turn. Logits of a chunk are dropped once compared: memory
    /// does not grow with the text. `times_decoding` adds the time of single tokens.
    pub(super) fn measure(&mut self, windows: &Windows, times_decoding: bool) -> Result<Measured> {
        let mut measured = Measured {
            tally: Tally::default(),
            divergences: Vec::new(),
            identical: true,
            scored: 0,
            seconds: [0.0; 2],
            decode: Vec::new(),
        };
        let vocab_len = self.a.network().vocab_len;
        let mut logits = [Logits::new(vocab_len), Logits::new(vocab_len)];
        for (at, ids) in windows.ids.iter().enumerate() {
            check_ids(self.a, ids)?;
            self.measure_window(ids, &mut logits, &mut measured);
            // No window is longer than the first.
            if at == 0 && times_decoding {
                self.measure_decoding(ids, &mut logits, &mut measured);
            }
        }
        Ok(measured)
    }

    fn measure_window(&mut self, ids: &[TokenId], logits: &mut [Logits; 2], out: &mut Measured) {
        let pages: Vec<PageId> = (0..self.a.pages() as PageId).collect();
        let mut start = 0;
        for (turn, tokens) in ids.chunks(self.a.max_batch_tokens()).enumerate() {
            let want: Vec<usize> = (0..tokens.len()).collect();
            let segment = Segment::causal(tokens, start, &pages, &want);
            for side in Side::alternating(turn) {
                out.seconds[side as usize] +=
                    self.forward(side, segment, &mut logits[side as usize]);
            }
            for row in 0..tokens.len() {
                out.compare(start + row, ids, logits[0].row(row), logits[1].row(row));
            }
            start += tokens.len();
            out.scored += tokens.len();
        }
    }

    /// Times the last tokens of the window that the pages hold one by one. They are computed again: their K/V
    /// gets the same bits.
    fn measure_decoding(&mut self, ids: &[TokenId], logits: &mut [Logits; 2], out: &mut Measured) {
        let pages: Vec<PageId> = (0..self.a.pages() as PageId).collect();
        let first = ids.len().saturating_sub(DECODE_STEPS);
        for position in first..ids.len() {
            let segment = Segment::causal(&ids[position..=position], position, &pages, &[0]);
            let mut seconds = [0.0; 2];
            for side in Side::alternating(position) {
                seconds[side as usize] = self.forward(side, segment, &mut logits[side as usize]);
            }
            out.decode.push(seconds);
        }
    }

    /// Returns the seconds that a pass takes.
    fn forward(&mut self, side: Side, segment: Segment<'_>, logits: &mut Logits) -> f64 {
        if let (Side::B, Other::Pages(pages)) = (side, &mut self.b) {
            self.a.swap_kv(pages);
        }
        let start = Instant::now();
        match (side, &mut self.b) {
            (Side::B, Other::Model(model)) => model.forward(&[segment], logits),
            _ => self.a.forward(&[segment], logits),
        };
        let seconds = start.elapsed().as_secs_f64();
        if let (Side::B, Other::Pages(pages)) = (side, &mut self.b) {
            self.a.swap_kv(pages);
        }
        seconds
    }
}

impl Measured {
    /// Compares the logits of a position, unless it is the last of its window: that predicts nothing.
    fn compare(&mut self, position: usize, ids: &[TokenId], a: &[f32], b: &[f32]) {
        let Some(&next) = ids.get(position + 1) else { return };
        self.identical &= a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        let (a, b) = (Prediction::new(a), Prediction::new(b));
        let kl = a.divergence(&b);
        let nll = (-a.log_probability(next), -b.log_probability(next));
        self.tally.add(nll, kl, a.best() == b.best());
        self.divergences.push((position, kl));
    }
}
