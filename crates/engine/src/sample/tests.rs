//! Tests of the sampler.

use wf_model::{TokenLogit, best, math};

use super::*;

fn sampler(params: SamplingParams) -> Sampler {
    Sampler::new(params, &Limits::default(), &[])
}

fn sample(sampler: &mut Sampler, logits: &[f32], position: usize) -> Option<SampledToken> {
    sampler.sample(LogitsRow::All(&mut logits.to_vec()), position)
}

fn draws(params: &SamplingParams, logits: &[f32], times: usize) -> Vec<TokenId> {
    let mut sampler = sampler(params.clone());
    let mut next = |position| {
        sampler.penalized = Penalized::new(None, &[]);
        sample(&mut sampler, logits, position).unwrap().token
    };
    (0..times).map(&mut next).collect()
}

#[test]
fn greedy_takes_the_highest_logit_and_the_lowest_id_among_equals() {
    let mut greedy = sampler(SamplingParams::default());
    assert_eq!(sample(&mut greedy, &[0.0, 2.0, 2.0, -1.0], 0).unwrap().token, 1);
    assert_eq!(sample(&mut greedy, &[f32::NAN, -3.0, f32::INFINITY, -4.0], 1).unwrap().token, 1);
}

#[test]
fn without_a_finite_logit_there_is_no_token() {
    let broken = &[f32::NAN, f32::NEG_INFINITY];
    assert_eq!(sample(&mut sampler(SamplingParams::default()), broken, 0), None);
    let warm = SamplingParams { temperature: 1.0, ..Default::default() };
    assert_eq!(sample(&mut sampler(warm), broken, 0), None);
}

#[test]
fn draws_follow_the_probabilities() {
    let weights = [0.5_f64, 0.25, 0.125, 0.125];
    let logits = weights.map(|w| math::ln(w) as f32);
    let params = SamplingParams { temperature: 1.0, seed: 3, ..Default::default() };
    let mut counts = [0.0; 4];
    for token in draws(&params, &logits, 1_000_000) {
        counts[token as usize] += 1.0;
    }
    // Chi-square with 3 degrees of freedom: 21 has a chance of 1e-4.
    let expected = weights.map(|w| w * 1e6);
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
    let warm = SamplingParams { temperature: 0.8, ..Default::default() };
    let settings = [
        SamplingParams { top_k: 5, ..warm.clone() },
        SamplingParams { temperature: 1.5, top_k: 40, top_p: 0.7, ..warm.clone() },
        SamplingParams { top_k: 9, min_p: 0.2, ..warm.clone() },
        SamplingParams {
            top_k: 3,
            repetition_penalty: 1.7,
            presence_penalty: 0.5,
            frequency_penalty: 0.5,
            ..warm
        },
        SamplingParams { repetition_penalty: 3.0, ..Default::default() },
        SamplingParams { logit_bias: vec![(7, 2.0), (9, -5.0)], ..Default::default() },
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
            let Scoring::Top(k) = few.scoring() else { panic!("{params:?}") };
            let position = position as usize;
            let query = few.draw_query(position, few.generated, &[]);
            let is_adjusted = |token| query.adjustments.iter().any(|a| a.token == token);
            let rows = logits.iter().zip(0..).map(|(&logit, token)| TokenLogit { token, logit });
            let (adjusted, mut others): (Vec<_>, Vec<_>) =
                rows.partition(|row| is_adjusted(row.token));
            others.sort_unstable_by(TokenLogit::rank);
            let mut best = [&adjusted[..], &others[..k.min(others.len())]].concat();
            best.sort_unstable_by_key(|row| row.token);
            left_out += 300 - best.len();
            let found = few.sample(LogitsRow::Some(&mut best), position);
            assert_eq!(found, sample(&mut all, &logits, position), "{params:?}");
        }
        assert!(left_out > 1000, "{params:?}");
    }
}

#[test]
fn sampling_needs_the_best_logits_or_a_draw() {
    let scoring = |params: SamplingParams| sampler(params).scoring();
    let d = SamplingParams::default;
    assert_eq!(scoring(d()), Scoring::BEST);
    assert_eq!(scoring(SamplingParams { repetition_penalty: 0.9, ..d() }), Scoring::BEST);
    assert_eq!(scoring(SamplingParams { temperature: 1.0, top_k: 50, ..d() }), Scoring::Top(50));
    assert_eq!(scoring(SamplingParams { temperature: 1.0, ..d() }), Scoring::Draw);
    let params = SamplingParams { temperature: 1.0, top_p: 0.9, min_p: 0.1, ..d() };
    assert_eq!(scoring(params), Scoring::Draw);
    for params in [
        SamplingParams { temperature: 1.0, top_k: 5000, ..d() },
        SamplingParams { temperature: 1e-9, ..d() },
    ] {
        assert_eq!(scoring(params.clone()), Scoring::All, "{params:?}");
    }
}

fn adjusted<const N: usize>(s: &Sampler, mut logits: [f32; N], drafted: &[TokenId]) -> [f32; N] {
    for adjustment in s.adjustments(s.generated, drafted) {
        let logit = &mut logits[adjustment.token as usize];
        *logit = adjustment.apply(*logit);
    }
    logits
}

#[test]
fn penalties_lower_the_logits_of_seen_tokens() {
    let params = SamplingParams { repetition_penalty: 2.0, ..Default::default() };
    let s = Sampler::new(params, &Limits::default(), &[0, 2]);
    assert_eq!(adjusted(&s, [3.0, 2.0, -1.0], &[]), [1.5, 2.0, -2.0]);

    let params =
        SamplingParams { presence_penalty: 0.5, frequency_penalty: 0.25, ..Default::default() };
    let mut s = Sampler::new(params, &Limits::default(), &[0]);
    for position in 0..2 {
        assert_eq!(sample(&mut s, &[0.0, 5.0, 0.0], position).unwrap().token, 1);
    }
    let logits = [1.0, 5.0, 1.0];
    assert_eq!(adjusted(&s, logits, &[]), [1.0, 4.0, 1.0], "a prompt token has no presence");
    assert_eq!(adjusted(&s, logits, &[0, 1, 1]), [0.25, 3.5, 1.0], "drafted tokens count");
}

#[test]
fn penalties_consider_the_last_tokens_only() {
    let penalized = |repeat_last_n| {
        let params =
            SamplingParams { repetition_penalty: 2.0, repeat_last_n, ..Default::default() };
        let mut s = Sampler::new(params, &Limits::default(), &[0, 1]);
        s.commit(2);
        adjusted(&s, [4.0; 4], &[])
    };
    assert_eq!(penalized(-1), [2.0, 2.0, 2.0, 4.0]);
    assert_eq!(penalized(2), [4.0, 2.0, 2.0, 4.0]);
    assert_eq!(penalized(1), [4.0, 4.0, 2.0, 4.0]);
    assert_eq!(penalized(0), [4.0; 4]);
    let params = SamplingParams { repetition_penalty: 2.0, repeat_last_n: 2, ..Default::default() };
    let s = Sampler::new(params, &Limits::default(), &[0, 1]);
    assert_eq!(adjusted(&s, [4.0; 4], &[2, 3]), [4.0, 4.0, 2.0, 2.0], "drafted tokens count");
}

#[test]
fn bias_and_min_tokens_decide_before_the_draw() {
    let params = SamplingParams { logit_bias: vec![(2, 10.0)], ..Default::default() };
    assert_eq!(sample(&mut sampler(params), &[1.0, 0.0, 0.0], 0).unwrap().token, 2);

    let limits = Limits { stop_tokens: vec![0], min_tokens: 1, max_tokens: 9, deadline: None };
    let mut s = Sampler::new(SamplingParams::default(), &limits, &[]);
    assert_eq!(sample(&mut s, &[9.0, 1.0], 0).unwrap().token, 1);
    assert_eq!(sample(&mut s, &[9.0, 1.0], 1).unwrap().token, 0);
}
