//! Acceptance of diffusion, recorded pass by pass from the demo model.
//!
//! The number of masks that a pass fills depends on the training of a model, its time on the shape. With a
//! recording of the former, `replay.rs` measures the speed of diffusion on shapes that no one has
//! trained for it.

use std::collections::VecDeque;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use wf_engine::UnmaskRule;

/// Passes of a model that fills blocks of masks, for several prompts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trace {
    /// Threshold of the rule that kept predictions.
    pub(super) threshold: f32,
    pub(super) block_len: usize,
    pub(super) sub_block_len: usize,
    pub(super) completions: Vec<Completion>,
}

/// Passes that generated one completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Completion {
    pub(super) prompt_len: usize,
    /// Number of tokens of the completion.
    pub(super) tokens: usize,
    /// For each pass over a block, a character per predicted mask, from left to right.
    pub(super) passes: VecDeque<String>,
}

/// Character of a prediction that was kept. The others were predicted again by the next pass.
pub(super) const KEPT: char = '1';

impl Trace {
    /// Returns the recording of the demo model. `cargo test -p wf-lab record_the_trace -- --ignored`
    /// records it again.
    pub(super) fn of_demo() -> Result<Self> {
        let json = include_str!("../../data/demo-diffusion.json");
        serde_json::from_str(json).context("the built-in trace of diffusion")
    }

    pub(super) fn rule(&self) -> UnmaskRule {
        UnmaskRule::Threshold(self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use wf_engine::{
        DecodeMode, DiffusionParams, Event, Frontend, Limits, ModelSource, Request, RunOptions,
        TokenId, open_model,
    };

    use super::super::decode::{MAX_TOKENS, PROMPTS, input};
    use super::*;

    type Block = Vec<Option<TokenId>>;

    fn path(from_crate: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(from_crate)
    }

    /// Records the passes of the demo model.
    fn record() -> Trace {
        let source = ModelSource::Path(path("../wf/assets/demo.gguf"));
        let options = RunOptions { threads: 2, context_len: Some(256), ..RunOptions::default() };
        let opened = open_model(&source, &options, &mut |_| {}).unwrap();
        let own = opened.info.block_diffusion.unwrap();
        assert!(own.token_shift && own.causal_context, "a block starts with the last token");
        let UnmaskRule::Threshold(threshold) = UnmaskRule::default() else { unreachable!() };
        let block_len = own.block_len;
        let sub_block_len = own.sub_block_len.unwrap_or(block_len);
        let complete = |text: &&str| completion(&opened.frontend, text, block_len, sub_block_len);
        let completions = PROMPTS.iter().map(complete).collect();
        Trace { threshold, block_len, sub_block_len, completions }
    }

    fn completion(
        frontend: &Frontend,
        text: &str,
        block_len: usize,
        sub_block_len: usize,
    ) -> Completion {
        let prompt = frontend.text().prompt_ids(&input(frontend, text)).unwrap();
        let prompt_len = prompt.len();
        let params = DiffusionParams { preview: true, ..DiffusionParams::default() };
        let limits = Limits {
            max_tokens: MAX_TOKENS,
            stop_tokens: frontend.text().end_tokens.clone(),
            ..Limits::default()
        };
        let decode = DecodeMode::Diffusion(params);
        let request = Request { prompt, limits, decode, ..Request::default() };
        let mut events = frontend.engine().submit(request).unwrap();
        let (mut tokens, mut passes) = (0, VecDeque::new());
        let empty: Block = vec![None; block_len - 1];
        let mut before = empty.clone();
        while let Some(event) = events.next_blocking() {
            match event {
                Event::Preview(after) => {
                    passes.push_back(kept(&before, &after, sub_block_len));
                    before = after;
                }
                Event::Tokens { tokens: more, .. } => {
                    tokens += more.len();
                    before.clone_from(&empty);
                }
                _ => {}
            }
        }
        Completion { prompt_len, tokens, passes }
    }

    /// Compares the tokens after the first of a block before and after a pass.
    fn kept(before: &Block, after: &Block, sub_block_len: usize) -> String {
        let sub_block = |at: usize| (at + 1) / sub_block_len;
        let masks: Vec<_> = (0..before.len()).filter(|&at| before[at].is_none()).collect();
        let predicted = masks.iter().filter(|&&at| sub_block(at) == sub_block(masks[0]));
        predicted.map(|&at| if after[at].is_some() { KEPT } else { '0' }).collect()
    }

    #[test]
    fn the_trace_is_that_of_the_demo_model() {
        assert_eq!(record(), Trace::of_demo().unwrap());
    }

    #[test]
    #[ignore = "writes the file that the other test compares"]
    fn record_the_trace() {
        let json = serde_json::to_string_pretty(&record()).unwrap();
        std::fs::write(path("data/demo-diffusion.json"), json + "\n").unwrap();
    }
}
