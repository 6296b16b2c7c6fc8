//! A model without weights, for tests of everything above it.
//!
//! Its K/V of a position is the token that was there, and its scores are a hash of all tokens the
//! row sees, read back through the pages. So a wrong page, a lost or stale token, a wrong position
//! or a wrong mask each change what it says. Where only the best scores are asked for, it gives no
//! other.

use wf_formats::{Activation, BlockDiffusion, ExtraNorms, ModelConfig, RotaryPairs};
use wf_model::{Forward, Logits, PAGE_LEN, Scoring, Segment, TokenId};

/// See the module's page.
pub struct FakeModel {
    config: ModelConfig,
    slots: Vec<Option<TokenId>>,
    /// What each token of the last pass saw.
    seen: Vec<u64>,
    max_batch_tokens: usize,
    gives_every_score: bool,
}

impl FakeModel {
    /// A vocabulary of `vocab_len` tokens, `pages` pages, steps of at most `max_batch_tokens`.
    pub fn new(vocab_len: usize, pages: usize, max_batch_tokens: usize) -> Self {
        let config = ModelConfig {
            architecture: "fake".into(),
            name: Some("fake".into()),
            vocab_len,
            hidden_len: 4,
            ffn_len: 1,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            context_len: 4096,
            rope_theta: 10_000.0,
            rotary_pairs: RotaryPairs::Halves,
            norm_eps: 1e-5,
            activation: Activation::Relu2,
            sub_norms: false,
            tied_head: true,
            bos: None,
            eos: Vec::new(),
            block_diffusion: None,
            extra_norms: ExtraNorms::default(),
            scaled_embedding: false,
            pooling: None,
        };
        let slots = vec![None; pages * PAGE_LEN];
        Self { config, slots, seen: Vec::new(), max_batch_tokens, gives_every_score: false }
    }

    /// Fills blocks of masks.
    pub fn with_blocks(mut self, blocks: BlockDiffusion) -> Self {
        self.config.block_diffusion = Some(blocks);
        self
    }

    /// Also those that were not asked for.
    pub fn with_every_score(mut self) -> Self {
        self.gives_every_score = true;
        self
    }

    fn slot(segment: &Segment<'_>, position: usize) -> usize {
        segment.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN
    }

    /// A hash of where a token stands and of all it sees.
    fn look(&self, segment: &Segment<'_>, token: usize) -> u64 {
        let position = segment.start + token;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ position as u64;
        for seen in 0..segment.sees.visible(position, segment.end()) {
            let token = self.slots[Self::slot(segment, seen)].expect("a seen position was written");
            hash = (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        hash
    }

    fn score(&self, segment: &Segment<'_>, want: usize, row: &mut [f32]) {
        numbers(self.look(segment, want), row);
        if let Scoring::Top(k) = segment.scoring
            && !self.gives_every_score
            && k < row.len()
        {
            let mut sorted = row.to_vec();
            let floor = *sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1;
            row.iter_mut().filter(|score| **score < floor).for_each(|s| *s = f32::NEG_INFINITY);
        }
    }
}

/// Numbers from 0 to 8 that a hash stands for.
fn numbers(hash: u64, row: &mut [f32]) {
    for (number, at) in row.iter_mut().zip(0u64..) {
        let mixed =
            (hash ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *number = (mixed >> 40) as f32 * (8.0 / (1u64 << 24) as f32);
    }
}

impl Forward for FakeModel {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn max_batch_tokens(&self) -> usize {
        self.max_batch_tokens
    }

    fn pages(&self) -> usize {
        self.slots.len() / PAGE_LEN
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        let tokens: usize = batch.iter().map(|segment| segment.tokens.len()).sum();
        assert!(tokens <= self.max_batch_tokens, "a step of {tokens} tokens");
        for segment in batch {
            for (at, &token) in segment.tokens.iter().enumerate() {
                assert!((token as usize) < self.config.vocab_len);
                self.slots[Self::slot(segment, segment.start + at)] = Some(token);
            }
        }
        let looks = |segment: &Segment<'_>| {
            (0..segment.tokens.len()).map(|token| self.look(segment, token)).collect::<Vec<_>>()
        };
        self.seen = batch.iter().flat_map(looks).collect();
        logits.resize(batch.iter().map(|segment| segment.want.len()).sum());
        let mut row = 0;
        for segment in batch {
            for &want in segment.want {
                self.score(segment, want, logits.rows_mut(row, 1));
                row += 1;
            }
        }
    }

    fn hidden_state(&self, token: usize, out: &mut [f32]) {
        numbers(self.seen[token], out);
    }
}
