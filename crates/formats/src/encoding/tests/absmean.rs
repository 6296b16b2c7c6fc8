//! Rounding of master weights.

use super::super::absmean::AbsMean;
use super::Random;

fn ternarise(weights: &[f32]) -> (Vec<i8>, f32) {
    let mut mean = AbsMean::default();
    mean.add(weights);
    let scale = mean.scale().unwrap();
    let mut trits = vec![9; weights.len()];
    scale.trits(weights, &mut trits).unwrap();
    (trits, scale.weight_scale())
}

#[test]
fn a_weight_is_rounded_half_to_even_after_the_division() {
    // Mean |w| is 1: one half goes to 0, the next float above it to 1.
    let above = f32::from_bits(0.5_f32.to_bits() + 1);
    let weights = [0.5, -0.5, above, -above, 2.0, -2.0, 1.0 - above, 1.5];
    let mean = weights.iter().map(|w| f64::from(w.abs())).sum::<f64>() / 8.0;
    assert_eq!(mean as f32, 1.0, "the example is set up so");
    let (trits, scale) = ternarise(&weights);
    assert_eq!(trits, [0, 0, 1, -1, 1, -1, 0, 1]);
    assert_eq!(scale, 1.0);
}

/// The steps of Transformers' `WeightQuant`, spelled out for each weight.
#[test]
fn trits_and_scale_follow_the_reference_steps() {
    let mut random = Random(7);
    let weights: Vec<f32> =
        (0..4096).map(|_| (random.below(2001) as f32 - 1000.0) * 3.1e-5).collect();
    let mean = (weights.iter().map(|w| f64::from(w.abs())).sum::<f64>() / 4096.0) as f32;
    let multiplier = 1.0 / mean.max(1e-5);
    let (trits, scale) = ternarise(&weights);
    for (weight, trit) in weights.iter().zip(&trits) {
        let reference = (weight * multiplier).round_ties_even().clamp(-1.0, 1.0);
        assert_eq!(f32::from(*trit), reference);
        assert_eq!(f32::from(*trit) * scale, reference / multiplier);
    }
    assert!((1..3).all(|kind| trits.iter().any(|trit| i32::from(*trit) + 1 == kind)));
}

#[test]
fn a_matrix_of_zeros_has_the_smallest_scale() {
    let (trits, scale) = ternarise(&[0.0; 64]);
    assert_eq!(trits, [0; 64]);
    assert_eq!(scale, 1.0 / (1.0 / 1e-5_f32));
}

#[test]
fn rejects_weights_that_are_not_finite() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut mean = AbsMean::default();
        mean.add(&[1.0, bad, 2.0]);
        assert!(mean.scale().is_err(), "{bad}");
    }
}
