//! Windows and rotary embeddings are values of each layer, and the forward pass honours them.

use wf_core::Network;
use wf_model::{Compute, KvDtype};

use crate::random_weights::{PAGES, model, network, pages, scores, tokens};

const WINDOW: usize = 37;

/// Length of a row of logits.
const VOCAB: usize = 50;

/// Three layers that differ: a window, neither window nor rotation, a window longer than a chunk.
fn mixed() -> Network {
    let mut network = network();
    let layer = network.layers[0];
    network.layers = vec![layer; 3];
    let mut change = |layer: usize, window: Option<usize>, rotates: bool| {
        let attention = network.layers[layer].attention_mut().expect("a layer with attention");
        attention.window = window;
        attention.rope = attention.rope.filter(|_| rotates);
    };
    change(0, Some(WINDOW), true);
    change(1, None, false);
    change(2, Some(300), true);
    network
}

/// One layer with a window.
fn windowed(window: usize) -> Network {
    let mut network = network();
    network.layers.truncate(1);
    network.update_layers(|attention, _| attention.window = Some(window));
    network
}

#[test]
fn instruction_sets_threads_and_chunks_change_no_bit() {
    let tokens = tokens(1);
    for kv in [KvDtype::F32, KvDtype::Fp8E4m3, KvDtype::Int8] {
        let mut one = model(mixed(), kv, Compute::new(1));
        let expected = scores(&mut one, &tokens, 1, &pages());
        for isa in Compute::supported() {
            for (threads, chunk) in [(1, 600), (3, 7), (16, 256)] {
                let compute = Compute::chosen(Some(isa), threads, None).expect("supported");
                let found = scores(&mut model(mixed(), kv, compute), &tokens, chunk, &pages());
                assert!(found == expected, "{kv}, {isa}, {threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn a_token_outside_the_window_changes_nothing() {
    let tokens = tokens(2);
    for kv in KvDtype::ALL {
        let mut model = model(windowed(WINDOW), kv, Compute::new(2));
        let expected = scores(&mut model, &tokens, 64, &pages());
        for changed in [0, 100, 300] {
            let mut others = tokens.clone();
            others[changed] = (others[changed] + 1) % VOCAB as u32;
            let found = scores(&mut model, &others, 64, &pages());
            let row = |scores: &[u32], row: usize| scores[row * VOCAB..][..VOCAB].to_vec();
            // The last position that sees the token, and the first that does not.
            let last = changed + WINDOW - 1;
            assert!(row(&found, last) != row(&expected, last), "{kv}: {changed} is not seen");
            let later = (last + 1) * VOCAB;
            assert!(found[later..] == expected[later..], "{kv}: {changed} is seen too late");
        }
    }
}

#[test]
fn a_window_as_long_as_the_sequence_is_no_window() {
    let tokens = tokens(3);
    for kv in KvDtype::ALL {
        let mut plain = network();
        plain.layers.truncate(1);
        let expected = scores(&mut model(plain, kv, Compute::new(2)), &tokens, 100, &pages());
        let mut long = model(windowed(tokens.len()), kv, Compute::new(2));
        assert!(scores(&mut long, &tokens, 100, &pages()) == expected, "{kv}");
    }
}

#[test]
fn a_layer_without_rotation_knows_no_positions() {
    let mut network = network();
    network.layers.truncate(1);
    let last_row = |network: &Network, tokens: &[u32]| -> Vec<f32> {
        let mut model = model(network.clone(), KvDtype::F32, Compute::new(2));
        let all = scores(&mut model, tokens, PAGES, &pages());
        all[all.len() - VOCAB..].iter().map(|&bits| f32::from_bits(bits)).collect()
    };
    let distance =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let tokens = &tokens(4)[..30];
    let mut reordered = tokens.to_vec();
    reordered[..29].reverse();
    let rotated = distance(&last_row(&network, tokens), &last_row(&network, &reordered));
    network.update_layers(|attention, _| attention.rope = None);
    let plain = distance(&last_row(&network, tokens), &last_row(&network, &reordered));
    // The sums of the softmax run in another order.
    assert!(plain < 1e-3 && rotated > 1e-2, "without rotation {plain}, with it {rotated}");
}
