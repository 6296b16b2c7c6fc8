//! The flags of `wf chat`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::{ComputeArgs, DecodingArgs, FileArgs, HeadArgs, SamplingArgs};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    override_usage = "wf chat [OPTIONS] [MODEL]\n       wf chat [OPTIONS] --url <URL> [MODEL]",
    after_help = "\
A line is a message, and /help lists the commands. A line that ends with \\ goes on in the next one,
and so does everything between two lines of \"\"\". Ctrl-C stops an answer, Ctrl-D leaves.

Where input or output is no terminal, every line of the input is a message (or a command), the
answers are all that is printed, and the first error ends the program with exit code 1.

Examples:
  wf chat                                       with the built-in demo model
  wf chat bitnet-2b.gguf --temperature 0.7      with a model of your own
  wf chat --url http://127.0.0.1:30000          with a server that speaks OpenAI's API
  printf 'hello\\n' | wf chat                    as part of a script"
)]
pub(crate) struct ChatArgs {
    /// The model [default: the built-in demo]; with --url, what the server calls it [default: its
    /// first]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// A system message before the conversation
    #[arg(long, env = "WF_SYSTEM", value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Go on with a conversation that /save has written
    #[arg(long, env = "WF_LOAD", value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// Where the lines you typed are kept [default: wrinklefree/chat-history in XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, env = "WF_HISTORY", value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,

    /// Keep none of them
    #[arg(long, env = "WF_NO_HISTORY")]
    pub(crate) no_history: bool,

    #[command(flatten)]
    pub(crate) server: RemoteArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,

    /// The arguments that the line or the environment gave, by their ids. A server is told those
    /// settings alone, and its own hold for the others.
    #[arg(skip)]
    pub(crate) given: Vec<String>,
}

/// A server to chat with.
#[derive(ClapArgs)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteArgs {
    /// Chat with the server at http://host:port or unix:/path/to/socket; settings that are not given
    /// are the server's
    #[arg(long, env = "WF_URL", value_name = "URL")]
    pub(crate) url: Option<String>,

    /// A key, if the server wants one [default: OPENAI_API_KEY]. Other users of this machine can see
    /// flags: prefer the variable or the file
    #[arg(long, env = "WF_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// A file whose first line is the key
    #[arg(long, env = "WF_API_KEY_FILE", value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
}
