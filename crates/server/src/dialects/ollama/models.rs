//! Models in Ollama's API: `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wf_api::wire::JsonObject;
use wf_core::SamplingParams;

use super::rfc3339;
use crate::app::App;
use crate::error::ApiError;
use crate::generation::Addressed;
use crate::http::body::RequestBody;
use crate::http::viewer::Viewer;
use crate::models::{Listing, Profile};

/// Expiry of a model that is never unloaded: the last second that all clients can parse.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// List of models.
#[derive(Serialize, ToSchema)]
pub(super) struct OllamaModels {
    models: Vec<OllamaModel>,
}

/// Description of a model.
#[derive(Serialize, ToSchema)]
struct OllamaModel {
    name: String,
    model: String,
    modified_at: String,
    /// Size of its files in bytes.
    size: u64,
    digest: String,
    details: OllamaDetails,
    /// Memory state, in `/api/ps`.
    #[serde(flatten)]
    running: OllamaRunning,
}

/// Memory state of a model. All fields are set, or none.
#[derive(Clone, Default, Serialize, ToSchema)]
struct OllamaRunning {
    /// Time at which it is unloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Always 0: models run on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_vram: Option<u64>,
    /// Maximum number of tokens of prompt and completion together.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<usize>,
}

/// Properties of a model.
#[derive(Serialize, ToSchema)]
struct OllamaDetails {
    parent_model: String,
    format: String,
    family: String,
    families: Vec<String>,
    parameter_size: String,
    quantization_level: String,
}

impl OllamaDetails {
    fn new(listing: &Listing, parameters: Option<u64>) -> Self {
        Self {
            parent_model: String::new(),
            format: listing.format.clone(),
            family: listing.architecture.clone(),
            families: vec![listing.architecture.clone()],
            parameter_size: parameters.map(parameter_size).unwrap_or_default(),
            quantization_level: "1.58-bit".to_owned(),
        }
    }
}

/// Formats a number of parameters as the names of models do: `2.4B`.
fn parameter_size(parameters: u64) -> String {
    let units = [(1e9, "B"), (1e6, "M"), (1e3, "K")];
    let number = parameters as f64;
    let unit = units.into_iter().find(|(unit, _)| number >= *unit);
    unit.map_or_else(
        || parameters.to_string(),
        |(unit, name)| format!("{:.1}{name}", number / unit),
    )
}

pub(super) async fn tags(viewer: Viewer) -> Result<Json<OllamaModels>, ApiError> {
    list(&viewer, |_| Some(OllamaRunning::default()))
}

pub(super) async fn ps(viewer: Viewer) -> Result<Json<OllamaModels>, ApiError> {
    let models = viewer.app.models()?;
    list(&viewer, |at| {
        let profile = models.known_profile(at).filter(|_| models.is_loaded(at))?;
        Some(OllamaRunning {
            expires_at: Some(NEVER.to_owned()),
            size_vram: Some(0),
            context_length: Some(profile.context_len),
        })
    })
}

/// Lists the names of the models for which there is a memory state.
fn list(
    viewer: &Viewer,
    running: impl Fn(usize) -> Option<OllamaRunning>,
) -> Result<Json<OllamaModels>, ApiError> {
    let registry = viewer.app.models()?;
    let mut models = Vec::new();
    for at in registry.open_to(viewer.caller()?) {
        let Some(running) = running(at) else { continue };
        let (listing, profile) = (registry.listing(at), registry.known_profile(at));
        models.extend(listing.names.iter().map(|name| OllamaModel {
            name: name.clone(),
            model: name.clone(),
            modified_at: rfc3339(viewer.app.created),
            size: listing.size_bytes,
            digest: profile.as_ref().map(|known| known.digest.clone()).unwrap_or_default(),
            details: OllamaDetails::new(listing, profile.as_ref().map(|known| known.parameters)),
            running: running.clone(),
        }));
    }
    Ok(Json(OllamaModels { models }))
}

/// Name of a model.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct OllamaShowRequest {
    /// Name of the model.
    #[serde(rename = "model")]
    _model: Option<String>,
    /// Former name of `model`.
    #[serde(rename = "name")]
    _name: Option<String>,
    /// Accepted and ignored.
    #[serde(rename = "verbose")]
    _verbose: Option<bool>,
}

impl RequestBody for OllamaShowRequest {
    const MODEL_FIELDS: &'static [&'static str] = &["model", "name"];
}

/// Details of a model.
#[derive(Serialize, ToSchema)]
pub(super) struct OllamaShown {
    modelfile: String,
    /// Default sampling parameters, one per line.
    parameters: String,
    /// Chat template.
    template: String,
    details: OllamaDetails,
    #[schema(value_type = Object)]
    model_info: JsonObject,
    capabilities: Vec<String>,
    modified_at: String,
}

/// Describes a model, which is loaded if it never was.
pub(super) async fn show(
    request: Addressed,
    _: OllamaShowRequest,
) -> Result<OllamaShown, ApiError> {
    let model = request.profile().await?;
    let (kind, defaults) = (&model.listing.architecture, &model.defaults);
    let specs = SamplingParams::SPECS.iter().zip(defaults.values());
    let parameters: Vec<_> = specs
        .map(|(spec, value)| match spec.name {
            "repetition_penalty" => format!("repeat_penalty {}", value as f32),
            name => format!("{name} {}", value as f32),
        })
        .collect();
    let model_info = [
        ("general.architecture".to_owned(), Value::from(kind.as_str())),
        (format!("{kind}.context_length"), Value::from(model.context_len)),
        (format!("{kind}.vocab_size"), Value::from(model.vocab_len)),
    ];
    Ok(OllamaShown {
        modelfile: format!("FROM {}\n", model.name()),
        parameters: parameters.join("\n"),
        template: model.template.clone().unwrap_or_default(),
        details: OllamaDetails::new(&model.listing, Some(model.parameters)),
        model_info: JsonObject::from_iter(model_info),
        capabilities: capabilities(&model),
        modified_at: rfc3339(request.app.created),
    })
}

/// Returns what the model can do. All models call tools, by a grammar, and embed texts.
fn capabilities(model: &Profile) -> Vec<String> {
    let thinking = model.can_think.then_some("thinking");
    let all = ["completion", "tools", "embedding"].into_iter().chain(thinking);
    all.map(str::to_owned).collect()
}

/// Result of `/api/pull`.
#[derive(Serialize, ToSchema)]
pub(super) struct OllamaPulled {
    status: &'static str,
}

/// Accepts the name of a model that is served. Nothing is ever downloaded.
pub(super) async fn pull(_: Addressed, _: OllamaPullRequest) -> Result<OllamaPulled, ApiError> {
    Ok(OllamaPulled { status: "success" })
}

/// Name of a model to pull.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct OllamaPullRequest {
    /// Name of the model.
    #[serde(rename = "model")]
    _model: Option<String>,
    /// Former name of `model`.
    #[serde(rename = "name")]
    _name: Option<String>,
    /// Accepted and ignored: the response is one line.
    #[serde(rename = "stream")]
    _stream: Option<bool>,
    /// Accepted and ignored: nothing is downloaded.
    #[serde(rename = "insecure")]
    _insecure: Option<bool>,
}

impl RequestBody for OllamaPullRequest {
    const MODEL_FIELDS: &'static [&'static str] = &["model", "name"];
}

/// Version of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct OllamaVersion {
    version: &'static str,
}

pub(super) async fn version(_: App) -> Result<OllamaVersion, ApiError> {
    Ok(OllamaVersion { version: env!("CARGO_PKG_VERSION") })
}

#[cfg(test)]
mod tests {
    use super::parameter_size;

    #[test]
    fn sizes_have_units() {
        let sizes = [(2_412_820_480, "2.4B"), (36_100_000, "36.1M"), (1_500, "1.5K"), (7, "7")];
        for (parameters, text) in sizes {
            assert_eq!(parameter_size(parameters), text);
        }
    }
}
