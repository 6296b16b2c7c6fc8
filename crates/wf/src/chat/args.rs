//! The flags of `wf chat`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::{DecodingArgs, DiskCacheArgs, EngineArgs, RemoteArgs, SamplingArgs};

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
    /// Model [default: WF_MODEL, or the built-in demo]; with --url, its name on the server [default: the
    /// first]
    pub(crate) model: Option<PathBuf>,

    /// Model
    #[arg(long = "model", short = 'm', alias = "model-path", value_name = "MODEL", hide = true)]
    pub(crate) model_flag: Option<PathBuf>,

    /// System message
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Continue a conversation written by /save; with --cache-dir, the model does not read again what it has
    /// read before
    #[arg(long, visible_alias = "resume", value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// File for the input history [default: wrinklefree/chat-history in XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,

    /// Do not store the input history
    #[arg(long)]
    pub(crate) no_history: bool,

    /// MCP server whose tools the model may call: a command with its arguments, which speaks MCP over its
    /// standard input and output; can be repeated
    // No variable: that of `wf serve` has URLs.
    #[arg(long = "mcp-server", value_name = "COMMAND")]
    pub(crate) mcp_command: Vec<String>,

    /// Call tools without asking
    #[arg(long)]
    pub(crate) mcp_allow: bool,

    #[command(flatten)]
    pub(crate) server: RemoteArgs,
    #[command(
        flatten,
        next_help_heading = "Sampling [default: what the model recommends; with --url, the server's]"
    )]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) disk_cache: DiskCacheArgs,

    /// Ids of the arguments set by flags or variables. Only these are sent to a server, whose own
    /// defaults apply to the others.
    #[arg(skip)]
    pub(crate) given: Vec<String>,
}
