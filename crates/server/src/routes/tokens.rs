//! Tokenizer and chat template: `/tokenize`, `/detokenize`, `/apply-template`, `/tokenizer_info`.

use axum::Json;
use serde_json::Value;
use wf_api::wire::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse, JsonObject,
    TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
use wf_engine::ChatOptions;

use crate::dialects::CHAT_TOOLS;
use crate::error::ApiError;
use crate::generation::conversation::{check_arguments, check_options, read_messages};
use crate::generation::fields::check_count;
use crate::generation::logprobs::token_name;
use crate::generation::{Context, Prompt, ToolChoice, Tools};
use crate::http::body::{Names, RequestBody};
use crate::http::viewer::Viewer;

/// Maximum number of tokens whose texts a response has: each may be long.
const MAX_TOKENS: usize = 64 << 10;

impl RequestBody for TokenizeRequest {
    const OTHER_NAMES: Names = &[("prompt", "content"), ("prompt", "text")];
}

impl RequestBody for DetokenizeRequest {
    const TOKEN_LISTS: &'static [&'static str] = &["tokens"];
}

impl RequestBody for ApplyTemplateRequest {}

pub(super) async fn tokenize(
    cx: Context,
    request: TokenizeRequest,
) -> Result<TokenizeResponse, ApiError> {
    let model = &cx.model;
    let tokens = match (request.prompt, request.messages) {
        (Some(text), None) => {
            // By default these are the tokens that a completion of the text runs.
            let add_bos = request.add_special_tokens.unwrap_or(true);
            let parse_specials = request.parse_special.unwrap_or(true);
            model.run(move |f| f.text().text_ids(&text, add_bos, parse_specials)).await?
        }
        (None, Some(chat)) => {
            let options = ChatOptions {
                add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
                tools: tools_in_template(&cx, request.tools.as_deref())?,
                extra: request.chat_template_kwargs.unwrap_or_default(),
                ..ChatOptions::default()
            };
            let messages = read_messages(&cx.app, chat)?;
            Prompt::Chat { messages, options }.tokenize(model).await?.prompts.concat()
        }
        _ => {
            let message = "expected either prompt (or content) or messages";
            return Err(ApiError::field("prompt", message));
        }
    };
    let tokenizer = model.frontend.tokenizer();
    let returns_names = request.return_token_strs.unwrap_or(false);
    if returns_names && tokens.len() > MAX_TOKENS {
        let what = format!("the text has {} tokens: must have at most {MAX_TOKENS}", tokens.len());
        return Err(ApiError::at("return_token_strs", &what));
    }
    let names = || tokens.iter().map(|&id| token_name(tokenizer, id)).collect();
    Ok(TokenizeResponse {
        count: tokens.len(),
        max_model_len: model.max_len,
        token_strs: returns_names.then(names),
        tokens,
    })
}

fn tools_in_template(cx: &Context, tools: Option<&[JsonObject]>) -> Result<Vec<Value>, ApiError> {
    let tools = CHAT_TOOLS.read(tools, &cx.unknown_fields)?;
    let tools = Tools::new(tools, ToolChoice::Auto, true)?;
    Ok(Tools::for_template(tools.as_ref()))
}

pub(super) async fn detokenize(
    cx: Context,
    request: DetokenizeRequest,
) -> Result<DetokenizeResponse, ApiError> {
    let model = &cx.model;
    let tokenizer = model.frontend.tokenizer();
    check_count("tokens", request.tokens.len(), MAX_TOKENS)?;
    if let Some(unknown) = request.tokens.iter().find(|&&id| id as usize >= tokenizer.len()) {
        let last = tokenizer.len() - 1;
        let message = format!("tokens: {unknown} is not in the vocabulary: 0 to {last} are");
        return Err(ApiError::field("tokens", message));
    }
    let text = tokenizer.decode(&request.tokens, false);
    Ok(DetokenizeResponse { content: text.clone(), prompt: text })
}

pub(super) async fn apply_template(
    cx: Context,
    request: ApplyTemplateRequest,
) -> Result<ApplyTemplateResponse, ApiError> {
    let model = &cx.model;
    let options = ChatOptions {
        add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
        continue_final: request.continue_final_message.unwrap_or(false),
        tools: tools_in_template(&cx, request.tools.as_deref())?,
        extra: request.chat_template_kwargs.unwrap_or_default(),
        ..ChatOptions::default()
    };
    check_options(&options, request.add_generation_prompt)?;
    let messages = read_messages(&cx.app, request.messages)?;
    check_arguments(&messages)?;
    let prompt = model.run(move |f| f.text().chat_prompt(&messages, options)).await??;
    Ok(ApplyTemplateResponse { prompt: prompt.text().to_owned() })
}

pub(super) async fn tokenizer_info(viewer: Viewer) -> Result<Json<TokenizerInfo>, ApiError> {
    let model = viewer.profile().await?;
    Ok(Json(TokenizerInfo {
        tokenizer_class: "PreTrainedTokenizerFast".into(),
        bos_token: model.bos.clone(),
        eos_token: model.eos.clone(),
        pad_token: None,
        chat_template: model.template.clone(),
        vocab_size: model.tokenizer_len,
        model_max_length: model.context_len,
    }))
}
