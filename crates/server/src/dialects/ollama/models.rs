//! Models in Ollama's API: `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wf_api::wire::JsonObject;
use wf_core::SamplingParams;

use super::{check_name, rfc3339};
use crate::app::{App, ServedModel};
use crate::error::ApiError;
use crate::generation::Context;

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
    /// Size of its files in bytes; 0 for the built-in model.
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
    fn new(model: &ServedModel) -> Self {
        let format = Path::new(&model.path).extension().and_then(|ext| ext.to_str());
        Self {
            parent_model: String::new(),
            format: format.unwrap_or("directory").to_owned(),
            family: model.architecture.clone(),
            families: vec![model.architecture.clone()],
            parameter_size: String::new(),
            quantization_level: "1.58-bit".to_owned(),
        }
    }
}

pub(super) async fn tags(app: App) -> Result<OllamaModels, ApiError> {
    let model = app.model()?;
    list(&app, model, OllamaRunning::default()).await
}

pub(super) async fn ps(app: App) -> Result<OllamaModels, ApiError> {
    let model = app.model()?;
    let running = OllamaRunning {
        expires_at: Some(NEVER.to_owned()),
        size_vram: Some(0),
        context_length: Some(model.frontend.context_len()),
    };
    list(&app, model, running).await
}

async fn list(
    app: &App,
    model: &ServedModel,
    running: OllamaRunning,
) -> Result<OllamaModels, ApiError> {
    let path = model.path.clone();
    let size = model.run(move |_| file_size(Path::new(&path))).await?;
    let one = |name: &String| OllamaModel {
        name: name.clone(),
        model: name.clone(),
        modified_at: rfc3339(app.created),
        size,
        digest: model.digest.clone(),
        details: OllamaDetails::new(model),
        running: running.clone(),
    };
    Ok(OllamaModels { models: model.names.iter().map(one).collect() })
}

/// Returns the size of a file, or of the files in a directory.
fn file_size(path: &Path) -> u64 {
    let len = |path: &Path| fs::metadata(path).ok().filter(|file| file.is_file()).map(|f| f.len());
    if let Some(len) = len(path) {
        return len;
    }
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| len(&file.path())).sum()
}

/// Name of a model.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct OllamaShowRequest {
    /// Name of the model.
    model: Option<String>,
    /// Former name of `model`.
    name: Option<String>,
    /// Accepted and ignored.
    #[serde(rename = "verbose")]
    _verbose: Option<bool>,
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

pub(super) async fn show(cx: Context, request: OllamaShowRequest) -> Result<OllamaShown, ApiError> {
    let Context { app, model, .. } = &cx;
    check_name(model, request.model.as_deref().or(request.name.as_deref()))?;
    let (text, kind, defaults) = (model.frontend.text(), &model.architecture, &model.defaults);
    let specs = SamplingParams::SPECS.iter().zip(defaults.values());
    let parameters: Vec<_> = specs
        .map(|(spec, value)| match spec.name {
            "repetition_penalty" => format!("repeat_penalty {}", value as f32),
            name => format!("{name} {}", value as f32),
        })
        .collect();
    let model_info = [
        ("general.architecture".to_owned(), Value::from(kind.as_str())),
        (format!("{kind}.context_length"), Value::from(model.frontend.context_len())),
        (format!("{kind}.vocab_size"), Value::from(model.frontend.engine().vocab_len())),
    ];
    Ok(OllamaShown {
        modelfile: format!("FROM {}\n", model.name()),
        parameters: parameters.join("\n"),
        template: text.template_source.clone().unwrap_or_default(),
        details: OllamaDetails::new(model),
        model_info: JsonObject::from_iter(model_info),
        capabilities: vec!["completion".to_owned(), "tools".to_owned()],
        modified_at: rfc3339(app.created),
    })
}

/// Version of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct OllamaVersion {
    version: &'static str,
}

pub(super) async fn version(_: App) -> Result<OllamaVersion, ApiError> {
    Ok(OllamaVersion { version: env!("CARGO_PKG_VERSION") })
}
