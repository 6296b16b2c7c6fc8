//! Adjustments of logits before the draw: bias, penalties, and tokens that are ruled out.

use wf_core::TokenId;
use wf_model::Adjustment;

use super::Sampler;

impl Sampler {
    /// Returns the tokens that may not come next: stop tokens before `min_tokens`, and tokens that would begin an
    /// answer outside of its grammar.
    fn forbidden(&self, index: usize, drafted: &[TokenId]) -> Vec<TokenId> {
        let stops = if index < self.min_tokens { &self.stop_tokens[..] } else { &[] };
        let thinking = self.thinking.as_ref().filter(|_| self.grammar.is_some());
        let overhanging = thinking.map_or(&[][..], |thinking| thinking.overhanging(drafted));
        [stops, overhanging].concat()
    }

    /// Returns bias and penalties, by token.
    pub(super) fn adjustments(&self, index: usize, drafted: &[TokenId]) -> Vec<Adjustment> {
        let p = &self.params;
        let mut tokens: Vec<TokenId> = p.logit_bias.iter().map(|&(token, _)| token).collect();
        if p.penalizes() {
            tokens.extend(self.penalized.tokens(drafted));
        }
        let forbidden = self.forbidden(index, drafted);
        tokens.extend(&forbidden);
        tokens.sort_unstable();
        tokens.dedup();
        let adjustment = |token: TokenId| {
            let biases = p.logit_bias.iter().filter(|bias| bias.0 == token);
            let bias = biases.fold(0.0, |sum, bias| sum + bias.1);
            let bias = if forbidden.contains(&token) { f32::NEG_INFINITY } else { bias };
            match self.penalized.times(token, drafted) {
                Some(times) if p.penalizes() => Adjustment {
                    token,
                    bias,
                    repetition: p.repetition_penalty,
                    penalty: match times {
                        0 => 0.0,
                        _ => p.presence_penalty + p.frequency_penalty * times as f32,
                    },
                },
                _ => Adjustment { bias, ..Adjustment::none(token) },
            }
        };
        tokens.into_iter().map(adjustment).collect()
    }
}
