//! What Ollama tells of models: `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

use std::fs;
use std::path::Path;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use wf_client::wire::{OllamaError, Rest};

use super::check_name;
use super::date::rfc3339;
use crate::app::{App, ServedModel};
use crate::body::read_json;
use crate::error::ApiError;

/// When a model goes that never goes: the last second that all clients can read.
const NEVER: u64 = 253_402_300_799;

/// The models there are.
#[derive(Serialize, ToSchema)]
pub(crate) struct OllamaModels {
    models: Vec<OllamaModel>,
}

/// A model.
#[derive(Serialize, ToSchema)]
struct OllamaModel {
    name: String,
    model: String,
    modified_at: String,
    /// Bytes of its files; 0 where it is part of the program.
    size: u64,
    digest: String,
    details: OllamaDetails,
    /// How it is in memory, where that was asked.
    #[serde(flatten)]
    running: OllamaRunning,
}

/// How a model is in memory. All of it is there, or nothing.
#[derive(Clone, Default, Serialize, ToSchema)]
struct OllamaRunning {
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Always 0: it is the CPU that computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_vram: Option<u64>,
    /// The most tokens that prompt and reply may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<usize>,
}

/// What kind of model it is.
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

/// The models there are.
#[utoipa::path(get, path = "/api/tags", tag = "Ollama", responses(
    (status = 200, description = "All of them", body = OllamaModels),
    (status = "default", description = "What is wrong", body = OllamaError),
))]
pub(crate) async fn tags(State(app): State<App>) -> Result<Json<OllamaModels>, ApiError> {
    let model = app.model()?;
    list(&app, model, OllamaRunning::default()).await
}

/// The models in memory: the same.
#[utoipa::path(get, path = "/api/ps", tag = "Ollama", responses(
    (status = 200, description = "All of them", body = OllamaModels),
    (status = "default", description = "What is wrong", body = OllamaError),
))]
pub(crate) async fn ps(State(app): State<App>) -> Result<Json<OllamaModels>, ApiError> {
    let model = app.model()?;
    let running = OllamaRunning {
        expires_at: Some(rfc3339(NEVER)),
        size_vram: Some(0),
        context_length: Some(model.frontend.context_len()),
    };
    list(&app, model, running).await
}

async fn list(
    app: &App,
    model: &ServedModel,
    running: OllamaRunning,
) -> Result<Json<OllamaModels>, ApiError> {
    let path = model.path.clone();
    let size = spawn_blocking(move || bytes_of_files(Path::new(&path)));
    let size = size.await.map_err(|_| ApiError::internal())?;
    let one = |name: &String| OllamaModel {
        name: name.clone(),
        model: name.clone(),
        modified_at: rfc3339(app.created),
        size,
        digest: model.digest.clone(),
        details: OllamaDetails::new(model),
        running: running.clone(),
    };
    Ok(Json(OllamaModels { models: model.names.iter().map(one).collect() }))
}

/// Bytes of a file, or of the files of a directory; 0 of what is neither.
fn bytes_of_files(path: &Path) -> u64 {
    let len = |path: &Path| fs::metadata(path).ok().filter(|file| file.is_file()).map(|f| f.len());
    if let Some(len) = len(path) {
        return len;
    }
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| len(&file.path())).sum()
}

/// Which model.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct OllamaShowRequest {
    /// Its name.
    model: Option<String>,
    /// The older name of the same field.
    name: Option<String>,
    /// Accepted; all there is is told anyway.
    #[serde(rename = "verbose")]
    _verbose: Option<bool>,
}

/// A model, in detail.
#[derive(Serialize, ToSchema)]
pub(crate) struct OllamaShown {
    modelfile: String,
    /// How tokens are drawn where a request does not say, a line each.
    parameters: String,
    /// The template of conversations.
    template: String,
    details: OllamaDetails,
    #[schema(value_type = Object)]
    model_info: Rest,
    capabilities: Vec<String>,
    modified_at: String,
}

/// Tell of a model.
#[utoipa::path(post, path = "/api/show", tag = "Ollama", request_body = OllamaShowRequest,
    responses(
        (status = 200, description = "The model", body = OllamaShown),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn show(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<OllamaShown>, ApiError> {
    let model = app.model()?;
    let request: OllamaShowRequest = read_json(request, &app.options.limits).await?;
    check_name(model, request.model.as_deref().or(request.name.as_deref()))?;
    let (text, kind, defaults) = (model.frontend.text(), &model.architecture, &model.defaults);
    let parameters = [
        format!("temperature {}", defaults.temperature),
        format!("top_k {}", defaults.top_k),
        format!("top_p {}", defaults.top_p),
        format!("min_p {}", defaults.min_p),
        format!("repeat_penalty {}", defaults.repetition_penalty),
    ];
    let model_info = [
        ("general.architecture".to_owned(), Value::from(kind.as_str())),
        (format!("{kind}.context_length"), Value::from(model.frontend.context_len())),
        (format!("{kind}.vocab_size"), Value::from(model.frontend.engine().vocab_len())),
    ];
    Ok(Json(OllamaShown {
        modelfile: format!("FROM {}\n", model.name()),
        parameters: parameters.join("\n"),
        template: text.template_source.clone().unwrap_or_default(),
        details: OllamaDetails::new(model),
        model_info: Rest::from_iter(model_info),
        capabilities: vec!["completion".to_owned(), "tools".to_owned()],
        modified_at: rfc3339(app.created),
    }))
}

/// The version of this program.
#[derive(Serialize, ToSchema)]
pub(crate) struct OllamaVersion {
    version: &'static str,
}

/// The version of this program.
#[utoipa::path(get, path = "/api/version", tag = "Ollama", operation_id = "ollama_version",
    responses(
        (status = 200, description = "The version", body = OllamaVersion),
        (status = "default", description = "What is wrong", body = OllamaError),
    ))]
pub(crate) async fn version() -> Json<OllamaVersion> {
    Json(OllamaVersion { version: env!("CARGO_PKG_VERSION") })
}
