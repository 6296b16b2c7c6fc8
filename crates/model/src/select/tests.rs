//! The error of a threshold stays within its limit, for pages that it skips.

use wf_core::{Attention, Dense, Layer};
use wf_kernels::KvDtype;

use super::*;
use crate::attend::AttendScratchPool;
use crate::compute::Compute;
use crate::kv::KvPool;
use crate::segment::{Row, Segment};

const PAGES: usize = 40;
const POSITIONS: usize = PAGES * PAGE_LEN - 5;
const HEAD_DIM: usize = 24;

/// Two K/V heads, each of three query heads.
fn network() -> Network {
    let attention = Attention { heads: 6, kv_heads: 2, head_dim: HEAD_DIM, ..Attention::default() };
    let layers = vec![Layer::new(attention, Dense::default())];
    Network { layers, ..Network::default() }
}

/// Numbers between −1 and 1 without a pattern.
fn noise(at: usize) -> f32 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// Keys of a page are near each other, as those of neighbouring words are.
fn keys() -> Vec<f32> {
    let element = |at: usize| {
        let (position, column) = (at / (2 * HEAD_DIM), at % (2 * HEAD_DIM));
        4.0 * noise(position / PAGE_LEN * 977 + column) + 0.2 * noise(at + 1_000_000)
    };
    (0..POSITIONS * 2 * HEAD_DIM).map(element).collect()
}

/// Returns the heads of the last row with dense attention and in `mode`.
fn attend_both(kv: KvDtype, mode: AttentionMode, values: &[f32]) -> [Vec<f32>; 2] {
    let (network, cx) = (network(), Compute::new(2));
    let recipe = network.layers[0].attention().unwrap();
    let pages: Vec<PageId> = (0..PAGES as PageId).collect();
    let mut pool = KvPool::for_mode(&network, kv, PAGES, mode);
    pool.write(&cx, 0, (&keys(), values), |row| (&pages, row));
    let tokens = vec![0; POSITIONS];
    let segment = Segment::causal(&tokens, 0, &pages, &[]);
    pool.summarize(&cx, 0, segment.filled_pages().iter().copied());
    let query: Vec<f32> = (0..recipe.query_len()).map(|at| 2.0 * noise(at + 5_000_000)).collect();
    let step = AttendStep {
        cx: &cx,
        recipe,
        kv: &pool,
        layer: 0,
        batch: &[segment],
        rows: &[Row { token: 0, segment: 0, position: POSITIONS - 1 }],
        visible: &[POSITIONS],
        query: &query,
        sinks: None,
    };
    let mut scratch = AttendScratchPool::new(&network, 1, POSITIONS.div_ceil(CHUNK), 2);
    let mut selector = Selector::new(&network, mode, 1, POSITIONS, 2).expect("it selects");
    let [mut dense, mut sparse] = [(); 2].map(|()| vec![0.0; recipe.query_len()]);
    step.run(&mut scratch, &mut dense);
    selector.run(step, &mut scratch.parts, &mut sparse);
    [dense, sparse]
}

#[test]
fn the_error_of_a_threshold_is_within_its_limit() {
    let values: Vec<f32> = (0..POSITIONS * 2 * HEAD_DIM).map(|at| noise(at + 9_000_000)).collect();
    for kv in KvDtype::ALL {
        let mut skipped_any = false;
        for limit in [0.3, 0.03, 0.003, 0.0003, 1e-6] {
            let [dense, sparse] = attend_both(kv, AttentionMode::Threshold(limit), &values);
            skipped_any |= dense != sparse;
            let pairs = dense.iter().zip(&sparse);
            let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // Weights and values of both are rounded, to eight bits at the worst.
            let rounding = if kv.size() == 1 || kv == KvDtype::Bf16 { 0.02 } else { 1e-5 };
            assert!(error <= 2.0 * limit + rounding, "{kv}, {limit}: {error}");
        }
        assert!(skipped_any, "{kv}: no threshold skips anything");
    }
}

#[test]
fn values_that_only_skipped_pages_hold_measure_the_skipped_mass() {
    // A value of one everywhere but in the newest pages, which are zero: the result of dense attention is
    // the mass of all other pages, and a page that is skipped takes its mass away.
    for limit in [0.2, 0.01] {
        for page in 0..PAGES - NEWEST {
            let value = |at: usize| f32::from(u8::from(at / (2 * HEAD_DIM) / PAGE_LEN == page));
            let values: Vec<f32> = (0..POSITIONS * 2 * HEAD_DIM).map(value).collect();
            let [dense, sparse] =
                attend_both(KvDtype::F32, AttentionMode::Threshold(limit), &values);
            for (mass, read) in dense.iter().zip(&sparse) {
                assert!(*read > 0.0 || *mass <= limit, "page {page} of mass {mass}, limit {limit}");
            }
        }
    }
}
