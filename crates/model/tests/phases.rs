//! Switching threads and reading the clock change no result.

use std::path::Path;
use std::time::{Duration, Instant};

use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Compute, Forward, HeadMode, KvDtype, Logits, Model, ModelOptions, Phase, Segment, SparseMode,
};

fn demo() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let (head, sparse) = (HeadMode::default(), SparseMode::On);
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: 2,
        max_batch_tokens: 16,
        head,
        sparse,
        context_len: None,
        activations: None,
    };
    Model::load(&file, Compute::new(2), options, &mut |_| {}).unwrap()
}

fn run(model: &mut Model, tokens: &[u32], start: usize) -> Vec<f32> {
    let mut logits = Logits::new(model.network().vocab_len);
    let scored = [tokens.len() - 1];
    model.forward(&[Segment::causal(tokens, start, &[1, 0], &scored)], &mut logits);
    logits.row(0).to_vec()
}

#[test]
fn a_model_goes_on_where_it_was_on_other_threads() {
    let (mut stays, mut moves) = (demo(), demo());
    assert_eq!(run(&mut stays, &[5, 6, 7], 0), run(&mut moves, &[5, 6, 7], 0));
    for isa in Compute::supported().collect::<Vec<_>>() {
        moves.set_compute(Compute::chosen(Some(isa), 3, None).unwrap());
        assert_eq!(moves.compute().threads(), 3);
        assert_eq!(run(&mut stays, &[8], 3), run(&mut moves, &[8], 3), "{isa}");
    }
}

#[test]
fn the_clock_measures_every_phase_and_nothing_else() {
    let mut model = demo();
    let expected = run(&mut model, &[5, 6, 7], 0);
    assert_eq!(model.stop_clock().total(), Duration::ZERO, "it was not started");
    let start = Instant::now();
    model.start_clock();
    assert_eq!(run(&mut model, &[5, 6, 7], 0), expected);
    let times = model.stop_clock();
    assert!(times.total() <= start.elapsed());
    for phase in Phase::ALL {
        assert!(times.of(phase) > Duration::ZERO, "{}", phase.name());
    }
}
