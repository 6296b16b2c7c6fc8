//! The router of a mixture of experts: picks the experts of every token, and groups tokens by expert.

use std::ops::Range;

use wf_core::{Experts, Network};
use wf_kernels::{FloatRows, Kernel, math};

use crate::compute::Compute;

/// An expert of one token, and its share in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pick {
    expert: usize,
    share: f32,
}

/// Minimum number of places, whatever the size of a step: more than the experts of a token.
const MIN_PLACES: usize = 128;

/// Multiple of the number of places: no alignment exceeds it.
const MAX_ALIGNMENT: usize = 16;

/// Returns the number of places for rows of experts that run together, in steps of up to `max_rows` rows. All
/// rows of one expert fit.
pub(crate) fn expert_places(max_rows: usize) -> usize {
    max_rows.max(MIN_PLACES).next_multiple_of(MAX_ALIGNMENT)
}

/// Experts that run together. Their rows have places, those of an expert side by side.
#[derive(Default)]
pub(crate) struct ExpertGroup {
    /// Experts in ascending order.
    pub(crate) experts: Vec<usize>,
    /// Places of each of them.
    pub(crate) slices: Vec<Range<usize>>,
    /// Row of the step at each place. A place between two experts repeats the row before it.
    pub(crate) rows: Vec<usize>,
    /// Share of the expert in the row at each place.
    pub(crate) shares: Vec<f32>,
}

/// The routes of the rows of a step. Buffers are reused, so that routing does not allocate.
pub(crate) struct Routes {
    /// One share for each row and expert.
    shares: Vec<f32>,
    /// The active experts of each row.
    picks: Vec<Pick>,
    /// Index of the first member of each expert, and the number of all members.
    starts: Vec<usize>,
    /// Rows by expert, in order.
    rows: Vec<usize>,
    /// Shares of the experts in these rows.
    row_shares: Vec<f32>,
    /// Share of the shared expert in each row.
    shared: Vec<f32>,
    group: ExpertGroup,
    max_places: usize,
}

impl Routes {
    pub(crate) fn new(network: &Network, max_rows: usize) -> Self {
        let experts = network.max_experts(|experts| experts.experts);
        let active = max_rows * network.max_experts(|experts| experts.active);
        let max_places = if experts > 0 { expert_places(max_rows) } else { 0 };
        Self {
            group: ExpertGroup {
                experts: Vec::with_capacity(max_places),
                slices: Vec::with_capacity(max_places),
                rows: Vec::with_capacity(max_places),
                shares: Vec::with_capacity(max_places),
            },
            max_places,
            shares: vec![0.0; max_rows * experts],
            picks: vec![Pick::default(); active],
            starts: vec![0; experts + 1],
            rows: vec![0; active],
            row_shares: vec![0.0; active],
            shared: vec![0.0; if experts > 0 { max_rows } else { 0 }],
        }
    }

    /// Routes the rows of `normed` by `router`, which has a row of floats for each expert.
    pub(crate) fn route(&mut self, cx: &Compute, recipe: &Experts, router: &[f32], normed: &[f32]) {
        let &Experts { experts, active, renormalize, .. } = recipe;
        let len = router.len() / experts;
        let rows = normed.len() / len;
        let shares = &mut self.shares[..rows * experts];
        let picks = &mut self.picks[..rows * active];
        cx.pool.row_pairs((shares, experts), (picks, active), |row, shares, picks| {
            cx.kernel.dots(FloatRows::F32(router), &normed[row * len..][..len], shares);
            pick(cx.kernel, shares, picks, renormalize);
        });
        self.sort(experts, rows * active, active);
    }

    /// Computes the share of the shared expert in each row of `normed`, which have `len` elements.
    pub(crate) fn weigh_shared(
        &mut self,
        cx: &Compute,
        gate: Option<&[f32]>,
        normed: &[f32],
        len: usize,
    ) {
        let shares = &mut self.shared[..normed.len() / len];
        let Some(gate) = gate else { return shares.fill(1.0) };
        cx.pool.rows(shares, 1, |row, share| {
            cx.kernel.dots(FloatRows::F32(gate), &normed[row * len..][..len], share);
            share.iter_mut().for_each(|share| *share = sigmoid(*share));
        });
    }

    /// Returns the shares of the last [`weigh_shared`](Self::weigh_shared).
    pub(crate) fn shared_shares(&self) -> &[f32] {
        &self.shared
    }

    /// Sorts the first `len` picks by expert. Rows of an expert stay in order.
    fn sort(&mut self, experts: usize, len: usize, active: usize) {
        let (picks, starts) = (&self.picks[..len], &mut self.starts[..=experts]);
        starts.fill(0);
        for pick in picks {
            starts[pick.expert + 1] += 1;
        }
        for expert in 0..experts {
            starts[expert + 1] += starts[expert];
        }
        for (index, pick) in picks.iter().enumerate() {
            let at = starts[pick.expert];
            (self.rows[at], self.row_shares[at]) = (index / active, pick.share);
            starts[pick.expert] += 1;
        }
        // Each start has become that of the next expert.
        starts.rotate_right(1);
        starts[0] = 0;
    }

    /// Returns the rows that an expert runs for, in order, and its share in each.
    fn members(&self, expert: usize) -> (&[usize], &[f32]) {
        let members = self.starts[expert]..self.starts[expert + 1];
        (&self.rows[members.clone()], &self.row_shares[members])
    }

    /// Returns the number of rows of the expert that has most, of `experts` experts.
    pub(crate) fn max_members(&self, experts: usize) -> usize {
        (0..experts).map(|expert| self.members(expert).0.len()).max().unwrap_or(0)
    }

    /// Finds the experts that run together, of those in `experts` that have rows: as many as there are places
    /// for. Places of an expert begin at a multiple of `alignment`. Returns the first expert that is left.
    pub(crate) fn next_group(&mut self, experts: Range<usize>, alignment: usize) -> usize {
        let mut group = std::mem::take(&mut self.group);
        let ExpertGroup { experts: found, slices, rows, shares } = &mut group;
        found.clear();
        slices.clear();
        rows.clear();
        shares.clear();
        let mut next = experts.start;
        while next < experts.end {
            let (members, row_shares) = self.members(next);
            let start = rows.len().next_multiple_of(alignment);
            if start + members.len() > self.max_places {
                break;
            }
            if !members.is_empty() {
                rows.resize(start, rows.last().copied().unwrap_or(0));
                shares.resize(start, 0.0);
                rows.extend_from_slice(members);
                shares.extend_from_slice(row_shares);
                found.push(next);
                slices.push(start..rows.len());
            }
            next += 1;
        }
        self.group = group;
        next
    }

    /// Returns the experts of the last [`next_group`](Self::next_group).
    pub(crate) fn group(&self) -> &ExpertGroup {
        &self.group
    }
}

fn sigmoid(x: f32) -> f32 {
    (1.0 / (1.0 + math::exp(-f64::from(x)))) as f32
}

/// Fills `picks` with the experts of the largest shares, equal ones by lower index, from the logits in
/// `shares`, which are overwritten.
fn pick(kernel: &dyn Kernel, shares: &mut [f32], picks: &mut [Pick], renormalize: bool) {
    kernel.softmax(shares);
    // A share that is not a number is below all others, and above those that are taken.
    let rank = |share: f32| if share.is_nan() { -1.0 } else { share };
    for pick in picks.iter_mut() {
        let mut best = 0;
        for expert in 1..shares.len() {
            if rank(shares[expert]) > rank(shares[best]) {
                best = expert;
            }
        }
        *pick = Pick { expert: best, share: shares[best] };
        shares[best] = f32::NEG_INFINITY;
    }
    if renormalize {
        let sum: f32 = picks.iter().map(|pick| pick.share).sum();
        picks.iter_mut().for_each(|pick| pick.share /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(logits: &[f32], active: usize, renormalize: bool) -> Vec<(usize, f32)> {
        let mut picks = vec![Pick::default(); active];
        pick(wf_kernels::best(), &mut logits.to_vec(), &mut picks, renormalize);
        picks.into_iter().map(|pick| (pick.expert, pick.share)).collect()
    }

    #[test]
    fn the_largest_shares_win_and_equal_ones_go_to_the_lower_expert() {
        let order = |logits: &[f32], active| -> Vec<usize> {
            picked(logits, active, false).into_iter().map(|(expert, _)| expert).collect()
        };
        assert_eq!(order(&[0.0, 3.0, 1.0, 2.0], 2), [1, 3]);
        assert_eq!(order(&[1.0, 1.0, 1.0, 1.0], 3), [0, 1, 2]);
        assert_eq!(order(&[0.0, 2.0, 5.0, 2.0], 2), [2, 1]);
    }

    #[test]
    fn shares_are_those_of_all_experts_unless_renormalized() {
        let ln_2 = std::f32::consts::LN_2;
        let logits = [0.0, ln_2, 2.0 * ln_2, 0.0];
        let close = |found: Vec<(usize, f32)>, expected: [f32; 2]| {
            let shares = found.into_iter().zip(expected);
            shares.for_each(|((_, share), expected)| assert!((share - expected).abs() < 1e-6));
        };
        close(picked(&logits, 2, false), [0.5, 0.25]);
        close(picked(&logits, 2, true), [2.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn logits_that_are_not_numbers_pick_each_expert_once() {
        let found = picked(&[f32::NAN, 1.0, f32::INFINITY, f32::NAN], 4, true);
        let mut experts: Vec<usize> = found.iter().map(|(expert, _)| *expert).collect();
        experts.sort_unstable();
        assert_eq!(experts, [0, 1, 2, 3]);
    }

    #[test]
    fn rows_are_grouped_by_expert() {
        let network = Network::default();
        let mut routes = Routes::new(&network, 0);
        let pick = |expert| Pick { expert, share: expert as f32 };
        routes.picks = [2, 0, 1, 2, 2, 0].map(pick).to_vec();
        (routes.rows, routes.row_shares, routes.starts) = (vec![0; 6], vec![0.0; 6], vec![0; 5]);
        routes.sort(4, 6, 2);
        let rows: Vec<&[usize]> = (0..4).map(|expert| routes.members(expert).0).collect();
        assert_eq!(rows, [&[0, 2][..], &[1], &[0, 1, 2], &[]]);
        assert_eq!(routes.members(2).1, [2.0; 3]);
        assert_eq!(routes.max_members(4), 3);

        // As many experts as there are places for.
        let next = |routes: &mut Routes, first, alignment, max_places| {
            routes.max_places = max_places;
            let next = routes.next_group(first..4, alignment);
            (next, routes.group().experts.clone(), routes.group().slices.clone())
        };
        assert_eq!(next(&mut routes, 0, 1, 6), (4, vec![0, 1, 2], vec![0..2, 2..3, 3..6]));
        assert_eq!(routes.group().rows, [0, 2, 1, 0, 1, 2]);
        assert_eq!(next(&mut routes, 0, 1, 5), (2, vec![0, 1], vec![0..2, 2..3]));
        let only: Vec<_> = std::iter::once(0..3).collect();
        assert_eq!(next(&mut routes, 2, 1, 5), (4, vec![2], only));
        assert_eq!(next(&mut routes, 0, 4, 16), (4, vec![0, 1, 2], vec![0..2, 4..5, 8..11]));
        assert_eq!(routes.group().rows, [0, 2, 2, 2, 1, 1, 1, 1, 0, 1, 2]);
        assert_eq!(routes.group().shares[..5], [0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(next(&mut routes, 3, 1, 3), (4, vec![], vec![]), "no rows");
    }
}
