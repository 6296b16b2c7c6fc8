//! Decoding speed of a model in each layout, and the layout that loading would choose.
//!
//! `cargo bench -p wf-model --bench layouts -- model.gguf`. Two copies of the model decode in turns, so
//! that other load slows both; after each turn the measurement at load is repeated. The output is the
//! ratio of each turn and the layout chosen.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::Path;
use std::time::Instant;

use wf_formats::{ModelFile, OpenOptions};
use wf_kernels::Layout;
use wf_model::{
    ActivationCodes, Compute, Forward, HeadMode, KvDtype, Logits, Model, ModelOptions, Segment,
    SparseMode,
};

/// Turns, and the tokens decoded in each.
const TURNS: usize = 15;
const TOKENS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) else {
        println!("missing model: pass -- model.gguf");
        return Ok(());
    };
    let file = ModelFile::open(Path::new(&path), &OpenOptions::default())?;
    for threads in [2, 1] {
        let mut models = Vec::new();
        for layout in [Layout::QuadLines, Layout::FiveTrits] {
            let compute = Compute::new(threads).with_layout(layout);
            models.push(Model::load(&file, compute, options(), &mut |_| {})?);
        }
        let compute = Compute::new(threads);
        let mut logits = Logits::new(file.network().vocab_len);
        let (mut quad_lines, mut ratios, mut answers) = (Vec::new(), Vec::new(), [0; 2]);
        let mut asking = Vec::new();
        for _ in 0..TURNS {
            let [quad, five] = [0, 1].map(|i| seconds(|| decode(&mut models[i], &mut logits)));
            quad_lines.push(TOKENS as f64 / quad);
            ratios.push(quad / five);
            asking.push(seconds(|| {
                let layout = compute.layout_for(usize::MAX, ActivationCodes::Int8);
                answers[usize::from(matches!(layout, Ok(Layout::FiveTrits)))] += 1;
            }));
        }
        println!(
            "{threads} threads: quad lines {:.1} tok/s; five trits are {:.3} times as fast; measured as faster: \
             quad lines {}, five trits {} times, in {:.0} ms",
            median(quad_lines),
            median(ratios),
            answers[0],
            answers[1],
            median(asking) * 1e3
        );
    }
    Ok(())
}

fn options() -> ModelOptions {
    ModelOptions {
        kv: KvDtype::F32,
        pages: 1,
        max_batch_tokens: 1,
        head: HeadMode::Scan,
        sparse: SparseMode::Off,
        context_len: None,
        activations: None,
    }
}

/// One token after the other, each with a greedy pick's scores.
fn decode(model: &mut Model, logits: &mut Logits) {
    for position in 0..TOKENS {
        let token = [position as u32];
        let segment = Segment::causal(&token, position, &[0], &[0]);
        model.forward(&[Segment { scoring: wf_model::Scoring::BEST, ..segment }], logits);
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
