//! `wf bench`: measures how fast this machine runs a network.

use std::io::IsTerminal;

use anyhow::Result;
use clap::Args as ClapArgs;
use wf_core::AttentionMode;
use wf_engine::ActivationSparsity;
use wf_lab::bench;

use crate::args::EngineArgs;
use crate::output::UsageError;
use crate::{demo, memory, open, output};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    after_help = "\
Without MODEL, --synthetic or --demo, random weights in the shape of BitNet b1.58 2B4T are measured:
nothing is downloaded, and the speed is that of the real model, because the speed of a kernel does
not depend on the values. With less than 4 GB of free memory, the demo model is measured instead.

--threads sets the maximum; 1, 2, 4 … threads are measured too. Close other programs first.

Examples:
  wf bench                             what this machine can do, in a few minutes
  wf bench --quick                     the same in less than a minute
  wf bench --synthetic llama3-8b       another shape
  wf bench bitnet-2b.gguf              a model file
  wf bench --decode                    speedups by diffusion, drafts and lookup
  wf bench --attention topk=64         decoding at long contexts, against dense attention
  wf bench --compare                   alternating with llama-cpp-python, if it is installed
  wf bench --price 0.17 --json         with the cost of a million tokens, as JSON"
)]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    pub(crate) bench: bench::BenchArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(crate) fn run(args: &BenchCommand) -> Result<()> {
    let flags = &args.bench;
    let source = |model: &Option<_>| model.as_deref().map(|m| open::source(Some(m))).transpose();
    let setup = bench::Setup {
        options: args.engine.options(),
        model: source(&flags.model)?,
        draft: source(&flags.draft)?,
        demo: demo::source(),
        free_bytes: memory::free(),
        progress: &|case| {
            if std::io::stderr().is_terminal() {
                output::note(&format!("measuring: {case}"));
            }
        },
    };
    if flags.decoding_modes {
        return output::report(&bench::measure_decoding(flags, &setup)?, flags.json);
    }
    let has_zeros = !matches!(setup.options.activation_sparsity, ActivationSparsity::Off);
    let others = flags.compare.is_some() || flags.plot.is_some() || flags.price.is_some();
    if has_zeros {
        if others || flags.prompts.is_some() || flags.sequences.is_some() {
            return Err(UsageError::new(
                "--activation-sparsity measures decoding at --contexts only: remove --compare, --plot, \
                 --price, --prompts and --sequences"
                    .to_owned(),
            )
            .into());
        }
        return output::report(&bench::measure_zeros(flags, &setup)?, flags.json);
    }
    if setup.options.attention != AttentionMode::Dense {
        if others || flags.prompts.is_some() || flags.sequences.is_some() {
            return Err(UsageError::new(
                "--attention measures decoding at --contexts only: remove --compare, --plot, \
                 --price, --prompts and --sequences"
                    .to_owned(),
            )
            .into());
        }
        return output::report(&bench::measure_attention(flags, &setup)?, flags.json);
    }
    let report = bench::measure(flags, &setup)?;
    if let Some(path) = &flags.plot {
        output::write_file(path, report.svg())?;
    }
    output::report(&report, flags.json)
}
