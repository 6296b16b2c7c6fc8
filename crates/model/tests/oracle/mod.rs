//! The network in float64, written to be obviously correct.

use wf_formats::{LayerTensor, ModelFile, Scales, TensorName};
use wf_model::TokenId;

/// One of the four quantized inputs of a layer, before rounding: value · 127 / largest of its row.
pub(crate) struct Stage {
    pub(crate) scaled: Vec<f64>,
}

/// Returns the int8 code of a scaled value, rounding half to even.
pub(crate) fn code(scaled: f64) -> i8 {
    scaled.round_ties_even().clamp(-128.0, 127.0) as i8
}

struct Matrix {
    rows: usize,
    cols: usize,
    trits: Vec<i8>,
    scale: f64,
}

pub(crate) struct Oracle<'a> {
    file: &'a ModelFile,
    embedding: Vec<f64>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(file: &'a ModelFile) -> Self {
        let mut oracle = Self { file, embedding: Vec::new() };
        oracle.embedding = oracle.floats(TensorName::Embedding);
        oracle
    }

    fn floats(&self, name: TensorName) -> Vec<f64> {
        let tensor = self.file.tensor(name).unwrap();
        let mut values = vec![0.0; tensor.rows * tensor.cols];
        self.file.floats(tensor, 0..tensor.rows, &mut values).unwrap();
        values.into_iter().map(f64::from).collect()
    }

    fn matrix(&self, layer: usize, tensor: LayerTensor) -> Matrix {
        let tensor = self.file.tensor(TensorName::Layer(layer, tensor)).unwrap();
        let mut trits = vec![0; tensor.rows * tensor.cols];
        self.file.trits(tensor, 0..tensor.rows, &mut trits).unwrap();
        let Scales::Tensor(scale) = self.file.scales(tensor).unwrap() else {
            panic!("the demo has one scale a tensor");
        };
        Matrix { rows: tensor.rows, cols: tensor.cols, trits, scale: f64::from(scale) }
    }

    /// Returns the quantized inputs of every layer and the logits of the last position.
    pub(crate) fn run(&self, ids: &[TokenId]) -> (Vec<[Stage; 4]>, Vec<f64>) {
        let network = self.file.network();
        let hidden_len = network.hidden_len;
        let rows = ids.iter().map(|&id| &self.embedding[id as usize * hidden_len..][..hidden_len]);
        let mut hidden: Vec<f64> = rows.flatten().copied().collect();
        let stages =
            (0..network.layers.len()).map(|layer| self.layer(layer, &mut hidden)).collect();
        let last = &hidden[hidden.len() - hidden_len..];
        let normed = self.norm(last, &self.floats(TensorName::OutputNorm));
        let logits = self.embedding.chunks_exact(hidden_len).map(|row| dot(row, &normed)).collect();
        (stages, logits)
    }

    fn layer(&self, layer: usize, hidden: &mut [f64]) -> [Stage; 4] {
        use LayerTensor as T;
        let weight = |tensor| self.floats(TensorName::Layer(layer, tensor));
        let product = |tensor, x: &[f64]| quantized_product(&self.matrix(layer, tensor), x);

        let normed = self.norm(hidden, &weight(T::AttnNorm));
        let (attn_in, mut query) = product(T::Query, &normed);
        let (_, mut key) = product(T::Key, &normed);
        let (_, value) = product(T::Value, &normed);
        let rows = hidden.len() / self.file.network().hidden_len;
        self.rotate(&mut query, rows);
        self.rotate(&mut key, rows);
        let heads = self.norm(&self.attend(&query, &key, &value, rows), &weight(T::AttnSubNorm));
        let (attn_out, delta) = product(T::AttnOutput, &heads);
        add(hidden, &delta);

        let normed = self.norm(hidden, &weight(T::FfnNorm));
        let (ffn_in, gate) = product(T::Gate, &normed);
        let (_, up) = product(T::Up, &normed);
        let squared_relu = |gate: f64| gate.max(0.0) * gate.max(0.0);
        let neurons: Vec<f64> = gate.iter().zip(up).map(|(&g, u)| squared_relu(g) * u).collect();
        let (ffn_mid, delta) = product(T::Down, &self.norm(&neurons, &weight(T::FfnSubNorm)));
        add(hidden, &delta);
        [attn_in, attn_out, ffn_in, ffn_mid]
    }

    fn norm(&self, x: &[f64], weight: &[f64]) -> Vec<f64> {
        let norm_row = |row: &[f64]| -> Vec<f64> {
            let mean_square = dot(row, row) / row.len() as f64;
            let factor = 1.0 / (mean_square + f64::from(self.file.network().norm.eps)).sqrt();
            row.iter().zip(weight).map(|(x, w)| x * factor * w).collect()
        };
        x.chunks_exact(weight.len()).flat_map(norm_row).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "an oracle needs no equal bits")]
    fn rotate(&self, x: &mut [f64], rows: usize) {
        let attention = self.file.network().layers[0].attention().unwrap();
        let (half, theta) = (attention.head_dim / 2, attention.rope.unwrap().theta);
        let row_len = x.len() / rows;
        for (position, row) in x.chunks_exact_mut(row_len).enumerate() {
            for head in row.chunks_exact_mut(attention.head_dim) {
                for i in 0..half {
                    let exponent = -2.0 * i as f64 / attention.head_dim as f64;
                    let angle = position as f64 * theta.powf(exponent);
                    let (a, b) = (head[i], head[i + half]);
                    head[i] = a * angle.cos() - b * angle.sin();
                    head[i + half] = b * angle.cos() + a * angle.sin();
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an oracle needs no equal bits")]
    fn attend(&self, query: &[f64], key: &[f64], value: &[f64], rows: usize) -> Vec<f64> {
        let attention = self.file.network().layers[0].attention().unwrap();
        let dim = attention.head_dim;
        let mut out = Vec::new();
        for row in 0..rows {
            for head in 0..attention.heads {
                let kv_head = head * attention.kv_heads / attention.heads;
                let q = &query[(row * attention.heads + head) * dim..][..dim];
                let at = |p: usize| (p * attention.kv_heads + kv_head) * dim;
                let score = |p| dot(q, &key[at(p)..][..dim]) / (dim as f64).sqrt();
                let scores: Vec<f64> = (0..=row).map(score).collect();
                let top = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
                let total: f64 = weights.iter().sum();
                for d in 0..dim {
                    let weighted = weights.iter().enumerate().map(|(p, w)| w * value[at(p) + d]);
                    out.push(weighted.sum::<f64>() / total);
                }
            }
        }
        out
    }
}

/// Quantises every row of `x` and multiplies.
fn quantized_product(w: &Matrix, x: &[f64]) -> (Stage, Vec<f64>) {
    let mut scaled = Vec::with_capacity(x.len());
    let mut y = Vec::with_capacity(x.len() / w.cols * w.rows);
    for row in x.chunks_exact(w.cols) {
        let largest = row.iter().fold(1e-5, |largest: f64, x| largest.max(x.abs()));
        let first = scaled.len();
        scaled.extend(row.iter().map(|x| x * (127.0 / largest)));
        let codes: Vec<i32> = scaled[first..].iter().map(|&s| i32::from(code(s))).collect();
        for trits in w.trits.chunks_exact(w.cols) {
            let sum: i32 = trits.iter().zip(&codes).map(|(&t, c)| i32::from(t) * c).sum();
            y.push(f64::from(sum) * w.scale * (largest / 127.0));
        }
    }
    (Stage { scaled }, y)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
