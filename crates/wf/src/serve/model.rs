//! The description of a model that a server hands out.

use std::path::Path;

use anyhow::{Result, anyhow};
use wf_core::{SamplingOverrides, SamplingParams};
use wf_engine::{DecodeMode, OpenedModel};
use wf_formats::{FormatSummary, GenerationDefaults, ModelInfo};
use wf_server::{Description, Listing, default_sampling};

use crate::args::EngineArgs;
use crate::{demo, open};

/// Returns the facts about a model that its file tells: the name is its own.
pub(crate) fn listing(format: &FormatSummary, info: &ModelInfo, path: Option<&Path>) -> Listing {
    Listing {
        names: vec![open::name(info, path).unwrap_or_else(|| "model".to_owned())],
        aliases: demo::ALIASES.iter().filter(|_| path.is_none()).map(ToString::to_string).collect(),
        path: path.map_or(demo::NAME.into(), |path| path.display().to_string()),
        format: format.kind.extension().to_owned(),
        size_bytes: format.size_bytes(),
        architecture: info.architecture.clone(),
        context_len: info.context_len,
    }
}

/// Describes a loaded model.
pub(crate) fn description(
    model: &OpenedModel,
    listing: Listing,
    engine: &EngineArgs,
    decode: DecodeMode,
    defaults: SamplingParams,
    max_running: usize,
) -> Description {
    Description {
        listing,
        digest: model.digest.clone().unwrap_or_default(),
        isa: model.isa.to_string(),
        threads: model.threads,
        kv: engine.compute.kv.to_string(),
        activation_sparsity: engine.compute.activation_sparsity.fingerprint(),
        max_running,
        memory_bytes: model.memory_bytes,
        defaults,
        decode,
    }
}

/// Returns the default parameters: those of flags, else of the model, else of the OpenAI API.
///
/// Flags are checked when they are parsed. A wrong value of the model would reject every request.
pub(crate) fn defaults(
    flags: &SamplingOverrides,
    model: &GenerationDefaults,
) -> Result<SamplingParams> {
    let recommended = open::recommended_sampling(model);
    let defaults = default_sampling().with(&flags.clone().or(&recommended));
    defaults.check(0).map_err(|error| {
        let flag = error.field.replace('_', "-");
        anyhow!("the model recommends an invalid value: {error}; set another one with --{flag}")
    })?;
    Ok(defaults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_recommendation_of_the_model_is_an_error_at_start() {
        let model = GenerationDefaults { top_p: Some(0.0), ..GenerationDefaults::default() };
        let flags = SamplingOverrides { top_p: Some(0.5), ..SamplingOverrides::default() };
        assert_eq!(defaults(&flags, &model).unwrap().top_p, 0.5);
        let error = defaults(&SamplingOverrides::default(), &model).unwrap_err().to_string();
        assert!(error.contains("top_p is 0") && error.contains("--top-p"), "{error}");
    }
}
