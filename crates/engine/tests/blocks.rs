//! Blocks and drafts with the fake model, whose logits depend on every token a row attends to.
//!
//! Filling is compared with a slow loop without a cache: every pass runs the whole text again. Mask tokens left in
//! the pages, a misplaced block or an extra pass change the output.

use wf_engine::decode::{Confidence, UnmaskRule};
use wf_engine::{
    Capabilities, DecodeMode, DiffusionParams, DraftParams, EngineHandle, EngineOptions, Event,
    FinishReason, Limits, Request, RequestError, SamplingParams, TokenId,
};
use wf_formats::BlockDiffusion;
use wf_model::{Forward, Logits, PageId, Scoring, Segment, Visibility, math};

use crate::common::collect;
use crate::fake::FakeModel;

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

fn prompt(len: usize) -> Vec<TokenId> {
    (0..len).map(|at| (at * 31 % 47) as TokenId).collect()
}

fn request(prompt: Vec<TokenId>, max_tokens: usize, stop: TokenId, decode: DecodeMode) -> Request {
    let limits = Limits { max_tokens, stop_tokens: vec![stop], ..Limits::default() };
    Request { prompt, limits, decode, ..Request::default() }
}

/// Returns the logits of `rows`, the last tokens of a text that is computed from scratch.
fn scores(
    kind: BlockDiffusion,
    text: &[TokenId],
    rows: &[TokenId],
    want: &[usize],
) -> Vec<Vec<f32>> {
    let mut model = FakeModel::new(VOCAB, 16, 1024).with_blocks(kind);
    let pages: Vec<PageId> = (0..16).collect();
    let context =
        if kind.causal_context { Visibility::Causal } else { Visibility::Block(kind.block_len) };
    let mut logits = Logits::new(VOCAB);
    let known = Segment { visibility: context, ..Segment::causal(text, 0, &pages, &[]) };
    let end = text.len() + rows.len();
    let block = Segment {
        visibility: if want.is_empty() { context } else { Visibility::Until(end) },
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

/// Reference: the slow loop.
fn oracle(
    kind: BlockDiffusion,
    prompt: &[TokenId],
    rule: UnmaskRule,
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
            // No row of the block predicts its first token: the text before it does.
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
                    (token, Confidence { probability: (1.0 / sum) as f32, entropy: 0.0 })
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

const RULES: [UnmaskRule; 4] = [
    UnmaskRule::Threshold(0.3),
    UnmaskRule::Threshold(1.0),
    UnmaskRule::Factor(1.5),
    UnmaskRule::Prefix(0.2),
];

#[test]
fn blocks_equal_those_of_a_loop_without_a_cache() {
    for kind in kinds() {
        let engine = engine(kind, 64, 64, 4);
        for len in [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 37] {
            for (rule, max_tokens) in RULES.into_iter().zip([20, 1, 9, 24]) {
                let settings = DiffusionParams { rule, ..DiffusionParams::default() };
                for whole_blocks in [false, true] {
                    let mode = DecodeMode::Diffusion(DiffusionParams { whole_blocks, ..settings });
                    let ours = reply(&engine, request(prompt(len), max_tokens, 7, mode));
                    let expected = oracle(kind, &prompt(len), rule, max_tokens, 7);
                    assert_eq!(ours, expected, "{kind:?}, prompt of {len}, {rule:?}");
                }
            }
        }
    }
}

#[test]
fn no_pass_fills_masks_behind_the_last_token() {
    let kind = kinds().next().unwrap();
    let engine = engine(kind, 64, 64, 1);
    let ask = |rule, max_tokens, whole_blocks| {
        let settings = DiffusionParams { rule, whole_blocks, ..DiffusionParams::default() };
        let mode = DecodeMode::Diffusion(settings);
        let mut events = engine.submit(request(prompt(5), max_tokens, MASK, mode)).unwrap();
        let (mut reply, mut passes) = (Vec::new(), 0);
        while let Some(event) = events.next_blocking() {
            if let Event::Tokens { tokens, stats } = event {
                reply.extend(tokens.iter().map(|sampled| sampled.token));
                passes = stats.passes;
            }
        }
        (reply, passes)
    };
    // This rule keeps one token per pass, from left to right. A block holds seven new tokens, and runs once
    // more as text before the next.
    let one_by_one = UnmaskRule::Prefix(1.0);
    for (max_tokens, passes) in [(1, 1), (3, 3), (7, 7), (8, 9), (12, 13)] {
        assert_eq!(ask(one_by_one, max_tokens, false).1, passes, "{max_tokens} tokens");
    }
    assert_eq!(ask(one_by_one, 1, true).1, 7, "whole blocks on request");
    for rule in RULES {
        let (long, _) = ask(rule, 24, false);
        for max_tokens in 1..24 {
            let (short, _) = ask(rule, max_tokens, false);
            assert_eq!(short, long[..max_tokens], "the limit changes no token");
        }
    }
}

#[test]
fn a_block_of_one_is_autoregressive() {
    for kind in kinds().filter(|kind| kind.token_shift) {
        let engine = engine(kind, 64, 64, 4);
        let one = DiffusionParams {
            block_len: Some(1),
            sub_block_len: Some(1),
            ..DiffusionParams::default()
        };
        for len in [1, 5, 8, 40] {
            let ask = |mode| reply(&engine, request(prompt(len), 30, 7, mode));
            assert_eq!(ask(DecodeMode::Diffusion(one)), ask(DecodeMode::Autoregressive));
        }
    }
}

/// Returns every mode that the kind of model supports, with various settings.
fn modes(kind: BlockDiffusion) -> Vec<DecodeMode> {
    let mut modes: Vec<_> = UnmaskRule::names()
        .iter()
        .map(|name| {
            let mut rule = UnmaskRule::from_name(name).unwrap();
            rule.set_threshold(0.2);
            DiffusionParams { rule, ..DiffusionParams::default() }
        })
        .flat_map(|d| {
            [d, DiffusionParams { steps: Some(2), ..d }, DiffusionParams { reuse: true, ..d }]
        })
        .map(DecodeMode::Diffusion)
        .collect();
    if kind.token_shift {
        modes.push(DecodeMode::Autoregressive);
        for (model, lookup) in [(true, false), (false, true), (true, true)] {
            modes.push(DecodeMode::Drafted(DraftParams::from_sources(model, lookup)));
        }
        modes.push(DecodeMode::Drafted(DraftParams::AUTO));
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
fn load_changes_no_output() {
    for kind in kinds() {
        let solo: Vec<_> = {
            let engine = engine(kind, 64, 512, 1);
            requests(kind).into_iter().map(|r| reply(&engine, r)).collect()
        };
        // Ample pages; small steps; hardly more pages than the longest request needs.
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
fn drafts_change_no_output_at_any_temperature() {
    for kind in kinds().filter(|kind| kind.token_shift) {
        let engine = engine(kind, 256, 512, 16);
        for base in requests(kind) {
            let ask = |decode| reply(&engine, Request { decode, ..base.clone() });
            let plain = ask(DecodeMode::Autoregressive);
            for (model, lookup) in [(true, false), (false, true), (true, true)] {
                for adapts in [true, false] {
                    let drafting = DraftParams {
                        adaptive: adapts,
                        ..DraftParams::from_sources(model, lookup)
                    };
                    assert_eq!(ask(DecodeMode::Drafted(drafting)), plain);
                }
            }
            assert_eq!(ask(DecodeMode::Drafted(DraftParams::AUTO)), plain);
        }
    }
}

#[test]
fn prompt_logprobs_need_no_completion_in_any_mode() {
    let kind = kinds().next().unwrap();
    let engine = engine(kind, 64, 64, 1);
    // Sixteen are reported at once, so the last token is reported alone.
    for len in [1, 17, 33] {
        let reported = |mode| {
            let base = request(prompt(len), 0, 7, mode);
            let mut events = engine.submit(Request { prompt_logprobs: Some(0), ..base }).unwrap();
            let mut reported = 0;
            loop {
                match events.next_blocking().unwrap() {
                    Event::PromptLogprobs(more) => reported += more.len(),
                    Event::Done(reason) => return (reported, reason),
                    _ => {}
                }
            }
        };
        for name in ["autoregressive", "lookup", "drafted", "drafted+lookup", "auto"] {
            let expected = (len - 1, FinishReason::Length);
            assert_eq!(reported(DecodeMode::from_name(name).unwrap()), expected, "{name}, {len}");
        }
    }
}

#[test]
fn a_repeating_text_is_found_by_lookup() {
    let kind = kinds().next().unwrap();
    let engine = engine(kind, 64, 64, 1);
    // The bias forces one token, so the text repeats.
    let sampling = SamplingParams { logit_bias: vec![(5, 100.0)], ..SamplingParams::default() };
    let lookup = DecodeMode::Drafted(DraftParams::from_sources(false, true));
    let mut events =
        engine.submit(Request { sampling, ..request(prompt(3), 40, 7, lookup) }).unwrap();
    let mut last = None;
    while let Some(event) = events.next_blocking() {
        if let Event::Tokens { stats: work, .. } = event {
            last = Some(work);
        }
    }
    let work = last.unwrap();
    assert!(work.passes < 20 && work.accepted > 20, "{work:?}");
    let stats = engine.stats();
    assert_eq!(
        (stats.drafted_tokens, stats.accepted_tokens),
        (work.drafted as u64, work.accepted as u64)
    );
}

#[test]
fn unsupported_modes_are_rejected_with_a_reason() {
    let refusal = |kind: Option<BlockDiffusion>, mode: DecodeMode| {
        let model = FakeModel::new(VOCAB, 8, 16);
        let model = match kind {
            Some(kind) => model.with_blocks(kind),
            None => model,
        };
        let engine = EngineHandle::start(model, EngineOptions::default()).unwrap();
        match engine.submit(request(vec![1], 4, 7, mode)).err() {
            Some(RequestError::UnsupportedMode(what)) => what.to_string(),
            other => panic!("{mode:?}: {other:?}"),
        }
    };
    let kind = kinds().next().unwrap();
    let blocks = |d: DiffusionParams| DecodeMode::Diffusion(d);
    let plain = DiffusionParams::default();
    let drafted = DecodeMode::from_name("drafted").unwrap();
    assert!(refusal(None, blocks(plain)).contains("not trained to fill masks"));
    assert!(refusal(None, drafted).contains("lookup work with every model"));
    let sizes = DiffusionParams { block_len: Some(17), ..plain };
    assert!(
        refusal(Some(kind), blocks(sizes)).contains("block_size is 17: must be between 1 and 16")
    );
    let parts = DiffusionParams { sub_block_len: Some(3), ..plain };
    assert!(refusal(Some(kind), blocks(parts)).contains("must divide the block size, 8"));
    let rule = DiffusionParams { rule: UnmaskRule::Threshold(f32::NAN), ..plain };
    assert!(
        refusal(Some(kind), blocks(rule)).contains("threshold is NaN: must be between 0 and 1")
    );
    let steps = DiffusionParams { steps: Some(0), ..plain };
    assert!(refusal(Some(kind), blocks(steps)).contains("steps is 0"));
    let own = BlockDiffusion { token_shift: false, ..kind };
    assert!(refusal(Some(own), DecodeMode::Autoregressive).contains("use diffusion"));
    let can = Capabilities {
        blocks: Some(own),
        draft_model: true,
        mtp: false,
        max_batch_tokens: 16,
        recurrent: false,
        window: None,
    };
    assert_eq!(DecodeMode::default_for(can).name(), "diffusion");
    assert_eq!(DecodeMode::default_for(Capabilities { blocks: None, ..can }).name(), "drafted");
}
