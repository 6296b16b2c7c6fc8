//! The weights of a network: plain structs, read from a [`WeightSource`] by the recipe of a
//! [`Network`], and used by the forward pass.

mod delta_net;
mod mtp;

use wf_core::{Dense, Network};
use wf_formats::{LayerTensor, TensorName};
use wf_kernels::{RmsNorm, TernaryMatrix, Upcoming};

pub use self::delta_net::DeltaNet;
pub use self::mtp::Mtp;
pub use crate::embed::FloatTable;
pub use crate::table::Table;

/// Every weight of a network.
pub struct Weights {
    /// One row per token.
    pub embedding: Table,
    /// Layers in the order they run.
    pub layers: Vec<Layer>,
    /// Norm before the output head.
    pub output_norm: Norm,
    /// Output head, if it is not the embedding.
    pub output: Option<Table>,
    /// Multi-token prediction head.
    pub mtp: Option<Mtp>,
}

/// One transformer layer.
pub struct Layer {
    /// Sequence mixer.
    pub mixer: Mixer,
    /// Feed-forward block.
    pub ffn: Ffn,
}

/// Weights of a sequence mixer.
pub enum Mixer {
    /// An attention block.
    Attention(Box<Attention>),
    /// A recurrent block.
    DeltaNet(Box<DeltaNet>),
}

impl Mixer {
    /// Returns the matrices that the block reads first.
    pub(crate) fn upcoming(&self) -> Upcoming<'_> {
        match self {
            Self::Attention(attention) => attention.upcoming(),
            Self::DeltaNet(delta_net) => delta_net.upcoming(),
        }
    }

    /// Returns the attention block, or `None` if the mixer is recurrent.
    pub fn attention(&self) -> Option<&Attention> {
        match self {
            Self::Attention(attention) => Some(&**attention),
            Self::DeltaNet(_) => None,
        }
    }
}

/// Weights of a feed-forward block.
pub enum Ffn {
    /// One block for every token.
    Dense(Box<Mlp>),
    /// A router and its experts.
    Experts(Experts),
}

impl Attention {
    /// Returns the matrices that the block reads first.
    pub(crate) fn upcoming(&self) -> Upcoming<'_> {
        Upcoming::InTurn([self.query.packed(), self.key.packed(), self.value.packed()])
    }
}

impl Ffn {
    /// Returns the matrices that the block reads first.
    pub(crate) fn upcoming(&self) -> Upcoming<'_> {
        match self {
            Self::Dense(mlp) => Upcoming::Together([mlp.gate.packed(), mlp.up.packed()]),
            Self::Experts(_) => Upcoming::Unknown,
        }
    }

    /// Returns the dense block, or `None` if tokens are routed to experts.
    pub fn dense(&self) -> Option<&Mlp> {
        match self {
            Self::Dense(mlp) => Some(&**mlp),
            Self::Experts(_) => None,
        }
    }
}

/// Weights of a mixture of experts. [`wf_core::Experts`] describes the computation.
pub struct Experts {
    /// Norm of the block's input.
    pub norm: Norm,
    /// One row of floats for each expert.
    pub router: Vec<f32>,
    /// Experts by index.
    pub experts: Vec<Expert>,
    /// Expert that every token runs.
    pub shared: Option<Box<SharedExpert>>,
    /// Norm of the block's output.
    pub output_norm: Option<Norm>,
}

/// Weights of one expert.
pub struct Expert {
    /// Gate projection.
    pub gate: TernaryMatrix,
    /// Up projection.
    pub up: TernaryMatrix,
    /// Down projection.
    pub down: TernaryMatrix,
}

/// Weights of a shared expert. [`wf_core::SharedExpert`] describes the computation.
pub struct SharedExpert {
    /// Row of floats that determines the share; without it the share is 1.
    pub gate: Option<Vec<f32>>,
    /// Projections.
    pub expert: Expert,
}

/// Weights of a root-mean-square norm.
pub struct Norm {
    /// One factor per element.
    pub weight: Vec<f32>,
    /// Added to the mean square.
    pub eps: f32,
    /// Number of elements that the mean is over: more than there are factors if elements that are always zero are
    /// left out.
    pub mean_len: usize,
}

/// Weights of an attention block. [`wf_core::Attention`] describes the computation.
pub struct Attention {
    /// Norm of the block's input.
    pub norm: Norm,
    /// Norms that the query, key and value projections apply to their input.
    pub input_norms: Option<[Norm; 3]>,
    /// Query projection; with gates, a query and a gate for each head.
    pub query: TernaryMatrix,
    /// Key projection.
    pub key: TernaryMatrix,
    /// Value projection.
    pub value: TernaryMatrix,
    /// Norms of every query head and every key head.
    pub qk_norms: Option<[Norm; 2]>,
    /// Norm of the concatenated heads.
    pub sub_norm: Option<Norm>,
    /// Output projection.
    pub output: TernaryMatrix,
    /// Norm of the block's output.
    pub output_norm: Option<Norm>,
}

/// Weights of a gated feed-forward block. [`wf_core::Dense`] describes the computation.
pub struct Mlp {
    /// Norm of the block's input.
    pub norm: Norm,
    /// Norms that the gate and up projections apply to their input.
    pub input_norms: Option<[Norm; 2]>,
    /// Gate projection.
    pub gate: TernaryMatrix,
    /// Up projection.
    pub up: TernaryMatrix,
    /// Norm of the gated neurons.
    pub sub_norm: Option<Norm>,
    /// Down projection.
    pub down: TernaryMatrix,
    /// Norm of the block's output.
    pub output_norm: Option<Norm>,
    /// Index of each neuron in the file, if neurons that are always zero were dropped.
    pub kept: Option<Vec<usize>>,
}

/// Tensors by name: a model file, or random numbers.
pub trait WeightSource {
    /// Error of a tensor that cannot be read.
    type Error;

    /// Returns a projection.
    fn matrix(
        &mut self,
        name: TensorName,
        rows: usize,
        cols: usize,
    ) -> Result<TernaryMatrix, Self::Error>;

    /// Returns floats: the weights of a norm, or a small matrix.
    fn vector(&mut self, name: TensorName, len: usize) -> Result<Vec<f32>, Self::Error>;

    /// Returns the embedding or the output head.
    fn table(&mut self, name: TensorName, rows: usize, cols: usize) -> Result<Table, Self::Error>;
}

impl Weights {
    /// Reads every weight of `network` from `source`.
    pub fn read<S: WeightSource>(network: &Network, source: &mut S) -> Result<Self, S::Error> {
        let (rows, cols) = (network.vocab_len, network.hidden_len);
        let mut layers = Vec::with_capacity(network.layers.len());
        for (index, layer) in network.layers.iter().enumerate() {
            let mut reader = LayerReader { index, hidden_len: cols, source };
            let mixer = reader.mixer(&layer.mixer)?;
            layers.push(Layer { mixer, ffn: reader.ffn(&layer.ffn)? });
        }
        let embedding = source.table(TensorName::Embedding, rows, cols)?;
        let weight = source.vector(TensorName::OutputNorm, cols)?;
        let output_norm = Norm::new(weight, network.norm.eps);
        let output = match network.head.tied {
            true => None,
            false => Some(source.table(TensorName::Output, rows, cols)?),
        };
        let mtp = network.mtp.as_ref().map(|mtp| Mtp::read(network, mtp, source)).transpose()?;
        Ok(Self { embedding, layers, output_norm, output, mtp })
    }

    /// Table whose rows score the tokens.
    pub fn head(&self) -> &Table {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.embedding.size_bytes()
            + self.output.as_ref().map_or(0, Table::size_bytes)
            + self.output_norm.size_bytes()
            + self.mtp.as_ref().map_or(0, Mtp::size_bytes)
            + self.layers.iter().map(Layer::size_bytes).sum::<usize>()
    }
}

impl Norm {
    /// Creates a norm of all elements.
    pub fn new(weight: Vec<f32>, eps: f32) -> Self {
        Self { mean_len: weight.len(), weight, eps }
    }

    pub(crate) fn as_rms(&self) -> RmsNorm<'_> {
        RmsNorm { weight: &self.weight, eps: self.eps, mean_len: self.mean_len }
    }

    fn size_bytes(&self) -> usize {
        size_of_val(&self.weight[..])
    }
}

impl Layer {
    fn size_bytes(&self) -> usize {
        let mixer = match &self.mixer {
            Mixer::DeltaNet(delta_net) => delta_net.size_bytes(),
            Mixer::Attention(a) => {
                let matrices = [&a.query, &a.key, &a.value, &a.output];
                let inputs = a.input_norms.iter().flatten().chain(a.qk_norms.iter().flatten());
                let norms = inputs.chain(&a.sub_norm).chain(&a.output_norm).chain([&a.norm]);
                size_of(matrices, norms)
            }
        };
        mixer + self.ffn.size_bytes()
    }
}

impl Ffn {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Dense(m) => {
                let inputs = m.input_norms.iter().flatten();
                let norms = inputs.chain(&m.sub_norm).chain(&m.output_norm).chain([&m.norm]);
                size_of([&m.gate, &m.up, &m.down], norms)
            }
            Self::Experts(e) => {
                let experts = e.experts.iter().chain(e.shared.iter().map(|shared| &shared.expert));
                let matrices = experts.flat_map(|e| [&e.gate, &e.up, &e.down]);
                let norms = e.output_norm.iter().chain([&e.norm]);
                let gate = e.shared.iter().flat_map(|shared| &shared.gate);
                let gate = gate.map(|gate| size_of_val(&gate[..])).sum::<usize>();
                size_of(matrices, norms) + size_of_val(&e.router[..]) + gate
            }
        }
    }
}

fn size_of<'a>(
    matrices: impl IntoIterator<Item = &'a TernaryMatrix>,
    norms: impl Iterator<Item = &'a Norm>,
) -> usize {
    let matrices = matrices.into_iter().map(TernaryMatrix::size_bytes);
    matrices.sum::<usize>() + norms.map(Norm::size_bytes).sum::<usize>()
}

struct LayerReader<'a, S> {
    index: usize,
    hidden_len: usize,
    source: &'a mut S,
}

impl<S: WeightSource> LayerReader<'_, S> {
    fn mixer(&mut self, recipe: &wf_core::Mixer) -> Result<Mixer, S::Error> {
        match recipe {
            wf_core::Mixer::Attention(recipe) => {
                self.attention(recipe).map(|attention| Mixer::Attention(Box::new(attention)))
            }
            wf_core::Mixer::DeltaNet(recipe) => {
                self.delta_net(recipe).map(|delta_net| Mixer::DeltaNet(Box::new(delta_net)))
            }
        }
    }

    fn attention(&mut self, recipe: &wf_core::Attention) -> Result<Attention, S::Error> {
        use LayerTensor as T;
        let (hidden, query, kv) = (self.hidden_len, recipe.query_len(), recipe.kv_len());
        let input_norms = [T::QueryInputNorm, T::KeyInputNorm, T::ValueInputNorm];
        let qk_norms = [T::QueryHeadNorm, T::KeyHeadNorm];
        Ok(Attention {
            norm: self.norm(recipe.norm, T::AttnNorm, hidden)?,
            input_norms: self.norms(recipe.input_norm, input_norms, hidden)?,
            query: self.matrix(T::Query, recipe.query_rows(), hidden)?,
            key: self.matrix(T::Key, kv, hidden)?,
            value: self.matrix(T::Value, kv, hidden)?,
            qk_norms: self.norms(recipe.qk_norm, qk_norms, recipe.head_dim)?,
            sub_norm: self.optional_norm(recipe.sub_norm, T::AttnSubNorm, query)?,
            output: self.matrix(T::AttnOutput, hidden, query)?,
            output_norm: self.optional_norm(recipe.output_norm, T::AttnOutputNorm, hidden)?,
        })
    }

    fn ffn(&mut self, recipe: &wf_core::Ffn) -> Result<Ffn, S::Error> {
        match recipe {
            wf_core::Ffn::Dense(dense) => self.mlp(dense).map(|mlp| Ffn::Dense(Box::new(mlp))),
            wf_core::Ffn::Experts(experts) => self.experts(experts).map(Ffn::Experts),
        }
    }

    fn experts(&mut self, recipe: &wf_core::Experts) -> Result<Experts, S::Error> {
        use LayerTensor as T;
        let (hidden, Dense { norm, output_norm, .. }) = (self.hidden_len, recipe.expert);
        let router = TensorName::Layer(self.index, T::Router);
        let mut experts = Vec::with_capacity(recipe.experts);
        let norm = self.norm(norm, T::FfnNorm, hidden)?;
        let router = self.source.vector(router, recipe.experts * hidden)?;
        for index in 0..recipe.experts {
            experts.push(self.expert(index, recipe.expert.ffn_len)?);
        }
        let shared = recipe.shared.map(|shared| self.shared_expert(shared)).transpose()?;
        let output_norm = self.optional_norm(output_norm, T::FfnOutputNorm, hidden)?;
        let shared = shared.map(Box::new);
        Ok(Experts { norm, router, experts, shared, output_norm })
    }

    fn expert(&mut self, expert: usize, ffn: usize) -> Result<Expert, S::Error> {
        let (layer, hidden) = (self.index, self.hidden_len);
        let mut matrix = |tensor, rows, cols| {
            self.source.matrix(TensorName::Expert(layer, expert, tensor), rows, cols)
        };
        Ok(Expert {
            gate: matrix(LayerTensor::Gate, ffn, hidden)?,
            up: matrix(LayerTensor::Up, ffn, hidden)?,
            down: matrix(LayerTensor::Down, hidden, ffn)?,
        })
    }

    fn shared_expert(&mut self, recipe: wf_core::SharedExpert) -> Result<SharedExpert, S::Error> {
        use LayerTensor as T;
        let (hidden, ffn) = (self.hidden_len, recipe.ffn_len);
        let gate = TensorName::Layer(self.index, T::SharedRouter);
        let gate = recipe.gated.then(|| self.source.vector(gate, hidden)).transpose()?;
        let expert = Expert {
            gate: self.matrix(T::SharedGate, ffn, hidden)?,
            up: self.matrix(T::SharedUp, ffn, hidden)?,
            down: self.matrix(T::SharedDown, hidden, ffn)?,
        };
        Ok(SharedExpert { gate, expert })
    }

    fn mlp(&mut self, recipe: &Dense) -> Result<Mlp, S::Error> {
        use LayerTensor as T;
        let (hidden, ffn) = (self.hidden_len, recipe.ffn_len);
        let input_norms = [T::GateInputNorm, T::UpInputNorm];
        Ok(Mlp {
            norm: self.norm(recipe.norm, T::FfnNorm, hidden)?,
            input_norms: self.norms(recipe.input_norm, input_norms, hidden)?,
            gate: self.matrix(T::Gate, ffn, hidden)?,
            up: self.matrix(T::Up, ffn, hidden)?,
            sub_norm: self.optional_norm(recipe.sub_norm, T::FfnSubNorm, ffn)?,
            down: self.matrix(T::Down, hidden, ffn)?,
            output_norm: self.optional_norm(recipe.output_norm, T::FfnOutputNorm, hidden)?,
            kept: None,
        })
    }

    fn matrix(
        &mut self,
        tensor: LayerTensor,
        rows: usize,
        cols: usize,
    ) -> Result<TernaryMatrix, S::Error> {
        self.source.matrix(TensorName::Layer(self.index, tensor), rows, cols)
    }

    fn norm(
        &mut self,
        recipe: wf_core::Norm,
        tensor: LayerTensor,
        len: usize,
    ) -> Result<Norm, S::Error> {
        let weight = self.source.vector(TensorName::Layer(self.index, tensor), len)?;
        Ok(Norm::new(weight, recipe.eps))
    }

    fn optional_norm(
        &mut self,
        recipe: Option<wf_core::Norm>,
        tensor: LayerTensor,
        len: usize,
    ) -> Result<Option<Norm>, S::Error> {
        recipe.map(|recipe| self.norm(recipe, tensor, len)).transpose()
    }

    fn norms<const N: usize>(
        &mut self,
        recipe: Option<wf_core::Norm>,
        tensors: [LayerTensor; N],
        len: usize,
    ) -> Result<Option<[Norm; N]>, S::Error> {
        let Some(recipe) = recipe else { return Ok(None) };
        let mut norms = Vec::with_capacity(N);
        for tensor in tensors {
            norms.push(self.norm(recipe, tensor, len)?);
        }
        Ok(norms.try_into().ok())
    }
}
