//! Comparison with llama-cpp-python on the same shape and threads.
//!
//! Both have their model in memory and alternate, so that whatever slows the machine down affects
//! both.

mod file;
mod peer;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use wf_model::Forward;

use self::file::TemporaryFile;
use self::peer::Peer;
use super::network::Network;
use super::plan::{COMPARED_PROMPT, Plan};
use crate::stats::{Timing, timed};

/// Number of tokens to decode, which keeps the context short.
const STEPS: usize = 16;

const _: () = assert!(STEPS < COMPARED_PROMPT, "both fit into the positions");

/// Time for idle threads to stop spinning.
const UNTIL_ASLEEP: Duration = Duration::from_millis(100);

pub(super) struct Comparison {
    peer: Peer,
    tokens: [(&'static str, usize); 2],
}

impl Comparison {
    /// Starts `python` with a model of the shape of `network`.
    pub(super) fn start(python: &Path, network: &Network) -> Result<Self> {
        let positions = network.tokens.len();
        let tokens =
            [("decode", STEPS.min(positions - 1)), ("prefill", COMPARED_PROMPT.min(positions))];
        let mut peer = Peer::start(python)?;
        // The file is removed as soon as it is loaded.
        let model = &network.model;
        let file = TemporaryFile::write(model.network(), model.info(), &std::env::temp_dir())?;
        peer.load(file.path(), COMPARED_PROMPT + 1)?;
        Ok(Self { peer, tokens })
    }

    /// Measures all cases on the current number of threads of `network`.
    pub(super) fn run(&mut self, network: &mut Network, plan: &Plan) -> Result<Vec<Value>> {
        let cases = self.tokens;
        cases.into_iter().map(|(pass, tokens)| self.case(network, pass, tokens, plan)).collect()
    }

    fn case(
        &mut self,
        network: &mut Network,
        pass: &str,
        tokens: usize,
        plan: &Plan,
    ) -> Result<Value> {
        let threads = network.model.compute().threads();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first turn is a warm-up.
        for turn in 0..=plan.turns {
            let our_seconds = match pass {
                "decode" => network.decode_run(tokens),
                _ => timed(|| network.run_prompt(0..tokens)),
            };
            sleep(UNTIL_ASLEEP);
            let their_seconds = self.peer.seconds(pass, tokens, threads)?;
            sleep(UNTIL_ASLEEP);
            if turn > 0 {
                ours.push(our_seconds);
                theirs.push(their_seconds);
            }
        }
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect();
        let ratio = Timing::of(ratios);
        Ok(json!({
            "program": self.peer.name(),
            "encoding": file::ENCODING,
            "pass": pass,
            // Decoded from an empty context, or of the prompt.
            "tokens": tokens,
            "threads": threads,
            "ours_tok_s": Timing::of(ours).per_second(tokens),
            "theirs_tok_s": Timing::of(theirs).per_second(tokens),
            "ratio": ratio.seconds,
            "spread": ratio.spread,
        }))
    }
}
