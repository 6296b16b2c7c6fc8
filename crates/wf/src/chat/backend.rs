//! The source of responses: a local model, or a server.

use anyhow::Result;
use wf_core::SamplingOverrides;

use super::conversation::Message;
use super::local::{Local, LocalResponse};
use super::remote::{Remote, RemoteResponse};
use super::response::{About, Chunk, Counts};
use super::settings::Settings;
use super::tools::Tools;

pub(crate) enum Backend {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

impl Backend {
    /// Returns `true` if it has defaults of its own for settings that are not set.
    pub(crate) fn has_own_defaults(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Returns the sampling parameters that a local model recommends. A server applies those of its own.
    pub(crate) fn recommended_sampling(&self) -> SamplingOverrides {
        match self {
            Self::Local(local) => local.recommended_sampling(),
            Self::Remote(_) => SamplingOverrides::default(),
        }
    }

    pub(crate) fn about(&self) -> &About {
        match self {
            Self::Local(local) => &local.about,
            Self::Remote(remote) => &remote.about,
        }
    }

    /// Ends a local model, once the pages that are to be kept are on disk.
    pub(crate) fn close(self) {
        if let Self::Local(local) = self {
            local.close();
        }
    }

    pub(crate) async fn respond(
        &self,
        messages: &[Message],
        settings: &Settings,
        tools: &Tools,
    ) -> Result<Response> {
        Ok(match self {
            Self::Local(local) => {
                let response = local.respond(messages, settings.sampling(), tools)?;
                Response::Local(Box::new(response))
            }
            Self::Remote(remote) => {
                let response = remote.respond(messages, &settings.chosen(), tools).await?;
                Response::Remote(Box::new(response))
            }
        })
    }
}

/// A response being generated. Dropping it cancels it.
pub(crate) enum Response {
    Local(Box<LocalResponse>),
    Remote(Box<RemoteResponse>),
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
