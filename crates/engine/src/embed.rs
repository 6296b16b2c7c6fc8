//! Texts become vectors: runs on the caller's thread, as the frontend does.
//!
//! The engine reads a text as it reads a prompt and joins the hidden states of its tokens
//! (`decode/embedder.rs`). What is left to do here is to give the vector the length it was asked to
//! have, and the length 1.

use std::time::Instant;

use wf_model::{Pooling, TokenId};

use crate::frontend::{Frontend, FrontendError};
use crate::handle::Events;
use crate::open::ModelText;
use crate::request::{Event, FinishReason};

/// A text to embed, as token numbers.
#[derive(Clone, Debug)]
pub struct Embed {
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// Which hidden states the vector is made of; the model's own way if there is none.
    pub pooling: Option<Pooling>,
    /// How many numbers the vector has; all of them if there is no number.
    pub dimensions: Option<usize>,
    /// Only texts with the same salt share K/V of what they begin with.
    pub cache_salt: u64,
    /// Higher runs first.
    pub priority: i32,
    /// When to give up.
    pub deadline: Option<Instant>,
}

impl Embed {
    /// The model's own vector of `tokens`.
    pub fn new(tokens: Vec<TokenId>) -> Self {
        Self { tokens, pooling: None, dimensions: None, cache_salt: 0, priority: 0, deadline: None }
    }
}

/// A vector being computed. Dropping it cancels that.
pub struct Embedding {
    events: Events,
    dimensions: usize,
    vector: Vec<f32>,
}

impl ModelText {
    /// The token numbers of a text to embed: what the tokenizer puts around a text is put there, and
    /// the names of special tokens stand for those tokens.
    pub fn embed_ids(&self, text: &str) -> Vec<TokenId> {
        let mut ids = self.text_ids(text, true, true);
        let end = self.tokenizer.prompt_suffix();
        if !ids.ends_with(end) {
            ids.extend_from_slice(end);
        }
        ids
    }
}

impl Frontend {
    /// How many numbers a vector has.
    pub fn embedding_len(&self) -> usize {
        self.engine().hidden_len()
    }

    /// How vectors are made unless a request says otherwise: as the model's makers say, or else of
    /// the last token, the only one that has seen the whole text.
    pub fn pooling(&self) -> Pooling {
        self.text().pooling.unwrap_or(Pooling::Last)
    }

    /// Starts to embed a text.
    pub fn embed(&self, embed: Embed) -> Result<Embedding, FrontendError> {
        let pooling = embed.pooling.unwrap_or_else(|| self.pooling());
        let dimensions = embed.dimensions.unwrap_or(self.embedding_len());
        let events = self.engine().embed(pooling, embed)?;
        Ok(Embedding { events, dimensions, vector: Vec::new() })
    }
}

impl Embedding {
    /// The vector, of length 1, once it is computed.
    pub async fn vector(mut self) -> Result<Vec<f32>, FrontendError> {
        loop {
            let event = self.events.next().await.map(|(_, event)| event);
            if let Some(end) = self.take(event) {
                return end;
            }
        }
    }

    /// The same, waiting for it.
    pub fn vector_blocking(mut self) -> Result<Vec<f32>, FrontendError> {
        loop {
            let event = self.events.next_blocking();
            if let Some(end) = self.take(event) {
                return end;
            }
        }
    }

    fn take(&mut self, event: Option<Event>) -> Option<Result<Vec<f32>, FrontendError>> {
        match event {
            None => Some(Err(FrontendError::EngineStopped)),
            Some(Event::Embedding(vector)) => {
                self.vector = vector;
                None
            }
            Some(Event::Done(reason)) => Some(match reason {
                FinishReason::Stop | FinishReason::Length => {
                    Ok(unit(std::mem::take(&mut self.vector), self.dimensions))
                }
                FinishReason::Deadline => Err(FrontendError::DeadlinePassed),
                FinishReason::NoFiniteScore => Err(FrontendError::NoFiniteScore { tokens: 0 }),
                // Nothing is picked here, so no grammar can end it.
                FinishReason::DeadEnd | FinishReason::Failed => Err(FrontendError::StepFailed),
            }),
            Some(_) => None,
        }
    }
}

/// The first numbers of a vector, scaled to length 1. A vector of zeros stays one.
fn unit(mut vector: Vec<f32>, dimensions: usize) -> Vec<f32> {
    vector.truncate(dimensions);
    // One number after another, in double precision: the same sum on every machine.
    let square: f64 = vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    if square > 0.0 {
        let scale = 1.0 / square.sqrt();
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_vector_has_length_one_too() {
        assert_eq!(unit(vec![3.0, 4.0, 12.0], 2), [0.6, 0.8]);
        assert_eq!(unit(vec![0.0, -2.0], 2), [0.0, -1.0]);
        assert_eq!(unit(vec![0.0, 0.0], 2), [0.0, 0.0]);
        // Squares that a float cannot hold.
        let large = 2_f32.powi(100);
        assert_eq!(unit(vec![3.0 * large, 4.0 * large], 2), [0.6, 0.8]);
    }
}
