//! Compares every layer of small random checkpoints, then whole passes, with `transformers` in float32.
//!
//! tools/golden/README.md describes the data. Each layer gets the reference's own input, so an error
//! shows in the layer that makes it. Codes must be equal, except at rounding ties; the seeds of the data
//! were chosen to avoid those, so hardly any exception is accepted.

use std::path::{Path, PathBuf};

use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    Compute, Forward, HeadMode, KvDtype, LayerTrace, Logits, Model, ModelOptions, Segment,
    SparseMode, TokenId,
};

use crate::reference::Reference;

/// Maximum error of a row relative to its largest element. Float32 noise is 5e-7.
const TOLERANCE: f32 = 1e-5;
/// Distance from a rounding tie at which a value may round either way.
const TIE: f32 = 1e-3;
/// Maximum number of rows of a checkpoint in which a tie flips a code.
const FLIPPED_ROWS: usize = 1;
/// One page holds all tokens; it is not the first.
const PAGES: [u32; 1] = [2];

#[test]
fn every_layer_agrees_with_the_reference() {
    for directory in checkpoints() {
        let reference = Reference::open(&directory.join("reference.safetensors"));
        let mut model = load(&directory);
        let tokens = all_tokens(&reference);
        let mut flipped = 0;
        for layer in 0..model.network().layers.len() {
            let place = format!("{}, layer {layer}", name_of(&directory));
            let input = reference.floats(&format!("layer.{layer}.input"));
            let trace = model.trace_layer(layer, &[causal(&tokens, 0, &[])], &input);
            let check = LayerCheck { place, layer, reference: &reference };
            flipped += check.run(&trace, tokens.len());
        }
        assert!(flipped <= FLIPPED_ROWS, "{}: ties in {flipped} rows", name_of(&directory));
    }
}

#[test]
fn prompt_and_cached_decoding_agree_with_the_reference() {
    for directory in checkpoints() {
        let reference = Reference::open(&directory.join("reference.safetensors"));
        let mut model = load(&directory);
        let mut logits = Logits::new(model.network().vocab_len);
        let prompt = reference.tokens("prompt_ids");
        let exact = reference.doubles("logits_f64");

        let scored: Vec<usize> = (0..prompt.len()).collect();
        model.forward(&[causal(&prompt, 0, &scored)], &mut logits);
        let expected = reference.floats("prompt.logits");
        let mut check = LogitCheck { name: name_of(&directory), expected: &expected, first: 0 };
        check.run(&logits, &exact);

        let expected = reference.floats("decode.logits");
        for (step, token) in reference.tokens("decoded_ids").into_iter().enumerate() {
            let position = prompt.len() + step;
            model.forward(&[causal(&[token], position, &[0])], &mut logits);
            let row = &expected[step * logits.row(0).len()..][..logits.row(0).len()];
            check = LogitCheck { name: name_of(&directory), expected: row, first: position };
            check.run(&logits, &exact);
        }
    }
}

fn checkpoints() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/random");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    assert_eq!(found.len(), 11, "checkpoints in {}", root.display());
    found
}

fn name_of(directory: &Path) -> String {
    directory.file_name().expect("a directory with a name").to_string_lossy().into_owned()
}

fn load(directory: &Path) -> Model {
    let file = ModelFile::open(directory, &OpenOptions::default())
        .unwrap_or_else(|e| panic!("{}: {e}", name_of(directory)));
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: 3,
        max_batch_tokens: 16,
        head: HeadMode::Auto,
        sparse: SparseMode::Off,
        context_len: None,
        activations: None,
    };
    Model::load(&file, Compute::new(2), options, &mut |_| {})
        .unwrap_or_else(|e| panic!("{}: {e}", name_of(directory)))
}

fn all_tokens(reference: &Reference) -> Vec<TokenId> {
    [reference.tokens("prompt_ids"), reference.tokens("decoded_ids")].concat()
}

fn causal<'a>(tokens: &'a [TokenId], start: usize, scored: &'a [usize]) -> Segment<'a> {
    Segment::causal(tokens, start, &PAGES, scored)
}

/// Compares one layer's trace with the records of that layer.
struct LayerCheck<'a> {
    place: String,
    layer: usize,
    reference: &'a Reference,
}

impl LayerCheck<'_> {
    /// Returns the number of rows in which a tie flipped a code.
    fn run(&self, trace: &LayerTrace, tokens: usize) -> usize {
        let mut flips = vec![false; tokens];
        self.codes("attn_in", &trace.attn_in.codes, &mut flips);
        self.rows("key_rotated", &trace.keys, &flips);
        self.rows("value", &trace.values, &flips);
        // A token's K and V reach every later token.
        if let Some(first) = flips.iter().position(|&flip| flip) {
            flips[first..].fill(true);
        }
        self.rows("heads", &trace.heads, &flips);
        self.codes("attn_out", &trace.attn_out.codes, &mut flips);
        self.rows("attn_output", &trace.attn_delta, &flips);
        self.codes("ffn_in", &trace.ffn_in.codes, &mut flips);
        self.codes("ffn_mid", &trace.ffn_mid.codes, &mut flips);
        self.rows("output", &trace.output, &flips);
        self.doubles("output_f64", &trace.output, &flips);
        flips.iter().filter(|&&flip| flip).count()
    }

    fn record(&self, what: &str) -> String {
        format!("layer.{}.{what}", self.layer)
    }

    /// Codes are equal, or one apart where the unrounded value lies at a tie: then the row is marked.
    fn codes(&self, what: &str, found: &[i8], flips: &mut [bool]) {
        let codes = self.record(&format!("{what}_codes"));
        let cols = self.reference.cols(&codes);
        let expected = self.reference.codes(&codes);
        let scaled = self.reference.floats(&self.record(&format!("{what}_scaled")));
        assert_eq!(found.len(), flips.len() * cols, "{}: codes of {what}", self.place);
        for (row, found) in found.chunks_exact(cols).enumerate() {
            if flips[row] {
                continue;
            }
            for (col, &code) in found.iter().enumerate() {
                let (expected, scaled) = (expected[row * cols + col], scaled[row * cols + col]);
                if code == expected {
                    continue;
                }
                let at_tie = (scaled.abs().fract() - 0.5).abs() < TIE;
                assert!(
                    at_tie && code.abs_diff(expected) == 1,
                    "{}: {what} of token {row}, element {col}: code {code}, expected {expected} \
                     for {scaled}",
                    self.place
                );
                flips[row] = true;
            }
        }
    }

    fn rows(&self, what: &str, found: &[f32], flips: &[bool]) {
        self.close(what, found, &self.reference.floats(&self.record(what)), flips);
    }

    fn doubles(&self, what: &str, found: &[f32], flips: &[bool]) {
        let exact = self.reference.doubles(&self.record(what));
        let rounded: Vec<f32> = exact.into_iter().map(|value| value as f32).collect();
        self.close(what, found, &rounded, flips);
    }

    fn close(&self, what: &str, found: &[f32], expected: &[f32], flips: &[bool]) {
        assert_eq!(found.len(), expected.len(), "{}: elements of {what}", self.place);
        let cols = found.len() / flips.len();
        let rows = found.chunks_exact(cols).zip(expected.chunks_exact(cols));
        for (row, (found, expected)) in rows.enumerate().filter(|(row, _)| !flips[*row]) {
            let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            for (col, (a, b)) in found.iter().zip(expected).enumerate() {
                // A NaN is not below anything, so it fails.
                assert!(
                    (a - b).abs() <= TOLERANCE * largest,
                    "{}: {what} of token {row}, element {col}: {a}, expected {b}",
                    self.place
                );
            }
        }
    }
}

/// Compares rows of logits, the first of which is position `first`, in float32 and float64.
struct LogitCheck<'a> {
    name: String,
    expected: &'a [f32],
    first: usize,
}

impl LogitCheck<'_> {
    fn run(&self, found: &Logits, exact: &[f64]) {
        for row in 0..found.len() {
            let position = self.first + row;
            let found = found.row(row);
            let expected = &self.expected[row * found.len()..][..found.len()];
            let exact = &exact[position * found.len()..][..found.len()];
            for (token, a) in found.iter().enumerate() {
                for b in [expected[token], exact[token] as f32] {
                    // Logits have a spread of 10; the loud token's reach thousands where the head is tied.
                    let allowed = 1e-4 + TOLERANCE * b.abs();
                    assert!(
                        (a - b).abs() <= allowed,
                        "{}: logit of token {token} at position {position}: {a}, expected {b}",
                        self.name
                    );
                }
            }
        }
    }
}
