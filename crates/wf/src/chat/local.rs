//! Responses of a local model.

use anyhow::{Result, bail, ensure};
use wf_engine::{
    DecodeMode, FrontendError, GenerationRequest, OpenedModel, PromptInput, RequestError,
    TextEvent, TextStream,
};
use wf_text::ChatMessage;

use super::args::ChatArgs;
use super::conversation::Message;
use super::response::{About, Chunk, Counts};
use crate::args::SamplingArgs;
use crate::{demo, open, output};

pub(crate) struct Local {
    model: OpenedModel,
    pub(super) about: About,
    decode: DecodeMode,
}

impl Local {
    pub(crate) fn open(args: &ChatArgs) -> Result<Self> {
        let path = args.model.as_deref();
        let draft = args.decoding.draft.as_deref();
        let model = open::model(path, draft, &args.engine.options())?;
        let label = path.map_or_else(|| demo::NAME.to_owned(), |path| path.display().to_string());
        ensure!(
            model.frontend.text().template.is_some(),
            "{label}: the model has no chat template; to continue a text, use wf run --raw"
        );
        let name = open::name(&model, path).unwrap_or(label);
        let decode = args.decoding.mode(&model.frontend)?;
        let context_len = model.frontend.context_len();
        let threads = output::count(model.threads, "thread");
        let details = format!("{} on {threads} · context {context_len} tokens", model.isa);
        let about = About { name, details, context_len: Some(context_len) };
        Ok(Self { model, about, decode })
    }

    pub(crate) fn respond(
        &self,
        messages: &[Message],
        sampling: &SamplingArgs,
    ) -> Result<LocalResponse> {
        let messages = messages
            .iter()
            .map(|message| ChatMessage::new(message.role.as_str(), message.content.as_str()));
        let generate = sampling.generate(PromptInput::Chat(messages.collect()));
        let generate = GenerationRequest { decode: self.decode, ..generate };
        match self.model.frontend.generate(generate) {
            Ok(stream) => Ok(LocalResponse { stream }),
            Err(FrontendError::Request(RequestError::PromptTooLong { tokens, limit })) => bail!(
                "the context is full: the conversation has {tokens} tokens, the limit is {limit} with the \
                 response; /undo removes the last turn, /new starts over"
            ),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) struct LocalResponse {
    stream: TextStream,
}

impl LocalResponse {
    pub(crate) async fn next(&mut self) -> Result<Chunk> {
        loop {
            match self.stream.next_event().await {
                Some(Ok(TextEvent::Text { text, .. })) if text.is_empty() => {}
                Some(Ok(TextEvent::Text { text, .. })) => return Ok(Chunk::Text(text)),
                Some(Ok(TextEvent::Done(finish))) => {
                    return Ok(Chunk::Done(finish.reason.name().to_owned()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(FrontendError::EngineStopped.into()),
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let timings = self.stream.timings();
        Counts {
            prompt_tokens: timings.prompt_tokens,
            cached_tokens: Some(timings.cached_tokens),
            response_tokens: timings.completion_tokens,
            prompt: timings.prompt,
            response: timings.decode,
            seed: Some(self.stream.seed()),
        }
    }
}
