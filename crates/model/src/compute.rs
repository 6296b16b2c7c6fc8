//! What a forward pass runs on: one kernel and one pool of threads.

use std::sync::Arc;

use wf_kernels::{Isa, Kernel, Layout, Pool};

use crate::cpus::{CpuList, pin_to, pool_on};

/// Networks with fewer trits lie in a cache, where the layout that is quickest to take apart wins.
const WORTH_FEWER_BYTES: usize = 128 << 20;

/// The instruction set and the threads of a model, and how its trits lie in memory. None of it
/// changes a result. Copies share the threads.
#[derive(Clone)]
pub struct Compute {
    pub(crate) kernel: &'static dyn Kernel,
    pub(crate) pool: Arc<Pool>,
    cpus: Option<CpuList>,
    layout: Option<Layout>,
}

impl Compute {
    /// The best kernel of this CPU on `threads` threads, the caller's among them.
    pub fn new(threads: usize) -> Self {
        Self::on(wf_kernels::best(), threads, None)
    }

    /// A chosen instruction set, or nothing if this CPU does not have it.
    pub fn with_isa(isa: Isa, threads: usize) -> Option<Self> {
        Some(Self::on(wf_kernels::kernel(isa)?, threads, None))
    }

    /// A chosen instruction set, or else the best; and each thread on a CPU of its own, if some are
    /// chosen. Threads beyond the end of the list run anywhere; so does the caller's until
    /// [`enter_thread`](Self::enter_thread).
    ///
    /// # Errors
    ///
    /// The instruction set, if this CPU does not have it.
    pub fn chosen(isa: Option<Isa>, threads: usize, cpus: Option<CpuList>) -> Result<Self, Isa> {
        let kernel = match isa {
            None => wf_kernels::best(),
            Some(isa) => wf_kernels::kernel(isa).ok_or(isa)?,
        };
        Ok(Self::on(kernel, threads, cpus))
    }

    fn on(kernel: &'static dyn Kernel, threads: usize, cpus: Option<CpuList>) -> Self {
        Self { kernel, pool: Arc::new(pool_on(cpus.as_ref(), threads)), cpus, layout: None }
    }

    /// The same with a layout for weights that are yet to be loaded.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// The layout for a network of `trits` trits: the chosen one, or what this machine decodes faster.
    pub fn layout_for(&self, trits: usize) -> Layout {
        match self.layout {
            Some(layout) => layout,
            None if trits < WORTH_FEWER_BYTES => Layout::QuadLines,
            None => Layout::measured(self.kernel, &self.pool),
        }
    }

    /// Keeps the calling thread on the first of the chosen CPUs, if some were chosen: it is the one
    /// that will run forward passes.
    pub fn enter_thread(&self) {
        self.first_cpu().into_iter().for_each(pin_to);
    }

    /// The CPU of the thread that calls.
    pub(crate) fn first_cpu(&self) -> Option<usize> {
        self.cpus.as_ref().and_then(|cpus| cpus.cpus().first().copied())
    }

    /// The instruction sets this CPU can run.
    pub fn supported() -> impl Iterator<Item = Isa> {
        wf_kernels::supported().map(Kernel::isa)
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }

    /// How many threads work, the caller's among them.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} threads", self.isa(), self.threads())
    }
}
