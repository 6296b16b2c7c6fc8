//! What a forward pass runs on: one kernel and one pool of threads.

use wf_kernels::{Isa, Kernel, Pool};

/// The instruction set and the threads of a model. Neither changes a result.
pub struct Compute {
    pub(crate) kernel: &'static dyn Kernel,
    pub(crate) pool: Pool,
}

impl Compute {
    /// The best kernel of this CPU on `threads` threads, the caller's among them.
    pub fn new(threads: usize) -> Self {
        Self { kernel: wf_kernels::best(), pool: Pool::new(threads) }
    }

    /// A chosen instruction set, or nothing if this CPU does not have it.
    pub fn with_isa(isa: Isa, threads: usize) -> Option<Self> {
        Some(Self { kernel: wf_kernels::kernel(isa)?, pool: Pool::new(threads) })
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
