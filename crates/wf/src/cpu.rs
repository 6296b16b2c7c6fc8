//! The cores of the machine.

use std::thread::available_parallelism;

use wf_model::CpuList;

use crate::env;

/// Variable that programs with OpenMP take the number of threads from.
const OPENMP_VARIABLE: &str = "OMP_NUM_THREADS";

/// Returns the number of cores this process may use, including the CPU quota of a container. Two
/// threads on one core gain nothing, because a product uses all of its arithmetic units.
pub(crate) fn cores() -> usize {
    let parallelism = available_parallelism().map_or(1, usize::from);
    CpuList::allowed().map_or(parallelism, |cpus| cpus.cores().min(parallelism))
}

/// Returns the number of threads of commands that are not told one: all cores, or what OpenMP's
/// variable allows.
pub(crate) fn default_threads() -> usize {
    let variable = env::variable(OPENMP_VARIABLE).and_then(|value| value.into_string().ok());
    openmp_threads(variable.as_deref(), cores())
}

/// Returns the number of threads that a value of OpenMP's variable allows. Its first number is that of
/// the outermost loops. Other programs share the variable, so any other value counts as not set.
fn openmp_threads(value: Option<&str>, cores: usize) -> usize {
    let first = value.and_then(|value| value.split(',').next()?.trim().parse().ok());
    first.map_or(cores, |threads: usize| threads.clamp(1, cores))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmp_lowers_the_number_of_threads() {
        for (value, threads) in [
            (None, 8),
            (Some("3"), 3),
            (Some(" 2 ,4"), 2),
            (Some("64"), 8),
            (Some("0"), 1),
            (Some("many"), 8),
            (Some("-1"), 8),
        ] {
            assert_eq!(openmp_threads(value, 8), threads, "{value:?}");
        }
    }
}
