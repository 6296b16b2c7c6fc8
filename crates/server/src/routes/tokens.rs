//! Between text and tokens, without computing: `/tokenize`, `/detokenize`, `/apply-template`,
//! `/tokenizer_info`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use serde_json::Value;
use tokio::task::spawn_blocking;
use wf_client::wire::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse, ErrorBody,
    Rest, TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
use wf_engine::ChatOptions;

use crate::app::{App, ServedModel};
use crate::body::read_json;
use crate::error::ApiError;
use crate::logprobs::name;
use crate::routes::chat::{check_options, messages, prompt_ids};
use crate::tools::{self, Tools};

/// Cut a text or a conversation into tokens.
#[utoipa::path(post, path = "/tokenize", tag = "Text", request_body = TokenizeRequest, responses(
    (status = 200, description = "The tokens", body = TokenizeResponse),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn tokenize(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<TokenizeResponse>, ApiError> {
    let model = app.model()?;
    let request: TokenizeRequest = read_json(request, &app.options.limits).await?;
    model.check_name(request.model.as_deref())?;
    let tokens = match (request.prompt, request.messages) {
        (Some(text), None) => {
            let begins = request.add_special_tokens.unwrap_or(false);
            let specials = request.parse_special.unwrap_or(false);
            text_ids(model, text, begins, specials).await?
        }
        (None, Some(chat)) => {
            let options = ChatOptions {
                add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
                tools: tools_in_template(request.tools)?,
                extra: request.chat_template_kwargs.unwrap_or_default(),
                ..ChatOptions::default()
            };
            prompt_ids(model, messages(&app, chat)?, options).await?
        }
        _ => {
            let message = "give either prompt (or content) or messages";
            return Err(ApiError::field("prompt", message));
        }
    };
    let tokenizer = model.frontend.tokenizer();
    let names = || tokens.iter().map(|&id| name(tokenizer, id)).collect();
    Ok(Json(TokenizeResponse {
        count: tokens.len(),
        max_model_len: model.frontend.context_len(),
        token_strs: request.return_token_strs.unwrap_or(false).then(names),
        tokens,
    }))
}

/// Tools as templates expect them.
fn tools_in_template(tools: Option<Vec<Rest>>) -> Result<Vec<Value>, ApiError> {
    let tools = tools::read::of_chat(tools, None, None)?;
    Ok(tools.as_ref().map(Tools::for_template).unwrap_or_default())
}

async fn text_ids(
    model: &ServedModel,
    text: String,
    begins: bool,
    specials: bool,
) -> Result<Vec<u32>, ApiError> {
    let frontend = model.frontend.clone();
    let ids = spawn_blocking(move || frontend.text().text_ids(&text, begins, specials));
    ids.await.map_err(|_| ApiError::internal())
}

/// Join tokens to a text.
#[utoipa::path(post, path = "/detokenize", tag = "Text", request_body = DetokenizeRequest,
    responses(
        (status = 200, description = "The text", body = DetokenizeResponse),
        (status = "default", description = "What is wrong", body = ErrorBody),
    ))]
pub(crate) async fn detokenize(
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

/// Write a conversation as the model sees it.
#[utoipa::path(post, path = "/apply-template", tag = "Text",
    request_body = ApplyTemplateRequest,
    responses(
        (status = 200, description = "The text", body = ApplyTemplateResponse),
        (status = "default", description = "What is wrong", body = ErrorBody),
    ))]
pub(crate) async fn apply_template(
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
    let messages = messages(&app, request.messages)?;
    let frontend = model.frontend.clone();
    let rendered = spawn_blocking(move || frontend.text().chat_prompt(&messages, options));
    let prompt = rendered.await.map_err(|_| ApiError::internal())??;
    Ok(Json(ApplyTemplateResponse { prompt: prompt.text().to_owned() }))
}

/// What a client that counts tokens for itself needs to know.
#[utoipa::path(get, path = "/tokenizer_info", tag = "Text", responses(
    (status = 200, description = "The tokenizer", body = TokenizerInfo),
    (status = "default", description = "What is wrong", body = ErrorBody),
))]
pub(crate) async fn tokenizer_info(
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
