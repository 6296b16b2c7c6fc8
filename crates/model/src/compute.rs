//! The resources of a forward pass: a kernel and a thread pool.

use std::sync::Arc;

use wf_kernels::{CpuList, Isa, Kernel, Layout, Pool, pin_thread, pinned_pool};

/// Number of trits that exceeds the CPU caches. Below it, the layout that decodes fastest wins.
const MIN_TRITS_IN_MEMORY: usize = 128 << 20;

/// The instruction set and threads of a model, and the layout of its trits in memory. None of them
/// changes a result. Clones share the threads.
#[derive(Clone)]
pub struct Compute {
    pub(crate) kernel: &'static dyn Kernel,
    pub(crate) pool: Arc<Pool>,
    cpus: Option<CpuList>,
    layout: Option<Layout>,
}

impl Compute {
    /// Uses the best kernel of this CPU on `threads` threads, including the caller's.
    pub fn new(threads: usize) -> Self {
        Self::on(wf_kernels::best(), threads, None)
    }

    /// Uses an instruction set, by default the best one, and pins each thread to one of `cpus`.
    ///
    /// Threads beyond the end of the list are not pinned; the caller's thread is pinned by
    /// [`enter_thread`](Self::enter_thread).
    ///
    /// # Errors
    ///
    /// Returns the instruction set if this CPU does not have it.
    pub fn chosen(isa: Option<Isa>, threads: usize, cpus: Option<CpuList>) -> Result<Self, Isa> {
        let kernel = match isa {
            None => wf_kernels::best(),
            Some(isa) => wf_kernels::kernel(isa).ok_or(isa)?,
        };
        Ok(Self::on(kernel, threads, cpus))
    }

    fn on(kernel: &'static dyn Kernel, threads: usize, cpus: Option<CpuList>) -> Self {
        Self { kernel, pool: Arc::new(pinned_pool(cpus.as_ref(), threads)), cpus, layout: None }
    }

    /// Sets the layout of weights that are loaded from now on.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// Returns the layout for a network of `trits` trits: the one set, or the faster one by measurement.
    pub fn layout_for(&self, trits: usize) -> Layout {
        match self.layout {
            Some(layout) => layout,
            None if trits < MIN_TRITS_IN_MEMORY => Layout::QuadLines,
            None => Layout::fastest(self.kernel, &self.pool),
        }
    }

    /// Pins the calling thread, which will run forward passes, to the first CPU of the list.
    pub fn enter_thread(&self) {
        self.first_cpu().into_iter().for_each(pin_thread);
    }

    /// Returns the CPU of the calling thread.
    pub(crate) fn first_cpu(&self) -> Option<usize> {
        self.cpus.as_ref().and_then(|cpus| cpus.cpus().first().copied())
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
