//! Whatever K and V are stored as, nothing but a sequence's own tokens decides its scores: not the
//! instruction set, the threads, the chunks it is read in, its company, nor where its pages lie.

use std::convert::Infallible;

use wf_formats::encoding::FloatEncoding;
use wf_formats::{Activation, ExtraNorms, RotaryPairs};
use wf_kernels::{Pool, Scales, TernaryMatrix, half};
use wf_model::weights::{Attention, AttentionNorms, FloatTable, Layer, Mlp, MlpNorms, Weights};
use wf_model::{
    Compute, Forward, HeadMode, KvDtype, KvPool, Logits, Model, ModelConfig, ModelOptions, PageId,
    Sees, Segment, SparseMode, TokenId,
};

/// More than two chunks of positions, and not whole pages.
const TOKENS: usize = 523;
const PAGES: usize = 40;

/// Small, with heads that share keys three to one and are no whole number of lanes.
fn config() -> ModelConfig {
    ModelConfig {
        architecture: "small".to_owned(),
        name: None,
        vocab_len: 50,
        hidden_len: 24,
        ffn_len: 32,
        layers: 2,
        heads: 6,
        kv_heads: 2,
        head_dim: 20,
        context_len: 1024,
        rope_theta: 10_000.0,
        rotary_pairs: RotaryPairs::Halves,
        norm_eps: 1e-5,
        activation: Activation::Relu2,
        sub_norms: true,
        tied_head: true,
        bos: None,
        eos: Vec::new(),
        block_diffusion: None,
        extra_norms: ExtraNorms::default(),
        scaled_embedding: false,
        pooling: None,
    }
}

/// Numbers without a pattern (an odd multiplier, the upper bits).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn matrix(&mut self, rows: usize, cols: usize) -> TernaryMatrix {
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

fn weights(config: &ModelConfig) -> Weights {
    let numbers = &mut Numbers(7);
    let (hidden, ffn) = (config.hidden_len, config.ffn_len);
    let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let layers = (0..config.layers).map(|_| Layer {
        attention: Attention {
            norm: vec![1.0; hidden],
            query: numbers.matrix(query, hidden),
            key: numbers.matrix(kv, hidden),
            value: numbers.matrix(kv, hidden),
            sub_norm: Some(vec![1.0; query]),
            output: numbers.matrix(hidden, query),
            extra: AttentionNorms::default(),
        },
        mlp: Mlp {
            norm: vec![1.0; hidden],
            gate: numbers.matrix(ffn, hidden),
            up: numbers.matrix(ffn, hidden),
            sub_norm: Some(vec![1.0; ffn]),
            down: numbers.matrix(hidden, ffn),
            extra: MlpNorms::default(),
        },
    });
    let layers = layers.collect();
    let unit = |number: u64| (number % 2001) as f32 / 1000.0 - 1.0;
    let bytes: Vec<u8> = (0..config.vocab_len * hidden)
        .flat_map(|_| half::f32_to_bf16(unit(numbers.next())).to_le_bytes())
        .collect();
    Weights {
        embedding: FloatTable::new(
            &Pool::new(1),
            FloatEncoding::Bf16,
            (hidden, 2 * hidden),
            &bytes,
        ),
        layers,
        output_norm: vec![1.0; hidden],
        output: None,
    }
}

fn model(kv: KvDtype, compute: Compute) -> Model {
    let options = ModelOptions {
        kv,
        pages: PAGES,
        max_batch_tokens: 600,
        head: HeadMode::Full,
        sparse: SparseMode::Off,
    };
    Model::from_weights(config(), weights(&config()), compute, options)
}

fn tokens(seed: u64) -> Vec<TokenId> {
    let numbers = &mut Numbers(seed);
    (0..TOKENS).map(|_| (numbers.next() % 50) as TokenId).collect()
}

/// The bits of the scores of each token, read `chunk` tokens at a time.
fn scores(model: &mut Model, tokens: &[TokenId], chunk: usize, pages: &[PageId]) -> Vec<u32> {
    let mut logits = Logits::new(model.config().vocab_len);
    let mut all = Vec::new();
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        let want: Vec<usize> = (0..tokens.len()).collect();
        model.forward(&[Segment::causal(tokens, i * chunk, pages, &want)], &mut logits);
        all.extend((0..tokens.len()).flat_map(|row| bits(logits.row(row))));
    }
    all
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|score| score.to_bits()).collect()
}

fn pages() -> Vec<PageId> {
    (0..17).collect()
}

#[test]
fn instruction_sets_threads_and_chunks_change_no_bit() {
    let tokens = tokens(1);
    for kv in KvDtype::ALL {
        let expected = scores(&mut model(kv, Compute::new(1)), &tokens, 1, &pages());
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 600), (2, 100), (3, 7), (16, 256)] {
                let mut model = model(kv, Compute::with_isa(isa, threads).expect("supported"));
                let found = scores(&mut model, &tokens, chunk, &pages());
                assert!(found == expected, "{kv}, {isa}, {threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn pages_may_lie_anywhere() {
    let tokens = tokens(2);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let expected = scores(&mut model, &tokens, 200, &pages());
        let scattered: Vec<PageId> =
            (0..17).map(|i: i32| (39 - 7 * i).rem_euclid(40) as PageId).collect();
        // The pages hold what the first pass left there.
        assert!(scores(&mut model, &tokens, 200, &scattered) == expected, "{kv}");
    }
}

#[test]
fn company_changes_no_bit() {
    let (long, short) = (tokens(3), tokens(4));
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(3));
        let (far, near): (Vec<PageId>, Vec<PageId>) = ((20..37).rev().collect(), pages());
        let alone = scores(&mut model, &long, 1, &far);
        let short_alone = scores(&mut model, &short[..40], 40, &near);
        let mut logits = Logits::new(50);
        let mut together = Vec::new();
        // One token of the long sequence goes with one, two, three of the short one, again and again.
        for (position, token) in long.iter().enumerate() {
            let (start, len) = (position % 37, 1 + position % 3);
            let batch = [
                Segment::causal(&short[start..start + len], start, &near, &[0]),
                Segment::causal(std::slice::from_ref(token), position, &far, &[0]),
            ];
            model.forward(&batch, &mut logits);
            assert!(bits(logits.row(0)) == short_alone[start * 50..][..50], "{kv}, {position}");
            together.extend(bits(logits.row(1)));
        }
        assert!(together == alone, "{kv}");
    }
}

#[test]
fn a_sequence_that_saw_a_nan_loses_only_itself() {
    let tokens = tokens(5);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let (ours, theirs): (Vec<PageId>, Vec<PageId>) = (pages(), (17..34).collect());
        let expected = scores(&mut model, &tokens, 64, &ours);
        for hostile in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38] {
            // A layer whose input is anything writes its keys and values into pages like any other.
            for layer in 0..2 {
                let batch = [Segment::causal(&tokens[..70], 0, &theirs, &[])];
                model.trace_layer(layer, &batch, &vec![hostile; 70 * 24]);
            }
            assert!(scores(&mut model, &tokens, 64, &ours) == expected, "{kv}, {hostile}");
            // And what they leave behind does not harm who gets their pages.
            assert!(scores(&mut model, &tokens, 64, &theirs) == expected, "{kv}, {hostile}");
        }
    }
}

#[test]
fn a_block_that_sees_itself_is_the_same_in_any_batch() {
    let tokens = tokens(6);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let mut logits = Logits::new(50);
        let (pages, others): (Vec<PageId>, Vec<PageId>) = (pages(), (17..34).collect());
        model.forward(&[Segment::causal(&tokens[..250], 0, &pages, &[])], &mut logits);
        let want: Vec<usize> = (0..32).collect();
        let block = Segment {
            sees: Sees::Until(282),
            ..Segment::causal(&tokens[250..282], 250, &pages, &want)
        };
        model.forward(&[block], &mut logits);
        let alone: Vec<u32> = (0..32).flat_map(|row| bits(logits.row(row))).collect();
        model.forward(&[Segment::causal(&tokens[..3], 0, &others, &[]), block], &mut logits);
        let together: Vec<u32> = (0..32).flat_map(|row| bits(logits.row(row))).collect();
        assert!(alone == together, "{kv}");
    }
}

#[test]
fn pages_of_another_type_can_take_over() {
    let tokens = tokens(7);
    let mut switched = model(KvDtype::F32, Compute::new(2));
    for kv in KvDtype::ALL {
        switched.swap_kv(&mut KvPool::new(&config(), kv, PAGES));
        let expected = scores(&mut model(kv, Compute::new(2)), &tokens, 100, &pages());
        assert!(scores(&mut switched, &tokens, 100, &pages()) == expected, "{kv}");
    }
}
