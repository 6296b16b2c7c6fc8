//! Fills a block of masks in a few passes, surest first.
//!
//! What is known is run once, as finished text, and its K/V kept. Then the block runs again and again,
//! masks and all, its rows seeing each other; after each pass some guesses stay. Nothing of that is
//! kept in the pages: a full block is text like any other, and runs once more as such.

use wf_model::{Scoring, Sees};

use super::accept::{Guess, Rule};
use super::block::{Block, BlockShape};
use super::mode::Diffusion;
use super::{Decoder, Need, Outcome, Plan, SeqView};
use crate::sample::{Guessed, Sampler};

/// Once a block is full, an editing rule may go over it this often.
const MOST_EDITS: usize = 16;

/// Fills block after block.
#[derive(Debug)]
pub struct BlockFiller {
    settings: Diffusion,
    shape: BlockShape,
    block: Option<Block>,
    /// Whether the pages hold K/V of every row of the block, from this or an earlier pass.
    has_block_kv: bool,
    edits: usize,
}

impl BlockFiller {
    pub(crate) fn new(settings: Diffusion, shape: BlockShape) -> Self {
        Self { settings, shape, block: None, has_block_kv: false, edits: 0 }
    }

    /// How many tokens have to run as finished text before a block can be filled.
    fn unread(&self, seq: SeqView<'_>) -> usize {
        self.shape.start(seq.tokens.len()) - seq.kv_len
    }

    /// Runs finished text. The next token is autoregressive if a block would start with a mask that
    /// no row scores.
    fn read(&self, seq: SeqView<'_>, budget: usize) -> Plan {
        let unread = self.unread(seq);
        let mut run = unread.min(budget);
        if !self.shape.causal {
            run -= run % self.shape.len;
        }
        let pending = &seq.tokens[seq.kv_len..];
        let want =
            if self.shape.shift && run == pending.len() { vec![run - 1] } else { Vec::new() };
        let plan = Plan::causal(seq.kv_len, &pending[..run], want);
        Plan { sees: self.shape.context(), ..plan }
    }

    fn fill(&self, block: &Block) -> Plan {
        let part = block.part();
        // The part's first token being known, its other rows score all of its masks.
        let in_part = self.settings.reuse
            && self.has_block_kv
            && !part.is_empty()
            && !block.is_mask(part.start)
            && !self.edits_text();
        let rows = if in_part { part } else { 0..block.tokens.len() };
        let want =
            self.scored(block).iter().map(|&at| self.shape.row_of(at) - rows.start).collect();
        Plan {
            at: block.start + rows.start,
            tokens: block.tokens[rows].to_vec(),
            sees: Sees::Until(block.end()),
            want,
            scoring: Some(Scoring::All),
        }
    }

    fn edits_text(&self) -> bool {
        matches!(self.settings.rule, Rule::Edit { .. })
    }

    /// The places whose scores are looked at.
    fn scored(&self, block: &Block) -> Vec<usize> {
        if !self.edits_text() {
            return block.masks();
        }
        let masks = block.masks();
        block.open().filter(|at| !block.is_mask(*at) || masks.contains(at)).collect()
    }

    /// How many guesses must stay for the part to be full in time.
    fn least(&self, masks: usize, passes: usize) -> usize {
        match self.settings.steps {
            None => 1,
            Some(steps) => masks.div_ceil(steps.saturating_sub(passes).max(1)),
        }
    }

    /// Keeps what the rule keeps. Says whether anything changed.
    fn write(&self, block: &mut Block, mut guessed: Vec<(usize, Guessed)>) -> bool {
        let mut changed = false;
        if let Rule::Edit { edit, .. } = self.settings.rule {
            let better = |(at, guess): &mut (usize, Guessed)| {
                !block.is_mask(*at)
                    && guess.picked.token != block.tokens[*at]
                    && guess.sure.probability > edit
            };
            let edits: Vec<_> = guessed.extract_if(.., better).collect();
            guessed.retain(|(at, _)| block.is_mask(*at));
            changed = !edits.is_empty();
            edits.into_iter().for_each(|(at, guess)| block.write(at, guess.picked));
        }
        let sure: Vec<Guess> = guessed.iter().map(|(_, guess)| guess.sure).collect();
        let least = self.least(sure.len(), block.passes);
        let kept = self.settings.rule.keep(&sure, block.passes, least);
        let mut guessed: Vec<_> = guessed.into_iter().map(Some).collect();
        for index in kept {
            if let Some((at, guess)) = guessed[index].take() {
                block.write(at, guess.picked);
                changed = true;
            }
        }
        changed
    }

    /// Takes in a pass over the block.
    fn absorb_pass(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        self.has_block_kv = true;
        let mut block = self.block.take()?;
        let places = self.scored(&block);
        let rows = scores.chunks_exact_mut(scores.len() / plan.want.len());
        let entropy = self.settings.rule.needs_entropy();
        let mut guessed = Vec::with_capacity(places.len());
        for (at, row) in places.into_iter().zip(rows) {
            row[self.shape.mask as usize] = f32::NEG_INFINITY;
            let position = block.start + at;
            let in_reply = position - seq.prompt_len;
            guessed.push((at, sampler.guess(row, position, in_reply, entropy)?));
        }
        let changed = self.write(&mut block, guessed);
        block.passes += 1;
        let was_full = block.masks().is_empty();
        block.next_part();

        let preview = if self.settings.preview { block.preview() } else { Vec::new() };
        let mut outcome = Outcome { preview, ..Outcome::default() };
        let mut settled = block.is_full();
        if settled && self.edits_text() {
            self.edits += usize::from(was_full);
            settled = !changed || self.edits > MOST_EDITS;
        }
        let ends = || block.finished().iter().any(|&token| sampler.ends(token));
        if settled || (!self.settings.whole_blocks && !self.edits_text() && ends()) {
            outcome.commit = block.into_picked();
            outcome.commit.iter().for_each(|picked| sampler.note(picked.token));
        } else {
            self.block = Some(block);
        }
        Some(outcome)
    }
}

impl Decoder for BlockFiller {
    fn need(&self, seq: SeqView<'_>) -> Need {
        match self.unread(seq) {
            0 => {
                let tokens = match &self.block {
                    Some(block) => self.fill(block).tokens.len(),
                    None => self.shape.len.min(seq.context_len - seq.kv_len),
                };
                Need { tokens, least: tokens, reads: false }
            }
            tokens => {
                let least = if self.shape.causal { 1 } else { self.shape.len };
                Need { tokens, least, reads: seq.kv_len < self.shape.start(seq.prompt_len) }
            }
        }
    }

    fn plan(&mut self, seq: SeqView<'_>, budget: usize) -> Plan {
        if self.unread(seq) > 0 {
            return self.read(seq, budget);
        }
        if self.block.is_none() {
            self.has_block_kv = false;
            self.edits = 0;
            self.block = Some(Block::new(self.shape, seq.tokens, seq.context_len));
        }
        let block = self.block.as_ref().expect("just made");
        self.fill(block)
    }

    fn absorb(
        &mut self,
        seq: SeqView<'_>,
        plan: &Plan,
        scores: &mut [f32],
        sampler: &mut Sampler,
    ) -> Option<Outcome> {
        if self.unread(seq) == 0 {
            return self.absorb_pass(seq, plan, scores, sampler);
        }
        let mut outcome = Outcome { keep: plan.tokens.len(), ..Outcome::default() };
        if !plan.want.is_empty() {
            outcome.commit.push(sampler.pick(scores, seq.tokens.len())?);
        }
        Some(outcome)
    }

    fn forget_pages(&mut self) {
        self.has_block_kv = false;
        // K/V of an earlier pass cannot be had again, and what it led to would be another text: the
        // block starts over, and comes to the same.
        if self.settings.reuse {
            self.block = None;
        }
    }

    fn context(&self) -> Sees {
        self.shape.context()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Limits;
    use crate::sample::SamplingParams;

    #[test]
    fn a_block_whose_old_kv_is_gone_starts_over_if_it_was_to_be_used() {
        let shape = BlockShape { mask: 3, len: 8, part_len: 4, shift: true, causal: true };
        let tokens = [1, 2];
        let seq = SeqView {
            tokens: &tokens,
            prompt_len: 2,
            kv_len: 1,
            most: 20,
            context_len: 64,
            prompt_logprobs: None,
        };
        let mut sampler = Sampler::new(SamplingParams::default(), &Limits::default(), &tokens);
        for (reuse, masks) in [(true, 7), (false, 6)] {
            let mut filler = BlockFiller::new(Diffusion { reuse, ..Diffusion::default() }, shape);
            let first = filler.plan(seq, 8);
            let mut scores: Vec<f32> =
                (0..first.want.len() * 4).map(|at| at as f32 / 9.0).collect();
            filler.absorb(seq, &first, &mut scores, &mut sampler).unwrap();
            filler.forget_pages();
            let again = filler.plan(seq, 8);
            assert_eq!(again.tokens.iter().filter(|&&token| token == 3).count(), masks);
        }
    }
}
