//! A forward pass reuses its buffers: after the first step of a size, no step reserves memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Adjustment, AttentionMode, Compute, Draw, DrawQuery, Forward, HeadMode, KvDtype, Logits, Model,
    ModelOptions, NoiseKey, Scoring, Segment, SparseMode, Window,
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// It slides in the second pass.
const WINDOW: AttentionMode = AttentionMode::Window(Window { len: 64, sinks: 4 });

#[test]
fn a_forward_pass_does_not_allocate() {
    for path in [
        "experts/renormalized",
        "maple/windows",
        "minicpm/longrope",
        "gemma3/windows",
        "qwen35/mtp",
        "qwen35/mtp-float",
    ] {
        recorded_networks_do_not_allocate(&format!("{path}.gguf"));
    }
    for attention in
        [AttentionMode::TopK(3), AttentionMode::Threshold(0.5), AttentionMode::Dynamic(0.5), WINDOW]
    {
        selecting_pages_does_not_allocate(attention);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let kvs = KvDtype::ALL.into_iter().map(|kv| (kv, HeadMode::Scan));
    let heads = HeadMode::ALL.into_iter().map(|head| (KvDtype::F32, head));
    for (kv, head) in kvs.chain(heads) {
        let options = ModelOptions {
            kv,
            pages: 4,
            max_batch_tokens: 64,
            head,
            sparse: SparseMode::On,
            context_len: None,
            activations: None,
        };
        let mut model = Model::load(&file, Compute::new(2), options, &mut |_| {}).unwrap();
        let mut logits = Logits::new(model.network().vocab_len);
        let tokens: Vec<u32> = (5..45).collect();
        let (long, short) =
            (Segment::causal(&tokens, 0, &[0, 1], &[39]), Segment::causal(&[7], 0, &[3], &[0]));
        let (best, top) = (
            Segment { scoring: Scoring::BEST, ..short },
            Segment { scoring: Scoring::Top(50), ..long },
        );
        let words = model.network().vocab_len.div_ceil(32);
        let (most, few) = (vec![!1; words], vec![1; words]);
        let few = Segment { allowed: &few, ..best };
        let most = Segment { allowed: &most, ..best };
        let key = NoiseKey([1, 2, 3, 4]);
        let draw = Draw { temperature: 0.8, top_k: None, top_p: 0.9, min_p: 0.01, key };
        let draws = [DrawQuery { draw, adjustments: vec![Adjustment::none(5)] }];
        let drawn = Segment { scoring: Scoring::Draw, draws: &draws, ..short };
        let mut passes = |times: usize| {
            for _ in 0..times {
                model.forward(&[long, short], &mut logits);
                model.forward(&[short], &mut logits);
                model.forward(&[top, best], &mut logits);
                model.forward(&[few], &mut logits);
                model.forward(&[most, few], &mut logits);
                model.forward(&[drawn], &mut logits);
            }
        };
        assert!(settles(|| passes(3)), "{kv} K/V, head {head}");
    }
}

/// Part of the test above, because tests of one program run at the same time and share the count.
#[expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
fn recorded_networks_do_not_allocate(path: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let path = folder.join(path);
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: 4,
        max_batch_tokens: 64,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations: None,
    };
    let model = Model::load(&file, Compute::new(2), options, &mut |_| {}).unwrap();
    let mut model = model.with_states(2);
    let predicts = model.network().mtp.is_some();
    let mut logits = Logits::new(model.network().vocab_len);
    let tokens: Vec<u32> = (5..45).collect();
    let long = Segment::causal(&tokens, 0, &[0, 1], &[39]);
    let long = Segment { predicts, ..long };
    let short = Segment { state: 1, ..Segment::causal(&[7], 0, &[3], &[0]) };
    let next = Segment::causal(&[9], 40, &[0, 1], &[0]);
    let passes = || {
        model.forward(&[long, short], &mut logits);
        model.forward(&[short], &mut logits);
        model.forward(&[long], &mut logits);
        if predicts {
            model.predict(&[next], &mut logits);
        }
    };
    assert!(settles(passes), "{}", path.display());
}

/// Part of the test above, for a step of many rows and for one of a single row.
#[expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]
fn selecting_pages_does_not_allocate(attention: AttentionMode) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let path = folder.join("weight_only/ternary-yarn.gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: 8,
        max_batch_tokens: 256,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations: None,
    };
    let mut model = Model::load(&file, Compute::new(2), options, &mut |_| {}).unwrap();
    model.set_attention(attention);
    let mut logits = Logits::new(model.network().vocab_len);
    let tokens: Vec<u32> = (5..225).collect();
    let pages: Vec<u32> = (0..8).collect();
    let long = Segment::causal(&tokens, 0, &pages, &[39]);
    let next = Segment::causal(&[7], 220, &pages, &[0]);
    let passes = || {
        model.forward(&[long], &mut logits);
        model.forward(&[next], &mut logits);
    };
    assert!(settles(passes), "{attention}");
}

/// Returns `true` if passes stop allocating. The first pass of a kind makes room for its rows, and a thread
/// allocates when it starts, which on a busy machine can be some passes later.
fn settles(mut passes: impl FnMut()) -> bool {
    (0..50).any(|_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        passes();
        ALLOCATIONS.load(Ordering::Relaxed) == before
    })
}
