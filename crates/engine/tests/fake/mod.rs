//! A model without weights, for tests of the engine.
//!
//! Its K/V of a position is the token at that position, and its logits are a hash of all tokens that the row
//! attends to, read back through the pages. A wrong page, a lost or stale token, a wrong position or a wrong
//! mask each change the output. Where only the best logits are requested, it computes no others.

#![allow(dead_code, reason = "not every test file uses all of it")]

use wf_core::Network;
use wf_formats::{BlockDiffusion, ModelInfo};
use wf_model::{
    AttentionMode, Forward, HiddenStates, Logits, LogitsRow, PAGE_LEN, Scoring, Segment, TokenId,
    TokenLogit, Window,
};

/// Model whose logits are hashes of the tokens it attends to.
pub(crate) struct FakeModel {
    network: Network,
    info: ModelInfo,
    slots: Vec<Option<TokenId>>,
    /// Hash of what each token of the last pass attended to.
    seen: Vec<u64>,
    max_batch_tokens: usize,
    computes_all_logits: bool,
    attention: AttentionMode,
}

impl FakeModel {
    /// Creates a model with a vocabulary of `vocab_len` tokens, `pages` pages and steps of at most
    /// `max_batch_tokens` tokens.
    pub(crate) fn new(vocab_len: usize, pages: usize, max_batch_tokens: usize) -> Self {
        let network = Network { vocab_len, hidden_len: 4, ..Network::default() };
        let info = ModelInfo { context_len: 4096, ..ModelInfo::default() };
        let slots = vec![None; pages * PAGE_LEN];
        Self {
            network,
            info,
            slots,
            seen: Vec::new(),
            max_batch_tokens,
            computes_all_logits: false,
            attention: AttentionMode::Dense,
        }
    }

    /// Makes it a model that fills blocks of masks.
    pub(crate) fn with_blocks(mut self, blocks: BlockDiffusion) -> Self {
        self.info.block_diffusion = Some(blocks);
        self
    }

    /// Computes all logits, even if only the best are requested.
    pub(crate) fn with_all_logits(mut self) -> Self {
        self.computes_all_logits = true;
        self
    }

    /// Sees positions through a window.
    pub(crate) fn with_window(mut self, window: Window) -> Self {
        self.attention = AttentionMode::Window(window);
        self
    }

    fn slot(segment: &Segment<'_>, position: usize) -> usize {
        segment.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN
    }

    /// Hashes the position of a token and all tokens it attends to.
    fn look(&self, segment: &Segment<'_>, token: usize) -> u64 {
        let position = segment.start + token;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ position as u64;
        let visible = segment.visibility.visible(position, segment.end());
        let (sinks, first) = match self.attention.window() {
            Some(window) if visible > window.positions() => (window.sinks, window.first(visible)),
            _ => (0, 0),
        };
        for seen in (0..sinks).chain(first..visible) {
            let token = self.slots[Self::slot(segment, seen)].expect("a seen position was written");
            hash = (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        hash
    }

    /// Writes the logits of scored token `at` of a segment: of the tokens it needs, or of all.
    fn score(&self, segment: &Segment<'_>, at: usize, logits: &mut Logits, row: usize) {
        let mut all = vec![0.0; self.network.vocab_len];
        numbers(self.look(segment, segment.scored[at]), &mut all);
        let query = segment.draws.get(at);
        let words = segment.allowed.len() / segment.scored.len();
        let allowed = &segment.allowed[at * words..][..words];
        for (token, logit) in all.iter_mut().enumerate() {
            if !allowed.is_empty() && allowed[token / 32] >> (token % 32) & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
        let rows = all.iter().zip(0..).map(|(&logit, token)| TokenLogit { token, logit });
        let is_adjusted = |row: &TokenLogit| {
            query.is_some_and(|query| query.adjustments.iter().any(|a| a.token == row.token))
        };
        let mut needed: Vec<TokenLogit> = match (segment.scoring, query) {
            (Scoring::Top(k), _) if !self.computes_all_logits => {
                let (adjusted, mut others): (Vec<_>, Vec<_>) = rows.partition(is_adjusted);
                others.sort_unstable_by(TokenLogit::rank);
                others.truncate(k);
                [adjusted, others].concat()
            }
            (Scoring::Draw, Some(query)) if !self.computes_all_logits => {
                let drawn = query.token(LogitsRow::All(&mut all.clone()), &mut Vec::new());
                rows.filter(|row| Some(row.token) == drawn).collect()
            }
            _ => return logits.rows_mut(row, 1).copy_from_slice(&all),
        };
        needed.sort_unstable_by_key(|row| row.token);
        logits.some_mut(row, 1)[0] = needed;
    }
}

/// Derives numbers between 0 and 8 from a hash.
fn numbers(hash: u64, row: &mut [f32]) {
    for (number, at) in row.iter_mut().zip(0u64..) {
        let mixed =
            (hash ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *number = (mixed >> 40) as f32 * (8.0 / (1u64 << 24) as f32);
    }
}

impl Forward for FakeModel {
    fn network(&self) -> &Network {
        &self.network
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn max_batch_tokens(&self) -> usize {
        self.max_batch_tokens
    }

    fn attention(&self) -> AttentionMode {
        self.attention
    }

    fn pages(&self) -> usize {
        self.slots.len() / PAGE_LEN
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        let tokens: usize = batch.iter().map(|segment| segment.tokens.len()).sum();
        assert!(tokens <= self.max_batch_tokens, "a step of {tokens} tokens");
        for segment in batch {
            for (at, &token) in segment.tokens.iter().enumerate() {
                assert!((token as usize) < self.network.vocab_len);
                self.slots[Self::slot(segment, segment.start + at)] = Some(token);
            }
        }
        let looks = |segment: &Segment<'_>| {
            (0..segment.tokens.len()).map(|token| self.look(segment, token)).collect::<Vec<_>>()
        };
        self.seen = batch.iter().flat_map(looks).collect();
        logits.resize(batch.iter().map(|segment| segment.scored.len()).sum());
        let mut row = 0;
        for segment in batch {
            for at in 0..segment.scored.len() {
                self.score(segment, at, logits, row);
                row += 1;
            }
        }
        self
    }
}

impl HiddenStates for FakeModel {
    fn read(&self, token: usize, out: &mut [f32]) {
        numbers(self.seen[token], out);
    }
}
