//! Sampling parameters that a model recommends.

use serde_json::{Map, Value, json};

use crate::config::settings::Settings;
use crate::error::Error;
use crate::gguf::value::Metadata;

/// Recommended sampling parameters: `generation_config.json`, or `general.sampling.*` in a GGUF file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// Temperature; 0 is greedy decoding.
    pub temperature: Option<f64>,
    /// Number of most likely tokens to sample from.
    pub top_k: Option<usize>,
    /// Total probability of the most likely tokens to sample from.
    pub top_p: Option<f64>,
    /// Minimum probability of a token, relative to the most likely one.
    pub min_p: Option<f64>,
    /// Factor that reduces the logits of tokens already present.
    pub repetition_penalty: Option<f64>,
}

impl GenerationDefaults {
    /// Reads `generation_config.json`.
    pub(crate) fn from_json(settings: &Settings) -> Result<Self, Error> {
        // Without `do_sample`, transformers ignores the temperature.
        let temperature = match settings.bool("do_sample")? {
            Some(false) => Some(0.0),
            Some(true) => Some(settings.number("temperature")?.unwrap_or(1.0)),
            None => None,
        };
        Ok(Self {
            temperature,
            top_k: settings.optional_size("top_k")?,
            top_p: settings.number("top_p")?,
            min_p: settings.number("min_p")?,
            repetition_penalty: settings.number("repetition_penalty")?,
        })
    }

    /// Returns the contents of a `generation_config.json`.
    pub(crate) fn to_json(self) -> Map<String, Value> {
        let mut values = Map::new();
        if let Some(temperature) = self.temperature {
            let samples = temperature > 0.0;
            values.insert("do_sample".to_owned(), json!(samples));
            if samples {
                values.insert("temperature".to_owned(), json!(temperature));
            }
        }
        let others = [
            ("top_k", self.top_k.map(|k| json!(k))),
            ("top_p", self.top_p.map(|p| json!(p))),
            ("min_p", self.min_p.map(|p| json!(p))),
            ("repetition_penalty", self.repetition_penalty.map(|penalty| json!(penalty))),
        ];
        values.extend(others.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        values
    }

    /// Reads the metadata of a GGUF file.
    pub(crate) fn from_gguf(metadata: &Metadata<'_>) -> Result<Self, Error> {
        Ok(Self {
            temperature: metadata.float("general.sampling.temp")?,
            top_k: metadata.u32("general.sampling.top_k")?.map(|k| k as usize),
            top_p: metadata.float("general.sampling.top_p")?,
            min_p: metadata.float("general.sampling.min_p")?,
            repetition_penalty: metadata.float("general.sampling.penalty_repeat")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> GenerationDefaults {
        let settings = Settings::parse("generation_config.json", json.as_bytes()).unwrap();
        GenerationDefaults::from_json(&settings).unwrap()
    }

    #[test]
    fn a_temperature_counts_only_where_tokens_are_sampled() {
        assert_eq!(read(r#"{"temperature": 0.6}"#).temperature, None);
        assert_eq!(read(r#"{"do_sample": false, "temperature": 0.6}"#).temperature, Some(0.0));
        assert_eq!(read(r#"{"do_sample": true, "temperature": 0.6}"#).temperature, Some(0.6));
        assert_eq!(read(r#"{"do_sample": true, "top_k": 20}"#).temperature, Some(1.0));
        assert_eq!(read(r#"{"do_sample": true, "top_k": 20}"#).top_k, Some(20));
    }

    #[test]
    fn what_is_written_is_read() {
        let some = GenerationDefaults {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            min_p: Some(0.05),
            repetition_penalty: Some(1.1),
        };
        let greedy = GenerationDefaults { temperature: Some(0.0), ..some };
        for defaults in [some, greedy, GenerationDefaults::default()] {
            assert_eq!(read(&Value::Object(defaults.to_json()).to_string()), defaults);
        }
    }
}
