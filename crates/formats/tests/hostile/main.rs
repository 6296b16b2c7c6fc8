//! Files that lie: thousands of spoiled models of every format, none of which may do harm.
//!
//! Each is opened and read as far as it lets itself be read. None may panic, take a second, or make us
//! hold more memory than its size and 64 MiB. A open_error names the file and the place. What is accepted
//! must be sound: trits are trits, floats and scales are finite. Where the damage cannot be missed (a
//! code that is no trit, a scale that is no number, tensors that overlap), it must be rejected.
//!
//! The seeds are fixed, so a failure comes back.

#![expect(clippy::unwrap_used, reason = "a test whose premise does not hold should stop")]

mod counting_alloc;
mod gguf;
mod hugging_face;
mod json;
mod mutate;
mod probe;
mod read;
mod sample;
mod sglbitnt;
mod sign;
mod special;
mod wf;

use mutate::{CLASSES, Change, Class, spoil};
use probe::probe;
use sample::{Random, Sample};
use wf_formats::encoding::FloatEncoding;

/// Number of mutants of each format: 2,000, or as many as `WF_MUTATIONS` says.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is the tester's choice")]
fn mutants() -> usize {
    std::env::var("WF_MUTATIONS").map_or(2000, |count| count.parse().expect("a number of mutants"))
}

/// Spoils models made by `make` again and again and probes each.
fn attack(
    seed: u64,
    make: impl Fn(usize) -> Sample,
    rebuilt: impl Fn(usize, Class, &mut Random) -> Option<(Sample, Change)>,
) {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..4 {
        probe(&make(round), directory.path(), "a sound model").unwrap();
    }
    let mut rejected = 0;
    for round in 0..mutants() {
        let class = CLASSES[round % CLASSES.len()];
        let mut random = Random(seed.wrapping_mul(1 << 32) + round as u64);
        let (mutant, change) = rebuilt(round, class, &mut random).unwrap_or_else(|| {
            let mut sample = make(round / CLASSES.len());
            let change = spoil(&mut sample, class, &mut random);
            (sample, change)
        });
        let what = format!("mutant {round}: {}", change.what);
        let result = probe(&mutant, directory.path(), &what);
        rejected += usize::from(result.is_err());
        assert!(result.is_err() || !change.must_reject, "accepted {what}");
    }
    // Damage that is mostly missed would mean that the mutants are not what they should be.
    assert!(rejected > mutants() / 2, "only {rejected} of {} rejected", mutants());
}

#[test]
fn corrupted_gguf_files_are_handled() {
    let encodings = gguf::encodings();
    let model = |at: usize, table: gguf::Table| {
        let (encoding, type_id) = encodings[at % encodings.len()];
        gguf::model(encoding, type_id, &gguf::Twist { table, ..gguf::Twist::default() })
    };
    let mut samples = Vec::new();
    for at in 0..encodings.len() {
        samples.push(model(at, gguf::Table::Floats));
        samples.push(model(at, gguf::Table::Ternary));
    }
    let blocks = FloatEncoding::ALL.iter().filter(|float| !float.is_plain());
    samples.extend(blocks.enumerate().map(|(at, &float)| model(at, gguf::Table::Blocks(float))));
    attack(1, |round| samples[round % samples.len()].clone(), gguf_twists);
}

/// Damage to a GGUF file that needs bytes put in.
fn gguf_twists(round: usize, class: Class, random: &mut Random) -> Option<(Sample, Change)> {
    let encodings = gguf::encodings();
    let (encoding, type_id) = encodings[round % encodings.len()];
    let mut twist = gguf::Twist::default();
    let change = match class {
        Class::NestedArrays => {
            let depth = random.pick(&[2, 5, 100, 10_000, 1_000_000]);
            let key = random.pick(&["wf.nested", "general.description", "tokenizer.ggml.scores"]);
            twist.extra = Some((key, gguf::nested_arrays(depth)));
            Change::harmful(format!("{key} has arrays {depth} deep"))
        }
        Class::VocabMismatch if random.below(2) == 0 => {
            twist.more_tokens = random.pick(&[0, 1, 1000, -(sample::VOCAB as isize), -1]);
            twist.more_types = random.pick(&[-1, 1, 500]);
            let (tokens, types) = (twist.more_tokens, twist.more_types);
            let what = format!("{tokens} tokens and {types} token types too many");
            // No tokens at all and one type less is none of either.
            Change { what, must_reject: tokens > -(sample::VOCAB as isize) }
        }
        _ => return None,
    };
    Some((gguf::model(encoding, type_id, &twist), change))
}

#[test]
fn corrupted_safetensors_files_are_handled() {
    let sample = hugging_face::single();
    attack(2, |_| sample.clone(), |_, _, _| None);
}

#[test]
fn corrupted_shards_are_handled() {
    let sample = hugging_face::sharded();
    attack(3, |_| sample.clone(), |_, _, _| None);
}

#[test]
fn corrupted_sglbitnt_files_are_handled() {
    let sample = sglbitnt::model();
    attack(4, |_| sample.clone(), |_, _, _| None);
}

#[test]
fn corrupted_wf_files_are_handled() {
    for sample in [wf::model(), wf::model_of_version_1()] {
        attack(
            6,
            |_| sample.clone(),
            |round, class, random| wf::signed_again(&sample, round, class, random),
        );
    }
}

/// The small files of a checkpoint, more often than chance would pick them.
#[test]
fn corrupted_documents_are_handled() {
    let whole = hugging_face::sharded();
    let directory = tempfile::tempdir().unwrap();
    for round in 0..mutants() {
        let mut random = Random((5 << 32) + round as u64);
        let mut sample = whole.clone();
        let weights = sample.files.iter().filter(|file| file.name.ends_with(".safetensors"));
        let weights: Vec<_> = weights.cloned().collect();
        sample.files.retain(|file| file.name.ends_with(".json"));
        let change = spoil(&mut sample, CLASSES[round % CLASSES.len()], &mut random);
        sample.files.extend(weights);
        let what = format!("mutant {round}: {}", change.what);
        let result = probe(&sample, directory.path(), &what);
        assert!(result.is_err() || !change.must_reject, "accepted {what}");
    }
}
