//! Random requests, and what each returns if it runs alone.

use std::time::Duration;

use wf_core::SamplingParams;
use wf_model::{BlockDiffusion, Pooling, TokenId};

use super::client::{Answer, Client};
use super::fake::FakeModel;
use super::random::Random;
use super::{MAX_TURNS, take_turns};
use crate::clock;
use crate::decode::{DecodeMode, DiffusionParams, DraftParams, MtpParams};
use crate::events::Events;
use crate::handle::EngineHandle;
use crate::options::EngineOptions;
use crate::output::Limits;
use crate::request::{EmbeddingRequest, Request, RequestError};
use crate::schedule::Origin;

pub(super) const VOCAB: usize = 50;

/// Layout of models that fill masks. No prompt has the mask token, which is the last.
pub(super) const BLOCKS: BlockDiffusion = BlockDiffusion {
    mask_token: VOCAB as TokenId - 1,
    block_len: 8,
    sub_block_len: None,
    token_shift: true,
    causal_context: true,
};

/// A request of any kind.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Generate(Box<Request>),
    Embed(Pooling, EmbeddingRequest),
}

impl Task {
    pub(super) fn submit(&self, engine: &EngineHandle) -> Result<Events, RequestError> {
        match self {
            Self::Generate(request) => engine.submit((**request).clone()),
            Self::Embed(pooling, request) => engine.embed(*pooling, request.clone()),
        }
    }

    pub(super) fn prompt_len(&self) -> usize {
        match self {
            Self::Generate(request) => request.prompt.len(),
            Self::Embed(_, request) => request.tokens.len(),
        }
    }

    pub(super) fn is_late(&self) -> bool {
        let deadline = match self {
            Self::Generate(request) => request.limits.deadline,
            Self::Embed(_, request) => request.deadline,
        };
        deadline.is_some_and(|deadline| deadline <= clock::now())
    }

    /// Runs it alone, with all the pages and rows it can use, no faults, no drafts and no deadline.
    pub(super) fn alone(&self, engine: &EngineHandle) -> Answer {
        let model = FakeModel::new(VOCAB, 64, 1024);
        let model = match engine.capabilities().blocks {
            Some(blocks) => model.with_blocks(blocks),
            None => model,
        };
        let model = match engine.attention().window() {
            Some(window) => model.with_window(window),
            None => model,
        };
        let context_len = Some(engine.context_len());
        let options = EngineOptions { max_running: 1, context_len, ..EngineOptions::default() };
        let (handle, mut engine) = EngineHandle::create(model, None, options);
        let mut task = self.clone();
        match &mut task {
            Self::Generate(request) => {
                request.limits.deadline = None;
                if request.decode.is_left_to_right() {
                    request.decode = DecodeMode::Autoregressive;
                }
            }
            Self::Embed(_, request) => request.deadline = None,
        }
        let events = task.submit(&handle).expect("it fits an empty engine");
        let mut client = Client::new(task, Answer::default(), events);
        take_turns(&mut engine, MAX_TURNS);
        client.receive();
        client.seen
    }
}

/// Returns a random request that the engine supports.
pub(super) fn task(random: &mut Random, engine: &EngineHandle, number: u64) -> Task {
    let origin = Origin {
        caller: random.between(0, 3) as u64,
        request: number - number % random.between(1, 3) as u64,
        tier: i32::from(random.once_in(12)),
    };
    let deadline = random
        .once_in(6)
        .then(|| clock::now() + Duration::from_millis(random.between(0, 2000) as u64));
    let (cache_salt, priority) = (random.between(0, 1) as u64, random.between(0, 2) as i32 - 1);
    let max_kv_tokens = random.once_in(5).then(|| engine.context_len() / 2);
    let room = max_kv_tokens.unwrap_or(engine.context_len());
    let tokens = prompt(random, room);
    if random.once_in(4) {
        let pooling = random.pick(&[Pooling::Mean, Pooling::First, Pooling::Last]);
        let request = EmbeddingRequest {
            cache_salt,
            priority,
            origin,
            max_kv_tokens,
            deadline,
            ..EmbeddingRequest::new(tokens)
        };
        return Task::Embed(pooling, request);
    }
    let limits = limits(random);
    let request = Request {
        prompt: tokens,
        sampling: sampling(random),
        decode: mode(random, engine),
        limits: Limits { deadline, ..limits },
        logprobs: random.once_in(4).then(|| random.between(0, 2)),
        cache_salt,
        priority,
        origin,
        max_kv_tokens,
        ..Request::default()
    };
    let scores_prompt = request.decode.is_left_to_right() && random.once_in(6);
    let prompt_logprobs = scores_prompt.then(|| random.between(0, 2));
    Task::Generate(Box::new(Request { prompt_logprobs, ..request }))
}

/// Returns one of three texts, cut off at a random length: many share pages.
fn prompt(random: &mut Random, room: usize) -> Vec<TokenId> {
    let text = random.between(0, 2);
    let max = if random.once_in(8) { room - 1 } else { 70.min(room - 1) };
    let token = |at: usize| ((at * 31 + text * 17 + at / 40) % (VOCAB - 1)) as TokenId;
    (0..random.between(1, max)).map(token).collect()
}

fn limits(random: &mut Random) -> Limits {
    let stop_tokens = (0..random.between(0, 2)).map(|_| random.between(0, VOCAB - 1) as TokenId);
    Limits {
        stop_tokens: stop_tokens.collect(),
        max_tokens: if random.once_in(10) { 400 } else { random.between(1, 50) },
        min_tokens: random.between(0, 4),
        deadline: None,
    }
}

fn sampling(random: &mut Random) -> SamplingParams {
    SamplingParams {
        temperature: random.pick(&[0.0, 0.0, 0.7, 1.5]),
        seed: random.next(),
        top_p: random.pick(&[1.0, 1.0, 0.8]),
        top_k: random.pick(&[0, 0, 7]),
        repetition_penalty: random.pick(&[1.0, 1.0, 1.3]),
        repeat_last_n: random.pick(&[-1, 3, 64]),
        ..SamplingParams::default()
    }
}

fn mode(random: &mut Random, engine: &EngineHandle) -> DecodeMode {
    let diffusion = DiffusionParams { preview: random.once_in(3), ..DiffusionParams::DEFAULT };
    let eager = DraftParams { adaptive: false, max_tokens: 9, ..DraftParams::MODEL_AND_LOOKUP };
    let modes = [
        DecodeMode::Autoregressive,
        DecodeMode::Diffusion(diffusion),
        DecodeMode::Drafted(DraftParams::MODEL),
        DecodeMode::Drafted(DraftParams::LOOKUP),
        DecodeMode::Drafted(DraftParams::AUTO),
        DecodeMode::Drafted(eager),
        DecodeMode::Mtp(MtpParams::DEFAULT),
        DecodeMode::Mtp(MtpParams { adaptive: false, max_tokens: 9 }),
    ];
    let supported = modes.into_iter().filter(|mode| engine.check_mode(*mode).is_ok());
    random.pick(&supported.collect::<Vec<_>>())
}
