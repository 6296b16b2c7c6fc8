//! Loading: the tensors of a model file become weights in the layout of the kernels.
//!
//! Shapes were checked when the file was opened. Checked here is what only the values can show: codes
//! that are no trits, scales and weights that are not finite.

use std::sync::atomic::{AtomicUsize, Ordering};

use wf_core::ActivationCodes;
use wf_formats::{
    Encoding, FloatEncoding, ModelFile, Scales, TensorChunks, TensorInfo, TensorName,
};
use wf_kernels::{Layout, TernaryMatrix};

use crate::compute::{Compute, GroupsSplitLines};
use crate::embed::FloatTable;
use crate::table::Table;
use crate::weights::{WeightSource, Weights};

/// Error of a model file that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A tensor cannot be read.
    #[error(transparent)]
    File(#[from] wf_formats::Error),
    /// The layout of the weights does not support the activations.
    #[error(transparent)]
    Layout(#[from] GroupsSplitLines),
    /// The weights cannot run.
    #[error("{0}")]
    Weights(String),
}

/// Returns the error of a value that is infinite or not a number.
fn not_finite(tensor: &TensorInfo, row: usize) -> LoadError {
    let name = &tensor.source_name;
    LoadError::Weights(format!("tensor {name:?}, row {row}: a value is not finite"))
}

/// Progress of loading.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Bytes of the file read so far.
    pub done: u64,
    /// Bytes to read in total.
    pub total: u64,
}

pub(crate) fn load(
    file: &ModelFile,
    compute: &Compute,
    activations: ActivationCodes,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Weights, LoadError> {
    let network = file.network();
    let total = file.tensors().iter().map(|t| t.size).sum();
    let is_ternary = |t: &&TensorInfo| matches!(t.encoding, Encoding::Ternary(_));
    let trits = file.tensors().iter().filter(is_ternary).map(|t| t.rows * t.cols).sum();
    let layout = compute.layout_for(trits, activations)?;
    Weights::read(network, &mut Loader { file, compute, layout, progress, done: 0, total })
}

struct Loader<'a> {
    file: &'a ModelFile,
    compute: &'a Compute,
    layout: Layout,
    progress: &'a mut dyn FnMut(LoadProgress),
    done: u64,
    total: u64,
}

/// Shapes are those of the network, as opening the file has checked.
impl WeightSource for Loader<'_> {
    type Error = LoadError;

    fn matrix(&mut self, name: TensorName, _: usize, _: usize) -> Result<TernaryMatrix, LoadError> {
        let tensor = self.find(name)?;
        let matrix = self.trits(tensor)?;
        self.finished(tensor);
        Ok(matrix)
    }

    fn vector(&mut self, name: TensorName, _: usize) -> Result<Vec<f32>, LoadError> {
        let tensor = self.find(name)?;
        let mut values = vec![0.0; tensor.rows * tensor.cols];
        self.file.read(tensor)?.floats(0..tensor.rows, &mut values)?;
        if !values.iter().all(|value| value.is_finite()) {
            return Err(not_finite(tensor, 0));
        }
        self.finished(tensor);
        Ok(values)
    }

    fn table(&mut self, name: TensorName, _: usize, _: usize) -> Result<Table, LoadError> {
        let tensor = self.find(name)?;
        let table = match tensor.encoding {
            Encoding::Float(encoding) => {
                let table = self.float_table(tensor, encoding)?;
                self.check_finite(tensor, &table)?;
                Table::Float(table)
            }
            _ => Table::Ternary(self.trits(tensor)?),
        };
        self.finished(tensor);
        Ok(table)
    }
}

impl<'a> Loader<'a> {
    fn find(&self, name: TensorName) -> Result<&'a TensorInfo, LoadError> {
        let missing = || LoadError::Weights(format!("tensor {name} is missing"));
        self.file.tensor(name).ok_or_else(missing)
    }

    fn finished(&mut self, tensor: &TensorInfo) {
        self.done += tensor.size;
        (self.progress)(LoadProgress { done: self.done, total: self.total });
    }

    fn trits(&self, tensor: &TensorInfo) -> Result<TernaryMatrix, LoadError> {
        match self.ready_matrix(tensor)? {
            Some(matrix) => Ok(matrix),
            None => self.repacked_matrix(tensor),
        }
    }

    /// Reads a matrix that the file stores in the layout of the kernels, or returns `None` for others.
    ///
    /// It is copied, not mapped: a mapped file has small pages, which are slower.
    fn ready_matrix(&self, tensor: &TensorInfo) -> Result<Option<TernaryMatrix>, LoadError> {
        if self.file.quad_lines(tensor)?.is_none() {
            return Ok(None);
        }
        let scales = self.file.scales(tensor)?;
        if !matches!(scales, Scales::Groups { .. }) && self.layout != Layout::QuadLines {
            return Ok(None);
        }
        let (pool, shape) = (&self.compute.pool, (tensor.rows, tensor.cols));
        let chunks = self.file.chunks(tensor);
        let read = |chunk, bytes: &mut [u8]| chunks.read(chunk, bytes);
        let matrix =
            TernaryMatrix::read_quad_lines(pool, shape, scales, TensorChunks::CHUNK_LEN, read)?;
        chunks.finish()?;
        // `None` if a code is no trit: reading the trits one by one finds the place.
        Ok(matrix)
    }

    /// Reads a matrix in any other encoding.
    ///
    /// Its bytes are read, not mapped: a file that is truncated meanwhile is an error, not a signal.
    fn repacked_matrix(&self, tensor: &TensorInfo) -> Result<TernaryMatrix, LoadError> {
        let data = self.file.read(tensor)?;
        let shape = (tensor.rows, tensor.cols);
        let read = |rows, trits: &mut [i8]| data.trits(rows, trits);
        Ok(TernaryMatrix::read(&self.compute.pool, self.layout, shape, data.scales()?, read)?)
    }

    fn float_table(
        &self,
        tensor: &TensorInfo,
        encoding: FloatEncoding,
    ) -> Result<FloatTable, LoadError> {
        if encoding.is_plain() {
            let chunks = self.file.chunks(tensor);
            let read = |chunk, bytes: &mut [u8]| chunks.read(chunk, bytes);
            let (rows, cols) = (tensor.rows, tensor.cols);
            let table = FloatTable::read(&self.compute.pool, encoding, rows, cols, read)?;
            chunks.finish()?;
            return Ok(table);
        }
        let data = self.file.read(tensor)?;
        Ok(FloatTable::new(&self.compute.pool, encoding, tensor.cols, data.bytes()))
    }

    /// Rejects a table with a value that is not finite, naming the first such row.
    fn check_finite(&self, tensor: &TensorInfo, table: &FloatTable) -> Result<(), LoadError> {
        let first = AtomicUsize::new(usize::MAX);
        let jobs = self.compute.threads() * 4;
        self.compute.pool.run(jobs, |job| {
            let mut buffer = vec![0.0; tensor.cols];
            let rows = tensor.rows * job / jobs..tensor.rows * (job + 1) / jobs;
            if let Some(row) = rows.into_iter().find(|&r| !table.row_is_finite(r, &mut buffer)) {
                first.fetch_min(row, Ordering::Relaxed);
            }
        });
        match first.into_inner() {
            usize::MAX => Ok(()),
            row => Err(not_finite(tensor, row)),
        }
    }
}
