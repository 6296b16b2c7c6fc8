//! `wf man`: manual pages, generated from the same text as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::output;

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf man | man -l -                             read the page of wf
  wf man man1                                   write wf.1, wf-run.1 and so on to man1/")]
pub(crate) struct ManArgs {
    /// Directory for the pages of all commands [default: print the page of wf]
    pub(crate) dir: Option<PathBuf>,
}

/// Prints or writes the pages of `command`.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.dir else { return output::bytes(&page(&command, "wf")?) };
    fs::create_dir_all(dir).with_context(|| format!("creating directory {}", dir.display()))?;
    let pages = write_pages(&command, "wf", dir)?;
    output::note(&format!("{} in {}", output::count(pages, "page"), dir.display()));
    Ok(())
}

/// Writes the pages of `command` and its subcommands. Returns their number.
fn write_pages(command: &Command, name: &str, dir: &Path) -> Result<usize> {
    let path = dir.join(format!("{name}.1"));
    output::write_file(&path, page(command, name)?)?;
    let mut pages = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages += write_pages(below, &format!("{name}-{}", below.get_name()), dir)?;
    }
    Ok(pages)
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    // Without the instruction set, so that a page is the same on every machine.
    let version = env!("CARGO_PKG_VERSION");
    let command = command.clone().version(version);
    Man::new(command).title(name).source(format!("wf {version}")).render(&mut page)?;
    Ok(page)
}
