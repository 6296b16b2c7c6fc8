//! Flags of the prefix cache on disk.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wf_engine::DiskCacheOptions;

use super::numbers::parse_size;

#[derive(ClapArgs)]
#[command(next_help_heading = "Prefix cache on disk")]
pub(crate) struct DiskCacheArgs {
    /// Keep the K/V cache of prompts and responses in DIR: after a restart, a prompt that begins like an
    /// earlier one starts where that ends. The same tokens; whoever can read DIR can find out prompts
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,

    /// Maximum size of DIR; pages that were not used for the longest time leave first
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4G",
        requires = "cache_dir",
        value_parser = parse_size
    )]
    pub(crate) cache_size: usize,
}

impl DiskCacheArgs {
    /// Returns the options, if there is a directory. `report` gets faults of the disk.
    pub(crate) fn options(&self, report: fn(&str)) -> Option<DiskCacheOptions> {
        let dir = self.cache_dir.clone()?;
        Some(DiskCacheOptions { dir, max_bytes: self.cache_size as u64, report })
    }
}
