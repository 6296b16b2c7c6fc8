//! For every KV cache type, the logits of a sequence depend on its own tokens alone: not on the
//! instruction set, threads, chunking, other sequences of the batch, or the order of its pages.

use wf_model::{Compute, Forward, KvDtype, KvPool, Logits, Model, PageId, Segment, Visibility};

use crate::random_weights;
use crate::random_weights::{PAGES, bits, network, pages, scores, tokens};

fn model(kv: KvDtype, compute: Compute) -> Model {
    random_weights::model(network(), kv, compute)
}

#[test]
fn instruction_sets_threads_and_chunks_change_no_bit() {
    let tokens = tokens(1);
    for kv in KvDtype::ALL {
        let expected = scores(&mut model(kv, Compute::new(1)), &tokens, 1, &pages());
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 600), (2, 100), (3, 7), (16, 256)] {
                let mut model =
                    model(kv, Compute::chosen(Some(isa), threads, None).expect("supported"));
                let found = scores(&mut model, &tokens, chunk, &pages());
                assert!(found == expected, "{kv}, {isa}, {threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn pages_may_lie_anywhere() {
    let tokens = tokens(2);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let expected = scores(&mut model, &tokens, 200, &pages());
        let scattered: Vec<PageId> =
            (0..17).map(|i: i32| (39 - 7 * i).rem_euclid(40) as PageId).collect();
        // The pages hold what the first pass left there.
        assert!(scores(&mut model, &tokens, 200, &scattered) == expected, "{kv}");
    }
}

#[test]
fn company_changes_no_bit() {
    let (long, short) = (tokens(3), tokens(4));
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(3));
        let (far, near): (Vec<PageId>, Vec<PageId>) = ((20..37).rev().collect(), pages());
        let alone = scores(&mut model, &long, 1, &far);
        let short_alone = scores(&mut model, &short[..40], 40, &near);
        let mut logits = Logits::new(50);
        let mut together = Vec::new();
        // One token of the long sequence goes with one, two, three of the short one, again and again.
        for (position, token) in long.iter().enumerate() {
            let (start, len) = (position % 37, 1 + position % 3);
            let batch = [
                Segment::causal(&short[start..start + len], start, &near, &[0]),
                Segment::causal(std::slice::from_ref(token), position, &far, &[0]),
            ];
            model.forward(&batch, &mut logits);
            assert!(bits(logits.row(0)) == short_alone[start * 50..][..50], "{kv}, {position}");
            together.extend(bits(logits.row(1)));
        }
        assert!(together == alone, "{kv}");
    }
}

#[test]
fn a_sequence_that_saw_a_nan_loses_only_itself() {
    let tokens = tokens(5);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let (ours, theirs): (Vec<PageId>, Vec<PageId>) = (pages(), (17..34).collect());
        let expected = scores(&mut model, &tokens, 64, &ours);
        for hostile in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38] {
            // A layer whose input is anything writes its keys and values into pages like any other.
            for layer in 0..2 {
                let batch = [Segment::causal(&tokens[..70], 0, &theirs, &[])];
                model.trace_layer(layer, &batch, &vec![hostile; 70 * 24]);
            }
            assert!(scores(&mut model, &tokens, 64, &ours) == expected, "{kv}, {hostile}");
            // And what they leave behind does not harm who gets their pages.
            assert!(scores(&mut model, &tokens, 64, &theirs) == expected, "{kv}, {hostile}");
        }
    }
}

#[test]
fn a_block_that_sees_itself_is_the_same_in_any_batch() {
    let tokens = tokens(6);
    for kv in KvDtype::ALL {
        let mut model = model(kv, Compute::new(2));
        let mut logits = Logits::new(50);
        let (pages, others): (Vec<PageId>, Vec<PageId>) = (pages(), (17..34).collect());
        model.forward(&[Segment::causal(&tokens[..250], 0, &pages, &[])], &mut logits);
        let scored: Vec<usize> = (0..32).collect();
        let block = Segment {
            visibility: Visibility::Until(282),
            ..Segment::causal(&tokens[250..282], 250, &pages, &scored)
        };
        model.forward(&[block], &mut logits);
        let alone: Vec<u32> = (0..32).flat_map(|row| bits(logits.row(row))).collect();
        model.forward(&[Segment::causal(&tokens[..3], 0, &others, &[]), block], &mut logits);
        let together: Vec<u32> = (0..32).flat_map(|row| bits(logits.row(row))).collect();
        assert!(alone == together, "{kv}");
    }
}

#[test]
fn pages_of_another_type_can_take_over() {
    let tokens = tokens(7);
    let mut switched = model(KvDtype::F32, Compute::new(2));
    for kv in KvDtype::ALL {
        switched.swap_kv(&mut KvPool::new(&network(), kv, PAGES));
        let expected = scores(&mut model(kv, Compute::new(2)), &tokens, 100, &pages());
        assert!(scores(&mut switched, &tokens, 100, &pages()) == expected, "{kv}");
    }
}
