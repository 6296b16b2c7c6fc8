//! Which CPUs there are, and which of them threads run on.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use wf_kernels::Pool;

/// The highest number a CPU can have here.
const LAST_CPU: usize = 1023;

/// Some CPUs by their numbers, in the order threads take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// The numbers.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// The CPUs this process may run on, where the system tells.
    pub fn allowed() -> Option<Self> {
        system::allowed().map(Self)
    }

    /// How many cores these CPUs belong to: two CPUs of one core share its arithmetic, and products
    /// get slower when both compute. Where the system does not tell, each is its own core.
    pub fn cores(&self) -> usize {
        let cores: HashSet<_> = self.0.iter().map(|&cpu| core_of(cpu)).collect();
        cores.len()
    }
}

/// Package and core of a CPU, or something that no other CPU has.
fn core_of(cpu: usize) -> (String, String) {
    let folder = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/topology"));
    let read = |name| std::fs::read_to_string(folder.join(name));
    match (read("physical_package_id"), read("core_id")) {
        (Ok(package), Ok(core)) => (package, core),
        _ => (String::new(), format!("cpu {cpu}")),
    }
}

/// As ranges: `0-3,8`.
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

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCpuList {
    /// A part is neither a number nor a range.
    #[error("{0:?} is no CPU: use numbers up to {LAST_CPU} and ranges, for example 0-3,8")]
    Form(String),
    /// A CPU is there twice.
    #[error("CPU {0} is there twice: each thread needs one of its own")]
    Twice(usize),
    /// A CPU that this process may not use.
    #[error("this process may not run on CPU {cpu}, but on {allowed}")]
    NotAllowed {
        /// The one.
        cpu: usize,
        /// Those it may use.
        allowed: CpuList,
    },
    /// This system has no way to say it.
    #[error("this system does not let a program choose its CPUs")]
    Unsupported,
}

impl FromStr for CpuList {
    type Err = BadCpuList;

    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let form = || BadCpuList::Form(part.to_owned());
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number =
                |text: &str| text.trim().parse::<usize>().ok().filter(|&cpu| cpu <= LAST_CPU);
            let (first, last) = number(first).zip(number(last)).ok_or_else(form)?;
            if first > last {
                return Err(form());
            }
            cpus.extend(first..=last);
        }
        let mut seen = HashSet::new();
        if let Some(&twice) = cpus.iter().find(|cpu| !seen.insert(**cpu)) {
            return Err(BadCpuList::Twice(twice));
        }
        let allowed = Self::allowed().ok_or(BadCpuList::Unsupported)?;
        match cpus.iter().find(|cpu| !allowed.0.contains(cpu)) {
            Some(&cpu) => Err(BadCpuList::NotAllowed { cpu, allowed }),
            None => Ok(Self(cpus)),
        }
    }
}

/// A pool of `threads` threads, each but the caller's on a CPU of its own if some are given. Threads
/// beyond the end of the list run anywhere.
pub fn pool_on(cpus: Option<&CpuList>, threads: usize) -> Pool {
    let cpus = cpus.map_or(Vec::new(), |list| list.0.clone());
    Pool::starting(threads, move |worker| cpus.get(worker).copied().into_iter().for_each(pin_to))
}

/// Keeps the calling thread on one CPU. If the system refuses, it stays where it was: that changes
/// no result.
pub(crate) fn pin_to(cpu: usize) {
    system::pin(&[cpu]);
}

/// Runs `f` with this thread kept on `cpu`, if there is one, and then lets it go where it was.
pub(crate) fn pinned_to<R>(cpu: Option<usize>, f: impl FnOnce() -> R) -> R {
    let before = cpu.and_then(|_| system::allowed());
    cpu.into_iter().for_each(pin_to);
    let result = f();
    if let Some(before) = before {
        system::pin(&before);
    }
    result
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> Option<Vec<usize>> {
        let set = sched_getaffinity(None).ok()?;
        Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
    }

    pub(super) fn pin(cpus: &[usize]) {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        // A CPU may have gone since it was chosen; then the system places the thread.
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn allowed() -> Option<Vec<usize>> {
        None
    }

    pub(super) fn pin(_: &[usize]) {}
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
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<CpuList>().unwrap_err().to_string();
        for text in ["", "x", "3-1", "1-", "0,,1", "1024", "-1"] {
            assert!(error(text).contains("for example 0-3,8"), "{text}: {}", error(text));
        }
        assert_eq!(error("0-2,1"), "CPU 1 is there twice: each thread needs one of its own");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_stays_on_the_cpu_it_is_kept_on() {
        let allowed = CpuList::allowed().unwrap();
        assert!((1..=allowed.cpus().len()).contains(&allowed.cores()));
        let last = *allowed.cpus().last().unwrap();
        assert_eq!(last.to_string().parse(), Ok(CpuList(vec![last])));
        std::thread::spawn(move || {
            let inside = pinned_to(Some(last), system::allowed);
            assert_eq!(inside, Some(vec![last]));
            assert_eq!(CpuList::allowed(), Some(allowed), "as before");
        })
        .join()
        .unwrap();
        let beyond = (0..=LAST_CPU).rev().find(|cpu| !CpuList::allowed().unwrap().0.contains(cpu));
        let error = beyond.unwrap().to_string().parse::<CpuList>().unwrap_err();
        assert!(matches!(error, BadCpuList::NotAllowed { .. }), "{error}");
    }
}
