//! Tensors that hold one matrix for each expert of a layer.

use super::Reader;
use super::read::Record;
use crate::encoding::TernaryEncoding;
use crate::error::Error;
use crate::names::{TensorName, joined_experts};
use crate::size;
use crate::tensor::{Encoding, TensorInfo};

impl Reader<'_, '_> {
    /// Divides a tensor into those of the experts, or returns `None` for a tensor without experts.
    ///
    /// Their number is that of the network before anything is allocated for them.
    pub(super) fn experts(
        &self,
        record: &Record,
        q2_0: TernaryEncoding,
    ) -> Result<Option<Vec<TensorInfo>>, Error> {
        let Some((layer, tensor)) = joined_experts(&record.name) else { return Ok(None) };
        let recipe = self.network.layers.get(layer).map(|layer| layer.ffn.experts());
        // Layers that the network does not have are not used, with or without experts.
        let Some(recipe) = recipe else { return Ok(Some(Vec::new())) };
        let experts = recipe.map_or(0, |recipe| recipe.experts);
        if record.matrices != experts {
            let found = record.matrices;
            let what = format!("has {found} matrices, the network has {experts} experts");
            return Err(self.fault(record, what));
        }
        let encoding = self.encoding(record, q2_0)?;
        let rows = record.rows.checked_div(experts).unwrap_or_default();
        let size = self.expert_size(record, encoding, rows)?;
        let expert = |index: usize| {
            let name = TensorName::Expert(layer, index, tensor);
            let offset = record.offset.saturating_add(size.saturating_mul(size::widen(index)));
            let source_name = format!("{}[{index}]", record.name);
            TensorInfo::new(name, source_name, (rows, record.cols), encoding, offset, size)
        };
        Ok(Some((0..experts).map(expert).collect()))
    }

    /// Returns the size of one expert, whose bytes have to be a part of those of the tensor.
    fn expert_size(&self, record: &Record, encoding: Encoding, rows: usize) -> Result<u64, Error> {
        let total = record.size(self.file, encoding)?;
        let size = encoding.size(rows, record.cols).map_err(|e| self.fault(record, e))?;
        let is_tiled = matches!(encoding, Encoding::Ternary(e) if !e.is_writable());
        if is_tiled || size.saturating_mul(size::widen(record.matrices)) != total {
            let what = format!(
                "is {encoding}, which stores all experts as one matrix with one scale: use an encoding of \
                 whole rows, such as TQ1_0, TQ2_0 or Q2_0"
            );
            return Err(self.fault(record, what));
        }
        Ok(size)
    }
}
