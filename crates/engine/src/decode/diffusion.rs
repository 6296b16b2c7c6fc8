//! Block diffusion: a block of masks is filled in a few passes, most confident predictions first.
//!
//! Known text runs once, as finished text, and its K/V is kept. The block then runs repeatedly, masks
//! included, with its rows attending to each other; each pass keeps some predictions. None of that K/V is
//! kept: a full block runs once more as ordinary text.

use serde_json::Value;
use wf_model::{BlockDiffusion, LogitsRow, Scoring, Visibility};

use super::block::{Block, BlockShape};
use super::mode::SettingKind::{Bool, Count, Name, Number};
use super::mode::{
    Capabilities, Mode, ModeInfo, Setting, SettingKind, UnsupportedMode, count, number,
};
use super::unmask::{Confidence, UnmaskRule};
use super::{Autoregressive, Decoder, Outcome, Pass, Plan, SeqState, TokenDemand};
use crate::sample::Prediction;

/// Maximum number of passes in which an editing rule revises a full block.
const MAX_EDIT_PASSES: usize = 16;

const MAX_BLOCK_LEN: usize = 1024;

/// Parameters of block diffusion. Absent ones are the model's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffusionParams {
    /// Number of tokens of a block.
    pub block_len: Option<usize>,
    /// Number of tokens of a sub-block. Sub-blocks are filled from left to right.
    pub sub_block_len: Option<usize>,
    /// Rule that selects the predictions to keep.
    pub rule: UnmaskRule,
    /// Maximum number of passes per sub-block; the last one keeps every prediction.
    pub steps: Option<usize>,
    /// Fills a block to its end even if the completion has ended in it, or may not be longer.
    pub whole_blocks: bool,
    /// Takes the K/V of other sub-blocks from an earlier pass: fewer rows, different tokens.
    pub reuse: bool,
    /// Reports the block after each pass.
    pub preview: bool,
}

const fn setting(
    name: &'static str,
    kind: SettingKind,
    flag: Option<&'static str>,
    help: &'static str,
) -> Setting {
    Setting { object: "diffusion", name, kind, help, flag }
}

/// `rule` comes before its thresholds, which apply to the rule in effect.
const SETTINGS: [Setting; 9] = [
    setting(
        "block_size",
        Count,
        Some("block-size"),
        "Diffusion: tokens of a block [default: the model's own]",
    ),
    setting(
        "sub_block_size",
        Count,
        Some("sub-block-size"),
        "Diffusion: tokens of a sub-block, filled in order [default: the model's own]",
    ),
    setting(
        "rule",
        Name,
        Some("rule"),
        "Diffusion: rule that selects the predictions to keep: threshold, factor, static, dynamic, \
         entropy, adaptive, single, edit or prefix [default: threshold]",
    ),
    setting(
        "threshold",
        Number,
        Some("threshold"),
        "Diffusion: confidence needed to keep a prediction; its meaning depends on the rule \
         [default: 0.9 for the rule threshold]",
    ),
    setting(
        "edit_threshold",
        Number,
        None,
        "Confidence that the rule `edit` needs to change a token",
    ),
    setting(
        "steps",
        Count,
        Some("steps"),
        "Diffusion: maximum number of passes per sub-block [default: unlimited]",
    ),
    setting(
        "whole_blocks",
        Bool,
        None,
        "Fills the last block completely, even if the completion ends inside it",
    ),
    setting(
        "reuse",
        Bool,
        None,
        "Reuses keys and values of other sub-blocks from an earlier pass: faster, with different output",
    ),
    setting("preview", Bool, None, "Sends the state of the block after each pass, in a stream"),
];

impl DiffusionParams {
    /// The model's own blocks with the default rule.
    pub const DEFAULT: Self = Self {
        block_len: None,
        sub_block_len: None,
        rule: UnmaskRule::DEFAULT,
        steps: None,
        whole_blocks: false,
        reuse: false,
        preview: false,
    };

    fn shape(
        &self,
        model: BlockDiffusion,
        max_batch_tokens: usize,
    ) -> Result<BlockShape, UnsupportedMode> {
        let len = self.block_len.unwrap_or(model.block_len);
        let max = max_batch_tokens.min(MAX_BLOCK_LEN);
        if len == 0 || len > max {
            return Err(UnsupportedMode(format!(
                "block_size is {len}: must be between 1 and {max}"
            )));
        }
        let own_part = model.sub_block_len.filter(|part| len.is_multiple_of(*part));
        let part_len = self.sub_block_len.or(own_part).unwrap_or(len);
        if part_len == 0 || !len.is_multiple_of(part_len) {
            return Err(UnsupportedMode(format!(
                "sub_block_size is {part_len}: must divide the block size, {len}"
            )));
        }
        if self.steps == Some(0) {
            return Err(UnsupportedMode("steps is 0: must be at least 1".into()));
        }
        self.rule.check().map_err(UnsupportedMode)?;
        Ok(BlockShape {
            mask: model.mask_token,
            len,
            part_len,
            shift: model.token_shift,
            causal: model.causal_context,
        })
    }
}

impl Default for DiffusionParams {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Mode for DiffusionParams {
    fn info(&self) -> ModeInfo {
        ModeInfo {
            name: "diffusion",
            summary: "a block of tokens in a few passes; for models trained to fill masks",
            settings: &SETTINGS,
            is_left_to_right: false,
            ..ModeInfo::DEFAULT
        }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), UnsupportedMode> {
        match name {
            "block_size" => self.block_len = Some(count(value)),
            "sub_block_size" => self.sub_block_len = Some(count(value)),
            "rule" => {
                let rule = value.as_str().unwrap_or_default();
                if rule != self.rule.name() {
                    self.rule = UnmaskRule::from_name(rule).ok_or_else(|| {
                        let names = UnmaskRule::names().join(", ");
                        UnsupportedMode(format!("rule is {rule:?}: must be one of {names}"))
                    })?;
                }
            }
            "threshold" => self.rule.set_threshold(number(value)),
            "edit_threshold" => self.rule.set_edit_threshold(number(value)),
            "steps" => self.steps = Some(count(value)),
            "whole_blocks" => self.whole_blocks = *value == true,
            "reuse" => self.reuse = *value == true,
            "preview" => self.preview = *value == true,
            _ => {}
        }
        Ok(())
    }

    fn is_default(&self, model: Capabilities) -> bool {
        !model.predicts_next_token()
    }

    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode> {
        let blocks = model.blocks.ok_or_else(|| UnsupportedMode::no_masks(self.info().name))?;
        model.require_no_states(self.info().name)?;
        let shape = self.shape(blocks, model.max_batch_tokens)?;
        model.require_in_window(shape.len)?;
        match shape {
            // Every token is a block of its own, predicted by the row before it.
            BlockShape { len: 1, shift: true, .. } => Ok(Box::new(Autoregressive)),
            shape => Ok(Box::new(BlockDecoder::new(*self, shape))),
        }
    }
}

#[derive(Debug)]
struct BlockDecoder {
    params: DiffusionParams,
    shape: BlockShape,
    block: Option<Block>,
    /// True if the pages hold K/V of every row of the block, from this or an earlier pass.
    has_block_kv: bool,
    edit_passes: usize,
}

impl BlockDecoder {
    fn new(params: DiffusionParams, shape: BlockShape) -> Self {
        Self { params, shape, block: None, has_block_kv: false, edit_passes: 0 }
    }

    /// Returns the number of tokens that must run as finished text before a block can be filled.
    fn unread(&self, seq: &SeqState) -> usize {
        self.shape.start(seq.tokens.len()) - seq.kv_len
    }

    /// Plans finished text. The next token is sampled autoregressively if a block would start with a mask
    /// that no row predicts.
    fn plan_text(&self, seq: &SeqState, budget: usize) -> Plan {
        let mut run = self.unread(seq).min(budget);
        if !self.shape.causal {
            run -= run % self.shape.len;
        }
        let pending = seq.pending();
        let samples = self.shape.shift && run == pending.len();
        let scored = if samples { vec![run - 1] } else { Vec::new() };
        let plan = Plan::causal(seq.kv_len, pending[..run].to_vec(), scored);
        Plan { visibility: self.shape.context(), ..plan }
    }

    fn plan_block(&self, block: &Block) -> Plan {
        let part = block.part();
        // If the sub-block's first token is known, its own rows predict all of its masks.
        let only_part = self.params.reuse
            && self.has_block_kv
            && !part.is_empty()
            && !block.is_mask(part.start)
            && !self.edits();
        let rows = if only_part { part } else { 0..block.tokens.len() };
        let scored =
            self.predicted(block).iter().map(|&at| self.shape.row_of(at) - rows.start).collect();
        Plan {
            start: block.start + rows.start,
            tokens: block.tokens[rows].to_vec(),
            visibility: Visibility::Until(block.end()),
            scored,
            scoring: Some(Scoring::All),
        }
    }

    fn edits(&self) -> bool {
        matches!(self.params.rule, UnmaskRule::Edit { .. })
    }

    /// Returns the places of the block whose logits the rule needs.
    fn predicted(&self, block: &Block) -> Vec<usize> {
        let masks = block.masks();
        if !self.edits() {
            return masks;
        }
        block.open().filter(|at| !block.is_mask(*at) || masks.contains(at)).collect()
    }

    /// Returns how many predictions must be kept for the sub-block to be full after `steps` passes.
    fn min_kept(&self, masks: usize, passes: usize) -> usize {
        match self.params.steps {
            None => 1,
            Some(steps) => masks.div_ceil(steps.saturating_sub(passes).max(1)),
        }
    }

    /// Writes the predictions that the rule keeps. Returns `true` if the block changed.
    fn write(&self, block: &mut Block, mut predicted: Vec<(usize, Prediction)>) -> bool {
        let mut changed = false;
        if let UnmaskRule::Edit { edit, .. } = self.params.rule {
            let is_edit = |(at, prediction): &mut (usize, Prediction)| {
                !block.is_mask(*at)
                    && prediction.sampled.token != block.tokens[*at]
                    && prediction.confidence.probability > edit
            };
            let edits: Vec<_> = predicted.extract_if(.., is_edit).collect();
            predicted.retain(|(at, _)| block.is_mask(*at));
            changed = !edits.is_empty();
            edits.into_iter().for_each(|(at, edit)| block.write(at, edit.sampled));
        }
        let confidences: Vec<Confidence> = predicted.iter().map(|(_, p)| p.confidence).collect();
        let min_kept = self.min_kept(confidences.len(), block.passes);
        let kept = self.params.rule.keep(&confidences, block.passes, min_kept);
        let mut predicted: Vec<_> = predicted.into_iter().map(Some).collect();
        for index in kept {
            if let Some((at, prediction)) = predicted[index].take() {
                block.write(at, prediction.sampled);
                changed = true;
            }
        }
        changed
    }

    /// Absorbs a pass over the block.
    fn absorb_block(&mut self, pass: Pass<'_>) -> Option<Outcome> {
        self.has_block_kv = true;
        let mut block = self.block.take()?;
        let places = self.predicted(&block);
        let Pass { seq, mut rows, sampler, .. } = pass;
        let SeqState { prompt_len, max_len, .. } = *seq;
        let entropy = self.params.rule.needs_entropy();
        let mut predicted = Vec::with_capacity(places.len());
        for at in places {
            // Confidence needs all logits, and the plan asks for them.
            let Some(LogitsRow::All(row)) = rows.next_row() else { break };
            row[self.shape.mask as usize] = f32::NEG_INFINITY;
            let position = block.start + at;
            let prediction = sampler.predict(row, position, position - prompt_len, entropy)?;
            predicted.push((at, prediction));
        }
        let changed = self.write(&mut block, predicted);
        block.passes += 1;
        let was_full = block.masks().is_empty();
        block.next_part();

        let preview = if self.params.preview { block.preview() } else { Vec::new() };
        let mut outcome = Outcome { preview, ..Outcome::default() };
        let mut settled = block.is_full();
        if settled && self.edits() {
            self.edit_passes += usize::from(was_full);
            settled = !changed || self.edit_passes > MAX_EDIT_PASSES;
        }
        // An editing rule may still replace tokens before the end.
        let may_stop = !self.params.whole_blocks && !self.edits();
        let ends = || {
            let has_end = || block.finished().iter().any(|&token| sampler.ends(token));
            block.finished_end() >= max_len || has_end()
        };
        if settled || (may_stop && ends()) {
            outcome.commit = block.into_sampled();
            outcome.commit.iter().for_each(|sampled| sampler.commit(sampled.token));
        } else {
            self.block = Some(block);
        }
        Some(outcome)
    }
}

impl Decoder for BlockDecoder {
    fn demand(&self, seq: &SeqState) -> TokenDemand {
        match self.unread(seq) {
            0 => {
                let tokens = match &self.block {
                    Some(block) => self.plan_block(block).tokens.len(),
                    None => self.shape.len.min(seq.context_len - seq.kv_len),
                };
                TokenDemand { tokens, min_tokens: tokens, is_prefill: false }
            }
            tokens => {
                let min_tokens = if self.shape.causal { 1 } else { self.shape.len };
                let is_prefill = seq.kv_len < self.shape.start(seq.prompt_len);
                TokenDemand { tokens, min_tokens, is_prefill }
            }
        }
    }

    fn plan(&mut self, seq: &SeqState, budget: usize) -> Plan {
        if self.unread(seq) > 0 {
            return self.plan_text(seq, budget);
        }
        if self.block.is_none() {
            self.has_block_kv = false;
            self.edit_passes = 0;
            self.block = Some(Block::new(self.shape, &seq.tokens, seq.context_len));
        }
        let block = self.block.as_ref().expect("the block was just made");
        self.plan_block(block)
    }

    fn absorb(&mut self, pass: Pass<'_>) -> Option<Outcome> {
        if self.unread(pass.seq) == 0 {
            return self.absorb_block(pass);
        }
        let Pass { seq, plan, mut rows, sampler } = pass;
        let mut outcome = Outcome { keep: plan.tokens.len(), ..Outcome::default() };
        if let Some(row) = rows.next_row() {
            outcome.commit.push(sampler.sample(row, seq.tokens.len())?);
        }
        Some(outcome)
    }

    fn pages_released(&mut self) {
        self.has_block_kv = false;
        // The K/V of an earlier pass cannot be computed again, and going on without it would give other
        // tokens: the block starts over and comes to the same.
        if self.params.reuse {
            self.block = None;
        }
    }

    fn context(&self) -> Visibility {
        self.shape.context()
    }
}

#[cfg(test)]
mod tests {
    use wf_core::SamplingParams;
    use wf_model::{Logits, TokenId};

    use super::super::Rows;
    use super::*;
    use crate::output::{Limits, SampledToken};
    use crate::sample::Sampler;

    const EDIT: DiffusionParams = DiffusionParams {
        rule: UnmaskRule::Edit { mask: 0.7, edit: 0.5 },
        ..DiffusionParams::DEFAULT
    };

    #[test]
    fn a_block_that_reuses_kv_starts_over_when_its_pages_are_released() {
        let shape = BlockShape { mask: 3, len: 8, part_len: 4, shift: true, causal: true };
        let tokens = vec![1, 2];
        let (prompt_len, kv_len, max_len, context_len) = (2, 1, 20, 64);
        let mut sampler = Sampler::new(SamplingParams::default(), &Limits::default(), &tokens);
        let seq =
            &SeqState { tokens, prompt_len, kv_len, max_len, context_len, ..SeqState::default() };
        for (reuse, masks) in [(true, 7), (false, 6)] {
            let params = DiffusionParams { reuse, ..DiffusionParams::default() };
            let mut decoder = BlockDecoder::new(params, shape);
            let first = decoder.plan(seq, 8);
            let (mut logits, scored) = (Logits::new(4), first.scored.len());
            logits.resize(scored);
            let numbers = (0..scored * 4).map(|at| at as f32 / 9.0).collect::<Vec<_>>();
            logits.rows_mut(0, scored).copy_from_slice(&numbers);
            let (rows, sampler) = (Rows::new(&mut logits, 0, scored), &mut sampler);
            decoder.absorb(Pass { seq, plan: &first, rows, sampler }).unwrap();
            decoder.pages_released();
            let again = decoder.plan(seq, 8);
            assert_eq!(again.tokens.iter().filter(|&&token| token == 3).count(), masks);
        }
    }

    #[test]
    fn masks_and_written_tokens_have_thresholds_of_their_own() {
        let shape = BlockShape { mask: 9, len: 4, part_len: 4, shift: false, causal: true };
        let decoder = BlockDecoder::new(EDIT, shape);
        let mut block = Block::new(shape, &[1], 64);
        let mut write = |predicted: [(TokenId, f32); 4]| {
            let predicted = predicted.into_iter().enumerate().map(|(at, (token, probability))| {
                let sampled = SampledToken { token, logprobs: None };
                let confidence = Confidence { probability, entropy: 0.0 };
                (at, Prediction { sampled, confidence })
            });
            let changed = decoder.write(&mut block, predicted.collect());
            (changed, block.tokens.clone())
        };
        let filled = write([(1, 0.9), (2, 0.8), (3, 0.75), (4, 0.6)]);
        assert_eq!(filled, (true, vec![1, 2, 3, 9]), "0.6 is too little for a mask");
        let edited = write([(5, 0.6), (6, 0.4), (3, 0.9), (4, 0.8)]);
        assert_eq!(edited, (true, vec![5, 2, 3, 4]), "0.4 is too little for an edit");
        let same = write([(5, 0.9), (6, 0.4), (3, 0.9), (4, 0.9)]);
        assert_eq!(same, (false, vec![5, 2, 3, 4]));
    }

    #[test]
    fn edits_end_when_nothing_changes_or_after_a_number_of_passes() {
        let shape = BlockShape { mask: 3, len: 4, part_len: 4, shift: true, causal: true };
        let (tokens, prompt_len, kv_len, max_len, context_len) = (vec![1, 2], 2, 1, 20, 64);
        let seq =
            &SeqState { tokens, prompt_len, kv_len, max_len, context_len, ..SeqState::default() };
        // Predicts one token in all passes, or another one in each.
        for (tokens, expected) in [(1, 2), (2, MAX_EDIT_PASSES + 1)] {
            let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
            let mut sampler = Sampler::new(greedy, &Limits::default(), &seq.tokens);
            let mut decoder = BlockDecoder::new(EDIT, shape);
            let passes = (1..100).find(|pass| {
                let plan = &decoder.plan(seq, 8);
                let (mut logits, scored) = (Logits::new(4), plan.scored.len());
                logits.resize(scored);
                let rows = logits.rows_mut(0, scored);
                rows.fill(0.0);
                rows.iter_mut().skip(pass % tokens).step_by(4).for_each(|logit| *logit = 20.0);
                let (rows, sampler) = (Rows::new(&mut logits, 0, scored), &mut sampler);
                let outcome = decoder.absorb(Pass { seq, plan, rows, sampler }).unwrap();
                !outcome.commit.is_empty()
            });
            assert_eq!(passes, Some(expected));
        }
    }
}
