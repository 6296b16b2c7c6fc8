//! Activations that are set to zero: which ones depends on a token's own row alone.

use wf_model::{ActivationCodes, Compute, KvDtype, LayerZeros, Model, Zeroing};

use crate::random_weights;
use crate::random_weights::{network, pages, scores, tokens};

const MODES: [LayerZeros; 3] = [
    [Zeroing::AllBut(0.6); 4],
    [Zeroing::UpTo(0.4); 4],
    [Zeroing::None, Zeroing::UpTo(0.3), Zeroing::AllBut(0.3), Zeroing::AllBut(0.1)],
];

fn model(zeros: LayerZeros, codes: ActivationCodes, compute: Compute) -> Model {
    let mut network = network();
    network.activations = codes;
    let layers = network.layers.len();
    let mut model = random_weights::model(network, KvDtype::F32, compute);
    model.set_zeros(&vec![zeros; layers]);
    model.copy_columns();
    model
}

#[test]
fn instruction_sets_threads_and_chunks_change_no_bit() {
    let tokens = &tokens(1)[..100];
    for zeros in MODES {
        for codes in ActivationCodes::ALL {
            let expected = scores(&mut model(zeros, codes, Compute::new(1)), tokens, 1, &pages());
            for isa in Compute::supported() {
                for (threads, chunk) in [(3, 7), (16, 100), (1, 64), (2, 1)] {
                    let compute = Compute::chosen(Some(isa), threads, None).expect("supported");
                    let found = scores(&mut model(zeros, codes, compute), tokens, chunk, &pages());
                    assert!(
                        found == expected,
                        "{zeros:?}, {codes}, {isa}, {threads} threads, chunks of {chunk}"
                    );
                }
            }
        }
    }
}

#[test]
fn skipping_columns_changes_no_bit() {
    let tokens = &tokens(3)[..40];
    for zeros in MODES {
        for codes in ActivationCodes::ALL {
            let mut model = model(zeros, codes, Compute::new(2));
            let skipped: Vec<_> = model.skipped_columns().collect();
            let can_skip = matches!(codes, ActivationCodes::Int8 | ActivationCodes::Int16);
            let expected =
                zeros.iter().filter(|zeros| can_skip && **zeros != Zeroing::None).count();
            assert_eq!(skipped.len(), expected, "{codes}, {zeros:?}: {skipped:?}");
            assert_eq!(model.columns_size_bytes() > 0, can_skip);
            let skipping = scores(&mut model, tokens, 1, &pages());
            model.suspend_columns(true);
            assert!(scores(&mut model, tokens, 1, &pages()) == skipping, "{codes}, {zeros:?}");
        }
    }
}

#[test]
fn keeping_all_activations_changes_no_bit_and_fewer_do() {
    let tokens = &tokens(2)[..100];
    for codes in ActivationCodes::ALL {
        let of =
            |zeros| scores(&mut model([zeros; 4], codes, Compute::new(2)), tokens, 64, &pages());
        let expected = of(Zeroing::None);
        assert!(of(Zeroing::AllBut(1.0)) == expected, "{codes}");
        for zeros in [Zeroing::AllBut(0.5), Zeroing::UpTo(0.2)] {
            assert!(of(zeros) != expected, "{codes}, {zeros:?}");
        }
    }
}
