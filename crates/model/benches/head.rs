//! Time of the output head in each mode.
//!
//! `cargo bench -p wf-model --bench head`. The network has no layers, so it is little more than its
//! head. Each round runs all modes and a plain loop that adds the words of an int8 copy, so that other
//! load slows all of them. The output is the median of all rounds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use wf_core::Network;
use wf_formats::{FloatEncoding, encoding::encode_floats};
use wf_kernels::{Pool, half::f32_to_bf16, prefer_huge_pages};
use wf_model::weights::{FloatTable, Norm, Weights};
use wf_model::{
    Compute, Draw, DrawQuery, Forward, HeadMode, KvDtype, Logits, Model, ModelInfo, ModelOptions,
    NoiseKey, Scoring, Segment, SparseMode,
};

/// Hidden size of BitNet 2B.
const COLS: usize = 2560;
/// Hidden states to choose from, each a row of the embedding.
const STATES: usize = 8;

fn main() {
    // `cargo bench -- --test` checks that the benchmark runs.
    let quick = std::env::args().any(|arg| arg == "--test");
    let (vocab_len, rounds) = if quick { (1000, 1) } else { (128_256, 11) };
    let blocks = std::env::args().any(|arg| arg == "--blocks");

    let table = bf16_bytes(&Pool::new(2), vocab_len);
    let (mut models, cases) = if blocks {
        blocks_cases(vocab_len)
    } else {
        let modes = [HeadMode::Full, HeadMode::Scan, HeadMode::Scan4, HeadMode::Int8];
        let models = modes.map(|head| model(vocab_len, FloatEncoding::BF16, &table, head));
        (models.into(), cases(vocab_len))
    };
    drop(table);
    let words = words(vocab_len * COLS / 8);
    for threads in [2, 1] {
        let pool = Pool::new(threads);
        let mut seconds = vec![Vec::new(); cases.len()];
        let mut plain = Vec::new();
        let (mut logits, mut kept) = (Logits::new(vocab_len), Vec::new());
        models.iter_mut().for_each(|model| model.set_compute(Compute::new(threads)));
        for round in 0..rounds {
            plain.push(time(|| read_words(&pool, &words)));
            for (case, seconds) in cases.iter().zip(&mut seconds) {
                let token = [(round % STATES) as u32];
                let key = NoiseKey([round as u32, 2, 3, 4]);
                let draw = case.draw.map(|draw| Draw { key, ..draw });
                let draws = draw.map(|draw| DrawQuery { draw, adjustments: vec![] });
                let segment = Segment {
                    scoring: case.scoring,
                    allowed: &case.allowed,
                    draws: draws.as_slice(),
                    ..Segment::causal(&token, 0, &[0], &[0])
                };
                seconds.push(time(|| {
                    models[case.model].forward(&[segment], &mut logits);
                    if let Some(draw) = &draws {
                        black_box(draw.token(logits.row_mut(0), &mut kept));
                    }
                }));
            }
        }
        let plain_ms = median(&mut plain) * 1e3;
        let plain_gb_s = 8.0 * words.len() as f64 / plain_ms / 1e6;
        println!("{threads} threads, plain reading: {plain_ms:.2} ms, {plain_gb_s:.1} GB/s");
        for (case, seconds) in cases.iter().zip(&mut seconds) {
            let ms = median(seconds) * 1e3;
            let bytes = match case.scoring {
                Scoring::All if case.name != "int8" => {
                    models[case.model].weights().head().size_bytes()
                }
                _ => models[case.model].head_bytes_per_pick(),
            };
            let gb_s = bytes as f64 / ms / 1e6;
            let share = 100.0 * gb_s / plain_gb_s;
            println!("  {:18} {ms:6.2} ms, {gb_s:5.1} GB/s, {share:3.0} %", case.name);
        }
    }
    for (name, counts) in models.iter().flat_map(Model::head_counts) {
        let each = counts.candidates.get() as f64 / counts.picks.get().max(1) as f64;
        let (widened, whole) = (counts.widened.get(), counts.whole.get());
        println!("{name}: {each:.1} candidates, {widened} widened, {whole} whole");
    }
}

struct Case {
    name: &'static str,
    /// Index of the model.
    model: usize,
    scoring: Scoring,
    /// See [`Segment::allowed`].
    allowed: Vec<u32>,
    /// Its key is another in each round.
    draw: Option<Draw>,
}

/// Cases for the models full, scan, scan4 and int8.
fn cases(vocab_len: usize) -> Vec<Case> {
    let case = |name, model, scoring| Case { name, model, scoring, allowed: vec![], draw: None };
    // Typical masks of a grammar: inside a string, and between fields.
    let words = vocab_len.div_ceil(32);
    let [text, few] = [vec![0x7fff_ffff; words], (0..words as u32).map(|w| w & 1).collect()];
    // Scores have a deviation of 50, so this is as flat as 2.5 at temperature 1.
    let flat =
        Draw { temperature: 20.0, top_k: None, top_p: 1.0, min_p: 0.0, key: NoiseKey([0; 4]) };
    let peaked = Draw { temperature: 6.0, ..flat };
    let draw = |name, draw| Case { draw: Some(draw), ..case(name, 1, Scoring::Draw) };
    vec![
        Case { allowed: text, ..case("scan, text", 1, Scoring::BEST) },
        Case { allowed: few, ..case("few", 0, Scoring::BEST) },
        case("full", 0, Scoring::All),
        Case { draw: Some(flat), ..case("full, draw", 0, Scoring::Draw) },
        case("scan, best", 1, Scoring::BEST),
        case("scan, top 50", 1, Scoring::Top(50)),
        draw("draw", flat),
        draw("draw, min-p", Draw { min_p: 0.05, ..flat }),
        draw("draw, top-p", Draw { top_p: 0.95, ..flat }),
        draw("peaked", peaked),
        draw("peaked, min-p", Draw { min_p: 0.05, ..peaked }),
        draw("peaked, top-p", Draw { top_p: 0.95, ..peaked }),
        case("scan4, best", 2, Scoring::BEST),
        case("scan4, top 50", 2, Scoring::Top(50)),
        Case { model: 2, ..draw("scan4, draw", flat) },
        Case { model: 2, ..draw("scan4, min-p", Draw { min_p: 0.05, ..flat }) },
        Case { model: 2, ..draw("scan4, top-p", Draw { top_p: 0.95, ..flat }) },
        Case { model: 2, ..draw("scan4, peaked", peaked) },
        Case { model: 2, ..draw("peaked, top-p 4", Draw { top_p: 0.95, ..peaked }) },
        case("int8", 3, Scoring::All),
    ]
}

/// Heads in the block encodings, read whole and scanned.
fn blocks_cases(vocab_len: usize) -> (Vec<Model>, Vec<Case>) {
    let encodings = [
        ("Q8_0", FloatEncoding::Q8_0),
        ("Q6_K", FloatEncoding::Q6_K),
        ("Q4_0", FloatEncoding::Q4_0),
    ];
    let case = |(at, (name, encoding))| {
        // Rows repeat: encoding is slow, and decoding does not mind.
        let some: Vec<u8> = (0..64)
            .flat_map(|row| {
                encode_floats(encoding, &floats(row, COLS).collect::<Vec<_>>())
                    .expect("finite floats")
            })
            .collect();
        let bytes = some.repeat(vocab_len.div_ceil(64));
        let row_size = some.len() / 64;
        let model = model(vocab_len, encoding, &bytes[..vocab_len * row_size], HeadMode::Full);
        (model, Case { name, model: at, scoring: Scoring::All, allowed: vec![], draw: None })
    };
    encodings.into_iter().enumerate().map(case).unzip()
}

fn model(vocab_len: usize, encoding: FloatEncoding, table: &[u8], head: HeadMode) -> Model {
    let head_recipe = wf_core::Head { tied: false, divisor: None };
    let network = Network { vocab_len, hidden_len: COLS, head: head_recipe, ..Network::default() };
    let info = ModelInfo { context_len: 32, ..ModelInfo::default() };
    let states: Vec<u8> =
        (0..STATES).flat_map(|i| floats(1_000_000 + i, COLS)).flat_map(f32::to_le_bytes).collect();
    let weights = Weights {
        embedding: FloatTable::new(&Pool::new(1), FloatEncoding::F32, COLS, &states).into(),
        layers: Vec::new(),
        output_norm: Norm::new(vec![1.0; COLS], 1e-5),
        output: Some(FloatTable::new(&Pool::new(1), encoding, COLS, table).into()),
        mtp: None,
    };
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: 1,
        max_batch_tokens: 1,
        head,
        sparse: SparseMode::Off,
        context_len: None,
        activations: None,
    };
    Model::from_weights(network, info, weights, Compute::new(2), options)
}

/// Nearly normal floats.
fn floats(seed: usize, len: usize) -> impl Iterator<Item = f32> {
    let mut state = seed as u64 + 1;
    (0..len).map(move |_| {
        let mut sum = 0;
        for _ in 0..4 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            sum += state >> 40;
        }
        sum as f32 / (1 << 24) as f32 - 2.0
    })
}

fn bf16_bytes(pool: &Pool, rows: usize) -> Vec<u8> {
    let mut bytes = vec![0; rows * COLS * 2];
    pool.rows(&mut bytes, COLS * 2, |row, bytes| {
        for (out, value) in bytes.as_chunks_mut().0.iter_mut().zip(floats(row, COLS)) {
            *out = f32_to_bf16(value).to_le_bytes();
        }
    });
    bytes
}

fn words(len: usize) -> Vec<u64> {
    let mut words = Vec::with_capacity(len);
    prefer_huge_pages(&words);
    words.resize(len, 0x0101_0101_0101_0101);
    words
}

/// The words of a large slice, added up on all threads in pieces of some 64 KiB.
fn read_words(pool: &Pool, words: &[u64]) {
    let pieces: Vec<_> = words.chunks(8192).collect();
    pool.run(pieces.len(), |i| {
        let sum = pieces[i].iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        black_box(sum);
    });
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
