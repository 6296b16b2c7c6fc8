//! Attention to a sliding window and the first positions: what falls out is never read again.

use wf_core::{Network, RopeScaling};
use wf_model::{
    ActivationCodes, AttentionMode, Compute, Forward, KvDtype, Logits, Model, PAGE_LEN, PageId,
    Segment, TokenId, Visibility, Window,
};

use crate::random_weights;
use crate::random_weights::{bits, model, network, pages, scores, tokens};

/// No whole number of pages, and less than a chunk.
const WINDOW: Window = Window { len: 150, sinks: 5 };

/// Length of a row of logits.
const VOCAB: usize = 50;

/// A page that does not exist.
const GONE: PageId = PageId::MAX;

fn sliding(network: Network, window: Window, kv: KvDtype, compute: Compute) -> Model {
    let mut model = model(network, kv, compute);
    model.set_attention(AttentionMode::Window(window));
    model
}

/// The bits of the scores of each token, where pages are given back as soon as no later token sees them.
fn scores_of_few_pages(model: &mut Model, tokens: &[TokenId], chunk: usize) -> Vec<u32> {
    let mut logits = Logits::new(VOCAB);
    let (mut all, mut pages, mut free) = (Vec::new(), Vec::new(), (20..34).collect::<Vec<_>>());
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        let (start, end) = (i * chunk, i * chunk + tokens.len());
        let sinks = WINDOW.sinks.div_ceil(PAGE_LEN);
        for page in sinks..(WINDOW.first(start + 1) / PAGE_LEN).min(pages.len()) {
            free.extend(Some(std::mem::replace(&mut pages[page], GONE)).filter(|&id| id != GONE));
        }
        while pages.len() < end.div_ceil(PAGE_LEN) {
            pages.push(free.pop().expect("pages of a window and a chunk"));
        }
        let scored: Vec<usize> = (0..tokens.len()).collect();
        model.forward(&[Segment::causal(tokens, start, &pages, &scored)], &mut logits);
        all.extend((0..tokens.len()).flat_map(|row| bits(logits.row(row))));
    }
    all
}

#[test]
fn instruction_sets_threads_chunks_and_freed_pages_change_no_bit() {
    let tokens = tokens(1);
    for kv in KvDtype::ALL {
        let model = |compute| sliding(network(), WINDOW, kv, compute);
        let expected = scores(&mut model(Compute::new(1)), &tokens, 1, &pages());
        for isa in Compute::supported() {
            let all = [(3, 7), (16, 200), (1, 64)];
            // Two chunkings take long; one type has them all.
            for (threads, chunk) in all.into_iter().take(if kv == KvDtype::F32 { 3 } else { 1 }) {
                let compute = Compute::chosen(Some(isa), threads, None).expect("supported");
                let found = scores_of_few_pages(&mut model(compute), &tokens, chunk);
                assert!(found == expected, "{kv}, {isa}, {threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn a_sequence_within_the_window_has_the_bits_of_dense_attention() {
    let tokens = tokens(2);
    for kv in KvDtype::ALL {
        let dense = scores(&mut model(network(), kv, Compute::new(2)), &tokens, 100, &pages());
        for window in [WINDOW, Window { len: 300, sinks: 0 }, Window { len: 32, sinks: 400 }] {
            let mut model = sliding(network(), window, kv, Compute::new(2));
            let found = scores(&mut model, &tokens, 100, &pages());
            let within = window.positions() * VOCAB;
            assert!(found[..within] == dense[..within], "{kv}, {window:?}");
            let next = within..within + VOCAB;
            assert!(found[next.clone()] != dense[next], "{kv}, {window:?}: it does not slide");
        }
        let mut model = sliding(network(), WINDOW, kv, Compute::new(2));
        model.read_all_pages(true);
        let found = scores(&mut model, &tokens, 100, &pages());
        let within = WINDOW.positions() * VOCAB;
        assert!(found[..within] == dense[..within], "{kv}: suspended");
    }
}

/// One layer without codes of activations: its keys and values depend on their token and its position alone,
/// and no rounding jumps.
fn one_layer() -> Network {
    let mut network = network();
    network.layers.truncate(1);
    network.activations = ActivationCodes::F32;
    network
}

/// The scores of the last of `tokens` with dense attention from position 0 on: all keys are rotated by their
/// position among these tokens.
fn dense_scores(network: &Network, tokens: &[TokenId]) -> Vec<f32> {
    let mut model = model(network.clone(), KvDtype::F32, Compute::new(2));
    let all = scores(&mut model, tokens, 600, &pages());
    all[all.len() - VOCAB..].iter().map(|&bits| f32::from_bits(bits)).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The published method rotates keys by their position in the cache. With one layer, that is dense attention to
/// the tokens that are left.
#[test]
fn scores_are_those_of_a_cache_that_is_rotated_anew() {
    let tokens = tokens(3);
    let mut stretched = one_layer();
    stretched.update_layers(|attention, _| {
        if let Some(rope) = &mut attention.rope {
            rope.scaling = RopeScaling::Linear { factor: 3.0 };
        }
    });
    let mut without = one_layer();
    without.update_layers(|attention, _| attention.rope = None);
    for network in [one_layer(), stretched, without] {
        for window in [WINDOW, Window { len: 64, sinks: 0 }, Window { len: 40, sinks: 300 }] {
            let mut model = sliding(network.clone(), window, KvDtype::F32, Compute::new(2));
            let all = scores(&mut model, &tokens, 64, &pages());
            for position in [window.positions(), 400, 522] {
                let found: Vec<f32> =
                    all[position * VOCAB..][..VOCAB].iter().map(|&b| f32::from_bits(b)).collect();
                let newest = &tokens[position + 1 - window.len..=position];
                let left = [&tokens[..window.sinks], newest].concat();
                let expected = dense_scores(&network, &left);
                let error = distance(&found, &expected);
                assert!(error < 1e-3, "{window:?} at {position}: {error}");
                let without_sinks = dense_scores(&network, newest);
                assert!(window.sinks == 0 || distance(&found, &without_sinks) > 1e-2);
            }
        }
    }
}

#[test]
fn a_token_at_position_one_million_is_exact() {
    let (network, tokens, window) = (one_layer(), tokens(4), WINDOW);
    let mut model = sliding(network.clone(), window, KvDtype::F32, Compute::new(2));
    let mut logits = Logits::new(VOCAB);
    for end in [100_000, (1 << 20) - 1] {
        let start = end - window.len;
        let mut pages = vec![GONE; (end + PAGE_LEN) / PAGE_LEN];
        pages[0] = 0;
        // The first tokens of the segment see pages before it, which hold nothing.
        let first = start - window.len;
        (first / PAGE_LEN..pages.len()).zip(1..).for_each(|(page, id)| pages[page] = id);
        let (sinks, newest) = tokens.split_at(window.sinks);
        model.forward(&[Segment::causal(sinks, 0, &pages, &[])], &mut logits);
        let newest = &newest[..window.len];
        let scored = [newest.len() - 1];
        model.forward(&[Segment::causal(newest, start, &pages, &scored)], &mut logits);
        let expected = dense_scores(&network, &[sinks, newest].concat());
        let found: Vec<f32> = bits(logits.row(0)).into_iter().map(f32::from_bits).collect();
        let error = distance(&found, &expected);
        assert!(error < 1e-3, "at {end}: {error}");
    }
}

#[test]
fn a_block_reads_the_window_that_ends_with_it() {
    let tokens = tokens(5);
    let network = one_layer();
    let mut model = sliding(network.clone(), WINDOW, KvDtype::F32, Compute::new(2));
    let (start, end) = (400, 432);
    let mut logits = Logits::new(VOCAB);
    model.forward(&[Segment::causal(&tokens[..start], 0, &pages(), &[])], &mut logits);
    let (block, pages) = (&tokens[start..end], pages());
    let scored: Vec<usize> = (0..block.len()).collect();
    let segment = Segment {
        visibility: Visibility::Until(end),
        ..Segment::causal(block, start, &pages, &scored)
    };
    model.forward(&[segment], &mut logits);
    let found: Vec<_> = (0..block.len()).map(|row| bits(logits.row(row))).collect();

    let left = [&tokens[..WINDOW.sinks], &tokens[end - WINDOW.len..end]].concat();
    let mut dense = random_weights::model(network, KvDtype::F32, Compute::new(2));
    let context = left.len() - block.len();
    dense.forward(&[Segment::causal(&left[..context], 0, &pages, &[])], &mut logits);
    let segment = Segment {
        visibility: Visibility::Until(left.len()),
        ..Segment::causal(block, context, &pages, &scored)
    };
    dense.forward(&[segment], &mut logits);
    for (row, found) in found.iter().enumerate() {
        let found: Vec<f32> = found.iter().map(|&bits| f32::from_bits(bits)).collect();
        let expected: Vec<f32> = bits(logits.row(row)).into_iter().map(f32::from_bits).collect();
        let error = distance(&found, &expected);
        assert!(error < 1e-3, "row {row}: {error}");
    }
}
