//! Recurrent mixers in the keys of GGUF and in `config.json`, and the order of their value heads.

use serde_json::{Map, Value, json};
use wf_core::{DeltaNet, Network, Scales, ValueHeadOrder};

use super::family::{blocks, kinds};
use crate::families::hadamard::{self, HADAMARD};
use crate::gguf::write::MetadataValue;
use crate::names::LayerTensor;

/// Returns the number of layers from one with attention to the next, if GGUF has keys for their order.
pub(super) fn period(network: &Network) -> Option<usize> {
    let first = network.layers.iter().position(|layer| layer.attention().is_some())? + 1;
    let mut layers = (1..).zip(&network.layers);
    let by_period = layers.all(|(number, layer): (usize, _)| {
        layer.attention().is_some() == number.is_multiple_of(first)
    });
    by_period.then_some(first)
}

/// Returns the GGUF keys of recurrent mixers, without the architecture in front.
pub(super) fn gguf_keys(network: &Network) -> Vec<(&'static str, MetadataValue)> {
    let Some(d) = kinds(network).recurrent.and_then(|layer| layer.delta_net()) else {
        return Vec::new();
    };
    let number = |size: usize| MetadataValue::U32(u32::try_from(size).unwrap_or(u32::MAX));
    let (attention, _) = blocks(network);
    let pairs = attention.rope.and_then(|rope| rope.dims).unwrap_or(attention.head_dim) / 2;
    // The axes of images share the pairs of text: time, height and width, as published.
    let (height, width) = ((pairs + 1) / 3, pairs / 3);
    let sections = [pairs - height - width, height, width, 0];
    let sections = sections.map(|pairs| i32::try_from(pairs).unwrap_or(i32::MAX));
    let mut keys = vec![
        ("ssm.conv_kernel", number(d.conv_len)),
        ("ssm.state_size", number(d.key_dim)),
        ("ssm.group_count", number(d.key_heads)),
        ("ssm.time_step_rank", number(d.value_heads)),
        ("ssm.inner_size", number(d.value_len())),
        ("full_attention_interval", number(period(network).unwrap_or(0))),
        ("rope.dimension_sections", MetadataValue::I32s(sections.to_vec())),
    ];
    keys.extend(network.mtp.map(|_| ("nextn_predict_layers", number(1))));
    keys
}

/// Returns the keys of `config.json` of the same.
pub(super) fn json_keys(network: &Network) -> Map<String, Value> {
    let mut values = Map::new();
    let Some(d) = kinds(network).recurrent.and_then(|layer| layer.delta_net()) else {
        return values;
    };
    let mut set = |key: &str, value: Value| {
        values.insert(key.to_owned(), value);
    };
    let kind = |recurrent| if recurrent { "linear_attention" } else { "full_attention" };
    let types = network.layers.iter().map(|layer| kind(layer.delta_net().is_some()));
    set("layer_types", json!(types.collect::<Vec<_>>()));
    set("linear_num_key_heads", json!(d.key_heads));
    set("linear_num_value_heads", json!(d.value_heads));
    set("linear_key_head_dim", json!(d.key_dim));
    set("linear_value_head_dim", json!(d.value_dim));
    set("linear_conv_kernel_dim", json!(d.conv_len));
    set("attn_output_gate", json!(true));
    if d.order == ValueHeadOrder::Tiled {
        set("linear_value_head_order", json!("tiled"));
    }
    if network.mtp.is_some() {
        set("mtp_num_hidden_layers", json!(1));
    }
    if let Some(hadamard) = &network.hadamard {
        set(HADAMARD, hadamard::json(hadamard));
    }
    let (attention, _) = blocks(network);
    let rotated = attention.rope.and_then(|rope| rope.dims).unwrap_or(attention.head_dim);
    set("partial_rotary_factor", json!(rotated as f64 / attention.head_dim as f64));
    values
}

/// The way of value heads in the tensors of a recurrent mixer from the order of one file to that of another.
#[derive(Clone, Copy, Debug)]
pub struct ValueHeadReordering<'a> {
    mixer: &'a DeltaNet,
    to: ValueHeadOrder,
}

impl<'a> ValueHeadReordering<'a> {
    /// Returns how value heads move, or `None` if they stay.
    pub fn new(mixer: &'a DeltaNet, to: ValueHeadOrder) -> Option<Self> {
        let moves = mixer.with_order(to).order != mixer.order;
        moves.then_some(Self { mixer, to })
    }

    /// Returns the index that element `at` of consecutive value heads of `len` elements has in the source.
    fn head_element(&self, at: usize, len: usize) -> usize {
        let (keys, values) = (self.mixer.key_heads, self.mixer.value_heads);
        self.to.head_before(at / len, keys, values) * len + at % len
    }

    /// Returns the index in the source of a row of `tensor`.
    pub fn row(&self, tensor: LayerTensor, row: usize) -> usize {
        let d = self.mixer;
        match tensor {
            LayerTensor::DeltaQkv | LayerTensor::DeltaConv => {
                let others = 2 * d.key_len();
                match row.checked_sub(others) {
                    None => row,
                    Some(row) => others + self.head_element(row, d.value_dim),
                }
            }
            LayerTensor::DeltaGate => self.head_element(row, d.value_dim),
            LayerTensor::DeltaBeta | LayerTensor::DeltaAlpha => self.head_element(row, 1),
            _ => row,
        }
    }

    /// Returns the index in the source of a column of `tensor`.
    pub fn col(&self, tensor: LayerTensor, col: usize) -> usize {
        match tensor {
            LayerTensor::DeltaOutput => self.head_element(col, self.mixer.value_dim),
            LayerTensor::DeltaDecay | LayerTensor::DeltaBias => self.head_element(col, 1),
            _ => col,
        }
    }

    /// Reorders the elements of a matrix of rows of `cols`.
    pub fn matrix<T: Copy>(&self, tensor: LayerTensor, x: &[T], cols: usize) -> Vec<T> {
        let rows = x.len() / cols;
        let row = |row| &x[self.row(tensor, row) * cols..][..cols];
        let element = |(row, col): (&[T], usize)| row[self.col(tensor, col)];
        (0..rows).flat_map(|r| (0..cols).map(move |col| (row(r), col))).map(element).collect()
    }

    /// Reorders the scales of a matrix with rows of `cols`, or returns `None` if a group has columns of
    /// several value heads.
    pub(super) fn scales(
        &self,
        tensor: LayerTensor,
        scales: &Scales,
        cols: usize,
    ) -> Option<Scales> {
        let of_rows = |values: &[f32], per_row: usize| -> Vec<f32> {
            let row = |row| &values[self.row(tensor, row) * per_row..][..per_row];
            (0..values.len() / per_row).flat_map(row).copied().collect()
        };
        Some(match scales {
            Scales::Tensor(scale) => Scales::Tensor(*scale),
            Scales::Rows(values) => Scales::Rows(of_rows(values, 1)),
            Scales::Groups { len, values } if tensor != LayerTensor::DeltaOutput => {
                Scales::Groups { len: *len, values: of_rows(values, cols / len) }
            }
            Scales::Groups { len, values } => {
                let in_head = self.mixer.value_dim / len;
                if !self.mixer.value_dim.is_multiple_of(*len) {
                    return None;
                }
                let rows = values.chunks_exact(cols / len);
                let moved = rows.flat_map(|row| {
                    (0..row.len()).map(move |group| row[self.head_element(group, in_head)])
                });
                Scales::Groups { len: *len, values: moved.collect() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use wf_core::Norm;

    use super::*;

    const MIXER: DeltaNet = DeltaNet {
        key_heads: 2,
        value_heads: 4,
        key_dim: 1,
        value_dim: 2,
        conv_len: 4,
        order: ValueHeadOrder::Grouped,
        norm: Norm { eps: 1e-6 },
        head_norm: Norm { eps: 1e-6 },
    };

    #[test]
    fn value_heads_are_written_tile_by_tile() {
        let to_tiled = ValueHeadReordering::new(&MIXER, ValueHeadOrder::Tiled).unwrap();
        let rows = |tensor, rows: usize| -> Vec<usize> {
            (0..rows).map(|row| to_tiled.row(tensor, row)).collect()
        };
        assert_eq!(rows(LayerTensor::DeltaQkv, 12), [0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11]);
        assert_eq!(rows(LayerTensor::DeltaBeta, 4), [0, 2, 1, 3]);
        assert_eq!(rows(LayerTensor::DeltaOutput, 4), [0, 1, 2, 3]);
        let columns = to_tiled.matrix(LayerTensor::DeltaOutput, &[0, 1, 2, 3, 4, 5, 6, 7], 8);
        assert_eq!(columns, [0, 1, 4, 5, 2, 3, 6, 7]);
        let tiled = MIXER.with_order(ValueHeadOrder::Tiled);
        let back = ValueHeadReordering::new(&tiled, ValueHeadOrder::Grouped).unwrap();
        assert_eq!(back.matrix(LayerTensor::DeltaOutput, &columns, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(ValueHeadReordering::new(&MIXER, ValueHeadOrder::Grouped).is_none());
    }

    #[test]
    fn scales_of_groups_move_with_their_heads_or_not_at_all() {
        let to_tiled = ValueHeadReordering::new(&MIXER, ValueHeadOrder::Tiled).unwrap();
        let groups = |len, values: &[f32]| Scales::Groups { len, values: values.to_vec() };
        let output = LayerTensor::DeltaOutput;
        let moved = to_tiled.scales(output, &groups(2, &[1.0, 2.0, 3.0, 4.0]), 8);
        assert_eq!(moved, Some(groups(2, &[1.0, 3.0, 2.0, 4.0])));
        assert_eq!(to_tiled.scales(output, &groups(4, &[1.0, 2.0]), 8), None);
        let rows = Scales::Rows(vec![1.0, 2.0, 3.0, 4.0]);
        let moved = Scales::Rows(vec![1.0, 3.0, 2.0, 4.0]);
        assert_eq!(to_tiled.scales(LayerTensor::DeltaBeta, &rows, 3), Some(moved));
    }
}
