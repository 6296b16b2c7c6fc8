//! The cores of the machine.

use std::thread::available_parallelism;

use wf_model::CpuList;

/// Returns the number of cores this process may use, including the CPU quota of a container. Two
/// threads on one core gain nothing, because a product uses all of its arithmetic units.
pub(crate) fn cores() -> usize {
    let parallelism = available_parallelism().map_or(1, usize::from);
    CpuList::allowed().map_or(parallelism, |cpus| cpus.cores().min(parallelism))
}
