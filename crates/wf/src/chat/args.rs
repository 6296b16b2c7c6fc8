//! The flags of `wf chat`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::{DecodingArgs, EngineArgs, SamplingArgs};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    override_usage = "wf chat [OPTIONS] [MODEL]\n       wf chat [OPTIONS] --url <URL> [MODEL]",
    after_help = "\
Each line is a message; /help lists the commands. A line that ends with \\ continues on the next, and
so does text between two lines of \"\"\". Ctrl-C stops a response, Ctrl-D quits.

If input or output is not a terminal, every line of the input is a message or a command, only the
responses are printed, and the first error ends the program with exit code 1.

Examples:
  wf chat                                       with the built-in demo model
  wf chat bitnet-2b.gguf --temperature 0.7      with another model
  wf chat --url http://127.0.0.1:30000          with a server that has an OpenAI-compatible API
  printf 'hello\\n' | wf chat                    in a script"
)]
pub(crate) struct ChatArgs {
    /// Model [default: the built-in demo]; with --url, its name on the server [default: the first]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// System message
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Continue a conversation written by /save
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// File for the input history [default: wrinklefree/chat-history in XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,

    /// Do not store the input history
    #[arg(long)]
    pub(crate) no_history: bool,

    #[command(flatten)]
    pub(crate) server: RemoteArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    /// Ids of the arguments set by flags or variables. Only these are sent to a server, whose own
    /// defaults apply to the others.
    #[arg(skip)]
    pub(crate) given: Vec<String>,
}

#[derive(ClapArgs)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteArgs {
    /// Chat with the server at http://host:port or unix:/path/to/socket; its defaults apply to options
    /// that are not set
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// API key, if the server requires one [default: OPENAI_API_KEY]. Other users of this machine can
    /// see flags: prefer the variable or --api-key-file
    #[arg(long, value_name = "KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// File with the API key on its first line
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
}
