//! A model: its network, weights, KV cache and buffers. `forward.rs` has the pass.

use std::sync::Arc;

use wf_core::{AttentionMode, Network};
use wf_formats::{ModelFile, ModelInfo};

use crate::columns::Columns;
use crate::compute::Compute;
use crate::dead_neurons::drop_dead_neurons;
use crate::hadamard::Rotation;
use crate::head::{HeadCounts, OutputHead};
use crate::kv::{KvPool, PAGE_LEN, PageId};
use crate::load::{LoadError, LoadProgress, load};
use crate::mtp::MtpScratch;
use crate::options::ModelOptions;
use crate::phases::PhaseTimes;
use crate::rotary::Rotary;
use crate::scratch::Scratch;
use crate::sparse::Sparse;
use crate::states::StatePool;
use crate::weights::Weights;
use crate::zeros::{self, LayerZeros, Magnitudes};

/// A network with its weights, KV cache and buffers.
pub struct Model {
    pub(crate) network: Network,
    pub(crate) info: ModelInfo,
    pub(crate) weights: Weights,
    pub(crate) rotary: Rotary,
    pub(crate) kv: KvPool,
    pub(crate) states: StatePool,
    /// Index of each layer among those with the same kind of mixer.
    pub(crate) places: Vec<usize>,
    /// Transform under which the weights are stored.
    pub(crate) rotation: Option<Arc<Rotation>>,
    pub(crate) scratch: Scratch,
    pub(crate) compute: Compute,
    pub(crate) sparse: Sparse,
    pub(crate) head: OutputHead,
    pub(crate) attention: AttentionMode,
    /// Activations that the inputs of each layer lose.
    pub(crate) zeros: Vec<LayerZeros>,
    pub(crate) columns: Columns,
    /// Counts of magnitudes, while they are counted.
    pub(crate) magnitudes: Option<Vec<[Magnitudes; 4]>>,
    /// Buffers of the prediction head.
    pub(crate) mtp: Option<MtpScratch>,
    pub(crate) max_batch_tokens: usize,
}

impl Model {
    /// Reads every weight of `file` into the layout of the kernels, and allocates the KV cache.
    pub fn load(
        file: &ModelFile,
        compute: Compute,
        options: ModelOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, LoadError> {
        // Memory is local to the thread that writes it first: weights belong to the ones that read them.
        let activations = options.activations.unwrap_or(file.network().activations);
        let read = || load(file, &compute, activations, progress);
        let weights = compute.placement.inside(read)?;
        if !OutputHead::supports(weights.head(), options.head) {
            return Err(LoadError::Weights(format!(
                "head mode {} requires an output head of floats, this one is ternary: use auto or full",
                options.head
            )));
        }
        let (network, info) = (file.network().clone(), file.info().clone());
        Ok(Self::from_weights(network, info, weights, compute, options))
    }

    /// Creates a model from weights, which must have the shapes of `network`.
    ///
    /// # Panics
    ///
    /// If the head mode requires floats and the output head is ternary.
    pub fn from_weights(
        mut network: Network,
        info: ModelInfo,
        mut weights: Weights,
        compute: Compute,
        options: ModelOptions,
    ) -> Self {
        network.activations = options.activations.unwrap_or(network.activations);
        compute.placement.inside(|| drop_dead_neurons(&compute.pool, &network, &mut weights));
        let rows = options.max_batch_tokens;
        let positions = positions(&info, options.pages);
        let context_len = options.context_len.unwrap_or(info.context_len);
        let mut model = Self {
            head: OutputHead::new(&compute, &network, weights.head(), options.head),
            rotary: Rotary::new(&network, positions, context_len),
            kv: KvPool::new(&network, options.kv, options.pages),
            states: StatePool::new(&network, 1),
            places: places(&network),
            rotation: Rotation::of(&network),
            scratch: Scratch::new(
                &network,
                rows,
                positions,
                compute.threads(),
                AttentionMode::Dense,
            ),
            attention: AttentionMode::Dense,
            zeros: zeros::none(&network),
            columns: Columns::default(),
            magnitudes: None,
            mtp: weights.mtp.as_ref().map(|mtp| MtpScratch::new(&network, mtp, rows)),
            sparse: Sparse::new(&network),
            max_batch_tokens: rows,
            network,
            info,
            weights,
            compute,
        };
        model.prepare_sparse(options.sparse);
        model
    }

    /// Replaces the kernel and the threads. The KV cache is kept, and no later result changes.
    pub fn set_compute(&mut self, compute: Compute) {
        let positions = positions(&self.info, self.kv.pages());
        let (rows, threads) = (self.max_batch_tokens, compute.threads());
        self.scratch = Scratch::new(&self.network, rows, positions, threads, self.attention);
        self.compute = compute;
    }

    /// Selects the positions that attention reads, and empties the KV cache: keys and values depend on it.
    ///
    /// # Panics
    ///
    /// If a window reads more positions than the context or the pages have.
    pub fn set_attention(&mut self, mode: AttentionMode) {
        let (dtype, pages) = (self.kv.dtype(), self.kv.pages());
        let (positions, threads) = (positions(&self.info, pages), self.compute.threads());
        self.attention = mode;
        match mode.window() {
            Some(window) => self.rotary.set_near(window.positions(), self.max_batch_tokens),
            None => self.rotary.set_all_near(),
        }
        self.kv = KvPool::for_mode(&self.network, dtype, pages, mode);
        self.scratch = Scratch::new(&self.network, self.max_batch_tokens, positions, threads, mode);
    }

    /// Switches between dense attention and the mode of [`set_attention`](Self::set_attention) without
    /// emptying the KV cache, to compare both on the same keys and values.
    pub fn read_all_pages(&mut self, all: bool) {
        self.scratch.read_all_pages = all;
    }

    /// Writes keys and values to the first `positions` positions in `pages`, as many rows of each as
    /// `rows` has, again and again: a context that no tokens were computed for, to measure what reading it
    /// takes.
    ///
    /// # Panics
    ///
    /// If `rows` is no whole number of keys, or there are too few pages.
    pub fn fill_context(&mut self, pages: &[PageId], positions: usize, rows: &[f32]) {
        let row_len = self.kv.row_len();
        let chunk = rows.len() / row_len;
        assert!(chunk > 0 && rows.len() == chunk * row_len, "whole rows of {row_len}");
        for layer in 0..self.network.kv_layers() {
            for start in (0..positions).step_by(chunk) {
                let rows = &rows[..chunk.min(positions - start) * row_len];
                self.kv.write(&self.compute, layer, (rows, rows), |row| (pages, start + row));
            }
            let full = pages[..positions / PAGE_LEN].iter().copied();
            self.kv.summarize(&self.compute, layer, full);
        }
    }

    /// Allocates states for `count` sequences, in place of one, if the network has recurrent layers. None is kept.
    #[must_use]
    pub fn with_states(self, count: usize) -> Self {
        Self { states: StatePool::new(&self.network, count), ..self }
    }

    /// Declares that every state is that of `len` tokens, whatever it has seen: for measurements, which take as
    /// long with any state.
    pub fn assume_states(&mut self, len: usize) {
        self.states.assume(len);
    }

    /// Size of the state of one sequence in bytes; 0 if the network has no recurrent layers.
    pub fn state_bytes(network: &Network) -> usize {
        StatePool::state_bytes(network)
    }

    /// Size of the inputs that are kept of the drafts of a step, in bytes, from which states are moved on; 0 if the
    /// network has no recurrent layers.
    pub fn draft_bytes(network: &Network) -> usize {
        StatePool::draft_bytes(network)
    }

    /// Swaps the KV cache with `kv`.
    ///
    /// # Panics
    ///
    /// If `kv` is for another network or number of pages.
    pub fn swap_kv(&mut self, kv: &mut KvPool) {
        assert!(kv.has_shape_of(&self.kv), "pages of the same network, and as many");
        std::mem::swap(&mut self.kv, kv);
    }

    /// Returns the number of parallel sections in a step of one token: six per layer (query, key and value,
    /// chunks of attention, joining them, output, gate and up, down; of recurrent mixers, the gates and the delta
    /// rule), one more where experts are routed to (their codes), and the output head.
    pub fn parallel_runs(&self) -> usize {
        let sections = |layer: &wf_core::Layer| if layer.ffn.experts().is_some() { 7 } else { 6 };
        self.network.layers.iter().map(sections).sum::<usize>() + 1
    }

    /// Starts to measure the time of each phase.
    pub fn start_clock(&mut self) {
        self.scratch.clock.start();
    }

    /// Stops measuring and returns the times.
    pub fn stop_clock(&mut self) -> PhaseTimes {
        self.scratch.clock.stop()
    }

    /// Returns the kernel and threads.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Size of the weights in bytes, including the copies for the head and for skipping zeros.
    pub fn size_bytes(&self) -> usize {
        let copies = self.sparse.size_bytes() + self.columns.size_bytes();
        self.weights.size_bytes() + self.head.size_bytes() + copies
    }

    /// Number of bytes of the head that are read to find the best token.
    pub fn head_bytes_per_pick(&self) -> usize {
        self.head.bytes_per_pick(self.weights.head())
    }

    /// Returns the counters of each scan of the head, by name. They keep counting.
    pub fn head_counts(&self) -> Vec<(&'static str, Arc<HeadCounts>)> {
        self.head.counts()
    }

    /// Returns the weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }
}

/// Returns the index of each layer among those with the same kind of mixer.
fn places(network: &Network) -> Vec<usize> {
    let (mut attentions, mut recurrences) = (0.., 0..);
    let place = |layer: &wf_core::Layer| match layer.mixer {
        wf_core::Mixer::Attention(_) => attentions.next(),
        wf_core::Mixer::DeltaNet(_) => recurrences.next(),
    };
    network.layers.iter().filter_map(place).collect()
}

/// Returns the number of positions to allocate for: within the context and the pages.
fn positions(info: &ModelInfo, pages: usize) -> usize {
    info.context_len.min(pages * PAGE_LEN)
}
