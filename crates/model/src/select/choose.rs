//! The choice of pages from the upper bounds of their scores.
//!
//! The query heads that share a K/V head also share a choice, because they read the same keys. Everything
//! is a function of the bounds alone, and ties go to the newer page: no choice depends on threads, batches
//! or instruction sets.

use wf_core::AttentionMode;
use wf_kernels::{Kernel, PAGE_LEN, math};

/// Factor of masses that covers rounding: exponentials and sums of single precision are off by less than a
/// tenth of it.
const MASS_MARGIN: f64 = 1.001;

/// Mass of a page whose exponential may have been rounded to zero.
const SMALLEST_MASS: f32 = 1e-37;

/// Upper bounds on the scores of pages, page by page for each of the query heads of a group.
pub(super) struct Bounds<'a> {
    /// The bounds; replaced by masses.
    pub(super) data: &'a mut [f32],
    pub(super) pages: usize,
}

impl Bounds<'_> {
    fn heads(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.data.chunks_exact_mut(self.pages)
    }

    fn all_finite(&self) -> bool {
        self.data.iter().all(|bound| bound.is_finite())
    }
}

/// The largest score and the sum of `e^(score - largest)` of some of the positions that a query head sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownMass {
    pub(super) largest: f32,
    pub(super) sum: f32,
}

/// Buffers of a choice.
pub(super) struct Choice {
    /// One bit per page: true if it is read.
    pub(super) is_read: Vec<bool>,
    /// Pages by score, as numbers that compare like it.
    order: Vec<u64>,
    /// For each head.
    skipped: Vec<f64>,
    factors: Vec<f64>,
}

impl Choice {
    pub(super) fn new(max_pages: usize, heads: usize) -> Self {
        Self {
            is_read: Vec::with_capacity(max_pages),
            order: Vec::with_capacity(max_pages),
            skipped: vec![0.0; heads],
            factors: vec![0.0; heads],
        }
    }

    fn start(&mut self, pages: usize, all: bool) {
        self.is_read.clear();
        self.is_read.resize(pages, all);
    }

    /// Chooses the `count` pages with the highest bounds. A bound counts by its distance to the highest of
    /// its head, so that no head decides alone because its queries are longer.
    pub(super) fn highest(&mut self, mut bounds: Bounds<'_>, count: usize) {
        let pages = bounds.pages;
        self.start(pages, count >= pages);
        if count >= pages {
            return;
        }
        for head in bounds.heads() {
            // Infinite ones stay infinite.
            let finite = head.iter().copied().filter(|bound| bound.is_finite());
            let highest = finite.fold(f32::MIN, f32::max);
            head.iter_mut().for_each(|bound| *bound -= highest);
        }
        self.sort_by(pages, |page| {
            let heads = bounds.data.chunks_exact(pages).map(|head| head[page]);
            heads.fold(f32::NEG_INFINITY, f32::max)
        });
        for key in &self.order[..count] {
            self.is_read[page_of(*key)] = true;
        }
    }

    /// Chooses for each head the fewest pages that hold the share `share` of the mass of all bounds, the
    /// highest first; a page is read if any head chooses it.
    pub(super) fn share_of_mass(
        &mut self,
        kernel: &dyn Kernel,
        mut bounds: Bounds<'_>,
        share: f32,
    ) {
        let pages = bounds.pages;
        let all = pages == 0 || share >= 1.0 || !bounds.all_finite();
        self.start(pages, all);
        if all {
            return;
        }
        for head in bounds.heads() {
            kernel.softmax(head);
            self.sort_by(pages, |page| head[page]);
            let total: f64 = head.iter().copied().map(f64::from).sum();
            let mut held = 0.0;
            for key in &self.order {
                if held >= total * f64::from(share) {
                    break;
                }
                held += f64::from(head[page_of(*key)]);
                self.is_read[page_of(*key)] = true;
            }
        }
    }

    /// Chooses all pages but some of the lowest bounds, which together hold at most the share `skipped` of
    /// the softmax mass of each head.
    ///
    /// **Proof.** For one head, let `Z` be the sum of `e^s` over all visible positions. A page of 32
    /// positions with scores of at most `b` has `32·e^b` of it at most. The pages in `known` have exactly
    /// `K = sum·e^largest` of it, so `Z ≥ K`, and the share of a page is at most `32·e^b / K`. Pages are
    /// skipped while the sum of these bounds, for each head, is at most `skipped`. The weights of the
    /// remaining positions then sum to at least `1 - skipped` before they are divided by their own sum, so
    /// the weights change by at most `2·skipped` in total, and an element of the result by at most
    /// `2·skipped` times the largest magnitude of that element of the values.
    pub(super) fn all_but(
        &mut self,
        kernel: &dyn Kernel,
        mut bounds: Bounds<'_>,
        known: impl Iterator<Item = KnownMass>,
        skipped: f32,
    ) {
        let pages = bounds.pages;
        self.start(pages, true);
        if pages == 0 || !bounds.all_finite() {
            return;
        }
        for ((head, known), factor) in bounds.heads().zip(known).zip(&mut self.factors) {
            let highest = head.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            kernel.softmax(head);
            // The highest bound has the mass 1 / sum, for the sum of e^(bound - highest).
            let largest_mass = head.iter().copied().fold(SMALLEST_MASS, f32::max);
            let above = f64::from(highest) - f64::from(known.largest);
            let of_known = math::exp(above) / f64::from(known.sum);
            *factor = MASS_MARGIN * PAGE_LEN as f64 * of_known / f64::from(largest_mass);
        }
        let (data, factors) = (&*bounds.data, std::mem::take(&mut self.factors));
        let share =
            |head: &[f32], page: usize, factor: f64| f64::from(head[page] + SMALLEST_MASS) * factor;
        self.sort_by(pages, |page| {
            let heads = data.chunks_exact(pages).zip(&factors);
            heads.map(|(head, factor)| share(head, page, *factor)).fold(0.0, f64::max) as f32
        });
        self.skipped.fill(0.0);
        for key in self.order.iter().rev() {
            let page = page_of(*key);
            let mut is_proven = true;
            for ((head, factor), sum) in
                data.chunks_exact(pages).zip(&factors).zip(&mut self.skipped)
            {
                *sum += share(head, page, *factor);
                // False for a sum that is no number.
                is_proven &= *sum <= f64::from(skipped);
            }
            if !is_proven {
                break;
            }
            self.is_read[page] = false;
        }
        self.factors = factors;
    }

    /// Orders pages by descending score, newer ones first among equals.
    fn sort_by(&mut self, pages: usize, score: impl Fn(usize) -> f32) {
        self.order.clear();
        self.order
            .extend((0..pages).map(|page| u64::from(ordered(score(page))) << 32 | page as u64));
        self.order.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// Returns bits that compare like a number; a NaN is above all.
fn ordered(score: f32) -> u32 {
    let bits = (if score.is_nan() { f32::INFINITY } else { score }).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

fn page_of(key: u64) -> usize {
    (key & u64::from(u32::MAX)) as usize
}

/// Returns the number of pages that `mode` reads at least.
pub(super) fn min_pages(mode: AttentionMode) -> usize {
    match mode {
        AttentionMode::TopK(pages) => pages,
        _ => super::NEWEST,
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::LN_2;

    use super::*;

    fn kernel() -> &'static dyn Kernel {
        wf_kernels::supported().next().expect("the scalar kernel")
    }

    fn read(choice: &Choice) -> Vec<usize> {
        (0..choice.is_read.len()).filter(|page| choice.is_read[*page]).collect()
    }

    /// Two heads, six pages.
    const BOUNDS: [f32; 12] = [1.0, 9.0, 3.0, 2.0, 2.0, 0.0, 105.0, 90.0, 80.0, 70.0, 104.5, 10.0];

    #[test]
    fn the_highest_pages_of_each_head_come_first() {
        let mut choice = Choice::new(6, 2);
        let mut highest = |count| {
            choice.highest(Bounds { data: &mut BOUNDS.clone(), pages: 6 }, count);
            read(&choice)
        };
        assert_eq!(highest(2), [0, 1], "the best of each head");
        assert_eq!(highest(3), [0, 1, 4]);
        assert_eq!(highest(6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(highest(9), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn ties_go_to_the_newer_page_and_pages_without_bounds_come_first() {
        let mut choice = Choice::new(4, 1);
        choice.highest(Bounds { data: &mut [5.0; 4], pages: 4 }, 2);
        assert_eq!(read(&choice), [2, 3]);
        choice.highest(Bounds { data: &mut [f32::INFINITY, 5.0, 7.0, 6.0], pages: 4 }, 2);
        assert_eq!(read(&choice), [0, 2]);
    }

    #[test]
    fn a_share_of_the_mass_takes_as_few_pages_as_hold_it() {
        let mut choice = Choice::new(4, 1);
        // Masses of 1/2, 1/4, 1/8 and 1/8.
        let bounds = [2.0 * LN_2, LN_2, 0.0, 0.0];
        let mut share = |share| {
            choice.share_of_mass(kernel(), Bounds { data: &mut bounds.clone(), pages: 4 }, share);
            read(&choice)
        };
        assert_eq!(share(0.4), [0]);
        assert_eq!(share(0.6), [0, 1]);
        assert_eq!(share(0.8), [0, 1, 3]);
        assert_eq!(share(1.0), [0, 1, 2, 3]);
    }

    #[test]
    fn pages_are_skipped_while_their_bounds_prove_little_mass() {
        let mut choice = Choice::new(4, 1);
        let mut skip = |bounds: [f32; 4], skipped| {
            let known = KnownMass { largest: 10.0, sum: 2.0 };
            let bounds = Bounds { data: &mut bounds.clone(), pages: 4 };
            choice.all_but(kernel(), bounds, std::iter::once(known), skipped);
            read(&choice)
        };
        // 16·e^-10 is 0.00073, so 0.0015 for two.
        let bounds = [0.0, 20.0, 0.0, -50.0];
        assert_eq!(skip(bounds, 0.001), [1, 2], "one of the two, and the last");
        assert_eq!(skip(bounds, 0.0016), [1]);
        assert_eq!(skip(bounds, 1e-6), [0, 1, 2]);
        assert_eq!(skip([0.0, f32::INFINITY, 0.0, 0.0], 0.5), [0, 1, 2, 3], "nothing is proven");
    }
}
