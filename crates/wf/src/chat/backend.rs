//! The source of responses: a local model, or a server.

use anyhow::Result;

use super::conversation::Message;
use super::local::{Local, LocalResponse};
use super::remote::{Remote, RemoteResponse};
use super::response::{About, Chunk, Counts};
use super::settings::Settings;

pub(crate) enum Backend {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

impl Backend {
    /// Returns `true` if it has defaults of its own for settings that are not set.
    pub(crate) fn has_own_defaults(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    pub(crate) fn about(&self) -> &About {
        match self {
            Self::Local(local) => &local.about,
            Self::Remote(remote) => &remote.about,
        }
    }

    pub(crate) async fn respond(
        &self,
        messages: &[Message],
        settings: &Settings,
    ) -> Result<Response> {
        Ok(match self {
            Self::Local(local) => Response::Local(local.respond(messages, settings.sampling())?),
            Self::Remote(remote) => {
                Response::Remote(remote.respond(messages, &settings.chosen()).await?)
            }
        })
    }
}

/// A response being generated. Dropping it cancels it.
pub(crate) enum Response {
    Local(LocalResponse),
    Remote(RemoteResponse),
}

impl Response {
    /// Waits for the next chunk. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Chunk> {
        match self {
            Self::Local(response) => response.next().await,
            Self::Remote(response) => response.next().await,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Local(response) => response.counts(),
            Self::Remote(response) => response.counts(),
        }
    }
}
