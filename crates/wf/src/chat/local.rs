//! Answers of a model on this machine.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use wf_engine::{
    DecodeMode, FrontendError, Generate, Input, OpenedModel, Piece, Refused, RunOptions, TextStream,
};
use wf_text::ChatMessage;

use super::args::ChatArgs;
use super::backend::{Counts, Part};
use super::conversation::Message;
use crate::args::SamplingArgs;
use crate::{demo, open, report};

/// A model on this machine.
pub(crate) struct Local {
    model: OpenedModel,
    name: String,
    decode: DecodeMode,
}

impl Local {
    pub(crate) fn open(args: &ChatArgs) -> Result<Self> {
        let path = args.model.as_deref();
        let options = RunOptions {
            head: args.head.head,
            sparse: args.head.sparse,
            ..args.compute.options(&args.file)
        };
        let model = open::model(path, args.decoding.draft.as_deref(), &options)?;
        let named = path.map_or_else(|| demo::NAME.to_owned(), |path| path.display().to_string());
        ensure!(
            model.frontend.text().template.is_some(),
            "{named}: this model has no chat template, so it cannot chat: `wf run --raw` continues a \
             text with it"
        );
        let own = model.config.name.clone().filter(|name| !name.trim().is_empty());
        let of_file = || Some(Path::new(path?).file_stem()?.to_string_lossy().into_owned());
        let name = own.or_else(of_file).unwrap_or(named);
        let decode = args.decoding.mode(&model.frontend)?;
        Ok(Self { model, name, decode })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn about(&self) -> String {
        let threads = report::count(self.model.threads, "thread");
        format!("{} on {threads} · context {} tokens", self.model.isa, self.context_len())
    }

    pub(crate) fn context_len(&self) -> usize {
        self.model.frontend.context_len()
    }

    pub(crate) fn ask(&self, messages: &[Message], sampling: &SamplingArgs) -> Result<LocalReply> {
        let messages = messages
            .iter()
            .map(|message| ChatMessage::new(message.role.as_str(), message.content.as_str()));
        let generate = sampling.generate(Input::Chat(messages.collect()));
        let generate = Generate { decode: self.decode, ..generate };
        match self.model.frontend.generate(generate) {
            Ok(stream) => Ok(LocalReply { stream }),
            Err(FrontendError::Refused(Refused::TooLong { tokens, limit })) => bail!(
                "the context is full: the conversation has {tokens} tokens, and with an answer at \
                 most {limit} fit; /undo takes the last turn back, /new starts over"
            ),
            Err(error) => Err(error.into()),
        }
    }
}

/// An answer being written.
pub(crate) struct LocalReply {
    stream: TextStream,
}

impl LocalReply {
    pub(crate) async fn next(&mut self) -> Result<Part> {
        loop {
            match self.stream.next_piece().await {
                Some(Ok(Piece::Text { text, .. })) if text.is_empty() => {}
                Some(Ok(Piece::Text { text, .. })) => return Ok(Part::Text(text)),
                Some(Ok(Piece::Done(finish))) => {
                    return Ok(Part::Done(finish.reason.name().to_owned()));
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
            reply_tokens: timings.reply_tokens,
            prompt: timings.prompt,
            reply: timings.reply,
            seed: Some(self.stream.seed()),
        }
    }
}
