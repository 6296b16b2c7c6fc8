//! The CPUs that each thread of a pool runs on.
//!
//! A machine with several NUMA nodes has a memory for each. Threads are divided over the nodes in order, and
//! each may run on every CPU of its node. Memory belongs to the node of the thread that writes it first, a
//! worker writes the rows of a matrix that it will read, and it reads the same rows in every pass: so each
//! node holds its own rows, and nothing is held twice. A thread is not bound to a single CPU unless the user
//! lists CPUs, since two programs would then bind theirs to the same ones.

use std::fs::read_to_string;
use std::path::Path;

use crate::Pool;
use crate::cpus::{self, CpuList};

/// Folder where Linux describes NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// The CPUs of each thread of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By thread, or empty if threads run anywhere.
    cpus: Vec<Vec<usize>>,
}

impl Placement {
    /// Places `threads` threads on one CPU of `list` each, or without a list on the NUMA nodes of this machine.
    /// Threads beyond the end of the list run anywhere, and so do all threads on a machine with one node.
    pub fn new(list: Option<&CpuList>, threads: usize) -> Self {
        match list {
            Some(list) => Self { cpus: list.cpus().iter().map(|&cpu| vec![cpu]).collect() },
            None => Self::on_nodes(&nodes(Path::new(NODES)), threads),
        }
    }

    fn on_nodes(nodes: &[Vec<usize>], threads: usize) -> Self {
        let node = |thread: usize| nodes[thread * nodes.len() / threads].clone();
        Self { cpus: if nodes.len() < 2 { Vec::new() } else { (0..threads).map(node).collect() } }
    }

    /// Returns the CPUs of a thread; none if it runs anywhere.
    pub fn of(&self, thread: usize) -> &[usize] {
        self.cpus.get(thread).map_or(&[], Vec::as_slice)
    }

    /// Creates a pool of `threads` threads in their places. The calling thread is thread 0 and stays where it is;
    /// [`enter`](Self::enter) places it.
    pub fn pool(&self, threads: usize) -> Pool {
        let placement = self.clone();
        Pool::with_thread_start(threads, move |worker| cpus::bind_thread(placement.of(worker)))
    }

    /// Places the calling thread as thread 0. If the system rejects it, the thread stays where it was: no
    /// result depends on it.
    pub fn enter(&self) {
        cpus::bind_thread(self.of(0));
    }

    /// Runs `f` with the calling thread placed as thread 0, and then restores its CPUs.
    pub fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = CpuList::allowed();
        self.enter();
        let result = f();
        if let (Some(before), false) = (before, self.of(0).is_empty()) {
            cpus::bind_thread(before.cpus());
        }
        result
    }
}

/// Returns the CPUs of each NUMA node that this process may run on, in the order of nodes.
fn nodes(folder: &Path) -> Vec<Vec<usize>> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let numbered = entries.flatten().filter_map(|entry| {
        let number: usize = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = read_to_string(entry.path().join("cpulist")).ok()?;
        // A node of memory alone has an empty list.
        Some((number, cpus::parse_ranges(list.trim()).unwrap_or_default()))
    });
    let mut nodes: Vec<_> = numbered.collect();
    nodes.sort_unstable();
    let allowed = CpuList::allowed();
    let may_use = |cpu: &usize| allowed.as_ref().is_none_or(|list| list.cpus().contains(cpu));
    let usable = nodes.into_iter().map(|(_, cpus)| cpus.into_iter().filter(may_use).collect());
    usable.filter(|cpus: &Vec<usize>| !cpus.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_divided_over_the_nodes_in_order() {
        let nodes = [vec![0, 1, 2, 3, 8, 9], vec![4, 5, 6, 7, 10, 11]];
        let placement = Placement::on_nodes(&nodes, 5);
        let of_node = |thread| nodes.iter().position(|cpus| cpus == placement.of(thread));
        assert!((0..5).map(of_node).eq([Some(0), Some(0), Some(0), Some(1), Some(1)]));
        assert_eq!(Placement::on_nodes(&nodes, 1).of(0), nodes[0]);
    }

    #[test]
    fn one_node_leaves_threads_to_the_system() {
        let placement = Placement::on_nodes(&[vec![0, 1]], 2);
        assert!((0..2).all(|thread| placement.of(thread).is_empty()));
        assert_eq!(placement, Placement::on_nodes(&[], 2));
    }

    #[test]
    fn a_list_has_a_cpu_for_each_thread() {
        let first = CpuList::allowed().map(|list| list.cpus()[0]);
        let Some(list) = first.and_then(|cpu| cpu.to_string().parse::<CpuList>().ok()) else {
            return;
        };
        let placement = Placement::new(Some(&list), 2);
        assert_eq!(placement.of(0), list.cpus());
        assert!(placement.of(1).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nodes_are_read_in_order_with_the_cpus_that_may_be_used() {
        let allowed = CpuList::allowed().unwrap();
        let (first, last) = (allowed.cpus()[0], *allowed.cpus().last().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let node = |name: &str, list: &str| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("cpulist"), list).unwrap();
        };
        node("node10", &format!("{last}\n"));
        node("node2", &format!("{first},1023\n"));
        node("node3", "\n");
        node("power", "0-7\n");
        assert_eq!(nodes(folder.path()), [vec![first], vec![last]]);
        assert!(nodes(&folder.path().join("absent")).is_empty());
    }

    #[test]
    fn a_thread_gets_its_cpus_back() {
        let allowed = CpuList::allowed();
        let cpu = allowed.as_ref().map(|list| list.cpus()[0]);
        let placement = Placement { cpus: vec![cpu.into_iter().collect()] };
        let inside = placement.inside(CpuList::allowed);
        assert_eq!(inside.map(|list| list.cpus().to_vec()), cpu.map(|cpu| vec![cpu]));
        assert_eq!(CpuList::allowed(), allowed);
    }
}
