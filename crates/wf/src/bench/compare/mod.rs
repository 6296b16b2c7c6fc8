//! `--compare`: another program on the same shape and the same threads, in turn with ours.
//!
//! Both have their model in memory and wait while the other one works, so whatever slows the machine
//! down for a while slows both.

mod file;
mod other;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use wf_model::Forward;

use self::file::TemporaryFile;
use self::other::Other;
use super::network::Network;
use super::plan::Plan;
use super::stats::Timing;

/// One case of both.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    /// The other program, with its version.
    pub(super) program: String,
    /// How its weights are encoded.
    pub(super) encoding: &'static str,
    /// `decode` or `prefill`.
    pub(super) pass: &'static str,
    /// Tokens decoded from the start of a context on, or of the prompt.
    pub(super) tokens: usize,
    pub(super) threads: usize,
    pub(super) ours_tok_s: f64,
    pub(super) theirs_tok_s: f64,
    /// How many times as fast we are: the median of all turns.
    pub(super) ratio: f64,
    /// Of the ratio.
    pub(super) spread: Option<f64>,
}

/// Tokens of a decode: enough for its pace, and few enough for a context that is still short.
const STEPS: usize = 16;

/// Tokens of a prefill.
const PROMPT: usize = 128;
const _: () = assert!(STEPS < PROMPT, "both fit into the positions");

/// Positions that both need.
pub(super) const POSITIONS: usize = PROMPT + 1;

/// Threads that have nothing to do any more may still be looking for work for a while.
const UNTIL_ASLEEP: Duration = Duration::from_millis(100);

/// The other program, ready.
pub(super) struct Comparison {
    other: Other,
    tokens: [(&'static str, usize); 2],
}

impl Comparison {
    /// Has `python` load a model of the shape of `network`.
    pub(super) fn start(python: &Path, network: &Network) -> Result<Self> {
        let positions = network.positions();
        let tokens = [("decode", STEPS.min(positions - 1)), ("prefill", PROMPT.min(positions))];
        let mut other = Other::start(python)?;
        // Once it is loaded, the file has no need of its name, and nothing is left behind.
        let file = TemporaryFile::write(network.model().config(), &std::env::temp_dir())?;
        other.load(file.path(), POSITIONS)?;
        Ok(Self { other, tokens })
    }

    /// All cases on as many threads as `network` has now.
    pub(super) fn run(&mut self, network: &mut Network, plan: &Plan) -> Result<Vec<Compared>> {
        let cases = self.tokens;
        cases.into_iter().map(|(pass, tokens)| self.case(network, pass, tokens, plan)).collect()
    }

    fn case(
        &mut self,
        network: &mut Network,
        pass: &'static str,
        tokens: usize,
        plan: &Plan,
    ) -> Result<Compared> {
        let threads = network.model().compute().threads();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first turn warms both up and does not count.
        for turn in 0..=plan.turns {
            let our_seconds = match pass {
                "decode" => network.decode_run(tokens),
                _ => network.prefill_run(tokens),
            };
            sleep(UNTIL_ASLEEP);
            let their_seconds = self.other.seconds(pass, tokens, threads)?;
            sleep(UNTIL_ASLEEP);
            if turn > 0 {
                ours.push(our_seconds);
                theirs.push(their_seconds);
            }
        }
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs / ours).collect();
        let ratio = Timing::of(ratios);
        Ok(Compared {
            program: self.other.name(),
            encoding: file::ENCODING,
            pass,
            tokens,
            threads,
            ours_tok_s: Timing::of(ours).per_second(tokens),
            theirs_tok_s: Timing::of(theirs).per_second(tokens),
            ratio: ratio.seconds,
            spread: ratio.spread,
        })
    }
}
