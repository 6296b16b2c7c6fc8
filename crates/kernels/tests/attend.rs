//! Attention depends only on a row's own query and on the keys and values it sees, as they were
//! written. Everything is checked for every type and every kernel, by equal bits.

use wf_kernels::fp8::{E4M3_MAX, E5M2_MAX, e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use wf_kernels::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use wf_kernels::{
    AttendScratch, CHUNK, Kernel, KvDtype, KvShape, KvStore, PAGE_LEN, Pool, Queries, clear_parts,
    finish_parts, part_len, split_len, supported,
};

use crate::support::pages::{Pages, queries};
use crate::support::{Floats, Random};

const HEAD_DIM: usize = 40;
const HEADS: usize = 3;
const SMALL: KvShape = KvShape { layers: 1, pages: 1, heads: 1, head_dim: 1 };
const WIDTH: usize = HEADS * HEAD_DIM;

/// Every type on every kernel.
fn each(check: impl Fn(KvDtype, &dyn Kernel)) {
    for dtype in KvDtype::ALL {
        supported().for_each(|kernel| check(dtype, kernel));
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn rows(positions: usize) -> (Vec<f32>, Vec<f32>) {
    let random = &mut Random(5);
    let mut floats = || random.floats(positions * HEAD_DIM, Floats::Plain);
    (floats(), floats())
}

fn query(rows: usize) -> Vec<f32> {
    Random(6).floats(rows * WIDTH, Floats::Plain)
}

#[test]
fn a_row_does_not_notice_the_rows_beside_it() {
    // Neighbours that part within a page, at a page, and at a chunk.
    let visible = [30, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7];
    let q = query(visible.len());
    each(|dtype, kernel| {
        let kv = Pages::new(dtype, HEAD_DIM, rows(2 * CHUNK + 7), 3, kernel);
        let together = kv.attend(kernel, &queries(&q, HEADS, &visible));
        for (row, visible) in visible.into_iter().enumerate() {
            let q = &q[row * WIDTH..][..WIDTH];
            let alone = kv.attend(kernel, &queries(q, HEADS, &[visible]));
            assert_eq!(bits(&alone), bits(&together[row * WIDTH..][..WIDTH]), "{dtype}, {visible}");
            for head in 0..HEADS {
                let q = &q[head * HEAD_DIM..][..HEAD_DIM];
                let head_alone = kv.attend(kernel, &queries(q, 1, &[visible]));
                assert_eq!(bits(&head_alone), bits(&alone[head * HEAD_DIM..][..HEAD_DIM]));
            }
        }
    });
}

#[test]
fn where_pages_lie_does_not_matter() {
    let q = query(1);
    each(|dtype, kernel| {
        let attend = |shift| {
            let kv = Pages::new(dtype, HEAD_DIM, rows(CHUNK + 50), shift, kernel);
            bits(&kv.attend(kernel, &queries(&q, HEADS, &[CHUNK + 50])))
        };
        assert_eq!(attend(0), attend(4), "{dtype}");
    });
}

#[test]
fn chunks_computed_anywhere_join_to_the_whole() {
    let visible = [3 * CHUNK - 5, CHUNK + 1];
    let q = query(2);
    let q = queries(&q, HEADS, &visible);
    each(|dtype, kernel| {
        let kv = Pages::new(dtype, HEAD_DIM, rows(3 * CHUNK), 1, kernel);
        let part_len = part_len(HEAD_DIM);
        let mut chunks = vec![vec![f32::NAN; 2 * HEADS * part_len]; q.chunks().end];
        let pool = Pool::new(3);
        pool.rows(&mut chunks, 1, |chunk, out| out[0] = kv.parts(kernel, &q, chunk));
        let mut parts = chunks[0].clone();
        clear_parts(&mut parts);
        chunks.iter().for_each(|next| kernel.join_chunks(part_len, &mut parts, next));
        let mut out = vec![f32::NAN; 2 * WIDTH];
        finish_parts(&parts, HEAD_DIM, &mut out);
        assert_eq!(bits(&out), bits(&kv.attend(kernel, &q)), "{dtype}");
    });
}

#[test]
fn what_is_written_later_changes_nothing_before() {
    let q = query(1);
    let seen = 45;
    each(|dtype, kernel| {
        let mut kv = Pages::new(dtype, HEAD_DIM, rows(CHUNK), 2, kernel);
        let attend = |kv: &Pages| bits(&kv.attend(kernel, &queries(&q, HEADS, &[seen])));
        let before = attend(&kv);
        // Much larger ones, in the same page too, and again in a place that was written before.
        for position in (seen..CHUNK).chain([seen]) {
            kv.write(kernel, position, &[3e4; HEAD_DIM], &[-5e4; HEAD_DIM]);
        }
        assert_eq!(before, attend(&kv), "{dtype}");
    });
}

#[test]
fn what_a_row_does_not_see_may_be_anything() {
    let visible = [50, 51, 52];
    let q = query(3);
    for hostile in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        each(|dtype, kernel| {
            let mut kv = Pages::new(dtype, HEAD_DIM, rows(CHUNK), 0, kernel);
            let attend = |kv: &Pages| kv.attend(kernel, &queries(&q, HEADS, &visible));
            let before = attend(&kv);
            (52..CHUNK)
                .for_each(|p| kv.write(kernel, p, &[hostile; HEAD_DIM], &[hostile; HEAD_DIM]));
            assert_eq!(bits(&before), bits(&attend(&kv)), "{dtype}, {hostile}");
            assert!(before.iter().all(|value| value.is_finite()));
            // The last row sees the next one: only it is lost.
            kv.write(kernel, 51, &[1.0; HEAD_DIM], &[f32::NAN; HEAD_DIM]);
            let after = attend(&kv);
            assert_eq!(bits(&before[..2 * WIDTH]), bits(&after[..2 * WIDTH]), "{dtype}, {hostile}");
            assert!(after[2 * WIDTH..].iter().all(|value| value.is_nan()), "{dtype}");
        });
    }
}

#[test]
fn zeros_and_the_smallest_numbers_are_ordinary() {
    let q = query(1);
    for tiny in [0.0, -0.0, 1e-45, f32::MIN_POSITIVE, 1e-20] {
        each(|dtype, kernel| {
            let rows = vec![tiny; 70 * HEAD_DIM];
            let kv = Pages::new(dtype, HEAD_DIM, (rows.clone(), rows), 1, kernel);
            for value in kv.attend(kernel, &queries(&q, HEADS, &[70])) {
                assert!((value - tiny).abs() <= tiny.abs(), "{dtype}: {value:e}, {tiny:e}");
            }
        });
    }
}

#[test]
fn a_row_that_sees_nothing_is_zero() {
    let q = query(2);
    each(|dtype, kernel| {
        let kv = Pages::new(dtype, HEAD_DIM, rows(20), 0, kernel);
        let out = kv.attend(kernel, &queries(&q, HEADS, &[0, 20]));
        assert_eq!(bits(&out[..WIDTH]), vec![0; WIDTH]);
        assert!(out[WIDTH..].iter().all(|value| *value != 0.0));
    });
}

#[test]
fn a_lone_value_comes_back_as_its_type_has_it() {
    let (keys, values) = rows(1);
    let absmax = values.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    each(|dtype, kernel| {
        let kv = Pages::new(dtype, HEAD_DIM, (keys.clone(), values.clone()), 0, kernel);
        let found = kv.attend(kernel, &queries(&query(1), HEADS, &[1]));
        for (found, &x) in found.iter().zip(values.iter().cycle()) {
            let (expected, rounding) = match dtype {
                KvDtype::F32 => (x, 0.0),
                KvDtype::Bf16 => (bf16_to_f32(f32_to_bf16(x)), 0.0),
                KvDtype::F16 => (f16_to_f32(f32_to_f16(x)), 0.0),
                KvDtype::Fp8E4m3 => {
                    let scale = absmax / E4M3_MAX;
                    (e4m3_to_f32(f32_to_e4m3(x * (E4M3_MAX / absmax))) * scale, 1e-6)
                }
                KvDtype::Fp8E5m2 => {
                    let scale = absmax / E5M2_MAX;
                    (e5m2_to_f32(f32_to_e5m2(x * (E5M2_MAX / absmax))) * scale, 1e-6)
                }
                KvDtype::Int8 => {
                    let scale = absmax / 127.0;
                    ((x * (127.0 / absmax)).round_ties_even() * scale, 1e-6)
                }
            };
            assert!((found - expected).abs() <= rounding * absmax, "{dtype}: {found}, {expected}");
        }
    });
}

#[test]
fn eight_bits_take_half_of_sixteen_and_the_scales() {
    let shape = KvShape { layers: 30, pages: 7, heads: 5, head_dim: 128 };
    let rows = 30 * 7 * 5 * 2 * PAGE_LEN;
    for (dtype, row_bytes) in KvDtype::ALL.into_iter().zip([512, 256, 256, 132, 132, 132]) {
        assert_eq!(shape.size_bytes(dtype), rows * row_bytes, "{dtype}");
    }
}

#[test]
#[should_panic(expected = "a page for every visible position")]
fn a_position_without_a_page_is_refused() {
    let kernel = supported().next().expect("scalar");
    let kv = Pages::new(KvDtype::F32, HEAD_DIM, rows(PAGE_LEN), 0, kernel);
    kv.attend(kernel, &queries(&query(1), HEADS, &[PAGE_LEN + 1]));
}

/// Returns the bounds of all pages for the heads of one row, and the scores of every position.
fn bounds_and_scores(kv: &Pages, kernel: &dyn Kernel, q: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
    let positions = kv.keys.len() / HEAD_DIM;
    let pages = positions / PAGE_LEN;
    let visible = [positions];
    let q = queries(q, HEADS, &visible);
    let mut scratch = AttendScratch::new(HEADS, HEAD_DIM);
    scratch.prepare(kernel, &q, &kv.head());
    let mut split = vec![f32::NAN; HEADS * split_len(HEAD_DIM)];
    scratch.split_queries(&q, &kv.head(), &mut split);
    let mut bounds = vec![f32::NAN; HEADS * pages];
    kernel.bound_pages(&split, &kv.head(), 0, &mut bounds);
    // A row that sees one position has its score as the largest.
    let score = |position: usize| {
        let visible = [position + 1];
        let q = Queries { visible: &visible, window: Some(1), ..q };
        let parts = kv.parts(kernel, &q, position / CHUNK);
        parts.chunks_exact(part_len(HEAD_DIM)).map(|part| part[part.len() - 2]).collect()
    };
    (bounds, (0..positions).map(score).collect())
}

#[test]
fn no_score_exceeds_the_bound_of_its_page() {
    let positions = CHUNK + 2 * PAGE_LEN;
    let pages: Vec<u32> = (0..(positions / PAGE_LEN) as u32).collect();
    let q = query(1);
    each(|dtype, kernel| {
        let mut kv = Pages::new(dtype, HEAD_DIM, rows(positions), 3, kernel);
        kv.store = std::mem::replace(&mut kv.store, KvStore::new(dtype, SMALL)).with_summaries();
        kv.store.summarize(&Pool::new(2), 1, &pages);
        let (bounds, scores) = bounds_and_scores(&kv, kernel, &q);
        let mut closest = f32::INFINITY;
        for (position, scores) in scores.iter().enumerate() {
            for (head, score) in scores.iter().enumerate() {
                let bound = bounds[head * pages.len() + position / PAGE_LEN];
                assert!(*score <= bound, "{dtype}: {score} of {position} is above {bound}");
                closest = closest.min(bound - score);
            }
        }
        assert!(closest.is_finite(), "{dtype}: bounds say something");
    });
}

#[test]
fn a_page_with_a_key_that_is_not_finite_has_no_bound() {
    let pages: Vec<u32> = (0..4).collect();
    each(|dtype, kernel| {
        for hostile in [f32::NAN, f32::INFINITY] {
            let mut kv = Pages::new(dtype, HEAD_DIM, rows(4 * PAGE_LEN), 0, kernel);
            kv.store =
                std::mem::replace(&mut kv.store, KvStore::new(dtype, SMALL)).with_summaries();
            kv.write(kernel, 2 * PAGE_LEN + 5, &[hostile; HEAD_DIM], &[0.0; HEAD_DIM]);
            kv.store.summarize(&Pool::new(2), 1, &pages);
            let (bounds, _) = bounds_and_scores(&kv, kernel, &query(1));
            let unbounded: Vec<bool> = bounds.iter().map(|bound| *bound == f32::INFINITY).collect();
            assert_eq!(unbounded, [false, false, true, false].repeat(HEADS), "{dtype}, {hostile}");
        }
    });
}
