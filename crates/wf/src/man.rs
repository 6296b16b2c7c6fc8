//! `wf man`: a manual page for each command, made from the same words as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::{environment, report};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf man | man -l -                             read the page of wf itself
  wf man man1                                   write wf.1, wf-run.1, wf-chat.1 and so on to man1/")]
pub(crate) struct ManArgs {
    /// Write the pages of all commands to this folder [default: print that of wf]
    pub(crate) dir: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let mut command = environment::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.dir else { return report::bytes(&page(&command, "wf")?) };
    fs::create_dir_all(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    let pages = write_pages(&command, "wf", dir)?;
    report::note(&format!("{} in {}", report::count(pages, "page"), dir.display()));
    Ok(())
}

/// Writes the page of `command` and of those below it; gives how many.
fn write_pages(command: &Command, name: &str, dir: &Path) -> Result<usize> {
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, page(command, name)?)
        .with_context(|| format!("writing {}", path.display()))?;
    let mut pages = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages += write_pages(below, &format!("{name}-{}", below.get_name()), dir)?;
    }
    Ok(pages)
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    // A page is the same on every machine: no instruction set in its foot.
    let version = env!("CARGO_PKG_VERSION");
    let command = command.clone().version(version);
    Man::new(command).title(name).source(format!("wf {version}")).render(&mut page)?;
    Ok(page)
}
