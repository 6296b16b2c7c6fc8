//! Checks before loading that a model fits into memory.
//!
//! Linux kills a program rather than refusing it memory. Without this check, a model that is too large
//! ends in `Killed` without a reason.

use std::fs::read_to_string;
use std::path::Path;

use anyhow::{Result, bail};
use wf_engine::{KvCapacity, RunOptions};
use wf_formats::{Encoding, ModelFile};
use wf_model::{KvPool, PAGE_LEN};

/// Minimum memory of a model, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    weights: usize,
    /// K/V cache of the tokens.
    kv: usize,
    tokens: usize,
}

/// Returns an error if a model and its draft model cannot fit into the available memory.
pub(crate) fn check(
    file: &ModelFile,
    draft: Option<&ModelFile>,
    options: &RunOptions,
) -> Result<()> {
    let mut need = Need::of(file, options);
    if let Some(draft) = draft.map(|draft| Need::of(draft, options)) {
        need.weights = need.weights.saturating_add(draft.weights);
        need.kv = need.kv.saturating_add(draft.kv);
    }
    match available() {
        Some(available) => compare(need, available),
        None => Ok(()),
    }
}

impl Need {
    /// Returns a lower bound, so that no model that fits is rejected.
    fn of(file: &ModelFile, options: &RunOptions) -> Self {
        let weights = file.tensors().iter().map(|tensor| match tensor.encoding {
            Encoding::Float(_) => usize::try_from(tensor.size).unwrap_or(usize::MAX),
            // Five trits per byte is the smallest layout.
            _ => tensor.rows * tensor.cols / 5,
        });
        let network = file.network();
        let context_len = options.context_len.unwrap_or(file.info().context_len);
        let size_bytes = |pages| KvPool::size_bytes(network, options.kv, pages);
        let one_context = context_len.div_ceil(PAGE_LEN);
        let kv = match options.kv_capacity {
            KvCapacity::Bytes(bytes) => bytes,
            // Fewer contexts are used if memory is short.
            KvCapacity::Contexts { .. } => size_bytes(one_context),
        };
        Self { weights: weights.fold(0, usize::saturating_add), kv, tokens: context_len }
    }
}

/// Returns an error that says how much is missing and what to do.
fn compare(need: Need, available: usize) -> Result<()> {
    let total = need.weights.saturating_add(need.kv);
    if total <= available {
        return Ok(());
    }
    let gigabytes = |bytes: usize| format!("{:.1} GB", bytes as f64 / 1e9);
    let remedy = match available.checked_sub(need.weights) {
        // Half of what is left, rounded.
        Some(left) if left / 2 >= need.kv / need.tokens.max(1) * 64 => {
            let fits = (left / 2) / (need.kv / need.tokens.max(1)).max(1) / 64 * 64;
            format!("--context {fits} fits, and --kv int8 needs a quarter for the K/V cache")
        }
        _ => "close other programs, or use a smaller model".to_owned(),
    };
    bail!(
        "not enough memory: weights need {}, the K/V cache of {} tokens needs {}, and {} are free: {remedy}",
        gigabytes(need.weights),
        need.tokens,
        gigabytes(need.kv),
        gigabytes(available),
    )
}

/// Returns the bytes this process can still allocate, swap included: the minimum of those of the
/// machine and of the container. `None` where the system does not tell.
fn available() -> Option<usize> {
    let meminfo = read_to_string("/proc/meminfo").ok()?;
    let of_machine =
        field(&meminfo, "MemAvailable:")?.saturating_add(field(&meminfo, "SwapFree:")?);
    Some(of_container().map_or(of_machine, |container| container.min(of_machine)))
}

/// Returns room for four full contexts, or half of the free memory: most requests are short.
pub(crate) fn kv_capacity() -> KvCapacity {
    KvCapacity::Contexts { count: 4, max_bytes: free().map(|free| free / 2) }
}

/// Returns the free memory without swap, in bytes.
pub(crate) fn free() -> Option<usize> {
    let free = field(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(of_container().map_or(free, |container| container.min(free)))
}

/// Files of a cgroup in the versions 2 and 1: directory, limit, use, and the field of the page cache in `memory.stat`.
const CGROUPS: [[&str; 4]; 2] = [
    ["", "memory.max", "memory.current", "file "],
    ["memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache "],
];

fn of_container() -> Option<usize> {
    of_cgroup(Path::new("/sys/fs/cgroup"))
}

/// Returns the memory that the limit of a cgroup leaves free.
fn of_cgroup(root: &Path) -> Option<usize> {
    CGROUPS.iter().find_map(|[directory, limit, used, cached]| {
        let directory = root.join(directory);
        let number = |name: &str| -> Option<usize> {
            read_to_string(directory.join(name)).ok()?.trim().parse().ok()
        };
        // The page cache can be reclaimed.
        let cached = read_to_string(directory.join("memory.stat")).ok().and_then(|stat| {
            let line = stat.lines().find_map(|line| line.strip_prefix(cached))?;
            line.parse::<usize>().ok()
        });
        let used = number(used)?.saturating_sub(cached.unwrap_or(0));
        Some(number(limit)?.saturating_sub(used))
    })
}

/// Returns a field of `/proc/meminfo`, in bytes.
pub(crate) fn field(meminfo: &str, name: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    #[test]
    fn the_error_names_sizes_and_a_remedy() {
        let need = Need { weights: 1_000_000_000, kv: 4_000_000_000, tokens: 4096 };
        assert!(compare(need, 5_000_000_000).is_ok());
        let message = compare(need, 3_000_000_000).unwrap_err().to_string();
        for words in [
            "weights need 1.0 GB",
            "4096 tokens needs 4.0 GB",
            "3.0 GB are free",
            "--context 1024",
            "--kv int8",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
        let message = compare(need, 900_000_000).unwrap_err().to_string();
        assert!(message.contains("smaller model") && !message.contains("--context"), "{message}");
    }

    #[test]
    fn the_demo_needs_about_its_file_size() {
        let options = RunOptions::default();
        let file = demo::source().open(&options.open).unwrap();
        let need = Need::of(&file, &options);
        assert!((10_000_000..30_000_000).contains(&need.weights), "{need:?}");
        // 12 layers, 2 heads of 64 elements, keys and values, 2 bytes each.
        assert_eq!((need.kv, need.tokens), (2048 * 12 * 2 * 64 * 2 * 2, 2048));
        let few =
            RunOptions { context_len: Some(64), kv_capacity: KvCapacity::Bytes(12), ..options };
        assert_eq!(Need::of(&file, &few).kv, 12);
    }

    #[test]
    fn containers_have_limits_in_both_versions_of_cgroups() {
        let write = |root: &Path, files: &[(&str, &str)]| {
            for (name, text) in files {
                std::fs::write(root.join(name), text).unwrap();
            }
        };
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_cgroup(root.path()), None);
        let first = root.path().join("memory");
        std::fs::create_dir(&first).unwrap();
        write(
            &first,
            &[
                ("memory.limit_in_bytes", "1000000\n"),
                ("memory.usage_in_bytes", "600000\n"),
                ("memory.stat", "cache 1\nrss 2\ntotal_cache 500000\n"),
            ],
        );
        assert_eq!(of_cgroup(root.path()), Some(900_000));
        write(root.path(), &[("memory.current", "5000\n"), ("memory.stat", "anon 1\nfile 3000\n")]);
        write(root.path(), &[("memory.max", "max\n")]);
        assert_eq!(of_cgroup(root.path()), Some(900_000), "no limit in the other one");
        write(root.path(), &[("memory.max", "10000\n")]);
        assert_eq!(of_cgroup(root.path()), Some(8000));
    }

    #[test]
    fn meminfo_is_in_kilobytes() {
        let meminfo = "MemTotal:  8000 kB\nMemAvailable:    512 kB\n";
        assert_eq!(field(meminfo, "MemAvailable:"), Some(512 << 10));
        assert_eq!(field(meminfo, "SwapFree:"), None);
    }
}
