//! Networks with groups, experts, windows and recurrent layers through the engine: load changes when tokens arrive,
//! never which.
//!
//! Tokens of other requests share the experts of a step, and must not change each other; a layer with a window
//! reads part of the pages that a prefix left; a recurrent layer continues from the state that a prefix left.

use std::path::Path;

use wf_engine::{
    DecodeMode, DraftParams, EngineHandle, EngineOptions, Event, Limits, MtpParams, Origin,
    Request, TokenId,
};
use wf_formats::{ModelFile, OpenOptions};
use wf_model::{
    ActivationCodes, Compute, Forward, HeadMode, KvDtype, Model, ModelOptions, SparseMode,
};

use crate::common::{VOCAB, collect, request, run_together};

/// A recorded network and the codes of its activations; those of the family if absent.
type Subject = (&'static str, Option<ActivationCodes>);

const DENSE: &str = "weight_only/ternary-yarn";
const EXPERTS: &str = "experts/renormalized";
const HYBRID: &str = "qwen35/tiled";
/// A hybrid with a random prediction head, and one whose head says what the network says.
const PREDICTING: [&str; 2] = ["qwen35/mtp", "qwen35/mtp-copy"];

/// A dense network with scales by group, experts, experts with windows, and recurrent layers.
const SUBJECTS: [Subject; 9] = [
    (DENSE, None),
    (EXPERTS, None),
    ("maple/windows", None),
    (HYBRID, None),
    ("qwen35/equal", Some(ActivationCodes::Int8Group)),
    (DENSE, Some(ActivationCodes::Int8Group)),
    (EXPERTS, Some(ActivationCodes::Int8Group)),
    (DENSE, Some(ActivationCodes::F32)),
    (EXPERTS, Some(ActivationCodes::F32)),
];

/// The conditions that requests run under.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    pages: usize,
    max_batch_tokens: usize,
    max_running: usize,
    threads: usize,
    /// States of sequences and snapshots, for recurrent layers.
    states: usize,
    decode: DecodeMode,
}

const ALONE: Conditions = Conditions {
    pages: 64,
    max_batch_tokens: 512,
    max_running: 1,
    threads: 2,
    states: 1,
    decode: DecodeMode::Autoregressive,
};

const TOGETHER: Conditions = Conditions { pages: 256, max_running: 12, states: 24, ..ALONE };

fn model((name, activations): Subject, conditions: Conditions) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let path = folder.join(name).with_extension("gguf");
    let file = ModelFile::open(&path, &OpenOptions::default()).unwrap();
    let options = ModelOptions {
        kv: KvDtype::F32,
        pages: conditions.pages,
        max_batch_tokens: conditions.max_batch_tokens,
        head: HeadMode::Auto,
        sparse: SparseMode::Auto,
        context_len: None,
        activations,
    };
    let model = Model::load(&file, Compute::new(conditions.threads), options, &mut |_| {}).unwrap();
    model.with_states(conditions.states)
}

fn engine(subject: Subject, draft: Option<Subject>, conditions: Conditions) -> EngineHandle {
    let draft = draft.map(|draft| Box::new(model(draft, conditions)) as Box<dyn Forward>);
    let options = EngineOptions { max_running: conditions.max_running, ..EngineOptions::default() };
    EngineHandle::start_with_draft(model(subject, conditions), draft, options).unwrap()
}

/// Returns requests of many lengths, greedy and sampled; some share a prefix of two pages.
fn requests(decode: DecodeMode) -> Vec<Request> {
    (0..12)
        .map(|i| {
            let start = if i % 4 == 3 { 0 } else { i * 17 };
            // Requests of a caller take turns, so more run than a step has sequences.
            let origin = Origin { caller: i as u64 % 3, request: i as u64, tier: 0 };
            Request { decode, origin, ..request(i, start, 1 + i * 23 % 90, 5 + i * 13 % 40) }
        })
        .collect()
}

/// Runs each request after the other on one thread.
fn solo(subject: Subject) -> Vec<Vec<TokenId>> {
    let engine = engine(subject, None, Conditions { threads: 1, ..ALONE });
    let requests = requests(ALONE.decode).into_iter();
    requests.map(|request| collect(engine.submit(request).unwrap())).collect()
}

#[test]
fn threads_batches_chunks_preemption_and_cached_prefixes_change_nothing() {
    let cases = [
        TOGETHER,
        Conditions { threads: 3, ..TOGETHER },
        Conditions { max_batch_tokens: 25, ..TOGETHER },
        // Pages for one of the longer requests at a time.
        Conditions { pages: 6, max_batch_tokens: 64, ..TOGETHER },
        // Two sequences at a time, and no room for snapshots but while fewer run.
        Conditions { states: 2, ..TOGETHER },
    ];
    for subject in SUBJECTS {
        let expected = solo(subject);
        let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
        assert!(
            lengths.iter().sum::<usize>() > 150,
            "{subject:?}: too little to compare: {lengths:?}"
        );
        for case in cases {
            let engine = engine(subject, None, case);
            let found = run_together(&engine, requests(case.decode));
            assert_eq!(found, expected, "{subject:?}: {case:?}");
            let again = run_together(&engine, requests(case.decode));
            assert_eq!(
                again, expected,
                "{subject:?}: {case:?}, with the prefixes of the first run"
            );
        }
    }
}

#[test]
fn drafts_of_a_model_and_of_the_prompt_change_nothing() {
    for subject in SUBJECTS {
        let expected = solo(subject);
        // The first model drafts badly for the others, and perfectly for itself.
        for (by_model, by_lookup) in [(true, false), (false, true), (true, true)] {
            let decode = DecodeMode::Drafted(DraftParams::from_sources(by_model, by_lookup));
            let case = Conditions { decode, ..TOGETHER };
            let engine = engine(subject, Some(SUBJECTS[0]), case);
            assert_eq!(
                run_together(&engine, requests(decode)),
                expected,
                "{subject:?}: {decode:?}"
            );
        }
    }
}

/// Drafts end at page borders and share a limit; snapshots and preempted sequences take part.
#[test]
fn drafts_of_a_hybrid_change_nothing_under_pressure_either() {
    let subject = (HYBRID, None);
    let expected = solo(subject);
    let all = DraftParams { adaptive: false, ..DraftParams::from_sources(true, true) };
    for decode in [all, DraftParams { max_tokens: 64, ..all }, DraftParams::AUTO] {
        let decode = DecodeMode::Drafted(decode);
        for case in [
            Conditions { threads: 3, ..TOGETHER },
            Conditions { max_batch_tokens: 25, ..TOGETHER },
            Conditions { pages: 6, max_batch_tokens: 64, ..TOGETHER },
            Conditions { states: 2, ..TOGETHER },
        ] {
            let case = Conditions { decode, ..case };
            let engine = engine(subject, Some(SUBJECTS[0]), case);
            assert_eq!(run_together(&engine, requests(decode)), expected, "{case:?}");
            assert_eq!(
                run_together(&engine, requests(decode)),
                expected,
                "{case:?}, with earlier prefixes"
            );
            let accepted = engine.stats().accepted_tokens;
            let always = decode != DecodeMode::Drafted(DraftParams::AUTO);
            assert!(!always || accepted > 20, "{case:?}: {accepted} drafts accepted");
        }
    }
}

/// The head follows every sequence through chunks, snapshots and preemption, beside sequences that it does not follow, and no
/// token depends on it. A head that knows the network drafts what is accepted, which shows that it is fed right.
#[test]
fn drafts_of_a_prediction_head_change_nothing_and_are_accepted_if_they_are_right() {
    let fixed = |max_tokens| MtpParams { max_tokens, adaptive: false };
    for name in PREDICTING {
        let subject = (name, None);
        let expected = solo(subject);
        for params in [MtpParams::DEFAULT, fixed(1), fixed(64)] {
            let decode = DecodeMode::Mtp(params);
            for case in [
                TOGETHER,
                Conditions { threads: 3, max_batch_tokens: 25, ..TOGETHER },
                Conditions { pages: 6, max_batch_tokens: 64, ..TOGETHER },
                Conditions { states: 2, ..TOGETHER },
            ] {
                let case = Conditions { decode, ..case };
                let engine = engine(subject, Some(SUBJECTS[0]), case);
                assert_eq!(run_together(&engine, requests(decode)), expected, "{name}: {case:?}");
                let mixed = [decode, DecodeMode::Autoregressive, DecodeMode::default()];
                let requests = requests(decode).into_iter().zip(mixed.into_iter().cycle());
                let requests = requests.map(|(request, decode)| Request { decode, ..request });
                let found = run_together(&engine, requests.collect());
                assert_eq!(found, expected, "{name}: {case:?}, with earlier prefixes");
                let stats = engine.stats();
                let (drafted, accepted) = (stats.drafted_tokens, stats.accepted_tokens);
                let what = format!("{name}: {case:?}: {accepted} of {drafted} drafts accepted");
                assert!(drafted > 0, "{what}");
                // A draft may reach behind the end of a completion.
                assert!(name != PREDICTING[1] || 10 * accepted >= 7 * drafted, "{what}");
            }
        }
    }
}

/// A prompt that continues from a snapshot continues the prediction head, too.
#[test]
fn a_prediction_head_continues_from_the_states_of_earlier_prompts() {
    let subject = (PREDICTING[1], None);
    let decode = DecodeMode::Mtp(MtpParams { max_tokens: 4, adaptive: false });
    let prompt: Vec<TokenId> = (0..97).map(|at| (at * 31 % VOCAB) as TokenId).collect();
    let request = |decode| Request {
        prompt: prompt.clone(),
        limits: Limits { max_tokens: 30, ..Limits::default() },
        decode,
        ..Request::default()
    };
    let engine = engine(subject, None, TOGETHER);
    // The pages of a sequence without the head are not those of one with it.
    let expected = collect(engine.submit(request(DecodeMode::Autoregressive)).unwrap());
    for cached in [0, 96, 96] {
        let before = engine.stats();
        assert_eq!(collect(engine.submit(request(decode)).unwrap()), expected);
        let after = engine.stats();
        assert_eq!(after.cached_tokens - before.cached_tokens, cached);
        let drafted = after.drafted_tokens - before.drafted_tokens;
        let accepted = after.accepted_tokens - before.accepted_tokens;
        assert!(drafted >= 20 && accepted + 4 >= drafted, "{accepted} of {drafted}");
    }
}

#[test]
fn a_model_without_a_prediction_head_rejects_its_mode() {
    let engine = engine((HYBRID, None), None, TOGETHER);
    let error = engine.check_mode(DecodeMode::Mtp(MtpParams::DEFAULT)).unwrap_err().to_string();
    assert!(error.contains("decode is mtp, but the model has no multi-token"), "{error}");
}

#[test]
fn a_hybrid_drafts_by_default_with_a_draft_model_and_never_diffuses() {
    let engine = engine((HYBRID, None), Some(SUBJECTS[0]), TOGETHER);
    assert_eq!(DecodeMode::default_for(engine.capabilities()).name(), "drafted");
    let diffusion = DecodeMode::from_name("diffusion").unwrap();
    let error = engine.check_mode(diffusion).unwrap_err().to_string();
    assert!(error.contains("decode is diffusion, but the model"), "{error}");
}

/// A prompt that begins like an earlier one continues from a snapshot of its state: after the last page of that
/// prompt, or after some page before.
#[test]
fn prompts_continue_from_the_states_of_earlier_ones() {
    let prompt = |len: usize, salt: usize| -> Vec<TokenId> {
        (0..len)
            .map(|at| ((at * 31 + if at < 230 { 0 } else { salt }) % VOCAB) as TokenId)
            .collect()
    };
    let request = |len, salt| Request {
        prompt: prompt(len, salt),
        limits: Limits { max_tokens: 9, ..Limits::default() },
        ..Request::default()
    };
    let run = |engine: &EngineHandle, len, salt| {
        let mut events = engine.submit(request(len, salt)).unwrap();
        let (mut tokens, mut started) = (Vec::new(), None);
        while let Some(event) = events.next_blocking() {
            match event {
                Event::Started { cached } => started = Some(cached),
                Event::Tokens { tokens: picked, .. } => {
                    tokens.extend(picked.iter().map(|pick| pick.token))
                }
                _ => {}
            }
        }
        (started.unwrap(), tokens)
    };
    let fresh = |len, salt| run(&engine((HYBRID, None), None, ALONE), len, salt).1;
    let warm = engine((HYBRID, None), None, TOGETHER);
    for (len, salt, cached) in
        [(300, 1, 0), (300, 1, 288), (300, 2, 192), (290, 1, 288), (40, 1, 32)]
    {
        let (found, tokens) = run(&warm, len, salt);
        assert_eq!(found, cached, "{len} tokens, {salt}");
        assert_eq!(tokens, fresh(len, salt), "{len} tokens, {salt}");
    }
    warm.flush_cache();
    assert_eq!(run(&warm, 300, 1), (0, fresh(300, 1)));
}
