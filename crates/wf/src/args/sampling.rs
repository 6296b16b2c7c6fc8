//! How scores become tokens: the flags that every command that writes a reply shares.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;
use serde::{Serialize, Serializer};
use wf_engine::{Generate, Input, SamplingParams, TokenId};

use super::numbers::{parse_count, parse_number, parse_whole};
use crate::report::UsageError;

/// How scores become tokens. As JSON, the fields are those of the HTTP API.
#[derive(ClapArgs, Clone, Debug, Serialize)]
#[command(next_help_heading = "Sampling (greedy unless a temperature is given)")]
pub(crate) struct SamplingArgs {
    /// Most tokens to write
    #[arg(long, short = 'n', env = "WF_MAX_TOKENS", value_name = "N", default_value = "256",
          value_parser = parse_count)]
    pub(crate) max_tokens: usize,

    /// No end before this many tokens
    #[arg(long, env = "WF_MIN_TOKENS", value_name = "N", default_value = "0",
          value_parser = parse_whole::<usize>)]
    pub(crate) min_tokens: usize,

    /// 0 takes the best token each time; around 0.7 is lively, above 1 is wild
    #[arg(long, env = "WF_TEMPERATURE", value_name = "T", default_value = "0",
          value_parser = parse_number)]
    pub(crate) temperature: f32,

    /// Choose among the K best tokens only; 0 is all
    #[arg(long, env = "WF_TOP_K", value_name = "K", default_value = "0",
          value_parser = parse_whole::<usize>)]
    pub(crate) top_k: usize,

    /// Choose among the best tokens that together have this probability
    #[arg(long, env = "WF_TOP_P", value_name = "P", default_value = "1",
          value_parser = parse_number)]
    pub(crate) top_p: f32,

    /// Leave out tokens less likely than this share of the best one's probability
    #[arg(long, env = "WF_MIN_P", value_name = "P", default_value = "0",
          value_parser = parse_number)]
    pub(crate) min_p: f32,

    /// Divide the scores of tokens already seen by this; 1 is off
    #[arg(
        long,
        visible_alias = "repeat-penalty",
        env = "WF_REPETITION_PENALTY",
        value_name = "X",
        default_value = "1",
        value_parser = parse_number
    )]
    pub(crate) repetition_penalty: f32,

    /// Subtract this from the score of tokens already written
    #[arg(
        long,
        env = "WF_PRESENCE_PENALTY",
        value_name = "X",
        default_value = "0",
        value_parser = parse_number
    )]
    pub(crate) presence_penalty: f32,

    /// Subtract this for each time a token was written
    #[arg(
        long,
        env = "WF_FREQUENCY_PENALTY",
        value_name = "X",
        default_value = "0",
        value_parser = parse_number
    )]
    pub(crate) frequency_penalty: f32,

    /// Add BIAS to the score of token ID; may be given several times
    #[arg(long, env = "WF_LOGIT_BIAS", value_name = "ID=BIAS", value_parser = parse_bias,
          value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(serialize_with = "biases_by_token")]
    pub(crate) logit_bias: Vec<(TokenId, f32)>,

    /// The same seed draws the same tokens [default: drawn, and told]
    #[arg(long, env = "WF_SEED", value_name = "N", value_parser = parse_whole::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,

    /// End the reply at this text; may be given several times
    #[arg(long, env = "WF_STOP", value_name = "TEXT",
          value_parser = NonEmptyStringValueParser::new())]
    pub(crate) stop: Vec<String>,

    /// Write on after the model's own end token
    #[arg(long, env = "WF_IGNORE_EOS")]
    pub(crate) ignore_eos: bool,
}

impl SamplingArgs {
    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let (least, most) = (self.min_tokens, self.max_tokens);
        if least > most {
            let message =
                format!("--min-tokens is {least}, more than --max-tokens, which is {most}");
            return Err(UsageError::new(message));
        }
        Ok(())
    }

    /// How one token is chosen.
    pub(crate) fn params(&self) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            ..SamplingParams::default()
        }
    }

    /// A reply to `input`.
    pub(crate) fn generate(&self, input: Input) -> Generate {
        Generate {
            sampling: self.params(),
            seed: self.seed,
            max_tokens: Some(self.max_tokens),
            min_tokens: self.min_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            ..Generate::new(input)
        }
    }
}

/// As the API has them: an object from token to bias.
fn biases_by_token<S: Serializer>(biases: &[(TokenId, f32)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(biases.iter().map(|(token, bias)| (token.to_string(), bias)))
}

fn parse_bias(text: &str) -> Result<(TokenId, f32), String> {
    let form = || "use ID=BIAS, for example 42=-5".to_owned();
    let (id, bias) = text.split_once('=').ok_or_else(form)?;
    Ok((id.trim().parse().map_err(|_| form())?, bias.trim().parse().map_err(|_| form())?))
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
