//! Overrides of the block layout that a model file declares.

use wf_model::{BlockDiffusion, MASK_TEXT, TokenId};
use wf_text::Tokenizer;

use crate::decode::UnsupportedMode;

/// Block layout given beside the file. Absent fields keep the file's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOverrides {
    /// Mask token.
    pub mask_token: Option<TokenId>,
    /// True if a row predicts the token after it, false if it predicts its own.
    pub token_shift: Option<bool>,
    /// True if finished text attends causally, false if it attends to its whole block.
    pub causal_context: Option<bool>,
}

impl BlockOverrides {
    /// Returns the block layout of a model whose file declares `own`. A model fills blocks if a mask token is
    /// named here, or if its vocabulary has one of the usual text.
    ///
    /// # Errors
    ///
    /// If the mask token does not exist, or none is known where one is needed.
    pub fn apply(
        &self,
        own: Option<BlockDiffusion>,
        tokenizer: &Tokenizer,
        vocab_len: usize,
    ) -> Result<Option<BlockDiffusion>, UnsupportedMode> {
        if let Some(mask) = self.mask_token.filter(|&mask| mask as usize >= vocab_len) {
            let last = vocab_len - 1;
            return Err(UnsupportedMode(format!(
                "mask token is {mask}: must be between 0 and {last}"
            )));
        }
        let in_vocabulary = || tokenizer.id_of(MASK_TEXT).filter(|&id| (id as usize) < vocab_len);
        let mask = self.mask_token.or(own.map(|own| own.mask_token)).or_else(in_vocabulary);
        let Some(mask_token) = mask else {
            if *self == Self::default() {
                return Ok(None);
            }
            return Err(UnsupportedMode(format!(
                "no mask token: the file declares none and the vocabulary has no {MASK_TEXT}; set it with \
                 --mask-token"
            )));
        };
        // Models with a mask token and no declaration are trained this way.
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
