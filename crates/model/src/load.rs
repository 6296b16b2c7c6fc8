//! A model file becomes weights, repacked for the kernel.
//!
//! Shapes were checked against the config when the file was opened. What is checked here is what
//! only reading the values can show: a code that is no trit, a scale or weight that is not finite.

use std::sync::atomic::{AtomicUsize, Ordering};

use wf_formats::{
    Encoding, FloatEncoding, LayerTensor, ModelFile, Pieces, TensorInfo, TensorName, TritScales,
};
use wf_kernels::{Layout, Scales, TernaryMatrix};

use crate::compute::Compute;
use crate::embed::FloatTable;
use crate::weights::{Attention, AttentionNorms, Layer, Mlp, MlpNorms, Weights};

/// Why a file could not become a model.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file's reader refused a tensor.
    #[error(transparent)]
    File(#[from] wf_formats::Error),
    /// The network needs a tensor that the file does not have.
    #[error("tensor {0} is missing")]
    Missing(TensorName),
    /// A tensor is not of the kind its place in the network needs.
    #[error("tensor {name:?} is stored as {found}: {allowed} is allowed here")]
    Kind {
        /// Its name in the file.
        name: String,
        /// How it is stored.
        found: String,
        /// What would do.
        allowed: &'static str,
    },
    /// A value that no sound model holds.
    #[error("tensor {name:?}, row {row}: a value is not finite; every weight must be a number")]
    NotFinite {
        /// The tensor's name in the file.
        name: String,
        /// The row with the value.
        row: usize,
    },
}

/// How far loading has come.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    /// Bytes of the file read so far.
    pub done: u64,
    /// Bytes to read.
    pub total: u64,
}

/// Reads every tensor the network uses.
pub(crate) fn load(
    file: &ModelFile,
    compute: &Compute,
    progress: &mut dyn FnMut(Loading),
) -> Result<Weights, LoadError> {
    let total = file.tensors().iter().map(|t| t.size).sum();
    let config = file.config();
    let is_ternary = |t: &&TensorInfo| matches!(t.encoding, Encoding::Ternary(_));
    let trits = file.tensors().iter().filter(is_ternary).map(|t| t.rows * t.cols).sum();
    let layout = compute.layout_for(trits);
    let mut loader = Loader { file, compute, layout, progress, done: 0, total };
    let layers = (0..config.layers).map(|layer| loader.layer(layer)).collect::<Result<_, _>>()?;
    let output = match file.tensor(TensorName::Output) {
        Some(_) => Some(loader.table(TensorName::Output)?),
        None => None,
    };
    Ok(Weights {
        embedding: loader.table(TensorName::Embedding)?,
        layers,
        output_norm: loader.vector(TensorName::OutputNorm)?,
        output,
    })
}

struct Loader<'a> {
    file: &'a ModelFile,
    compute: &'a Compute,
    layout: Layout,
    progress: &'a mut dyn FnMut(Loading),
    done: u64,
    total: u64,
}

impl<'a> Loader<'a> {
    fn layer(&mut self, layer: usize) -> Result<Layer, LoadError> {
        use LayerTensor as T;
        let name = |tensor| TensorName::Layer(layer, tensor);
        let norms = self.file.config().extra_norms;
        let sub_norms = self.file.config().sub_norms;
        Ok(Layer {
            attention: Attention {
                norm: self.vector(name(T::AttnNorm))?,
                query: self.matrix(name(T::Query))?,
                key: self.matrix(name(T::Key))?,
                value: self.matrix(name(T::Value))?,
                sub_norm: self.norm(sub_norms, name(T::AttnSubNorm))?,
                output: self.matrix(name(T::AttnOutput))?,
                extra: AttentionNorms {
                    inputs: self.norms(
                        norms.inputs,
                        [T::QueryInputNorm, T::KeyInputNorm, T::ValueInputNorm].map(name),
                    )?,
                    heads: self.norms(norms.heads, [T::QueryHeadNorm, T::KeyHeadNorm].map(name))?,
                    output: self.norm(norms.outputs, name(T::AttnOutputNorm))?,
                },
            },
            mlp: Mlp {
                norm: self.vector(name(T::FfnNorm))?,
                gate: self.matrix(name(T::Gate))?,
                up: self.matrix(name(T::Up))?,
                sub_norm: self.norm(sub_norms, name(T::FfnSubNorm))?,
                down: self.matrix(name(T::Down))?,
                extra: MlpNorms {
                    inputs: self
                        .norms(norms.inputs, [T::GateInputNorm, T::UpInputNorm].map(name))?,
                    output: self.norm(norms.outputs, name(T::FfnOutputNorm))?,
                },
            },
        })
    }

    fn find(&self, name: TensorName) -> Result<&'a TensorInfo, LoadError> {
        self.file.tensor(name).ok_or(LoadError::Missing(name))
    }

    fn finished(&mut self, tensor: &TensorInfo) {
        self.done += tensor.size;
        (self.progress)(Loading { done: self.done, total: self.total });
    }

    fn matrix(&mut self, name: TensorName) -> Result<TernaryMatrix, LoadError> {
        let tensor = self.find(name)?;
        let matrix = match self.ready_matrix(tensor)? {
            Some(matrix) => matrix,
            None => self.repacked_matrix(tensor)?,
        };
        self.finished(tensor);
        Ok(matrix)
    }

    /// A matrix that lies in the file as it is to lie in memory: it is read to where it stays. (Left
    /// in the file, mapped, it would be in small pages: see `kernels/src/arch/memory.rs`.)
    fn ready_matrix(&self, tensor: &TensorInfo) -> Result<Option<TernaryMatrix>, LoadError> {
        if self.file.quad_lines(tensor)?.is_none() {
            return Ok(None);
        }
        let scales = scales(self.file.scales(tensor)?);
        if !matches!(scales, Scales::Groups { .. }) && self.layout != Layout::QuadLines {
            return Ok(None);
        }
        let (pool, shape) = (&self.compute.pool, (tensor.rows, tensor.cols));
        let pieces = self.file.pieces(tensor);
        let read = |piece, bytes: &mut [u8]| pieces.read(piece, bytes);
        let matrix = TernaryMatrix::read_quad_lines(pool, shape, scales, Pieces::LEN, read)?;
        pieces.finish()?;
        // Nothing, if a code is no trit: whoever reads trits one by one can say where.
        Ok(matrix)
    }

    /// A matrix in any other form. Its bytes are read first, not mapped: a file that is cut short
    /// meanwhile is an error then, and not a signal.
    fn repacked_matrix(&self, tensor: &TensorInfo) -> Result<TernaryMatrix, LoadError> {
        let data = self.file.read(tensor)?;
        let (how, shape) = ((&*self.compute.pool, self.layout), (tensor.rows, tensor.cols));
        let read = |rows, trits: &mut [i8]| data.trits(rows, trits);
        Ok(TernaryMatrix::read(how, shape, scales(data.scales()?), read)?)
    }

    /// A norm, if the network has it.
    fn norm(&mut self, exists: bool, name: TensorName) -> Result<Option<Vec<f32>>, LoadError> {
        if exists { self.vector(name).map(Some) } else { Ok(None) }
    }

    /// Several at once.
    fn norms<const N: usize>(
        &mut self,
        exist: bool,
        names: [TensorName; N],
    ) -> Result<Option<[Vec<f32>; N]>, LoadError> {
        let mut norms = [const { Vec::new() }; N];
        for (norm, name) in norms.iter_mut().zip(names) {
            *norm = self.norm(exist, name)?.unwrap_or_default();
        }
        Ok(exist.then_some(norms))
    }

    fn vector(&mut self, name: TensorName) -> Result<Vec<f32>, LoadError> {
        let tensor = self.find(name)?;
        let mut values = vec![0.0; tensor.rows * tensor.cols];
        self.file.read(tensor)?.floats(0..tensor.rows, &mut values)?;
        if !values.iter().all(|value| value.is_finite()) {
            return Err(LoadError::NotFinite { name: tensor.source_name.clone(), row: 0 });
        }
        self.finished(tensor);
        Ok(values)
    }

    fn table(&mut self, name: TensorName) -> Result<FloatTable, LoadError> {
        let tensor = self.find(name)?;
        let Encoding::Float(encoding) = tensor.encoding else {
            return Err(LoadError::Kind {
                name: tensor.source_name.clone(),
                found: tensor.encoding.to_string(),
                allowed: "F32, F16, BF16, Q8_0, Q6_K or Q4_0",
            });
        };
        let table = match encoding {
            FloatEncoding::F32 | FloatEncoding::F16 | FloatEncoding::Bf16 => {
                let pieces = self.file.pieces(tensor);
                let read = |piece, bytes: &mut [u8]| pieces.read(piece, bytes);
                let shape = (tensor.rows, tensor.cols);
                let table = FloatTable::read(&self.compute.pool, encoding, shape, read)?;
                pieces.finish()?;
                table
            }
            FloatEncoding::Q8_0 | FloatEncoding::Q6K | FloatEncoding::Q4_0 => {
                let data = self.file.read(tensor)?;
                let row = (tensor.cols, data.bytes().len() / tensor.rows);
                FloatTable::new(&self.compute.pool, encoding, row, data.bytes())
            }
        };
        self.check_finite(tensor, &table)?;
        self.finished(tensor);
        Ok(table)
    }

    /// Names the first row with a value that is not finite, if there is one.
    fn check_finite(&self, tensor: &TensorInfo, table: &FloatTable) -> Result<(), LoadError> {
        let worst = AtomicUsize::new(usize::MAX);
        let jobs = self.compute.threads() * 4;
        self.compute.pool.run(jobs, |job| {
            let mut buffer = vec![0.0; tensor.cols];
            let rows = tensor.rows * job / jobs..tensor.rows * (job + 1) / jobs;
            if let Some(row) = rows.into_iter().find(|&r| !table.row_is_finite(r, &mut buffer)) {
                worst.fetch_min(row, Ordering::Relaxed);
            }
        });
        match worst.into_inner() {
            usize::MAX => Ok(()),
            row => Err(LoadError::NotFinite { name: tensor.source_name.clone(), row }),
        }
    }
}

/// What trits are multiplied by, as kernels want it.
fn scales(scales: TritScales) -> Scales {
    match scales {
        TritScales::Tensor(scale) => Scales::Tensor(scale),
        TritScales::Rows(scales) => Scales::Rows(scales),
        TritScales::Groups { len, values } => Scales::Groups { len, values },
    }
}
