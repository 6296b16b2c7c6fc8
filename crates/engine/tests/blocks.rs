//! Blocks and drafts on the fake model, whose scores depend on every token a row sees.
//!
//! Filling is compared with a slow loop that keeps nothing: every pass runs the whole text again. Mask
//! tokens left in the pages, a block that starts in the wrong place, a pass too many: each shows.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use wf_engine::decode::{Guess, Rule};
use wf_engine::fake::FakeModel;
use wf_engine::{
    Abilities, DecodeMode, Diffusion, Drafting, EngineHandle, EngineOptions, Event, FinishReason,
    Limits, Refused, Request, SamplingParams, TokenId,
};
use wf_formats::BlockDiffusion;
use wf_model::{Forward, Logits, PageId, Scoring, Sees, Segment, math};

const VOCAB: usize = 50;
const MASK: TokenId = 49;
const BLOCK: usize = 8;

/// The four kinds of models.
fn kinds() -> impl Iterator<Item = BlockDiffusion> {
    [(true, true), (true, false), (false, true), (false, false)].into_iter().map(
        |(token_shift, causal_context)| BlockDiffusion {
            mask_token: MASK,
            block_len: BLOCK,
            sub_block_len: Some(4),
            token_shift,
            causal_context,
        },
    )
}

fn engine(kind: BlockDiffusion, pages: usize, step: usize, max_running: usize) -> EngineHandle {
    let model = FakeModel::new(VOCAB, pages, step).with_blocks(kind);
    EngineHandle::start(model, EngineOptions { max_running, ..EngineOptions::default() }).unwrap()
}

fn reply(engine: &EngineHandle, request: Request) -> Vec<TokenId> {
    collect(engine.submit(request).unwrap())
}

fn collect(mut events: wf_engine::Events) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    loop {
        match events.next_blocking().expect("a reply ends with Done") {
            Event::Tokens { picked, .. } => tokens.extend(picked.iter().map(|p| p.token)),
            Event::Done(_) => return tokens,
            _ => {}
        }
    }
}

fn prompt(len: usize) -> Vec<TokenId> {
    (0..len).map(|at| (at * 31 % 47) as TokenId).collect()
}

fn request(prompt: Vec<TokenId>, max_tokens: usize, stop: TokenId, decode: DecodeMode) -> Request {
    let limits = Limits { max_tokens, stop_tokens: vec![stop], ..Limits::default() };
    Request { prompt, limits, decode, ..Request::default() }
}

/// Scores of `rows`, the last tokens of a text that is computed from nothing.
fn scores(
    kind: BlockDiffusion,
    text: &[TokenId],
    rows: &[TokenId],
    want: &[usize],
) -> Vec<Vec<f32>> {
    let mut model = FakeModel::new(VOCAB, 16, 1024).with_blocks(kind);
    let pages: Vec<PageId> = (0..16).collect();
    let context = if kind.causal_context { Sees::Causal } else { Sees::Block(kind.block_len) };
    let mut logits = Logits::new(VOCAB);
    let known = Segment { sees: context, ..Segment::causal(text, 0, &pages, &[]) };
    let end = text.len() + rows.len();
    let block = Segment {
        sees: if want.is_empty() { context } else { Sees::Until(end) },
        scoring: Scoring::All,
        ..Segment::causal(rows, text.len(), &pages, want)
    };
    model.forward(&[known, block], &mut logits);
    (0..want.len()).map(|row| logits.row(row).to_vec()).collect()
}

fn best(row: &[f32]) -> TokenId {
    let top = row.iter().copied().fold(f32::MIN, f32::max);
    row.iter().position(|&score| score == top).unwrap() as TokenId
}

/// The slow loop.
fn oracle(
    kind: BlockDiffusion,
    prompt: &[TokenId],
    rule: Rule,
    max_tokens: usize,
    stop: TokenId,
) -> Vec<TokenId> {
    let mut text = prompt.to_vec();
    let cut = |text: &[TokenId]| {
        let reply = &text[prompt.len()..];
        let end = reply.iter().position(|&t| t == stop).map_or(reply.len(), |at| at + 1);
        (end < reply.len() || reply.last() == Some(&stop) || reply.len() >= max_tokens)
            .then(|| reply[..end.min(max_tokens)].to_vec())
    };
    loop {
        if let Some(reply) = cut(&text) {
            return reply;
        }
        let start = match (kind.causal_context, kind.token_shift) {
            (true, true) => text.len() - 1,
            (true, false) => text.len(),
            (false, _) => text.len() / BLOCK * BLOCK,
        };
        if kind.token_shift && start == text.len() {
            // Nothing in the block to score its first token: the text before it does.
            let block = text.len() - BLOCK;
            let row = scores(kind, &text[..block], &text[block..], &[BLOCK - 1]).remove(0);
            text.push(best(&row));
            continue;
        }
        let mut block = text[start..].to_vec();
        let known = block.len();
        block.resize(BLOCK, MASK);
        let mut open: Vec<bool> = (0..BLOCK).map(|at| at >= known).collect();
        for part in (0..BLOCK).step_by(4) {
            let mut pass = 0;
            loop {
                let masks: Vec<_> = (part..part + 4).filter(|&at| open[at]).collect();
                if masks.is_empty() {
                    break;
                }
                let want: Vec<_> =
                    masks.iter().map(|at| at - usize::from(kind.token_shift)).collect();
                let rows = scores(kind, &text[..start], &block, &want);
                let guess = |row: &Vec<f32>| {
                    let mut row = row.clone();
                    row[MASK as usize] = f32::NEG_INFINITY;
                    let token = best(&row);
                    let sum: f64 = row
                        .iter()
                        .filter(|s| s.is_finite())
                        .map(|&s| math::exp(f64::from(s) - f64::from(row[token as usize])))
                        .sum();
                    (token, Guess { probability: (1.0 / sum) as f32, entropy: 0.0 })
                };
                let guesses: Vec<_> = rows.iter().map(guess).collect();
                let sure: Vec<_> = guesses.iter().map(|g| g.1).collect();
                for kept in rule.keep(&sure, pass, 1) {
                    block[masks[kept]] = guesses[kept].0;
                    open[masks[kept]] = false;
                }
                pass += 1;
            }
        }
        text.truncate(start);
        text.extend(block);
    }
}

const RULES: [Rule; 4] =
    [Rule::Threshold(0.3), Rule::Threshold(1.0), Rule::Factor(1.5), Rule::Prefix(0.2)];

#[test]
fn blocks_are_those_of_a_loop_that_keeps_nothing() {
    for kind in kinds() {
        let engine = engine(kind, 64, 64, 4);
        for len in [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 37] {
            for (rule, max_tokens) in RULES.into_iter().zip([20, 1, 9, 24]) {
                let settings = Diffusion { rule, ..Diffusion::default() };
                for whole_blocks in [false, true] {
                    let mode = DecodeMode::Diffusion(Diffusion { whole_blocks, ..settings });
                    let ours = reply(&engine, request(prompt(len), max_tokens, 7, mode));
                    let expected = oracle(kind, &prompt(len), rule, max_tokens, 7);
                    assert_eq!(ours, expected, "{kind:?}, prompt of {len}, {rule:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_of_one_is_autoregressive() {
    for kind in kinds().filter(|kind| kind.token_shift) {
        let engine = engine(kind, 64, 64, 4);
        let one = Diffusion { block_len: Some(1), sub_block_len: Some(1), ..Diffusion::default() };
        for len in [1, 5, 8, 40] {
            let ask = |mode| reply(&engine, request(prompt(len), 30, 7, mode));
            assert_eq!(ask(DecodeMode::Diffusion(one)), ask(DecodeMode::Autoregressive));
        }
    }
}

/// Every mode the kind of model has, with settings of all kinds.
fn modes(kind: BlockDiffusion) -> Vec<DecodeMode> {
    let mut modes: Vec<_> = Rule::NAMES
        .iter()
        .map(|name| Diffusion {
            rule: Rule::named(name, Some(0.2), None).unwrap(),
            ..Diffusion::default()
        })
        .flat_map(|d| [d, Diffusion { steps: Some(2), ..d }, Diffusion { reuse: true, ..d }])
        .map(DecodeMode::Diffusion)
        .collect();
    if kind.token_shift {
        modes.push(DecodeMode::Autoregressive);
        for (model, lookup) in [(true, false), (false, true), (true, true)] {
            modes.push(DecodeMode::Drafted(Drafting::from_sources(model, lookup)));
        }
    }
    modes
}

fn requests(kind: BlockDiffusion) -> Vec<Request> {
    let modes = modes(kind);
    (0..2 * modes.len())
        .map(|i| {
            let sampling = SamplingParams {
                temperature: if i % 3 == 0 { 0.0 } else { 0.7 },
                seed: i as u64,
                top_k: if i % 4 == 2 { 7 } else { 0 },
                repetition_penalty: if i % 5 == 0 { 1.3 } else { 1.0 },
                ..SamplingParams::default()
            };
            let decode = modes[i % modes.len()];
            let stop = (i % 40) as TokenId;
            Request { sampling, ..request(prompt(1 + i * 7 % 60), 1 + i * 13 % 50, stop, decode) }
        })
        .collect()
}

#[test]
fn load_changes_no_reply() {
    for kind in kinds() {
        let solo: Vec<_> = {
            let engine = engine(kind, 64, 512, 1);
            requests(kind).into_iter().map(|r| reply(&engine, r)).collect()
        };
        // Much room; small steps; hardly more pages than the longest needs.
        for (pages, step, running) in [(512, 512, 32), (256, 24, 24), (8, 40, 24), (5, 64, 6)] {
            let engine = engine(kind, pages, step, running);
            let events: Vec<_> =
                requests(kind).into_iter().map(|r| engine.submit(r).unwrap()).collect();
            let together: Vec<_> = events.into_iter().map(collect).collect();
            assert_eq!(together, solo, "{kind:?}, {pages} pages, steps of {step}");
        }
    }
}

#[test]
fn drafts_change_no_reply_at_any_temperature() {
    for kind in kinds().filter(|kind| kind.token_shift) {
        let engine = engine(kind, 256, 512, 16);
        for base in requests(kind) {
            let ask = |decode| reply(&engine, Request { decode, ..base.clone() });
            let plain = ask(DecodeMode::Autoregressive);
            for (model, lookup) in [(true, false), (false, true), (true, true)] {
                for adapts in [true, false] {
                    let drafting = Drafting { adapts, ..Drafting::from_sources(model, lookup) };
                    assert_eq!(ask(DecodeMode::Drafted(drafting)), plain);
                }
            }
        }
    }
}

#[test]
fn a_prompt_to_be_told_of_needs_no_reply_in_any_mode() {
    let kind = kinds().next().unwrap();
    let engine = engine(kind, 64, 64, 1);
    // Told sixteen at once: the last token comes alone.
    for len in [1, 17, 33] {
        let told = |mode| {
            let base = request(prompt(len), 0, 7, mode);
            let mut events = engine.submit(Request { prompt_logprobs: Some(0), ..base }).unwrap();
            let mut told = 0;
            loop {
                match events.next_blocking().unwrap() {
                    Event::PromptLogprobs(more) => told += more.len(),
                    Event::Done(reason) => return (told, reason),
                    _ => {}
                }
            }
        };
        for name in ["autoregressive", "lookup", "drafted", "drafted+lookup"] {
            let expected = (len - 1, FinishReason::Length);
            assert_eq!(told(DecodeMode::named(name).unwrap()), expected, "{name}, {len}");
        }
    }
}

#[test]
fn a_repeating_text_is_found_by_lookup() {
    let kind = kinds().next().unwrap();
    let engine = engine(kind, 64, 64, 1);
    // Whatever comes, the bias makes it one token: text that repeats.
    let sampling = SamplingParams { logit_bias: vec![(5, 100.0)], ..SamplingParams::default() };
    let lookup = DecodeMode::Drafted(Drafting::from_sources(false, true));
    let mut events =
        engine.submit(Request { sampling, ..request(prompt(3), 40, 7, lookup) }).unwrap();
    let mut last = None;
    while let Some(event) = events.next_blocking() {
        if let Event::Tokens { work, .. } = event {
            last = Some(work);
        }
    }
    let work = last.unwrap();
    assert!(work.passes < 20 && work.agreed > 20, "{work:?}");
    let stats = engine.stats();
    assert_eq!(
        (stats.drafted_tokens, stats.agreed_tokens),
        (work.drafted as u64, work.agreed as u64)
    );
}

#[test]
fn what_a_model_cannot_do_is_refused_with_a_reason() {
    let refusal = |kind: Option<BlockDiffusion>, mode: DecodeMode| {
        let model = FakeModel::new(VOCAB, 8, 16);
        let model = match kind {
            Some(kind) => model.with_blocks(kind),
            None => model,
        };
        let engine = EngineHandle::start(model, EngineOptions::default()).unwrap();
        match engine.submit(request(vec![1], 4, 7, mode)).err() {
            Some(Refused::Unsupported(what)) => what.to_string(),
            other => panic!("{mode:?}: {other:?}"),
        }
    };
    let kind = kinds().next().unwrap();
    let blocks = |d: Diffusion| DecodeMode::Diffusion(d);
    let plain = Diffusion::default();
    let drafted = DecodeMode::named("drafted").unwrap();
    assert!(refusal(None, blocks(plain)).contains("not trained to fill masks"));
    assert!(refusal(None, drafted).contains("lookup work with every model"));
    let sizes = Diffusion { block_len: Some(17), ..plain };
    assert!(refusal(Some(kind), blocks(sizes)).contains("block_size is 17: 1 to 16"));
    let parts = Diffusion { sub_block_len: Some(3), ..plain };
    assert!(refusal(Some(kind), blocks(parts)).contains("must divide the block size, 8"));
    let rule = Diffusion { rule: Rule::Threshold(f32::NAN), ..plain };
    assert!(refusal(Some(kind), blocks(rule)).contains("threshold is NaN: 0 to 1"));
    let steps = Diffusion { steps: Some(0), ..plain };
    assert!(refusal(Some(kind), blocks(steps)).contains("steps is 0"));
    let own = BlockDiffusion { token_shift: false, ..kind };
    assert!(refusal(Some(own), DecodeMode::Autoregressive).contains("use diffusion"));
    let can = Abilities { blocks: Some(own), draft_model: true, max_batch_tokens: 16 };
    assert_eq!(DecodeMode::natural(can).name(), "diffusion");
    assert_eq!(DecodeMode::natural(Abilities { blocks: None, ..can }).name(), "drafted");
}
