//! Checks before loading that a model fits into memory.
//!
//! Linux kills a program rather than refusing it memory. Without this check, a model that is too large
//! ends in `Killed` without a reason.

use std::fs::read_to_string;
use std::path::Path;

use anyhow::{Result, bail};
use wf_engine::{KvCapacity, RunOptions, state_count};
use wf_formats::{Encoding, ModelFile};
use wf_model::{KvPool, Model, PAGE_LEN};

/// Memory of the program itself, once it has answered a request: its threads, buffers and tables.
const PROGRAM_BYTES: usize = 16 << 20;

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

/// Returns the memory that a model is expected to take with these options, in bytes.
pub(crate) fn expected(file: &ModelFile, options: &RunOptions) -> usize {
    let context_len = options.context_len.unwrap_or(file.info().context_len);
    let (pages, attention) = (context_len.div_ceil(PAGE_LEN), options.attention);
    let one = KvPool::size_for_mode(file.network(), options.kv, pages, attention);
    let kv = match options.kv_capacity {
        KvCapacity::Bytes(bytes) => bytes,
        KvCapacity::Contexts { count, max_bytes } => {
            one.saturating_mul(count).min(max_bytes.unwrap_or(usize::MAX)).max(one)
        }
    };
    // Where its size is limited, the K/V memory contains the states of sequences.
    let states = match options.kv_capacity {
        KvCapacity::Bytes(_) => 0,
        KvCapacity::Contexts { .. } => state_bytes(file, options),
    };
    let states = states.saturating_add(Model::draft_bytes(file.network()));
    expected_weights(file).saturating_add(kv).saturating_add(states)
}

/// Returns the memory of the states of sequences, if the model has recurrent layers.
fn state_bytes(file: &ModelFile, options: &RunOptions) -> usize {
    let count = state_count(file.network(), options).unwrap_or(1);
    Model::state_bytes(file.network()).saturating_mul(count)
}

/// Returns the memory that weights are expected to take, in bytes: trits in the larger of the two layouts.
pub(crate) fn expected_weights(file: &ModelFile) -> usize {
    let sizes = file.tensors().iter().map(|tensor| match tensor.encoding {
        Encoding::Float(_) => usize::try_from(tensor.size).unwrap_or(usize::MAX),
        _ => tensor.rows * tensor.cols / 4,
    });
    sizes.fold(0, usize::saturating_add)
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
        let size_bytes =
            |pages| KvPool::size_for_mode(network, options.kv, pages, options.attention);
        let one_context = context_len.div_ceil(PAGE_LEN);
        let kv = match options.kv_capacity {
            KvCapacity::Bytes(bytes) => bytes,
            // Fewer contexts are used if memory is short.
            KvCapacity::Contexts { .. } => {
                size_bytes(one_context).saturating_add(Model::state_bytes(network))
            }
        };
        Self { weights: weights.fold(0, usize::saturating_add), kv, tokens: context_len }
    }
}

/// Returns an error that says how much is missing and what to do.
fn compare(need: Need, available: usize) -> Result<()> {
    let total = need.weights.saturating_add(need.kv).saturating_add(PROGRAM_BYTES);
    if total <= available {
        return Ok(());
    }
    let gigabytes = |bytes: usize| format!("{:.1} GB", bytes as f64 / 1e9);
    let remedy = match available.checked_sub(need.weights.saturating_add(PROGRAM_BYTES)) {
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
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    of_cgroup(Path::new("/sys/fs/cgroup"), &own)
}

/// Returns the least memory that the limits of the cgroups of a process leave free. `own` is its
/// `/proc/PID/cgroup`.
fn of_cgroup(root: &Path, own: &str) -> Option<usize> {
    CGROUPS.iter().find_map(|files| {
        let root = root.join(files[0]);
        let path = path_of(own, files[0]);
        // In a container, the path may be that on the host: then only the root exists.
        let ancestors = path.ancestors().map(|path| root.join(path));
        ancestors.filter_map(|directory| free_in(&directory, *files)).min()
    })
}

/// Returns the path of a process below the root of the cgroups of a controller, which has no name in version 2.
fn path_of<'a>(own: &'a str, controller: &str) -> &'a Path {
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    Path::new(path.unwrap_or_default().trim_start_matches('/'))
}

/// Returns the memory that the limit of one cgroup leaves free.
fn free_in(directory: &Path, [_, limit, used, cached]: [&str; 4]) -> Option<usize> {
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
        assert!(compare(need, 5_000_000_000 + PROGRAM_BYTES).is_ok());
        assert!(compare(need, 5_000_000_000).is_err(), "the program needs some, too");
        let message = compare(need, 3_000_000_000 + PROGRAM_BYTES).unwrap_err().to_string();
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
        assert_eq!(of_cgroup(root.path(), ""), None);
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
        assert_eq!(of_cgroup(root.path(), ""), Some(900_000));
        write(root.path(), &[("memory.current", "5000\n"), ("memory.stat", "anon 1\nfile 3000\n")]);
        write(root.path(), &[("memory.max", "max\n")]);
        assert_eq!(of_cgroup(root.path(), ""), Some(900_000), "no limit in the other one");
        write(root.path(), &[("memory.max", "10000\n")]);
        assert_eq!(of_cgroup(root.path(), ""), Some(8000));
    }

    #[test]
    fn services_have_the_least_of_all_limits_above_them() {
        let root = tempfile::tempdir().unwrap();
        let service = root.path().join("system.slice/wf.service");
        std::fs::create_dir_all(&service).unwrap();
        let own = "9:memory:/other\n0::/system.slice/wf.service\n";
        for (directory, limit) in [(service.parent().unwrap(), "7000"), (&service, "9000")] {
            std::fs::write(directory.join("memory.max"), limit).unwrap();
            std::fs::write(directory.join("memory.current"), "1000").unwrap();
        }
        assert_eq!(of_cgroup(root.path(), own), Some(6000));
        std::fs::write(service.join("memory.max"), "5000").unwrap();
        assert_eq!(of_cgroup(root.path(), own), Some(4000));
        assert_eq!(of_cgroup(root.path(), "0::/host/path/of/a/container\n"), None);
        assert_eq!(path_of("5:cpu,memory:/a/b\n", "memory"), Path::new("a/b"));
    }

    #[test]
    fn meminfo_is_in_kilobytes() {
        let meminfo = "MemTotal:  8000 kB\nMemAvailable:    512 kB\n";
        assert_eq!(field(meminfo, "MemAvailable:"), Some(512 << 10));
        assert_eq!(field(meminfo, "SwapFree:"), None);
    }
}
