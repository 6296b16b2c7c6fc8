//! Tokenizer and chat template: `/tokenize`, `/detokenize`, `/apply-template`, `/tokenizer_info`.

use serde_json::Value;
use wf_api::wire::{
    ApplyTemplateRequest, ApplyTemplateResponse, DetokenizeRequest, DetokenizeResponse, JsonObject,
    TokenizeRequest, TokenizeResponse, TokenizerInfo,
};
use wf_engine::ChatOptions;

use crate::app::App;
use crate::dialects::CHAT_TOOLS;
use crate::error::ApiError;
use crate::generation::conversation::{check_options, read_messages};
use crate::generation::logprobs::token_name;
use crate::generation::{Context, Prompt, ToolChoice, Tools};

pub(super) async fn tokenize(
    cx: Context,
    request: TokenizeRequest,
) -> Result<TokenizeResponse, ApiError> {
    let model = &cx.model;
    model.check_name(request.model.as_deref())?;
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
                tools: tools_in_template(request.tools)?,
                extra: request.chat_template_kwargs.unwrap_or_default(),
                ..ChatOptions::default()
            };
            let messages = read_messages(&cx.app, chat)?;
            Prompt::Chat { messages, options }.tokenize(model).await?.concat()
        }
        _ => {
            let message = "expected either prompt (or content) or messages";
            return Err(ApiError::field("prompt", message));
        }
    };
    let tokenizer = model.frontend.tokenizer();
    let names = || tokens.iter().map(|&id| token_name(tokenizer, id)).collect();
    Ok(TokenizeResponse {
        count: tokens.len(),
        max_model_len: model.frontend.context_len(),
        token_strs: request.return_token_strs.unwrap_or(false).then(names),
        tokens,
    })
}

fn tools_in_template(tools: Option<Vec<JsonObject>>) -> Result<Vec<Value>, ApiError> {
    let tools = Tools::new(CHAT_TOOLS.read(tools)?, ToolChoice::Auto, true)?;
    Ok(Tools::for_template(tools.as_ref()))
}

pub(super) async fn detokenize(
    cx: Context,
    request: DetokenizeRequest,
) -> Result<DetokenizeResponse, ApiError> {
    let model = &cx.model;
    model.check_name(request.model.as_deref())?;
    let tokenizer = model.frontend.tokenizer();
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
    model.check_name(request.model.as_deref())?;
    let options = ChatOptions {
        add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
        continue_final: request.continue_final_message.unwrap_or(false),
        tools: tools_in_template(request.tools)?,
        extra: request.chat_template_kwargs.unwrap_or_default(),
    };
    check_options(&options, request.add_generation_prompt)?;
    let messages = read_messages(&cx.app, request.messages)?;
    let prompt = model.run(move |f| f.text().chat_prompt(&messages, options)).await??;
    Ok(ApplyTemplateResponse { prompt: prompt.text().to_owned() })
}

pub(super) async fn tokenizer_info(app: App) -> Result<TokenizerInfo, ApiError> {
    let model = app.model()?;
    let text = model.frontend.text();
    Ok(TokenizerInfo {
        tokenizer_class: "PreTrainedTokenizerFast".into(),
        bos_token: text.bos_text.clone(),
        eos_token: text.eos_text.clone(),
        pad_token: None,
        chat_template: text.template_source.clone(),
        vocab_size: text.tokenizer.len(),
        model_max_length: model.frontend.context_len(),
    })
}
