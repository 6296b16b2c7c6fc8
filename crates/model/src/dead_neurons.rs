//! Drops neurons that are zero for every token, when a model is made.
//!
//! Training can leave rows of gate and up without a trit that is not zero: 4.8 % of those of BitNet b1.58 2B4T.
//! Such a neuron is 0 whatever the token, so its rows and its column of `down` need not be kept.
//!
//! No result changes. Products with `down` are sums of integers, which a zero does not change in any order. The
//! mean square of a norm is a sum of floats, in [`LANES`] lanes by index: zero changes none, either, as long as every other
//! neuron stays in its lane, and in its order there. So all lanes lose as many neurons as the lane that has fewest to lose.

use wf_core::{Activation, ActivationCodes, Dense, Network};
use wf_kernels::Pool;

use crate::weights::{Ffn, Mlp, Weights};

/// Lanes of a sum of floats.
const LANES: usize = 16;

/// Drops dead neurons of dense feed-forward blocks.
pub(crate) fn drop_dead_neurons(pool: &Pool, network: &Network, weights: &mut Weights) {
    // Other activations depend on the places of their neighbors: by group, by block of a transform, or as floats.
    let are_alone = matches!(network.activations, ActivationCodes::Int8 | ActivationCodes::Int16);
    if !are_alone || network.hadamard.is_some() {
        return;
    }
    for (recipe, layer) in network.layers.iter().zip(&mut weights.layers) {
        if let (Some(recipe), Ffn::Dense(mlp)) = (recipe.ffn.dense(), &mut layer.ffn) {
            drop_from(pool, recipe, mlp);
        }
    }
}

fn drop_from(pool: &Pool, recipe: &Dense, mlp: &mut Mlp) {
    let is_dead = |neuron| {
        // Squared ReLU is zero for a gate of zero, whatever `up` is.
        mlp.gate.is_zero_row(neuron)
            && (recipe.activation == Activation::Relu2 || mlp.up.is_zero_row(neuron))
    };
    let dead: Vec<bool> = (0..mlp.gate.rows()).map(is_dead).collect();
    let Some(kept) = kept_neurons(&dead) else { return };
    let gate = mlp.gate.with_rows(pool, &kept);
    let up = mlp.up.with_rows(pool, &kept);
    let down = mlp.down.with_cols(pool, &kept);
    let (Some(gate), Some(up), Some(down)) = (gate, up, down) else { return };
    (mlp.gate, mlp.up, mlp.down) = (gate, up, down);
    if let Some(norm) = &mut mlp.sub_norm {
        norm.weight = kept.iter().map(|neuron| norm.weight[*neuron]).collect();
    }
    mlp.kept = Some(kept);
}

/// Returns the neurons that stay, in the order in which they stay, or `None` if all do. Each keeps its index modulo
/// [`LANES`].
fn kept_neurons(dead: &[bool]) -> Option<Vec<usize>> {
    if !dead.len().is_multiple_of(LANES) {
        return None;
    }
    let of_lane = |lane| (lane..dead.len()).step_by(LANES);
    let alive_in = |lane| of_lane(lane).filter(|neuron| !dead[*neuron]);
    let lane_len = (0..LANES).map(|lane| alive_in(lane).count()).max()?.max(1);
    if lane_len >= dead.len() / LANES {
        return None;
    }
    let mut kept = vec![0; LANES * lane_len];
    for lane in 0..LANES {
        // Dead neurons fill up lanes that would be shorter than others.
        let neurons = alive_in(lane).chain(of_lane(lane).filter(|neuron| dead[*neuron]));
        for (place, neuron) in kept[lane..].iter_mut().step_by(LANES).zip(neurons) {
            *place = neuron;
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neurons_keep_their_lanes_and_their_order() {
        // Neurons of lane 3 are dead but every fourth, those of the other lanes every second.
        let is_dead = |neuron: usize| match (neuron % LANES, neuron / LANES) {
            (3, row) => row % 4 != 0,
            (_, row) => row % 2 == 1,
        };
        let dead: Vec<_> = (0..LANES * 12).map(is_dead).collect();
        let kept = kept_neurons(&dead).expect("some are dropped");
        assert_eq!(kept.len(), LANES * 6);
        for lane in 0..LANES {
            let found: Vec<_> = kept[lane..].iter().step_by(LANES).copied().collect();
            assert!(found.iter().all(|neuron| neuron % LANES == lane), "{found:?}");
            let alive: Vec<_> = found.iter().copied().filter(|n| !dead[*n]).collect();
            assert!(alive.is_sorted(), "{alive:?}");
            assert_eq!(alive.len(), if lane == 3 { 3 } else { 6 });
        }
    }

    #[test]
    fn a_lane_without_dead_neurons_keeps_all() {
        let dead: Vec<_> = (0..LANES * 5).map(|neuron| neuron % LANES != 7).collect();
        assert_eq!(kept_neurons(&dead), None);
        assert_eq!(kept_neurons(&[true; LANES + 1]), None, "lanes of different lengths");
        assert_eq!(kept_neurons(&[]), None);
        let kept = kept_neurons(&[true; 3 * LANES]).expect("all are dead");
        assert_eq!(kept.len(), LANES, "a matrix has a column");
    }
}
