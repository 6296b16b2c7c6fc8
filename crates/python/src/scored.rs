//! Log probabilities of a completion that is given, not sampled.

use wf::local::{Error, LocalModel};
use wf_engine::{
    FrontendError, GenerationRequest, PromptInput, RequestError, TextEvent, TextStream,
};

use crate::completion::TokenLogprob;

/// A completion whose log probabilities are being computed.
pub(crate) struct Scored {
    stream: TextStream,
    /// Number of tokens of the completion, at the end of the prompt of the stream.
    len: usize,
}

impl Scored {
    /// Submits prompt and completion as one prompt, with no token to generate.
    pub(crate) fn start(
        model: &LocalModel,
        prompt: &PromptInput,
        completion: &PromptInput,
        top: usize,
    ) -> Result<Self, Error> {
        let text = model.frontend().text();
        let mut ids = text.prompt_ids(prompt)?;
        let completion = match completion {
            PromptInput::Text(completion) => text.text_ids(completion, false, false),
            other => text.prompt_ids(other)?,
        };
        // The first token of all has no log probability.
        if ids.is_empty() {
            return Err(FrontendError::from(RequestError::EmptyPrompt).into());
        }
        let len = completion.len();
        ids.extend(completion);
        let request = GenerationRequest {
            max_tokens: Some(0),
            prompt_logprobs: Some(top),
            ..GenerationRequest::new(PromptInput::Tokens(ids))
        };
        Ok(Self { stream: model.frontend().generate(request)?, len })
    }

    /// Waits for the log probabilities of the completion.
    pub(crate) async fn finish(mut self, model: &LocalModel) -> Result<Vec<TokenLogprob>, Error> {
        let mut logprobs = Vec::new();
        while let Some(event) = self.stream.next_event().await {
            if let TextEvent::PromptLogprobs(more) = event? {
                logprobs.extend(more);
            }
        }
        let ids = self.stream.prompt_ids();
        let (ids, logprobs) =
            (&ids[ids.len() - self.len..], logprobs.split_off(logprobs.len() - self.len));
        let text = model.frontend().text();
        let pairs = ids.iter().zip(logprobs);
        Ok(pairs.map(|(&id, logprobs)| TokenLogprob::new(text, id, logprobs)).collect())
    }
}
