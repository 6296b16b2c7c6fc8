//! Logprobs of prompt tokens: which are still to be reported.

use crate::output::Logprobs;

/// Logprobs of the prompt tokens that are still to be reported.
#[derive(Clone, Copy)]
pub(crate) struct PromptLogprobs {
    /// Number of alternatives per token, if logprobs are requested.
    top: Option<usize>,
    /// Number of tokens reported. Each is reported once, however often it is computed.
    reported: usize,
}

impl PromptLogprobs {
    /// Reports logprobs with `top` alternatives per token, if requested.
    pub(crate) fn new(top: Option<usize>) -> Self {
        // Nothing precedes the first token, so it has no logprobs.
        Self { top, reported: 1 }
    }

    /// Returns the number of alternatives, while tokens are still to be reported.
    pub(crate) fn pending(self, prompt_len: usize) -> Option<usize> {
        self.top.filter(|_| self.reported < prompt_len)
    }

    /// Returns those logprobs of the tokens after `kv_len` that were not reported before.
    pub(crate) fn unreported(
        &mut self,
        mut logprobs: Vec<Logprobs>,
        kv_len: usize,
    ) -> Vec<Logprobs> {
        let known = self.reported.saturating_sub(kv_len + 1);
        logprobs.drain(..known.min(logprobs.len()));
        self.reported += logprobs.len();
        logprobs
    }
}
