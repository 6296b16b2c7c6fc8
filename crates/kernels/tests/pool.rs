//! The pool does every job once, survives panics, and its size changes no result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use wf_kernels::{Layout, Pool, QuantBatch, Scales, best, multiply};

use crate::support::{Floats, Random, cases, matrix};

fn counts(pool: &Pool, jobs: usize) -> Vec<usize> {
    let counts: Vec<AtomicUsize> = (0..jobs).map(|_| AtomicUsize::new(0)).collect();
    pool.run(jobs, |i| {
        counts[i].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_job_runs_once() {
    for threads in [1, 2, 3, 8] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads);
        for jobs in [0, 1, 2, 7, 100, cases(5000)] {
            assert_eq!(counts(&pool, jobs), vec![1; jobs], "{threads} threads");
        }
    }
}

#[test]
fn many_small_runs_lose_nothing() {
    let pool = Pool::new(4);
    let total = AtomicUsize::new(0);
    let runs = cases(20_000);
    for _ in 0..runs {
        pool.run(3, |i| {
            total.fetch_add(i + 1, Ordering::Relaxed);
        });
    }
    assert_eq!(total.into_inner(), runs * 6);
}

#[test]
fn all_threads_take_part() {
    // Each job waits until all have begun, so each needs a thread of its own.
    let pool = Pool::new(3);
    let begun = AtomicUsize::new(0);
    pool.run_on_all(|_| {
        begun.fetch_add(1, Ordering::SeqCst);
        while begun.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn rows_come_with_their_number_and_a_scratch_of_their_own() {
    let pool = Pool::new(3);
    let mut data = vec![0; 7 * 5];
    pool.rows(&mut data, 5, |i, row| row.fill(i));
    assert_eq!(data, (0..35).map(|i| i / 5).collect::<Vec<_>>());

    let mut seen = vec![Vec::new(); 3];
    pool.rows_with(&mut data, 5, &mut seen, |i, row, seen| {
        row[0] = 100 + i;
        seen.push(i);
    });
    let mut seen: Vec<usize> = seen.concat();
    seen.sort_unstable();
    assert_eq!(seen, (0..7).collect::<Vec<_>>());
    assert_eq!(data[30..], [106, 6, 6, 6, 6]);
    pool.rows(&mut [0; 0], 0, |_, _| panic!("there are no rows"));
}

#[test]
fn strips_cover_every_column_once() {
    let pool = Pool::new(3);
    for (rows, row_len, strip_len) in [(1, 16, 16), (3, 50, 16), (4, 5, 8), (2, 64, 1)] {
        let mut data = vec![0; rows * row_len];
        pool.strips(&mut data, row_len, strip_len, |i, mut strip| {
            assert_eq!(strip.rows(), rows);
            assert_eq!(strip.width(), strip_len.min(row_len - i * strip_len));
            for r in 0..rows {
                for (column, value) in strip.row(r).iter_mut().enumerate() {
                    *value += 1 + r * row_len + i * strip_len + column;
                }
            }
        });
        assert_eq!(data, (1..=rows * row_len).collect::<Vec<_>>());
    }
}

#[test]
#[should_panic(expected = "row 2 of 2")]
fn a_strip_does_not_reach_beyond_its_rows() {
    Pool::new(1).strips(&mut [0; 20], 10, 5, |_, mut strip| {
        strip.row(2);
    });
}

#[test]
fn tiles_cover_every_element_once() {
    for (rows, row_len, tile) in [(1, 1, (1, 1)), (7, 20, (3, 6)), (8, 12, (4, 4)), (2, 5, (9, 9))]
    {
        let mut data = vec![0; rows * row_len];
        let mut scratch = vec![0; 3];
        Pool::new(3).tiles_with((&mut data, row_len), tile, &mut scratch, |i, k, mut out, uses| {
            *uses += 1;
            assert_eq!(out.rows(), tile.0.min(rows - i * tile.0));
            for row in 0..out.rows() {
                out.row(row).iter_mut().for_each(|x| *x += 1 + i * 100 + k);
            }
        });
        for (place, found) in data.into_iter().enumerate() {
            let (row, column) = (place / row_len, place % row_len);
            assert_eq!(found, 1 + row / tile.0 * 100 + column / tile.1);
        }
        assert_eq!(scratch.iter().sum::<usize>(), rows.div_ceil(tile.0) * row_len.div_ceil(tile.1));
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for bad in [0, 3, 99] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, |i| assert!(i != bad, "job {i} is bad"));
            }));
            let payload = result.unwrap_err();
            assert_eq!(*payload.downcast::<String>().unwrap(), format!("job {bad} is bad"));
            assert_eq!(counts(&pool, 50), vec![1; 50]);
        }
        let all = catch_unwind(AssertUnwindSafe(|| pool.run(100, |_| panic!("all are bad"))));
        assert!(all.is_err());
        assert_eq!(counts(&pool, 50), vec![1; 50]);
    }
}

#[test]
fn a_run_inside_a_job_is_done_by_that_job() {
    let pool = Pool::new(3);
    let other = Pool::new(2);
    let total = AtomicUsize::new(0);
    pool.run(10, |_| {
        pool.run(10, |_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
        other.run(10, |_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.into_inner(), 200);
    // Afterwards this thread is not inside a job any more.
    all_threads_take_part();
}

#[test]
fn several_callers_take_turns() {
    let pool = Pool::new(2);
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (pool, log) = (&pool, &log);
            scope.spawn(move || {
                for _ in 0..cases(100) {
                    assert_eq!(counts(pool, 20), vec![1; 20]);
                }
                log.lock().unwrap().push(caller);
            });
        }
    });
    assert_eq!(log.into_inner().unwrap().len(), 4);
}

#[test]
fn the_number_of_threads_changes_no_result() {
    let random = &mut Random(30);
    let (rows, cols, tokens) = (100, 200, 5);
    let values = random.floats(rows * 4, Floats::Plain);
    let w = matrix(
        Layout::QuadLines,
        &random.trits(rows * cols),
        cols,
        Scales::Groups { len: 64, values },
    );
    let x = random.floats(tokens * cols, Floats::Plain);
    let results = [1, 2, 3, 8].map(|threads| {
        let pool = Pool::new(threads);
        let mut xs = QuantBatch::new(tokens, cols);
        xs.quantize(best(), &pool, &x, cols);
        let mut y = vec![0.0; tokens * rows];
        multiply(best(), &pool, &w, &xs, &mut y);
        y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    });
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn pairs_of_rows_and_of_tiles_come_together() {
    let pool = Pool::new(3);
    let (mut a, mut b) = (vec![0; 7 * 5], vec![0; 7 * 2]);
    pool.row_pairs((&mut a, 5), (&mut b, 2), |i, a, b| {
        a.fill(i);
        b.fill(10 * i);
    });
    assert!(a.iter().copied().eq((0..35).map(|i| i / 5)));
    assert!(b.iter().copied().eq((0..14).map(|i| i / 2 * 10)));

    let (mut a, mut b) = (vec![0; 2 * 50], vec![0_i8; 2 * 50]);
    pool.tile_pairs((&mut a, &mut b), 50, (1, 16), |row, i, mut a, mut b| {
        assert_eq!((a.rows(), b.rows()), (1, 1));
        a.row(0).fill(100 * row + i);
        b.row(0).fill(i as i8);
    });
    assert!(a.iter().copied().eq((0..100).map(|at| at / 50 * 100 + at % 50 / 16)));
    assert!(b.iter().copied().eq((0..100).map(|at| (at % 50 / 16) as i8)));
}

#[test]
fn tiles_of_several_matrices_are_one_run() {
    let pool = Pool::new(2);
    let (mut a, mut b, mut c) = (vec![0; 2 * 40], vec![0; 2 * 7], vec![0; 2 * 32]);
    let matrices = [(&mut a[..], 40), (&mut b[..], 7), (&mut c[..], 32)];
    pool.tiles_of_each(matrices, (2, 16), |m, block, i, mut tile| {
        assert_eq!(block, 0);
        for row in 0..2 {
            tile.row(row).fill(100 * (m + 1) + i);
        }
    });
    assert!(a.iter().copied().eq((0..80).map(|at| 100 + at % 40 / 16)));
    assert!(b.iter().all(|&b| b == 200));
    assert!(c.iter().copied().eq((0..64).map(|at| 300 + at % 32 / 16)));
}

#[test]
fn tiles_of_the_same_rows_follow_each_other() {
    let pool = Pool::new(1);
    let (mut a, mut b) = (vec![0; 5 * 20], vec![0; 5 * 16]);
    let order = Mutex::new(Vec::new());
    pool.tiles_of_each([(&mut a[..], 20), (&mut b[..], 16)], (2, 16), |m, block, i, mut tile| {
        order.lock().unwrap().push((block, m, i));
        for row in 0..tile.rows() {
            tile.row(row).fill(100 * block + 10 * m + i + 1);
        }
    });
    let order = order.into_inner().unwrap();
    assert!(order.is_sorted() && order.len() == 3 * 3, "{order:?}");
    assert!(a.iter().copied().eq((0..100).map(|at| at / 40 * 100 + at % 20 / 16 + 1)));
    assert!(b.iter().copied().eq((0..80).map(|at| at / 32 * 100 + 11)));
}
