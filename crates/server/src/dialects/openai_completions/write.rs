//! Completions. A stream's frames are completions with the new text.

use std::collections::BTreeMap;

use wf_api::wire::{Completion, CompletionChoice, CompletionLogprobs, Seed};
use wf_engine::{Logprobs, SampledToken, TextEvent, TokenId};
use wf_text::{Detokenizer, Tokenizer};

use super::super::Writer;
use super::super::openai::ResponseMeta;
use crate::generation::logprobs::{finite, token_name};
use crate::generation::sequences::{longer, text_of, timings};
use crate::generation::{SequenceEvent, Sequences};

pub(super) struct CompletionWriter {
    meta: ResponseMeta,
    /// Seed, until it is sent with the first frame.
    seed: Option<Seed>,
    choices: Vec<ChoiceState>,
    response: Completion,
}

/// State of a choice, the echo of its prompt included.
struct ChoiceState {
    /// Characters sent so far.
    chars: usize,
    /// Prompt tokens to echo, each with its text.
    echo: std::vec::IntoIter<(TokenId, String)>,
    /// True until the first token of the prompt is echoed.
    awaits_echo: bool,
}

impl CompletionWriter {
    pub(super) fn new(meta: ResponseMeta, echo: bool, sequences: &Sequences) -> Self {
        let choice = |at| {
            let tokens = if echo { sequences.prompt(at) } else { &[] };
            let echo_of = echo_texts(sequences.tokenizer(), tokens).into_iter();
            ChoiceState { chars: 0, echo: echo_of, awaits_echo: echo }
        };
        let whole = |index| CompletionChoice {
            index,
            logprobs: meta.logprobs.then(CompletionLogprobs::default),
            token_ids: meta.token_ids.then(Vec::new),
            ..CompletionChoice::default()
        };
        let response = completion(&meta, (0..sequences.len() as u32).map(whole).collect());
        Self {
            seed: Some(meta.seed),
            choices: (0..sequences.len()).map(choice).collect(),
            response: Completion { seed: Some(meta.seed), ..response },
            meta,
        }
    }

    /// Returns what an event adds to a choice, if anything.
    fn choice(
        &mut self,
        sequences: &Sequences,
        at: usize,
        SequenceEvent { parts, event, .. }: SequenceEvent,
    ) -> Option<CompletionChoice> {
        let tokenizer = sequences.tokenizer();
        let mut choice = CompletionChoice { index: at as u32, ..CompletionChoice::default() };
        choice.logprobs = self.meta.logprobs.then(CompletionLogprobs::default);
        let state = &mut self.choices[at];
        match event {
            TextEvent::PromptLogprobs(logprobs) => {
                // The first token of a prompt has no logprob.
                let first = std::mem::take(&mut state.awaits_echo).then_some(None);
                let logprobs = first.into_iter().chain(logprobs.iter().map(Some));
                state.echo(tokenizer, logprobs, &mut choice);
            }
            TextEvent::Text { token, .. } => {
                state.finish_echo(tokenizer, &mut choice);
                let describes_token =
                    token.is_some() && (self.meta.logprobs || self.meta.token_ids);
                if let Some(SampledToken { token, logprobs }) = token {
                    if let Some(lists) = &mut choice.logprobs {
                        push_logprob(lists, tokenizer, token, state.chars, logprobs.as_ref());
                    }
                    choice.token_ids = self.meta.token_ids.then(|| vec![token]);
                }
                state.push(&text_of(parts), &mut choice);
                if choice.text.is_empty() && !describes_token {
                    return None;
                }
            }
            TextEvent::Done(finish) => {
                state.finish_echo(tokenizer, &mut choice);
                choice.finish_reason = Some(finish.reason.name().to_owned());
                choice.prompt_token_ids =
                    self.meta.token_ids.then(|| sequences.prompt(at).to_vec());
            }
            _ => return None,
        }
        Some(choice)
    }
}

impl ChoiceState {
    fn push(&mut self, text: &str, choice: &mut CompletionChoice) {
        self.chars += text.chars().count();
        choice.text.push_str(text);
    }

    /// Echoes as many tokens of the prompt as there are logprobs.
    fn echo<'a>(
        &mut self,
        tokenizer: &Tokenizer,
        logprobs: impl Iterator<Item = Option<&'a Logprobs>>,
        choice: &mut CompletionChoice,
    ) {
        for logprobs in logprobs {
            let Some((token, text)) = self.echo.next() else { break };
            if let Some(lists) = &mut choice.logprobs {
                push_logprob(lists, tokenizer, token, self.chars, logprobs);
            }
            self.push(&text, choice);
        }
    }

    /// Echoes the tokens that have no logprobs: a single one, or all if no logprobs were requested.
    fn finish_echo(&mut self, tokenizer: &Tokenizer, choice: &mut CompletionChoice) {
        self.awaits_echo = false;
        self.echo(tokenizer, std::iter::repeat_n(None, self.echo.len()), choice);
    }
}

/// Pairs the tokens of a prompt with their texts.
fn echo_texts(tokenizer: &Tokenizer, prompt: &[TokenId]) -> Vec<(TokenId, String)> {
    let mut detokenizer = Detokenizer::new(true);
    let mut echo: Vec<_> = prompt.iter().map(|&id| (id, detokenizer.push(tokenizer, id))).collect();
    if let Some((_, last)) = echo.last_mut() {
        last.push_str(&detokenizer.finish());
    }
    echo
}

fn push_logprob(
    lists: &mut CompletionLogprobs,
    tokenizer: &Tokenizer,
    token: TokenId,
    offset: usize,
    logprobs: Option<&Logprobs>,
) {
    let top = |logprobs: &Logprobs| -> BTreeMap<String, f32> {
        let top = logprobs.top.iter();
        top.map(|&(token, logprob)| (token_name(tokenizer, token), finite(logprob))).collect()
    };
    lists.tokens.push(token_name(tokenizer, token));
    lists.text_offset.push(offset);
    lists.token_logprobs.push(logprobs.map(|logprobs| finite(logprobs.logprob)));
    lists.top_logprobs.push(logprobs.map(top));
}

impl Writer for CompletionWriter {
    type Frame = Completion;
    type Response = Completion;

    fn event(&mut self, sequences: &Sequences, at: usize, event: SequenceEvent) -> Vec<Completion> {
        let (mut timing, mut prompt_progress) = (None, None);
        match &event.event {
            TextEvent::Done(finish) => timing = Some(timings(&finish.timings)),
            TextEvent::Progress { done, total } if self.meta.progress => {
                prompt_progress = Some(sequences.progress(at, *done, *total));
            }
            _ => {}
        }
        let choices: Vec<_> = self.choice(sequences, at, event).into_iter().collect();
        if choices.is_empty() && prompt_progress.is_none() {
            return Vec::new();
        }
        vec![Completion {
            usage: self.meta.include_usage.then_some(None),
            seed: self.seed.take(),
            timings: timing,
            prompt_progress,
            ..completion(&self.meta, choices)
        }]
    }

    fn end(&mut self, sequences: &Sequences) -> Vec<Completion> {
        let usage = self.meta.include_usage.then(|| Some(sequences.usage()));
        let frame = |usage| Completion { usage: Some(usage), ..completion(&self.meta, Vec::new()) };
        usage.map(frame).into_iter().collect()
    }

    fn fold(&mut self, frame: Completion) {
        let response = &mut self.response;
        for part in frame.choices {
            fold_choice(&mut response.choices[part.index as usize], part);
        }
        if let Some(timings) = frame.timings {
            response.timings = Some(response.timings.map_or(timings, |old| longer(old, timings)));
        }
        if let Some(usage) = frame.usage.flatten() {
            response.usage = Some(Some(usage));
        }
    }

    fn response(self) -> Completion {
        self.response
    }
}

fn completion(meta: &ResponseMeta, choices: Vec<CompletionChoice>) -> Completion {
    Completion {
        id: meta.id.clone(),
        object: "text_completion".into(),
        created: meta.created,
        model: meta.model.clone(),
        choices,
        system_fingerprint: meta.fingerprint.clone(),
        ..Completion::default()
    }
}

fn fold_choice(choice: &mut CompletionChoice, part: CompletionChoice) {
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
