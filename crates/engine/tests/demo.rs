//! The demo model from prompt to reply, against `transformers`, out of every file format.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use wf_engine::{
    Generate, Input, ModelSource, OpenedModel, Piece, RunOptions, SamplingParams, TokenId,
    load_model, open_model, read_text,
};
use wf_formats::{
    FloatEncoding, GgufTarget, I2sOrder, ModelFile, OpenOptions, Rounding, TernaryEncoding,
    write_gguf, write_packed_dir, write_sglbitnt,
};
use wf_model::{Forward, Logits, Segment, SparseMode};
use wf_text::ChatMessage;

/// Below this margin the best two tokens are too close for float32 to tell them apart, once a
/// rounding tie has flipped somewhere.
const SAFE_MARGIN: f32 = 0.5;

#[derive(Deserialize)]
struct Golden {
    input: GoldenInput,
    ids: Vec<TokenId>,
    greedy: Vec<TokenId>,
    margins: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GoldenInput {
    Text(String),
    Chat(Vec<GoldenMessage>),
}

#[derive(Deserialize)]
struct GoldenMessage {
    role: String,
    content: String,
}

impl Golden {
    fn input(&self) -> Input {
        match &self.input {
            GoldenInput::Text(text) => Input::Raw(text.clone()),
            GoldenInput::Chat(messages) => {
                let message = |m: &GoldenMessage| ChatMessage::new(&m.role, &m.content);
                Input::Chat(messages.iter().map(message).collect())
            }
        }
    }
}

fn golden() -> Vec<Golden> {
    let path = repository().join("tests/data/demo-golden.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn demo_path() -> PathBuf {
    repository().join("crates/wf/assets/demo.gguf")
}

fn options() -> RunOptions {
    RunOptions { threads: 2, context_len: Some(128), max_batch_tokens: 64, ..RunOptions::default() }
}

fn demo() -> OpenedModel {
    open_model(&ModelSource::Path(demo_path()), &options(), &mut |_| {}).unwrap()
}

/// The text, the tokens, and whether the reply ended by itself.
fn reply(model: &OpenedModel, generate: Generate) -> (String, Vec<TokenId>) {
    let mut stream = model.frontend.generate(generate).unwrap();
    let mut text = String::new();
    for piece in stream.by_ref() {
        if let Piece::Text { text: piece, .. } = piece.unwrap() {
            text.push_str(&piece);
        }
    }
    (text, stream.ids().to_vec())
}

#[test]
fn prompts_have_the_reference_s_tokens() {
    let file = ModelFile::open(&demo_path(), &OpenOptions::default()).unwrap();
    let text = read_text(&file).unwrap();
    for prompt in golden() {
        assert_eq!(text.prompt_ids(&prompt.input()).unwrap(), prompt.ids);
    }
}

#[test]
fn greedy_replies_are_the_reference_s_until_two_tokens_are_too_close() {
    let model = demo();
    let mut compared = 0;
    for prompt in golden() {
        let max_tokens = Some(prompt.greedy.len());
        let generate = Generate { max_tokens, ..Generate::new(Input::Ids(prompt.ids.clone())) };
        let (_, ids) = reply(&model, generate);
        let safe = prompt.margins.iter().position(|&m| m < SAFE_MARGIN);
        let safe = safe.unwrap_or(prompt.greedy.len());
        assert_eq!(ids[..safe], prompt.greedy[..safe]);
        compared += safe;
        if safe == prompt.greedy.len() {
            assert_eq!(ids, prompt.greedy);
        }
    }
    assert!(compared > 20, "only {compared} tokens compared");
}

/// Replies of all prompts, greedy and drawn, running together.
fn replies(options: &RunOptions) -> Vec<Vec<TokenId>> {
    let model = open_model(&ModelSource::Path(demo_path()), options, &mut |_| {}).unwrap();
    let generate = |(i, prompt): (usize, Golden)| {
        let temperature = if i % 2 == 0 { 0.0 } else { 0.9 };
        let sampling = SamplingParams { temperature, ..Default::default() };
        let input = Input::Ids(prompt.ids);
        let generate = Generate { sampling, seed: Some(i as u64), ..Generate::new(input) };
        model.frontend.generate(Generate { max_tokens: Some(24), ..generate }).unwrap()
    };
    let streams: Vec<_> = golden().into_iter().enumerate().map(generate).collect();
    let ids = |mut stream: wf_engine::TextStream| {
        stream.by_ref().for_each(|piece| assert!(piece.is_ok()));
        stream.ids().to_vec()
    };
    streams.into_iter().map(ids).collect()
}

#[test]
fn skipping_zeros_changes_no_token() {
    let with = |sparse, threads, max_batch_tokens| {
        replies(&RunOptions { sparse, threads, max_batch_tokens, ..options() })
    };
    let expected = with(SparseMode::Off, 2, 64);
    // A step of one token skips zeros, one of several does not: replies go back and forth.
    for (threads, max_batch_tokens) in [(1, 64), (2, 16), (3, 1)] {
        let found = with(SparseMode::On, threads, max_batch_tokens);
        assert!(found == expected, "{threads} threads, steps of {max_batch_tokens}");
    }
}

#[test]
fn a_seed_gives_the_same_text_again() {
    let model = demo();
    let story = |seed| {
        let sampling = SamplingParams { temperature: 0.9, top_p: 0.95, ..Default::default() };
        let input = Input::Raw("Once upon a time".to_owned());
        let seed = Some(seed);
        reply(&model, Generate { sampling, seed, max_tokens: Some(30), ..Generate::new(input) })
    };
    assert_eq!(story(1), story(1));
    assert_ne!(story(1), story(2));
}

#[test]
fn a_stop_string_ends_the_reply_and_is_not_part_of_it() {
    let model = demo();
    let input = Input::Raw("Once upon a time, there was a little".to_owned());
    let whole = Generate { max_tokens: Some(30), ..Generate::new(input) };
    let (text, _) = reply(&model, whole.clone());
    let (before, _) = text.split_once("loved").expect("the story has this word");
    let (stopped, _) = reply(&model, Generate { stop: vec!["loved".to_owned()], ..whole });
    assert_eq!(stopped, before);
}

#[test]
fn a_late_reader_does_not_make_the_engine_look_fast() {
    let model = demo();
    let story = || {
        let input = Input::Raw("Once upon a time".to_owned());
        Generate { max_tokens: Some(30), ignore_eos: true, ..Generate::new(input) }
    };
    let reply_time = |stream: wf_engine::TextStream| {
        let last = stream.last().unwrap().unwrap();
        let Piece::Done(finish) = last else { panic!("{last:?} is not the end") };
        finish.timings.reply
    };
    let late = model.frontend.generate(story()).unwrap();
    // Both run together, so when this one has ended the other has, too.
    let in_time = reply_time(model.frontend.generate(story()).unwrap());
    assert!(reply_time(late) > in_time / 2);
}

/// Every format the model can be written in.
fn write_all(source: &ModelFile, directory: &Path) -> Vec<(String, PathBuf, OpenOptions)> {
    use TernaryEncoding as E;
    let encodings = [
        E::I2s(I2sOrder::Groups128),
        E::I2s(I2sOrder::Groups64),
        E::I2s(I2sOrder::FourRows),
        E::Tq1_0,
        E::Tq2_0,
        E::Q2_0 { group_len: 64 },
        E::Q2_0 { group_len: 128 },
        E::Iq2Bn,
        E::Iq1Bn,
        E::Iq2BnR4,
    ];
    let mut written = Vec::new();
    for (number, trits) in encodings.into_iter().enumerate() {
        let path = directory.join(format!("{number}.gguf"));
        let head = FloatEncoding::Bf16;
        let target = GgufTarget { trits, head, rounding: Rounding::Exact, name: None };
        write_gguf(source, &target, &path).unwrap();
        let i2s_order = if let E::I2s(order) = trits { Some(order) } else { None };
        written.push((trits.to_string(), path, OpenOptions { i2s_order, ..Default::default() }));
    }
    let (packed, bin) = (directory.join("packed"), directory.join("model.bin"));
    write_packed_dir(source, FloatEncoding::Bf16, &packed).unwrap();
    write_sglbitnt(source, FloatEncoding::Bf16, &bin).unwrap();
    written.push(("packed safetensors".to_owned(), packed, OpenOptions::default()));
    written.push(("SGLBITNT".to_owned(), bin, OpenOptions::default()));
    written
}

#[test]
fn every_format_gives_the_same_model() {
    let source = ModelFile::open(&demo_path(), &OpenOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ids = &golden()[2].ids;
    let expected = score_bits(&source, ids);
    for (name, path, open) in write_all(&source, directory.path()) {
        let file = ModelFile::open(&path, &open).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_same_weights(&source, &file, &name);
        assert!(score_bits(&file, ids) == expected, "{name}: other scores");
    }
}

#[test]
fn files_of_other_projects_give_the_same_trits() {
    let source = ModelFile::open(&demo_path(), &OpenOptions::default()).unwrap();
    let peers = repository().join("../shared/golden/peer-files");
    let mut paths: Vec<PathBuf> =
        ["demo.TQ2_0.gguf", "demo.IQ2_BN.gguf"].iter().map(|name| peers.join(name)).collect();
    paths.push(repository().join("../shared/models/demo"));
    for path in paths {
        if !path.exists() {
            println!("skipped: {} is not here", path.display());
            continue;
        }
        let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
        assert_same_weights(&source, &file, &path.display().to_string());
        let text = read_text(&file).unwrap();
        for prompt in golden() {
            assert_eq!(text.prompt_ids(&prompt.input()).unwrap(), prompt.ids, "{}", path.display());
        }
    }
}

fn assert_same_weights(a: &ModelFile, b: &ModelFile, name: &str) {
    for tensor in a.tensors().iter().filter(|tensor| tensor.name.is_linear()) {
        let other = b.tensor(tensor.name).unwrap_or_else(|| panic!("{name}: no {}", tensor.name));
        let trits = |file: &ModelFile, tensor| {
            let mut trits = vec![0; other.rows * other.cols];
            file.trits(tensor, 0..other.rows, &mut trits).unwrap();
            trits
        };
        assert!(trits(a, tensor) == trits(b, other), "{name}: trits of {}", tensor.name);
        assert_eq!(a.scales(tensor).unwrap(), b.scales(other).unwrap(), "{name}: {}", tensor.name);
    }
}

/// Bits of the scores after `ids`.
fn score_bits(file: &ModelFile, ids: &[TokenId]) -> Vec<u32> {
    let mut model = load_model(file, &options(), &mut |_| {}).unwrap();
    let mut logits = Logits::new(model.config().vocab_len);
    let want = [ids.len() - 1];
    let pages = [0, 1, 2, 3];
    model.forward(&[Segment::causal(ids, 0, &pages, &want)], &mut logits);
    logits.row(0).iter().map(|score| score.to_bits()).collect()
}
