//! The flags of `wf verify`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::FileArgs;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Trits must be equal. Scales may differ by rounding to f16 if a file stores them so, and the embedding
by the rounding of its type; --exact allows neither. The exit code is 1 if the models differ.

Examples:
  wf verify checkpoint/ bitnet-2b.gguf                 is it the same model
  wf verify bitnet-2b.gguf copy.gguf --exact           equal to the last bit"
)]
pub(crate) struct VerifyArgs {
    /// First model
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,

    /// Second model
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,

    /// Require all values to be equal, without rounding
    #[arg(long, env = "WF_EXACT")]
    pub(crate) exact: bool,

    /// Number of threads [default: all cores]
    #[arg(long, short, env = "WF_THREADS", value_name = "N",
          value_parser = crate::args::parse_threads)]
    pub(crate) threads: Option<usize>,

    /// Print a JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}
