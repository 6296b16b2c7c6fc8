//! The router of a mixture of experts: picks the experts of every token, and groups tokens by expert.

use wf_core::{Experts, Network};
use wf_kernels::{FloatRows, Kernel};

use crate::compute::Compute;

/// An expert of one token, and its share in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pick {
    expert: usize,
    share: f32,
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
}

impl Routes {
    pub(crate) fn new(network: &Network, max_rows: usize) -> Self {
        let experts = network.max_experts(|experts| experts.experts);
        let active = max_rows * network.max_experts(|experts| experts.active);
        Self {
            shares: vec![0.0; max_rows * experts],
            picks: vec![Pick::default(); active],
            starts: vec![0; experts + 1],
            rows: vec![0; active],
            row_shares: vec![0.0; active],
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
        self.group(experts, rows * active, active);
    }

    /// Sorts the first `len` picks by expert. Rows of an expert stay in order.
    fn group(&mut self, experts: usize, len: usize, active: usize) {
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
    pub(crate) fn members(&self, expert: usize) -> (&[usize], &[f32]) {
        let members = self.starts[expert]..self.starts[expert + 1];
        (&self.rows[members.clone()], &self.row_shares[members])
    }
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
        routes.group(4, 6, 2);
        let rows: Vec<&[usize]> = (0..4).map(|expert| routes.members(expert).0).collect();
        assert_eq!(rows, [&[0, 2][..], &[1], &[0, 1, 2], &[]]);
        assert_eq!(routes.members(2).1, [2.0; 3]);
    }
}
