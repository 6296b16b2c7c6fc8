//! Sampling flags of commands that generate text.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;
use serde::{Serialize, Serializer};
use wf_core::{SamplingOverrides, SamplingParams};
use wf_engine::{GenerationRequest, PromptInput, TokenId};

use super::numbers::{parse_count, parse_whole};
use super::thinking::ThinkingArg;
use crate::output::UsageError;

/// Sampling parameters and limits. They serialize with their API names.
#[derive(ClapArgs, Clone, Debug, Serialize)]
pub(crate) struct SamplingArgs {
    /// Maximum number of tokens to generate
    #[arg(long, short = 'n', value_name = "N", default_value = "256", value_parser = parse_count)]
    pub(crate) max_tokens: usize,

    /// Minimum number of tokens to generate
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_whole::<usize>)]
    pub(crate) min_tokens: usize,

    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) params: SamplingOverrides,

    /// Add BIAS to the logit of token ID; can be repeated
    #[arg(long, value_name = "ID=BIAS", value_parser = parse_bias,
          value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(serialize_with = "biases_by_token")]
    pub(crate) logit_bias: Vec<(TokenId, f32)>,

    /// Seed of the random numbers [default: random, and printed]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,

    /// Stop at this text; can be repeated
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) stop: Vec<String>,

    /// Thinking of a model that thinks: on, off, or the maximum number of tokens [default: as the model does]
    #[arg(long, value_name = "MODE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<ThinkingArg>,

    /// Continue after the model's EOS token
    #[arg(long)]
    pub(crate) ignore_eos: bool,
}

impl SamplingArgs {
    /// Returns an error if options contradict each other.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let (min, max) = (self.min_tokens, self.max_tokens);
        let message = || format!("--min-tokens ({min}) must not exceed --max-tokens ({max})");
        if min <= max { Ok(()) } else { Err(UsageError::new(message())) }
    }

    pub(crate) fn params(&self) -> SamplingParams {
        let logit_bias = self.logit_bias.clone();
        SamplingParams { logit_bias, ..SamplingParams::default().with(&self.params) }
    }

    /// Returns a request for a response to `input`.
    pub(crate) fn generate(&self, input: PromptInput) -> GenerationRequest {
        GenerationRequest {
            sampling: self.params(),
            seed: self.seed,
            max_tokens: Some(self.max_tokens),
            min_tokens: self.min_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            enable_thinking: self.thinking.map(ThinkingArg::is_on),
            max_thinking_tokens: self.thinking.and_then(ThinkingArg::max_tokens),
            ..GenerationRequest::new(input)
        }
    }
}

/// Serializes biases as in the API: an object from token id to bias.
fn biases_by_token<S: Serializer>(biases: &[(TokenId, f32)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(biases.iter().map(|(token, bias)| (token.to_string(), bias)))
}

fn parse_bias(text: &str) -> Result<(TokenId, f32), String> {
    let invalid = || "must be ID=BIAS, for example 42=-5".to_owned();
    let (id, bias) = text.split_once('=').ok_or_else(invalid)?;
    Ok((id.trim().parse().map_err(|_| invalid())?, bias.trim().parse().map_err(|_| invalid())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_an_id_and_a_number() {
        assert_eq!(parse_bias("42=-5"), Ok((42, -5.0)));
        assert!(parse_bias("42").is_err());
        assert!(parse_bias("x=1").is_err());
    }
}
