//! CPU lists and thread affinity.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The highest supported CPU number.
const MAX_CPU: usize = 1023;

/// A list of CPU numbers, in the order in which threads are assigned to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Returns the CPU numbers.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Returns the CPUs this process may run on, or `None` if the system does not report them.
    pub fn allowed() -> Option<Self> {
        system::allowed().map(Self)
    }

    /// Returns the number of physical cores these CPUs belong to.
    ///
    /// Two CPUs of one core share its arithmetic units, and matrix products get slower when both
    /// compute. Where the system does not report the topology, each CPU counts as a core.
    pub fn cores(&self) -> usize {
        let cores: HashSet<_> = self.0.iter().map(|&cpu| core_of(cpu)).collect();
        cores.len()
    }
}

/// Returns the package and core of a CPU, or a unique pair if the topology is unknown.
fn core_of(cpu: usize) -> (String, String) {
    let folder = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/topology"));
    let read = |name| std::fs::read_to_string(folder.join(name));
    match (read("physical_package_id"), read("core_id")) {
        (Ok(package), Ok(core)) => (package, core),
        _ => (String::new(), format!("cpu {cpu}")),
    }
}

/// Formats the list as ranges: `0-3,8`.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

/// The error of parsing a [`CpuList`]: a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError(String);

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CpuListError {}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let cpus = parse_ranges(text).map_err(|part| {
            CpuListError(format!(
                "{part:?} is no CPU: use numbers up to {MAX_CPU} and ranges, for example 0-3,8"
            ))
        })?;
        let mut seen = HashSet::new();
        if let Some(&cpu) = cpus.iter().find(|cpu| !seen.insert(**cpu)) {
            let message = format!("CPU {cpu} is there twice: each thread needs one of its own");
            return Err(CpuListError(message));
        }
        let unsupported =
            || CpuListError("this system does not let a program choose its CPUs".into());
        let allowed = Self::allowed().ok_or_else(unsupported)?;
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.0.contains(cpu)) {
            let message = format!("this process may not run on CPU {cpu}, but on {allowed}");
            return Err(CpuListError(message));
        }
        Ok(Self(cpus))
    }
}

/// Lets the calling thread run on `cpus` only; on any, if there are none. If the system rejects it, the thread
/// stays where it was.
pub(crate) fn bind_thread(cpus: &[usize]) {
    if !cpus.is_empty() {
        system::bind(cpus);
    }
}

/// Parses numbers and ranges, `0-3,8`. The error is the part that is neither.
pub(crate) fn parse_ranges(text: &str) -> Result<Vec<usize>, &str> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&cpu| cpu <= MAX_CPU);
        let (first, last) = number(first).zip(number(last)).ok_or(part)?;
        if first > last {
            return Err(part);
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Option<Vec<usize>> {
        let set = sched_getaffinity(None).ok()?;
        Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
    }

    pub(super) fn bind(cpus: &[usize]) {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        // A CPU may have gone offline since it was chosen; the system then places the thread.
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn allowed() -> Option<Vec<usize>> {
        None
    }

    pub(super) fn bind(_: &[usize]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_ranges() {
        assert_eq!(CpuList(vec![0, 1, 2, 8, 5]).to_string(), "0-2,8,5");
        assert_eq!(CpuList(vec![7]).to_string(), "7");
    }

    #[test]
    fn errors_name_the_offending_cpu() {
        let error = |text: &str| text.parse::<CpuList>().unwrap_err().to_string();
        for text in ["", "x", "3-1", "1-", "0,,1", "1024", "-1"] {
            assert!(error(text).contains("for example 0-3,8"), "{text}: {}", error(text));
        }
        assert_eq!(error("0-2,1"), "CPU 1 is there twice: each thread needs one of its own");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpus_that_may_not_be_used_are_named() {
        let allowed = CpuList::allowed().unwrap();
        assert!((1..=allowed.cpus().len()).contains(&allowed.cores()));
        let last = *allowed.cpus().last().unwrap();
        assert_eq!(last.to_string().parse(), Ok(CpuList(vec![last])));
        let beyond = (0..=MAX_CPU).rev().find(|cpu| !allowed.0.contains(cpu)).unwrap();
        let error = beyond.to_string().parse::<CpuList>().unwrap_err().to_string();
        assert_eq!(error, format!("this process may not run on CPU {beyond}, but on {allowed}"));
    }
}
