//! `POST /v1/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tokio::task::spawn_blocking;
use wf_client::sse;
use wf_client::wire::{
    Completion, CompletionChoice, CompletionLogprobs, CompletionRequest, ErrorBody, Prompt,
};
use wf_engine::{Logprobs, ModelText, Picked, Piece, TokenId};
use wf_text::Detokenizer;

use crate::app::{App, ServedModel};
use crate::asked::{Asked, check_rest};
use crate::auth::Caller;
use crate::body::read_json;
use crate::decoding::read_carried;
use crate::error::ApiError;
use crate::form::Form;
use crate::logprobs::push_completion;
use crate::replies::Replies;
use crate::request_id::RequestId;
use crate::routes::chat::progress;
use crate::stream::{self, Writer, longest_timings, timings, usage};
use crate::structured;

/// How many tokens are written if nobody says: OpenAI's number.
const DEFAULT_MAX_TOKENS: u32 = 16;

/// Continue texts.
#[utoipa::path(
    post,
    path = "/v1/completions",
    tag = "OpenAI",
    request_body = CompletionRequest,
    responses(
        (status = 200, description = "The replies; with `stream`, as server-sent events of Completion",
         content((Completion = "application/json"), (Completion = "text/event-stream"))),
        (status = "default", description = "What is wrong", body = ErrorBody),
    )
)]
pub(crate) async fn completions(
    State(app): State<App>,
    Extension(id): Extension<RequestId>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let model = app.model_for_work()?;
    let request: CompletionRequest = read_json(request, &app.options.limits).await?;
    let (mut asked, source) = check(&app, model, caller, request)?;
    let (frontend, echo) = (model.frontend.clone(), source.echo);
    let encoded = spawn_blocking(move || source.prompt_ids(frontend.text()));
    let prompts = encoded.await.map_err(|_| ApiError::internal())?;
    asked.check_room(model, &prompts, "prompt")?;
    asked.compile(model).await?;
    let replies =
        Replies::start(&app, model, id.as_str(), prompts, asked.choices, &asked.generate)?;
    let form = Form::new(&app, model, "cmpl", &id, &asked);
    let writing = (0..replies.len()).map(|at| Writing::new(model, echo, &replies, at)).collect();
    let mut writer = CompletionWriter { seed: Some(asked.seed), form, writing };
    if asked.stream {
        return Ok(stream::respond(&app, replies, writer));
    }
    let whole = writer.whole(&app, replies).await?;
    Ok(Json(whole).into_response())
}

fn check(
    app: &App,
    model: &ServedModel,
    caller: Caller,
    mut request: CompletionRequest,
) -> Result<(Asked, Source), ApiError> {
    model.check_name(request.model.as_deref())?;
    let structured = structured::take(&mut request.rest)?;
    check_rest(&request.rest)?;
    let limits = &app.options.limits;
    let echo = request.echo.unwrap_or(false);
    request.sampling.max_tokens.get_or_insert(DEFAULT_MAX_TOKENS);
    if request.sampling.max_tokens == Some(0) && !echo {
        let message = "max_tokens is 0: at least 1 is needed, unless echo is true";
        return Err(ApiError::field("max_tokens", message));
    }
    read_carried(&mut request.sampling, &request.rest, None)?;
    let mut asked = Asked { structured, ..Asked::new(app, model, caller, request.sampling)? };
    if request.logprobs.is_some_and(|top| top > limits.top_logprobs) {
        let message = format!("logprobs: 0 to {} is allowed", limits.top_logprobs);
        return Err(ApiError::field("logprobs", message));
    }
    asked.generate.logprobs = request.logprobs.map(|top| top as usize);
    if echo {
        // A reply of nothing has to be computed all the same: then the prompt is what is told of.
        let nothing_else = asked.generate.max_tokens == Some(0);
        asked.generate.prompt_logprobs = asked.generate.logprobs.or(nothing_else.then_some(0));
    }
    let missing = || ApiError::field("prompt", "prompt: a text or a list of tokens is needed");
    let prompt = request.prompt.ok_or_else(missing)?;
    let source = Source { prompt, begins: request.add_special_tokens.unwrap_or(true), echo };
    let replies = source.count() * asked.choices as usize;
    if replies > limits.replies {
        let message = format!(
            "prompt: {replies} replies in one request, at most {} are allowed",
            limits.replies
        );
        return Err(ApiError::field("prompt", message));
    }
    Ok((asked, source))
}

/// What to continue.
struct Source {
    prompt: Prompt,
    /// Whether the model's begin token goes before a text.
    begins: bool,
    /// Whether the reply begins with it.
    echo: bool,
}

impl Source {
    /// How many prompts that is.
    fn count(&self) -> usize {
        match &self.prompt {
            Prompt::Text(_) | Prompt::Ids(_) => 1,
            Prompt::Texts(texts) => texts.len(),
            Prompt::ManyIds(many) => many.len(),
        }
    }

    /// The token numbers of each prompt.
    fn prompt_ids(self, model: &ModelText) -> Vec<Vec<TokenId>> {
        // What a program composed may name special tokens, as with every other server of this API.
        let ids = |text: &String| model.text_ids(text, self.begins, true);
        match self.prompt {
            Prompt::Text(text) => vec![ids(&text)],
            Prompt::Texts(texts) => texts.iter().map(ids).collect(),
            Prompt::Ids(one) => vec![one],
            Prompt::ManyIds(many) => many,
        }
    }
}

impl Form {
    /// A part of an answer with nothing but what is new of its replies.
    fn part(&self, choices: Vec<CompletionChoice>) -> Completion {
        Completion {
            id: self.id.clone(),
            object: "text_completion".into(),
            created: self.created,
            model: self.model.clone(),
            choices,
            system_fingerprint: self.fingerprint.clone(),
            ..Completion::default()
        }
    }
}

/// How far a reply has been told, the echo of its prompt included.
struct Writing {
    /// Characters told so far.
    chars: usize,
    /// Tokens of the prompt that are still to be echoed, with the text that comes with each.
    echo: std::vec::IntoIter<(TokenId, String)>,
    /// What was said by nobody yet: the echo comes first.
    awaits_echo: bool,
}

impl Writing {
    fn new(model: &ServedModel, echoes: bool, replies: &Replies, at: usize) -> Self {
        let echo = match echoes {
            true => echo(model, replies.stream(at).prompt_ids()),
            false => Vec::new(),
        };
        Self { chars: 0, awaits_echo: echoes, echo: echo.into_iter() }
    }
}

/// The tokens of a prompt with their texts.
fn echo(model: &ServedModel, prompt: &[TokenId]) -> Vec<(TokenId, String)> {
    let tokenizer = model.frontend.tokenizer();
    let mut detokenizer = Detokenizer::new(true);
    let mut echo: Vec<_> = prompt.iter().map(|&id| (id, detokenizer.push(tokenizer, id))).collect();
    if let Some((_, last)) = echo.last_mut() {
        last.push_str(&detokenizer.finish());
    }
    echo
}

struct CompletionWriter {
    form: Form,
    /// To be told with the first event of a stream.
    seed: Option<i64>,
    writing: Vec<Writing>,
}

impl CompletionWriter {
    /// What a piece adds to a reply; nothing if it adds nothing.
    fn part(&mut self, replies: &Replies, at: usize, piece: Piece) -> Option<CompletionChoice> {
        let mut choice = CompletionChoice { index: at as u32, ..CompletionChoice::default() };
        choice.logprobs = self.form.logprobs.then(CompletionLogprobs::default);
        match piece {
            // The first token has nothing before it, so nothing is known of it.
            Piece::PromptLogprobs(logprobs) => {
                let first = std::mem::take(&mut self.writing[at].awaits_echo);
                let likelihoods = logprobs.iter().map(Some);
                self.echo(at, first.then_some(None).into_iter().chain(likelihoods), &mut choice);
            }
            Piece::Text { text, token } => {
                self.finish_echo(at, &mut choice);
                self.push(at, &text, token, &mut choice);
                let told = (self.form.logprobs || self.form.token_ids)
                    && choice.token_ids.as_ref().is_some_and(|ids| !ids.is_empty());
                if !self.form.token_ids {
                    choice.token_ids = None;
                }
                if choice.text.is_empty() && !told {
                    return None;
                }
            }
            Piece::Done(finish) => {
                self.finish_echo(at, &mut choice);
                choice.finish_reason = Some(finish.reason.name().to_owned());
                choice.prompt_token_ids =
                    self.form.token_ids.then(|| replies.stream(at).prompt_ids().to_vec());
            }
            Piece::Started { .. } | Piece::Progress { .. } | Piece::Preview(_) => return None,
        }
        Some(choice)
    }

    /// Echoes as many tokens of the prompt as there are likelihoods.
    fn echo<'a>(
        &mut self,
        at: usize,
        likelihoods: impl Iterator<Item = Option<&'a Logprobs>>,
        choice: &mut CompletionChoice,
    ) {
        let Ok(model) = self.form.app.model() else { return };
        let writing = &mut self.writing[at];
        for (likelihood, (token, text)) in likelihoods.zip(&mut writing.echo) {
            if let Some(lists) = &mut choice.logprobs {
                let tokenizer = model.frontend.tokenizer();
                push_completion(lists, tokenizer, token, writing.chars, likelihood);
            }
            writing.chars += text.chars().count();
            choice.text.push_str(&text);
        }
    }

    /// Echoes what is left of a prompt, of which nothing is known: one of a single token, or one
    /// whose likelihoods nobody asked for.
    fn finish_echo(&mut self, at: usize, choice: &mut CompletionChoice) {
        self.writing[at].awaits_echo = false;
        let left = self.writing[at].echo.len();
        self.echo(at, std::iter::repeat_n(None, left), choice);
    }

    fn push(
        &mut self,
        at: usize,
        text: &str,
        token: Option<Picked>,
        choice: &mut CompletionChoice,
    ) {
        let writing = &mut self.writing[at];
        if let (Some(Picked { token, logprobs }), Ok(model)) = (token, self.form.app.model()) {
            if let Some(lists) = &mut choice.logprobs {
                let tokenizer = model.frontend.tokenizer();
                push_completion(lists, tokenizer, token, writing.chars, logprobs.as_ref());
            }
            choice.token_ids = Some(vec![token]);
        }
        writing.chars += text.chars().count();
        choice.text.push_str(text);
    }

    /// All replies, once they are written.
    async fn whole(&mut self, app: &App, mut replies: Replies) -> Result<Completion, ApiError> {
        let mut choices: Vec<CompletionChoice> = (0..replies.len() as u32)
            .map(|index| CompletionChoice {
                index,
                logprobs: self.form.logprobs.then(CompletionLogprobs::default),
                token_ids: self.form.token_ids.then(Vec::new),
                ..CompletionChoice::default()
            })
            .collect();
        stream::collect(app, &mut replies, |replies, at, piece| {
            if let Some(part) = self.part(replies, at, piece) {
                join(&mut choices[at], part);
            }
        })
        .await?;
        Ok(Completion {
            usage: Some(Some(usage(&replies, self.form.choices))),
            seed: Some(self.form.seed),
            timings: Some(longest_timings(&replies)),
            ..self.form.part(choices)
        })
    }
}

/// Adds what is new of a reply to what there was.
fn join(choice: &mut CompletionChoice, part: CompletionChoice) {
    choice.text.push_str(&part.text);
    if let (Some(all), Some(new)) = (&mut choice.logprobs, part.logprobs) {
        all.tokens.extend(new.tokens);
        all.text_offset.extend(new.text_offset);
        all.token_logprobs.extend(new.token_logprobs);
        all.top_logprobs.extend(new.top_logprobs);
    }
    if let (Some(all), Some(new)) = (&mut choice.token_ids, part.token_ids) {
        all.extend(new);
    }
    choice.finish_reason = part.finish_reason.or(choice.finish_reason.take());
    choice.prompt_token_ids = part.prompt_token_ids.or(choice.prompt_token_ids.take());
}

impl Writer for CompletionWriter {
    // Every event has a choice in it, for clients that look at the first one of each.
    fn begin(&mut self, _replies: &Replies) -> String {
        String::new()
    }

    fn piece(&mut self, replies: &Replies, at: usize, piece: Piece) -> String {
        let timings = match &piece {
            Piece::Done(finish) => Some(timings(&finish.timings)),
            _ => None,
        };
        let prompt_progress = match piece {
            Piece::Progress { done, total } if self.form.progress => {
                Some(progress(replies, at, done, total))
            }
            _ => None,
        };
        let choices: Vec<_> = self.part(replies, at, piece).into_iter().collect();
        if choices.is_empty() && prompt_progress.is_none() {
            return String::new();
        }
        let usage = self.form.include_usage.then_some(None);
        let seed = self.seed.take();
        let part = self.form.part(choices);
        sse::json_event(&Completion { usage, seed, timings, prompt_progress, ..part })
    }

    fn end(&mut self, replies: &Replies) -> String {
        if !self.form.include_usage {
            return String::new();
        }
        let usage = Some(Some(usage(replies, self.form.choices)));
        sse::json_event(&Completion { usage, ..self.form.part(Vec::new()) })
    }
}
