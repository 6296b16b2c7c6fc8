//! A small network with random weights, and the bits of its logits.

use std::convert::Infallible;

use wf_core::{Activation, Attention, Dense, Layer, Network, Norm, Rope};
use wf_formats::TensorName;
use wf_formats::encoding::FloatEncoding;
use wf_kernels::{Pool, Scales, TernaryMatrix, half};
use wf_model::weights::{FloatTable, Table, WeightSource, Weights};
use wf_model::{
    Compute, Forward, HeadMode, KvDtype, Logits, Model, ModelInfo, ModelOptions, PageId, Segment,
    SparseMode, TokenId,
};

/// More than two chunks of positions, and not whole pages.
const TOKENS: usize = 523;
pub(crate) const PAGES: usize = 40;

/// Small, with heads that share keys three to one and are no whole number of lanes.
pub(crate) fn network() -> Network {
    let sub_norm = Some(Norm::default());
    let attention = Attention {
        heads: 6,
        kv_heads: 2,
        head_dim: 20,
        rope: Some(Rope::default()),
        sub_norm,
        ..Attention::default()
    };
    let dense = Dense { ffn_len: 32, activation: Activation::Relu2, sub_norm, ..Dense::default() };
    let layers = vec![Layer::new(attention, dense); 2];
    Network { vocab_len: 50, hidden_len: 24, layers, ..Network::default() }
}

/// Numbers without a pattern (an odd multiplier, the upper bits).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn random(&mut self, rows: usize, cols: usize) -> TernaryMatrix {
        let trits: Vec<i8> = (0..rows * cols).map(|_| (self.next() % 3) as i8 - 1).collect();
        let scale = (1.5 / cols as f32).sqrt();
        let mut matrix = TernaryMatrix::new(rows, cols, Scales::Tensor(scale));
        let Ok(()) = matrix.fill(&Pool::new(1), |rows, out| {
            out.copy_from_slice(&trits[rows.start * cols..rows.end * cols]);
            Ok::<(), Infallible>(())
        });
        matrix
    }
}

impl WeightSource for Numbers {
    type Error = Infallible;

    fn matrix(
        &mut self,
        _: TensorName,
        rows: usize,
        cols: usize,
    ) -> Result<TernaryMatrix, Infallible> {
        Ok(self.random(rows, cols))
    }

    fn vector(&mut self, _: TensorName, len: usize) -> Result<Vec<f32>, Infallible> {
        Ok(vec![1.0; len])
    }

    fn table(&mut self, _: TensorName, rows: usize, cols: usize) -> Result<Table, Infallible> {
        let unit = |number: u64| (number % 2001) as f32 / 1000.0 - 1.0;
        let bytes: Vec<u8> = (0..rows * cols)
            .flat_map(|_| half::f32_to_bf16(unit(self.next())).to_le_bytes())
            .collect();
        Ok(FloatTable::new(&Pool::new(1), FloatEncoding::BF16, cols, &bytes).into())
    }
}

/// A model of `network` with random weights.
pub(crate) fn model(network: Network, kv: KvDtype, compute: Compute) -> Model {
    let Ok(weights) = Weights::read(&network, &mut Numbers(7));
    with_weights(network, weights, (kv, SparseMode::Off), compute)
}

pub(crate) fn with_weights(
    network: Network,
    weights: Weights,
    (kv, sparse): (KvDtype, SparseMode),
    compute: Compute,
) -> Model {
    let options = ModelOptions {
        kv,
        pages: PAGES,
        max_batch_tokens: 600,
        head: HeadMode::Full,
        sparse,
        context_len: None,
        activations: None,
    };
    let info = ModelInfo { context_len: 1024, ..ModelInfo::default() };
    Model::from_weights(network, info, weights, compute, options)
}

pub(crate) fn tokens(seed: u64) -> Vec<TokenId> {
    let numbers = &mut Numbers(seed);
    (0..TOKENS).map(|_| (numbers.next() % 50) as TokenId).collect()
}

/// The bits of the scores of each token, read `chunk` tokens at a time.
pub(crate) fn scores(
    model: &mut Model,
    tokens: &[TokenId],
    chunk: usize,
    pages: &[PageId],
) -> Vec<u32> {
    let mut logits = Logits::new(model.network().vocab_len);
    let mut all = Vec::new();
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        let scored: Vec<usize> = (0..tokens.len()).collect();
        model.forward(&[Segment::causal(tokens, i * chunk, pages, &scored)], &mut logits);
        all.extend((0..tokens.len()).flat_map(|row| bits(logits.row(row))));
    }
    all
}

pub(crate) fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|score| score.to_bits()).collect()
}

pub(crate) fn pages() -> Vec<PageId> {
    (0..17).collect()
}
