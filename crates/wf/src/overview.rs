//! What `wf` says when it is told nothing.

use anyhow::Result;

use crate::report;

/// Three things to try, and where to read on.
pub(crate) const OVERVIEW: &str = "\
wf runs 1.58-bit language models on the CPU you have. A small one is inside, so try:

  wf chat                                       talk to it
  wf run \"Tell me a story about a dragon.\"      one answer, then back to the shell
  wf serve                                      a page and an OpenAI API on http://127.0.0.1:30000

A model of your own goes first: wf chat bitnet-2b.gguf, or one from the Hugging Face Hub:
wf chat hf:microsoft/bitnet-b1.58-2B-4T. All commands: wf --help. One of them: wf run --help.
";

/// Prints it.
pub(crate) fn overview() -> Result<()> {
    report::stream(OVERVIEW)
}
