//! Tests of the sampler.

use super::*;
use crate::logits::rank;

fn sampler(params: SamplingParams) -> Sampler {
    Sampler::new(params, &Limits::default(), &[])
}

fn draws(params: &SamplingParams, logits: &[f32], times: usize) -> Vec<TokenId> {
    let mut sampler = sampler(params.clone());
    let mut sample = |position| {
        sampler.seen.clear();
        sampler.sample(&mut logits.to_vec(), position).unwrap().token
    };
    (0..times).map(&mut sample).collect()
}

#[test]
fn greedy_takes_the_highest_logit_and_the_lowest_id_among_equals() {
    let mut greedy = sampler(SamplingParams::default());
    assert_eq!(greedy.sample(&mut [0.0, 2.0, 2.0, -1.0], 0).unwrap().token, 1);
    assert_eq!(greedy.sample(&mut [f32::NAN, -3.0, f32::INFINITY, -4.0], 1).unwrap().token, 1);
}

#[test]
fn without_a_finite_logit_there_is_no_token() {
    let broken = &mut [f32::NAN, f32::NEG_INFINITY];
    assert_eq!(sampler(SamplingParams::default()).sample(broken, 0), None);
    let warm = SamplingParams { temperature: 1.0, ..Default::default() };
    assert_eq!(sampler(warm).sample(broken, 0), None);
}

#[test]
fn draws_follow_the_probabilities() {
    let weights = [0.5_f64, 0.25, 0.125, 0.125];
    let logits = weights.map(|w| math::ln(w) as f32);
    let params = SamplingParams { temperature: 1.0, seed: 3, ..Default::default() };
    let mut counts = [0.0; 4];
    for token in draws(&params, &logits, 40_000) {
        counts[token as usize] += 1.0;
    }
    // Chi-square with 3 degrees of freedom: 21 has a chance of 1e-4.
    let expected = weights.map(|w| w * 40_000.0);
    let chi: f64 = counts.iter().zip(expected).map(|(n, e)| (n - e) * (n - e) / e).sum();
    assert!(chi < 21.0, "{chi}");
}

#[test]
fn top_k_top_p_and_min_p_truncate() {
    let logits: Vec<f32> = [0.4_f64, 0.3, 0.2, 0.1].iter().map(|&w| math::ln(w) as f32).collect();
    let warm = SamplingParams { temperature: 1.0, ..Default::default() };
    let largest = |params: SamplingParams| draws(&params, &logits, 2000).into_iter().max();
    assert_eq!(largest(warm.clone()), Some(3));
    assert_eq!(largest(SamplingParams { top_k: 2, ..warm.clone() }), Some(1));
    assert_eq!(largest(SamplingParams { top_p: 0.65, ..warm.clone() }), Some(1));
    assert_eq!(largest(SamplingParams { top_p: 0.75, ..warm.clone() }), Some(2));
    assert_eq!(largest(SamplingParams { min_p: 0.45, ..warm.clone() }), Some(2));
    assert_eq!(largest(SamplingParams { top_p: 1e-6, ..warm }), Some(0));
}

#[test]
fn the_floor_of_top_p_changes_nothing() {
    let logits: Vec<f32> = (0..500).map(|i| ((i * 7919) % 500) as f32 * 0.02).collect();
    let sorted = |p: f64| {
        let mut all: Vec<Candidate> = logits
            .iter()
            .zip(0..)
            .map(|(&logit, token)| Candidate {
                token,
                logit,
                weight: math::exp(f64::from(logit) - 10.0),
            })
            .collect();
        let mut fast = all.clone();
        keep_top_p(&mut fast, p);
        let total: f64 = all.iter().map(|c| c.weight).sum();
        all.sort_unstable_by(rank);
        let mut sum = 0.0;
        let enough = all.iter().position(|c| {
            sum += c.weight;
            sum >= p * total
        });
        all.truncate(enough.unwrap() + 1);
        let tokens = |c: Vec<Candidate>| c.iter().map(|c| c.token).collect::<Vec<_>>();
        (tokens(fast), tokens(all))
    };
    for p in [0.01, 0.3, 0.5, 0.9, 0.95, 0.999] {
        let (fast, slow) = sorted(p);
        assert_eq!(fast, slow, "p = {p}");
    }
}

#[test]
fn the_highest_logit_is_found_at_any_index() {
    for len in 1..70 {
        for at in 0..len {
            let mut logits = vec![-2.0; len];
            logits[at] = -1.0;
            assert_eq!(best(&logits), Some(at as TokenId), "{at} of {len}");
            logits[at] = f32::MIN;
            assert_eq!(best(&logits[at..=at]), Some(0));
        }
    }
    assert_eq!(best(&[]), None);
    assert_eq!(best(&[-0.0, 0.0]), Some(0), "equal logits");
}

#[test]
fn the_required_logits_alone_give_the_draw_of_all() {
    let settings = [
        SamplingParams { temperature: 0.8, top_k: 5, ..Default::default() },
        SamplingParams { temperature: 1.5, top_k: 40, top_p: 0.7, ..Default::default() },
        SamplingParams { temperature: 1.0, top_k: 9, min_p: 0.2, ..Default::default() },
        SamplingParams {
            temperature: 1.0,
            top_k: 3,
            repetition_penalty: 1.7,
            presence_penalty: 0.5,
            frequency_penalty: 0.5,
            ..Default::default()
        },
        SamplingParams { repetition_penalty: 3.0, ..Default::default() },
        SamplingParams::default(),
    ];
    let limits =
        Limits { stop_tokens: vec![3, 11], min_tokens: 6, max_tokens: 99, ..Limits::default() };
    for params in settings {
        let mut all = Sampler::new(params.clone(), &limits, &[1, 2, 3]);
        let mut few = Sampler::new(params.clone(), &limits, &[1, 2, 3]);
        let mut left_out = 0;
        for position in 0..60 {
            // Many ties, so that a wrong cut-off shows.
            let logit = |i: u64| ((i * 7919 + position * 31) % 101 / 3) as f32 * 0.25 - 3.0;
            let logits: Vec<f32> = (0..300).map(logit).collect();
            let Scoring::Top(k) = few.scoring(1) else { panic!("{params:?}") };
            let mut sorted = logits.clone();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            let floor = sorted[k.min(300) - 1];
            let keep = |&s: &f32| if s < floor { f32::NEG_INFINITY } else { s };
            let mut best: Vec<f32> = logits.iter().map(keep).collect();
            left_out += best.iter().filter(|s| !s.is_finite()).count();
            let position = position as usize;
            assert_eq!(few.sample(&mut best, position), all.sample(&mut logits.clone(), position));
        }
        assert!(left_out > 1000, "{params:?}");
    }
}

#[test]
fn parameters_that_can_raise_a_token_require_all_logits() {
    let scoring = |params: SamplingParams| sampler(params).scoring(1);
    let d = SamplingParams::default;
    assert_eq!(scoring(d()), Scoring::BEST);
    assert_eq!(scoring(SamplingParams { temperature: 1.0, top_k: 50, ..d() }), Scoring::Top(50));
    for params in [
        SamplingParams { temperature: 1.0, ..d() },
        SamplingParams { temperature: 1.0, top_p: 0.9, min_p: 0.1, ..d() },
        SamplingParams { temperature: 1.0, top_k: 5000, ..d() },
        SamplingParams { repetition_penalty: 0.9, ..d() },
        SamplingParams { presence_penalty: -0.1, ..d() },
        SamplingParams { frequency_penalty: -0.1, ..d() },
        SamplingParams { logit_bias: vec![(1, -1.0)], ..d() },
    ] {
        assert_eq!(scoring(params.clone()), Scoring::All, "{params:?}");
    }
}

#[test]
fn penalties_lower_the_logits_of_seen_tokens() {
    let params = SamplingParams { repetition_penalty: 2.0, ..Default::default() };
    let s = Sampler::new(params, &Limits::default(), &[0, 2]);
    let mut logits = [3.0, 2.0, -1.0];
    s.adjust(&mut logits, s.generated);
    assert_eq!(logits, [1.5, 2.0, -2.0]);

    let params =
        SamplingParams { presence_penalty: 0.5, frequency_penalty: 0.25, ..Default::default() };
    let mut s = Sampler::new(params, &Limits::default(), &[0]);
    for position in 0..2 {
        assert_eq!(s.sample(&mut [0.0, 5.0, 0.0], position).unwrap().token, 1);
    }
    let mut logits = [1.0, 5.0, 1.0];
    s.adjust(&mut logits, s.generated);
    assert_eq!(logits, [1.0, 4.0, 1.0], "a prompt token has no presence");
}

#[test]
fn bias_and_min_tokens_decide_before_the_draw() {
    let params = SamplingParams { logit_bias: vec![(2, 10.0)], ..Default::default() };
    assert_eq!(sampler(params).sample(&mut [1.0, 0.0, 0.0], 0).unwrap().token, 2);

    let limits = Limits { stop_tokens: vec![0], min_tokens: 1, max_tokens: 9, deadline: None };
    let mut s = Sampler::new(SamplingParams::default(), &limits, &[]);
    assert_eq!(s.sample(&mut [9.0, 1.0], 0).unwrap().token, 1);
    assert_eq!(s.sample(&mut [9.0, 1.0], 1).unwrap().token, 0);
}
