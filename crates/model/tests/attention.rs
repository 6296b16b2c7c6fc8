//! Modes of attention that select pages: a selection depends on a sequence's own tokens alone.

use wf_model::{
    AttentionMode, Compute, Forward, KvDtype, Logits, Model, PageId, Segment, Visibility,
};

use crate::random_weights;
use crate::random_weights::{bits, network, pages, scores, tokens};

/// Each skips some of the seventeen pages of the test's tokens.
const SPARSE: [AttentionMode; 3] =
    [AttentionMode::TopK(5), AttentionMode::Dynamic(0.3), AttentionMode::Threshold(0.5)];

/// Length of a row of logits.
const VOCAB: usize = 50;

fn model(mode: AttentionMode, kv: KvDtype, compute: Compute) -> Model {
    let mut model = random_weights::model(network(), kv, compute);
    model.set_attention(mode);
    model
}

#[test]
fn instruction_sets_threads_and_chunks_change_no_bit() {
    let tokens = tokens(1);
    for mode in SPARSE {
        for kv in KvDtype::ALL {
            let expected = scores(&mut model(mode, kv, Compute::new(1)), &tokens, 1, &pages());
            for isa in Compute::supported() {
                let all = [(3, 7), (16, 256), (1, 600)];
                // Two chunkings take long; one type has them all.
                for (threads, chunk) in all.into_iter().take(if kv == KvDtype::F32 { 3 } else { 1 })
                {
                    let compute = Compute::chosen(Some(isa), threads, None).expect("supported");
                    let found = scores(&mut model(mode, kv, compute), &tokens, chunk, &pages());
                    assert!(
                        found == expected,
                        "{mode}, {kv}, {isa}, {threads} threads, chunks of {chunk}"
                    );
                }
            }
        }
    }
}

#[test]
fn reading_all_pages_is_dense_attention() {
    let tokens = tokens(2);
    for kv in KvDtype::ALL {
        let expected =
            scores(&mut model(AttentionMode::Dense, kv, Compute::new(2)), &tokens, 100, &pages());
        for mode in [AttentionMode::TopK(17), AttentionMode::TopK(16), AttentionMode::Dynamic(1.0)]
        {
            let found = scores(&mut model(mode, kv, Compute::new(2)), &tokens, 100, &pages());
            // Sixteen pages are all but the last one's.
            let dense = if mode == AttentionMode::TopK(16) { 16 * 32 * VOCAB } else { found.len() };
            assert!(found[..dense] == expected[..dense], "{mode}, {kv}");
        }
    }
}

#[test]
fn fewer_pages_give_other_results() {
    let tokens = tokens(3);
    let dense = scores(
        &mut model(AttentionMode::Dense, KvDtype::F32, Compute::new(2)),
        &tokens,
        64,
        &pages(),
    );
    for mode in [AttentionMode::TopK(5), AttentionMode::Dynamic(0.3)] {
        let found = scores(&mut model(mode, KvDtype::F32, Compute::new(2)), &tokens, 64, &pages());
        assert!(found != dense, "{mode} skips nothing");
    }
}

#[test]
fn a_draft_that_is_not_kept_leaves_no_trace() {
    let tokens = tokens(4);
    for mode in SPARSE {
        for kv in KvDtype::ALL {
            let mut model = model(mode, kv, Compute::new(2));
            let expected = scores(&mut model, &tokens, 600, &pages());
            let mut logits = Logits::new(VOCAB);
            let mut found = Vec::new();
            // Before each token, a draft of others fills the page and more, and is overwritten.
            for (position, token) in tokens.iter().enumerate() {
                if position % 32 >= 29 && position + 8 < tokens.len() {
                    let draft: Vec<u32> = (0..8).map(|i| (token + 7 + i) % VOCAB as u32).collect();
                    model
                        .forward(&[Segment::causal(&draft, position, &pages(), &[0])], &mut logits);
                }
                let one = std::slice::from_ref(token);
                model.forward(&[Segment::causal(one, position, &pages(), &[0])], &mut logits);
                found.extend(bits(logits.row(0)));
            }
            assert!(found == expected, "{mode}, {kv}");
        }
    }
}

#[test]
fn company_and_the_places_of_pages_change_no_bit() {
    let (long, short) = (tokens(5), tokens(6));
    for mode in SPARSE {
        for kv in [KvDtype::F32, KvDtype::Bf16, KvDtype::Int8] {
            let mut model = model(mode, kv, Compute::new(3));
            let (far, near): (Vec<PageId>, Vec<PageId>) = ((20..37).rev().collect(), pages());
            let alone = scores(&mut model, &long, 600, &near);
            let mut logits = Logits::new(VOCAB);
            let mut together = Vec::new();
            for (at, tokens) in long.chunks(13).enumerate() {
                let scored: Vec<usize> = (0..tokens.len()).collect();
                let batch = [
                    Segment::causal(&short[at..at + 3], at, &near, &[0]),
                    Segment::causal(tokens, at * 13, &far, &scored),
                ];
                model.forward(&batch, &mut logits);
                together.extend((1..=tokens.len()).flat_map(|row| bits(logits.row(row))));
            }
            assert!(together == alone, "{mode}, {kv}");
        }
    }
}

#[test]
fn a_block_that_sees_itself_is_the_same_in_any_batch() {
    let tokens = tokens(7);
    for mode in SPARSE {
        let mut model = model(mode, KvDtype::F32, Compute::new(2));
        let mut logits = Logits::new(VOCAB);
        let (pages, others): (Vec<PageId>, Vec<PageId>) = (pages(), (17..34).collect());
        model.forward(&[Segment::causal(&tokens[..250], 0, &pages, &[])], &mut logits);
        let scored: Vec<usize> = (0..150).collect();
        let block = Segment {
            visibility: Visibility::Until(400),
            ..Segment::causal(&tokens[250..400], 250, &pages, &scored)
        };
        model.forward(&[block], &mut logits);
        let rows = |logits: &Logits| -> Vec<u32> {
            (0..150).flat_map(|row| bits(logits.row(row))).collect()
        };
        let alone = rows(&logits);
        model.forward(&[Segment::causal(&tokens[..3], 0, &others, &[]), block], &mut logits);
        assert!(alone == rows(&logits), "{mode}");
    }
}
