//! Who answers: a model on this machine, or a server.

use std::time::Duration;

use anyhow::Result;

use super::conversation::Message;
use super::local::{Local, LocalReply};
use super::remote::{Remote, RemoteReply};
use super::settings::Settings;

/// Who answers.
pub(crate) enum Backend {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

impl Backend {
    /// What the model is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Local(local) => local.name(),
            Self::Remote(remote) => remote.name(),
        }
    }

    /// What there is to say about it in a few words.
    pub(crate) fn about(&self) -> String {
        match self {
            Self::Local(local) => local.about(),
            Self::Remote(remote) => remote.about(),
        }
    }

    /// The most tokens of a conversation, if known.
    pub(crate) fn context_len(&self) -> Option<usize> {
        match self {
            Self::Local(local) => Some(local.context_len()),
            Self::Remote(remote) => remote.context_len(),
        }
    }

    /// Whether settings that nobody chose are its own business.
    pub(crate) fn has_own_settings(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Starts an answer to the last message.
    pub(crate) async fn ask(&self, messages: &[Message], settings: &Settings) -> Result<Reply> {
        Ok(match self {
            Self::Local(local) => Reply::Local(local.ask(messages, settings.sampling())?),
            Self::Remote(remote) => Reply::Remote(remote.ask(messages, &settings.chosen()).await?),
        })
    }
}

/// An answer being written. Dropping it ends it.
pub(crate) enum Reply {
    Local(LocalReply),
    Remote(RemoteReply),
}

impl Reply {
    /// What is new of it. Whoever stops waiting loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Part> {
        match self {
            Self::Local(reply) => reply.next().await,
            Self::Remote(reply) => reply.next().await,
        }
    }

    /// Tokens and times so far.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Local(reply) => reply.counts(),
            Self::Remote(reply) => reply.counts(),
        }
    }
}

/// What is new of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// It has ended, for the reason that OpenAI's API has as `finish_reason`.
    Done(String),
}

/// Tokens and times of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) prompt_tokens: usize,
    /// Those of them that did not have to be computed, if known.
    pub(crate) cached_tokens: Option<usize>,
    pub(crate) reply_tokens: usize,
    /// Until the first token.
    pub(crate) prompt: Duration,
    /// From the first token to the last.
    pub(crate) reply: Duration,
    pub(crate) seed: Option<u64>,
}

impl Counts {
    /// Tokens of the prompt computed in a second.
    pub(crate) fn prompt_rate(&self) -> f64 {
        let computed = self.prompt_tokens.saturating_sub(self.cached_tokens.unwrap_or(0));
        rate(computed, self.prompt)
    }

    /// Tokens of the reply in a second. The first comes with the prompt.
    pub(crate) fn reply_rate(&self) -> f64 {
        rate(self.reply_tokens.saturating_sub(1), self.reply)
    }

    /// Tokens of the context in use.
    pub(crate) fn used(&self) -> usize {
        self.prompt_tokens + self.reply_tokens
    }
}

/// Tokens a second; 0 where no time went by.
pub(crate) fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}
