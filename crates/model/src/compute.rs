//! The resources of a forward pass: a kernel and a thread pool.

use std::sync::Arc;

use wf_core::ActivationCodes;
use wf_kernels::{CpuList, Isa, Kernel, Layout, Placement, Pool};

/// Number of trits that exceeds the CPU caches. Below it, the layout that decodes fastest wins.
const MIN_TRITS_IN_MEMORY: usize = 128 << 20;

/// Error of a layout in which groups of activations do not end between lines.
#[derive(Debug, thiserror::Error)]
#[error(
    "layout five-trits has 20 columns in a line, and activations int8-group a scale for every 128: use layout \
     quad-lines, or other activations"
)]
pub struct GroupsSplitLines;

/// The instruction set and threads of a model, and the layout of its trits in memory. None of them
/// changes a result. Clones share the threads.
#[derive(Clone)]
pub struct Compute {
    pub(crate) kernel: &'static dyn Kernel,
    pub(crate) pool: Arc<Pool>,
    pub(crate) placement: Placement,
    layout: Option<Layout>,
}

impl Compute {
    /// Uses the best kernel of this CPU on `threads` threads, including the caller's.
    pub fn new(threads: usize) -> Self {
        Self::on(wf_kernels::best(), threads, None)
    }

    /// Uses an instruction set, by default the best one, and places the threads on `cpus` or, by default, on the
    /// NUMA nodes of the machine: see [`Placement`]. [`enter_thread`](Self::enter_thread) places the caller's.
    ///
    /// # Errors
    ///
    /// Returns the instruction set if this CPU does not have it.
    pub fn chosen(isa: Option<Isa>, threads: usize, cpus: Option<&CpuList>) -> Result<Self, Isa> {
        let kernel = match isa {
            None => wf_kernels::best(),
            Some(isa) => wf_kernels::kernel(isa).ok_or(isa)?,
        };
        Ok(Self::on(kernel, threads, cpus))
    }

    fn on(kernel: &'static dyn Kernel, threads: usize, cpus: Option<&CpuList>) -> Self {
        let placement = Placement::new(cpus, threads);
        Self { kernel, pool: Arc::new(placement.pool(threads)), placement, layout: None }
    }

    /// Sets the layout of weights that are loaded from now on.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// Returns the layout for a network of `trits` trits and these `activations`: the one set, or the faster one
    /// by measurement.
    ///
    /// # Errors
    ///
    /// Returns [`GroupsSplitLines`] if the layout set does not support the activations.
    pub fn layout_for(
        &self,
        trits: usize,
        activations: ActivationCodes,
    ) -> Result<Layout, GroupsSplitLines> {
        match (self.layout, activations) {
            (Some(Layout::FiveTrits), ActivationCodes::Int8Group) => Err(GroupsSplitLines),
            (Some(layout), _) => Ok(layout),
            (None, ActivationCodes::Int8Group) => Ok(Layout::QuadLines),
            (None, _) if trits < MIN_TRITS_IN_MEMORY => Ok(Layout::QuadLines),
            (None, _) => Ok(Layout::fastest(self.kernel, &self.pool)),
        }
    }

    /// Places the calling thread, which will run forward passes, on the first CPU or node.
    pub fn enter_thread(&self) {
        self.placement.enter();
    }

    /// Iterates over the instruction sets of this CPU.
    pub fn supported() -> impl Iterator<Item = Isa> {
        wf_kernels::supported().map(Kernel::isa)
    }

    /// Returns the instruction set.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }

    /// Returns the number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} threads", self.isa(), self.threads())
    }
}
