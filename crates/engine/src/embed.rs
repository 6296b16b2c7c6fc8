//! Embeddings, on the caller's thread.
//!
//! The engine processes a text like a prompt and pools its hidden states (`pooling.rs`). This module truncates
//! the vector to the requested dimensions and normalises it.

use wf_model::Pooling;

use crate::error::FrontendError;
use crate::events::Events;
use crate::frontend::Frontend;
use crate::output::FinishReason;
use crate::request::{EmbeddingRequest, Event};

/// Embedding that is being computed. Dropping it cancels the request.
pub struct Embedding {
    events: Events,
    dimensions: usize,
    vector: Vec<f32>,
}

impl Frontend {
    /// Returns the number of dimensions of an embedding.
    pub fn embedding_len(&self) -> usize {
        self.engine().hidden_len()
    }

    /// Returns the default pooling: the one the model declares, else the last token, which is the only one
    /// that attends to the whole text.
    pub fn pooling(&self) -> Pooling {
        self.text().pooling.unwrap_or(Pooling::Last)
    }

    /// Starts to embed a text.
    pub fn embed(&self, request: EmbeddingRequest) -> Result<Embedding, FrontendError> {
        let pooling = request.pooling.unwrap_or_else(|| self.pooling());
        let dimensions = request.dimensions.unwrap_or(self.embedding_len());
        let events = self.engine().embed(pooling, request)?;
        Ok(Embedding { events, dimensions, vector: Vec::new() })
    }
}

impl Embedding {
    /// Waits for the normalised vector.
    pub async fn vector(mut self) -> Result<Vec<f32>, FrontendError> {
        loop {
            let event = self.events.next().await.map(|(_, event)| event);
            if let Some(end) = self.take(event) {
                return end;
            }
        }
    }

    /// Blocks until the normalised vector is computed.
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
            None => return Some(Err(FrontendError::EngineStopped)),
            Some(Event::Embedding(vector)) => self.vector = vector,
            Some(Event::Done(FinishReason::Deadline)) => {
                return Some(Err(FrontendError::DeadlinePassed));
            }
            Some(Event::Done(reason)) => {
                let vector = std::mem::take(&mut self.vector);
                return Some(reason.check(0).map(|()| unit(vector, self.dimensions)));
            }
            Some(_) => {}
        }
        None
    }
}

/// Truncates a vector and scales it to length 1. A vector of zeros stays as it is.
fn unit(mut vector: Vec<f32>, dimensions: usize) -> Vec<f32> {
    vector.truncate(dimensions);
    // A sequential sum in double precision is the same on every machine.
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
    fn a_truncated_vector_has_length_one() {
        assert_eq!(unit(vec![3.0, 4.0, 12.0], 2), [0.6, 0.8]);
        assert_eq!(unit(vec![0.0, -2.0], 2), [0.0, -1.0]);
        assert_eq!(unit(vec![0.0, 0.0], 2), [0.0, 0.0]);
        // The squares overflow an f32.
        let large = 2_f32.powi(100);
        assert_eq!(unit(vec![3.0 * large, 4.0 * large], 2), [0.6, 0.8]);
    }
}
