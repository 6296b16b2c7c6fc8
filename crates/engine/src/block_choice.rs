//! How a model fills blocks, where its file does not say or says it wrongly.

use wf_model::{BlockDiffusion, MASK_TEXT, TokenId};
use wf_text::Tokenizer;

use crate::decode::Unsupported;

/// What is known of blocks beside the file. Whatever is not set is the file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockChoice {
    /// The token that stands for "not yet known".
    pub mask_token: Option<TokenId>,
    /// Whether a row scores the token after it (and not its own).
    pub token_shift: Option<bool>,
    /// Whether finished text sees what is before it (and not its whole block).
    pub causal_context: Option<bool>,
}

impl BlockChoice {
    /// What holds for a model whose file says `own`. A mask token that is named here, or that the
    /// vocabulary has by its usual text, makes a model one that fills blocks.
    ///
    /// # Errors
    ///
    /// A mask token that does not exist, or none where one is needed.
    pub fn apply(
        &self,
        own: Option<BlockDiffusion>,
        tokenizer: &Tokenizer,
        vocab_len: usize,
    ) -> Result<Option<BlockDiffusion>, Unsupported> {
        if let Some(mask) = self.mask_token.filter(|&mask| mask as usize >= vocab_len) {
            let last = vocab_len - 1;
            return Err(Unsupported(format!("mask token {mask} does not exist: 0 to {last} do")));
        }
        let in_vocabulary = || tokenizer.id_of(MASK_TEXT).filter(|&id| (id as usize) < vocab_len);
        let mask = self.mask_token.or(own.map(|own| own.mask_token)).or_else(in_vocabulary);
        let Some(mask_token) = mask else {
            if *self == Self::default() {
                return Ok(None);
            }
            return Err(Unsupported(format!(
                "no mask token: the file names none and the vocabulary has no {MASK_TEXT}; name it with --mask-token"
            )));
        };
        // As those trainers do it: blocks of 32 on a model whose attention stays causal.
        let own = own.unwrap_or(BlockDiffusion {
            mask_token,
            block_len: 32,
            sub_block_len: Some(8),
            token_shift: true,
            causal_context: true,
        });
        Ok(Some(BlockDiffusion {
            mask_token,
            token_shift: self.token_shift.unwrap_or(own.token_shift),
            causal_context: self.causal_context.unwrap_or(own.causal_context),
            ..own
        }))
    }
}
