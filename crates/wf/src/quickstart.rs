//! The text that `wf` without arguments prints.

/// Three commands to try, and where to read on.
pub(crate) const TEXT: &str = "\
wf runs 1.58-bit language models on the CPU you have. A small one is built in, so try:

  wf chat                                       chat with it
  wf run \"Tell me a story about a dragon.\"      generate one response
  wf serve                                      start a chat page and an OpenAI-compatible API
                                                on http://127.0.0.1:30000

To use another model, name it first: wf chat bitnet-2b.gguf, or one from the Hugging Face Hub:
wf chat hf:microsoft/bitnet-b1.58-2B-4T. For all commands, see wf --help; for one, wf run --help.
";
