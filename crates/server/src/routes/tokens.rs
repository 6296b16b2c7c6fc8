//! Tokenizer and chat template: `/tokenize`, `/detokenize`, `/apply-template`, `/tokenizer_info`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use serde_json::Value;
use tokio::task::spawn_blocking;
use wf_api::wire::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse, ErrorBody,
    JsonObject, TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
use wf_engine::ChatOptions;

use crate::app::{App, ServedModel};
use crate::dialects::CHAT_TOOLS;
use crate::error::ApiError;
use crate::generation::Prompt;
use crate::generation::conversation::{check_options, read_messages};
use crate::generation::logprobs::token_name;
use crate::generation::tools::{ToolChoice, Tools};
use crate::http::body::read_json;

/// Tokenizes a text or a conversation.
#[utoipa::path(post, path = "/tokenize", tag = "Text", request_body = TokenizeRequest, responses(
    (status = 200, description = "The tokens", body = TokenizeResponse),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn tokenize(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<TokenizeResponse>, ApiError> {
    let model = app.model()?;
    let request: TokenizeRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let tokens = match (request.prompt, request.messages) {
        (Some(text), None) => {
            let add_bos = request.add_special_tokens.unwrap_or(false);
            let parse_specials = request.parse_special.unwrap_or(false);
            text_ids(model, text, add_bos, parse_specials).await?
        }
        (None, Some(chat)) => {
            let options = ChatOptions {
                add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
                tools: tools_in_template(request.tools)?,
                extra: request.chat_template_kwargs.unwrap_or_default(),
                ..ChatOptions::default()
            };
            let messages = read_messages(&app, chat)?;
            Prompt::Chat { messages, options }.tokenize(model).await?.concat()
        }
        _ => {
            let message = "expected either prompt (or content) or messages";
            return Err(ApiError::field("prompt", message));
        }
    };
    let tokenizer = model.frontend.tokenizer();
    let names = || tokens.iter().map(|&id| token_name(tokenizer, id)).collect();
    Ok(Json(TokenizeResponse {
        count: tokens.len(),
        max_model_len: model.frontend.context_len(),
        token_strs: request.return_token_strs.unwrap_or(false).then(names),
        tokens,
    }))
}

/// Converts tools for the chat template.
fn tools_in_template(tools: Option<Vec<JsonObject>>) -> Result<Vec<Value>, ApiError> {
    let tools = Tools::new(CHAT_TOOLS.read(tools)?, ToolChoice::Auto, true)?;
    Ok(Tools::for_template(tools.as_ref()))
}

async fn text_ids(
    model: &ServedModel,
    text: String,
    add_bos: bool,
    parse_specials: bool,
) -> Result<Vec<u32>, ApiError> {
    let frontend = model.frontend.clone();
    let ids = spawn_blocking(move || frontend.text().text_ids(&text, add_bos, parse_specials));
    ids.await.map_err(|_| ApiError::internal())
}

/// Detokenizes.
#[utoipa::path(post, path = "/detokenize", tag = "Text", request_body = DetokenizeRequest,
    responses(
        (status = 200, description = "The text", body = DetokenizeResponse),
        (status = "default", description = "Error", body = ErrorBody),
    ))]
pub(super) async fn detokenize(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<DetokenizeResponse>, ApiError> {
    let model = app.model()?;
    let request: DetokenizeRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let tokenizer = model.frontend.tokenizer();
    if let Some(unknown) = request.tokens.iter().find(|&&id| id as usize >= tokenizer.len()) {
        let last = tokenizer.len() - 1;
        let message = format!("tokens: {unknown} is not in the vocabulary: 0 to {last} are");
        return Err(ApiError::field("tokens", message));
    }
    let text = tokenizer.decode(&request.tokens, false);
    Ok(Json(DetokenizeResponse { content: text.clone(), prompt: text }))
}

/// Renders a conversation with the chat template.
#[utoipa::path(post, path = "/apply-template", tag = "Text",
    request_body = ApplyTemplateRequest,
    responses(
        (status = 200, description = "The text", body = ApplyTemplateResponse),
        (status = "default", description = "Error", body = ErrorBody),
    ))]
pub(super) async fn apply_template(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<ApplyTemplateResponse>, ApiError> {
    let model = app.model()?;
    let request: ApplyTemplateRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let options = ChatOptions {
        add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
        continue_final: request.continue_final_message.unwrap_or(false),
        tools: tools_in_template(request.tools)?,
        extra: request.chat_template_kwargs.unwrap_or_default(),
    };
    check_options(&options, request.add_generation_prompt)?;
    let messages = read_messages(&app, request.messages)?;
    let frontend = model.frontend.clone();
    let rendered = spawn_blocking(move || frontend.text().chat_prompt(&messages, options));
    let prompt = rendered.await.map_err(|_| ApiError::internal())??;
    Ok(Json(ApplyTemplateResponse { prompt: prompt.text().to_owned() }))
}

/// Describes the tokenizer.
#[utoipa::path(get, path = "/tokenizer_info", tag = "Text", responses(
    (status = 200, description = "The tokenizer", body = TokenizerInfo),
    (status = "default", description = "Error", body = ErrorBody),
))]
pub(super) async fn tokenizer_info(
    State(app): State<App>,
) -> Result<Json<TokenizerInfo>, ApiError> {
    let model = app.model()?;
    let text = model.frontend.text();
    Ok(Json(TokenizerInfo {
        tokenizer_class: "PreTrainedTokenizerFast".into(),
        bos_token: text.bos_text.clone(),
        eos_token: text.eos_text.clone(),
        pad_token: None,
        chat_template: text.template_source.clone(),
        vocab_size: text.tokenizer.len(),
        model_max_length: model.frontend.context_len(),
    }))
}
