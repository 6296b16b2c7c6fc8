//! The demo model from prompt to completion, against `transformers`, from every file format.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use wf_engine::{
    GenerationRequest, ModelSource, OpenedModel, PromptInput, RunOptions, SamplingParams,
    TextEvent, TokenId, load_model, open_model, read_text,
};
use wf_formats::{Container, FloatEncoding, ModelFile, OpenOptions, Target, TernaryEncoding};
use wf_model::{Forward, KvDtype, Logits, Segment, SparseMode};
use wf_text::ChatMessage;

/// Margin below which float32 cannot distinguish the best two tokens, once a rounding tie has flipped.
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
    fn input(&self) -> PromptInput {
        match &self.input {
            GoldenInput::Text(text) => PromptInput::Text(text.clone()),
            GoldenInput::Chat(messages) => {
                let message = |m: &GoldenMessage| ChatMessage::new(&m.role, &m.content);
                PromptInput::Chat(messages.iter().map(message).collect())
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
    RunOptions {
        threads: 2,
        kv: KvDtype::F32,
        context_len: Some(128),
        max_batch_tokens: 64,
        ..RunOptions::default()
    }
}

fn demo() -> OpenedModel {
    open_model(&ModelSource::Path(demo_path()), &options(), &mut |_| {}).unwrap()
}

/// Text and tokens of a completion.
fn reply(model: &OpenedModel, generate: GenerationRequest) -> (String, Vec<TokenId>) {
    let mut stream = model.frontend.generate(generate).unwrap();
    let mut text = String::new();
    for piece in stream.by_ref() {
        if let TextEvent::Text { text: piece, .. } = piece.unwrap() {
            text.push_str(&piece);
        }
    }
    (text, stream.ids().to_vec())
}

#[test]
fn prompts_have_the_tokens_of_the_reference() {
    let file = ModelFile::open(&demo_path(), &OpenOptions::default()).unwrap();
    let text = read_text(&file).unwrap();
    for prompt in golden() {
        assert_eq!(text.prompt_ids(&prompt.input()).unwrap(), prompt.ids);
    }
}

#[test]
fn greedy_completions_equal_the_reference_until_a_near_tie() {
    let model = demo();
    let mut compared = 0;
    for prompt in golden() {
        let max_tokens = Some(prompt.greedy.len());
        let generate = GenerationRequest {
            max_tokens,
            ..GenerationRequest::new(PromptInput::Tokens(prompt.ids.clone()))
        };
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

/// Returns the completions of all prompts, greedy and sampled, running together.
fn replies(options: &RunOptions) -> Vec<Vec<TokenId>> {
    let model = open_model(&ModelSource::Path(demo_path()), options, &mut |_| {}).unwrap();
    let generate = |(i, prompt): (usize, Golden)| {
        let temperature = if i % 2 == 0 { 0.0 } else { 0.9 };
        let sampling = SamplingParams { temperature, ..Default::default() };
        let input = PromptInput::Tokens(prompt.ids);
        let generate =
            GenerationRequest { sampling, seed: Some(i as u64), ..GenerationRequest::new(input) };
        model.frontend.generate(GenerationRequest { max_tokens: Some(24), ..generate }).unwrap()
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
    // A step of one token skips zeros, a larger one does not: completions alternate between both.
    for (threads, max_batch_tokens) in [(1, 64), (2, 16), (3, 1)] {
        let found = with(SparseMode::On, threads, max_batch_tokens);
        assert!(found == expected, "{threads} threads, steps of {max_batch_tokens}");
    }
}

#[test]
fn a_seed_reproduces_the_text() {
    let model = demo();
    let story = |seed| {
        let sampling = SamplingParams { temperature: 0.9, top_p: 0.95, ..Default::default() };
        let input = PromptInput::Text("Once upon a time".to_owned());
        let seed = Some(seed);
        reply(
            &model,
            GenerationRequest {
                sampling,
                seed,
                max_tokens: Some(30),
                ..GenerationRequest::new(input)
            },
        )
    };
    assert_eq!(story(1), story(1));
    assert_ne!(story(1), story(2));
}

#[test]
fn a_stop_string_ends_the_text_and_is_not_part_of_it() {
    let model = demo();
    let input = PromptInput::Text("Once upon a time, there was a little".to_owned());
    let whole = GenerationRequest { max_tokens: Some(30), ..GenerationRequest::new(input) };
    let (text, _) = reply(&model, whole.clone());
    let (before, _) = text.split_once("loved").expect("the story has this word");
    let (stopped, _) = reply(&model, GenerationRequest { stop: vec!["loved".to_owned()], ..whole });
    assert_eq!(stopped, before);
}

#[test]
fn a_late_reader_does_not_distort_timings() {
    let model = demo();
    let story = || {
        let input = PromptInput::Text("Once upon a time".to_owned());
        GenerationRequest {
            max_tokens: Some(30),
            ignore_eos: true,
            ..GenerationRequest::new(input)
        }
    };
    let reply_time = |stream: wf_engine::TextStream| {
        let last = stream.last().unwrap().unwrap();
        let TextEvent::Done(finish) = last else { panic!("{last:?} is not the end") };
        finish.timings.decode
    };
    let late = model.frontend.generate(story()).unwrap();
    // Both run together, so they end together.
    let in_time = reply_time(model.frontend.generate(story()).unwrap());
    assert!(reply_time(late) > in_time / 2);
}

/// Every format the model can be written in.
fn write_all(source: &ModelFile, directory: &Path) -> Vec<(String, PathBuf, OpenOptions)> {
    let in_gguf = |e: &TernaryEncoding| e.gguf_type().is_some() && e.is_writable() && e.has_zero();
    let encodings = TernaryEncoding::ALL.iter().copied().filter(in_gguf);
    let mut written = Vec::new();
    for (number, trits) in encodings.enumerate() {
        let path = directory.join(format!("{number}.gguf"));
        let head = FloatEncoding::BF16;
        let target = Target::new(Container::Gguf(trits), head);
        target.write(source, &path).unwrap();
        let i2s_order = trits.i2s_order();
        written.push((trits.to_string(), path, OpenOptions { i2s_order, ..Default::default() }));
    }
    let (packed, bin) = (directory.join("packed"), directory.join("model.bin"));
    Target::new(Container::Packed, FloatEncoding::BF16).write(source, &packed).unwrap();
    Target::new(Container::Sglbitnt, FloatEncoding::BF16).write(source, &bin).unwrap();
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

/// Returns the bits of the logits after `ids`.
fn score_bits(file: &ModelFile, ids: &[TokenId]) -> Vec<u32> {
    let mut model = load_model(file, &options(), &mut |_| {}).unwrap();
    let mut logits = Logits::new(model.network().vocab_len);
    let want = [ids.len() - 1];
    let pages = [0, 1, 2, 3];
    model.forward(&[Segment::causal(ids, 0, &pages, &want)], &mut logits);
    logits.row(0).iter().map(|score| score.to_bits()).collect()
}
