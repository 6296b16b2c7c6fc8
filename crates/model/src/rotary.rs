//! Frequencies of rotary embeddings, stretched for long contexts.
//!
//! Each step is rounded to single precision where Transformers in float32 rounds it, so that the
//! frequencies agree. Methods whose frequencies depend on the length of a sequence take the longest
//! one allowed: otherwise the keys in the cache would become wrong as a sequence grows.

use std::f64::consts::TAU;

use wf_core::{Layer, Network, Rope, RopeDivisors, RopeScaling, Yarn};
use wf_kernels::{RotaryTable, far_rotation, math, rotary_frequencies, rotary_powers};

use crate::segment::Row;

/// The rotary embeddings of all layers; layers with equal embeddings share one.
pub(crate) struct Rotary {
    embeddings: Vec<Embedding>,
    /// Index of each layer's embedding.
    of_layer: Vec<Option<usize>>,
}

/// Cosines and sines of a rotary embedding.
pub(crate) struct Embedding {
    frequencies: Frequencies,
    table: RotaryTable,
    /// Number of positions that are taken from the table.
    near: usize,
    /// Cosines of the rows of a step at other positions, and their sines.
    far: (Vec<f32>, Vec<f32>),
}

impl Rotary {
    /// Creates tables of the positions below `positions`, for sequences of up to `context_len` tokens.
    pub(crate) fn new(network: &Network, positions: usize, context_len: usize) -> Self {
        let mut embeddings: Vec<Embedding> = Vec::new();
        let mut of_layer: Vec<Option<usize>> = Vec::with_capacity(network.layers.len());
        let key = |layer: &Layer| {
            let attention = layer.attention()?;
            attention.rope.map(|rope| (rope, rope.dims.unwrap_or(attention.head_dim)))
        };
        for layer in network.layers.iter().chain(network.mtp.iter().map(|mtp| &mtp.layer)) {
            let earlier =
                network.layers.iter().zip(&of_layer).find(|(other, _)| key(other) == key(layer));
            let index = match (earlier, key(layer)) {
                (Some((_, index)), _) => *index,
                (None, Some((rope, dims))) => {
                    let frequencies =
                        Frequencies::new(&rope, &network.rope_divisors, dims, context_len);
                    let table =
                        RotaryTable::new(&frequencies.values, frequencies.factor, positions);
                    let near = positions;
                    embeddings.push(Embedding {
                        frequencies,
                        table,
                        near,
                        far: Default::default(),
                    });
                    Some(embeddings.len() - 1)
                }
                (None, None) => None,
            };
            of_layer.push(index);
        }
        Self { embeddings, of_layer }
    }

    /// Takes the positions below `near` from tables and computes all others, for steps of up to `rows` tokens.
    ///
    /// # Panics
    ///
    /// If the tables have fewer positions.
    pub(crate) fn set_near(&mut self, near: usize, rows: usize) {
        for embedding in &mut self.embeddings {
            assert!(near <= embedding.table.positions(), "{near} positions in a table");
            let len = rows * embedding.frequencies.values.len();
            (embedding.near, embedding.far) = (near, (vec![0.0; len], vec![0.0; len]));
        }
    }

    /// Takes all positions from tables.
    pub(crate) fn set_all_near(&mut self) {
        for embedding in &mut self.embeddings {
            (embedding.near, embedding.far) = (embedding.table.positions(), Default::default());
        }
    }

    /// Computes the rotations of the rows of a step that are not in the tables.
    pub(crate) fn place(&mut self, rows: &[Row]) {
        for Embedding { frequencies, near, far: (cos, sin), .. } in &mut self.embeddings {
            let pairs = frequencies.values.len().max(1);
            let each = cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs)).zip(rows);
            for ((cos, sin), row) in each.filter(|(_, row)| row.position >= *near) {
                far_rotation(&frequencies.values, frequencies.factor, row.position, (cos, sin));
            }
        }
    }

    /// Returns the embedding of a layer; that of a prediction head follows the others.
    pub(crate) fn of_layer(&self, layer: usize) -> Option<&Embedding> {
        self.of_layer[layer].map(|index| &self.embeddings[index])
    }
}

impl Embedding {
    /// Returns the cosines and sines of a position, which is near or that of row `row`.
    pub(crate) fn rotation(&self, row: usize, position: usize) -> (&[f32], &[f32]) {
        if position < self.near {
            return (self.table.cos(position), self.table.sin(position));
        }
        let pairs = self.frequencies.values.len();
        let of_row = row * pairs..(row + 1) * pairs;
        (&self.far.0[of_row.clone()], &self.far.1[of_row])
    }
}

/// The frequencies of a rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Angle per position of each pair of dimensions.
    pub values: Vec<f32>,
    /// Factor of cosines and sines.
    pub factor: f32,
}

impl Frequencies {
    /// Computes the frequencies of `dims` rotated dimensions for sequences of up to `context_len` tokens.
    ///
    /// # Panics
    ///
    /// If the number of dimensions is odd, or `divisors` has too few for it.
    pub fn new(rope: &Rope, divisors: &RopeDivisors, dims: usize, context_len: usize) -> Self {
        // The inverse of a product is not the quotient of the inverse in the last bit.
        let powers = rotary_powers(dims, rope.theta);
        let mut values = rotary_frequencies(dims, rope.theta);
        let mut factor = 1.0;
        match rope.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                values.iter_mut().for_each(|value| *value /= factor as f32);
            }
            RopeScaling::Dynamic { factor, original_len } => {
                let len = context_len.max(original_len) as f64;
                let stretched = factor * len / original_len as f64 - (factor - 1.0);
                let exponent = dims as f64 / (dims as f64 - 2.0);
                values = rotary_frequencies(dims, rope.theta * math::pow(stretched, exponent));
            }
            RopeScaling::Llama3 { factor, low_turns, high_turns, original_len } => {
                let turns = (low_turns as f32, high_turns as f32);
                for value in &mut values {
                    *value = llama3(*value, factor as f32, turns, original_len as f32);
                }
            }
            RopeScaling::Yarn(yarn) => {
                blend(&yarn, rope.theta, &powers, &mut values);
                factor = yarn.attention_factor as f32;
            }
            RopeScaling::Divided { original_len, attention_factor } => {
                let is_long = context_len > original_len;
                let divisors = if is_long { &divisors.long } else { &divisors.short };
                assert_eq!(divisors.len(), values.len(), "one divisor per pair");
                for (value, (divisor, power)) in values.iter_mut().zip(divisors.iter().zip(powers))
                {
                    *value = 1.0 / (divisor * power);
                }
                factor = attention_factor as f32;
            }
        }
        Self { values, factor }
    }
}

/// Divides a low frequency, keeps a high one, and blends one between by its turns within the original
/// context.
fn llama3(value: f32, factor: f32, (low, high): (f32, f32), original_len: f32) -> f32 {
    let wave_len = TAU as f32 / value;
    let turns = original_len / wave_len;
    if wave_len > original_len / low {
        value / factor
    } else if wave_len < original_len / high {
        value
    } else {
        let smooth = (turns - low) / (high - low);
        (1.0 - smooth) * value / factor + smooth * value
    }
}

/// Blends the frequencies of YaRN: divided by the factor from the index of `slow_turns` on, as they are
/// up to that of `fast_turns`, and linearly in between.
fn blend(yarn: &Yarn, theta: f64, powers: &[f32], values: &mut [f32]) {
    let dim = 2.0 * powers.len() as f64;
    let index_of = |turns: f64| {
        dim * math::ln(yarn.original_len as f64 / (turns * TAU)) / (2.0 * math::ln(theta))
    };
    let (mut low, mut high) = (index_of(yarn.fast_turns), index_of(yarn.slow_turns));
    if yarn.whole_indices {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    for (index, (value, power)) in values.iter_mut().zip(powers).enumerate() {
        let ramp = ((index as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let kept = 1.0 - ramp;
        let divided = 1.0 / (yarn.factor as f32 * power);
        *value = divided * (1.0 - kept) + *value * kept;
    }
}
