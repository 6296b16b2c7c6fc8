//! Chat templates render as in Jinja2, for any messages.
//!
//! `data/templates.json` describes how it was recorded.
use serde::Deserialize;
use serde_json::{Map, Value};
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, SpecialTexts};

#[derive(Deserialize)]
struct Golden {
    templates: Map<String, Value>,
    chats: Map<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    style: String,
    chat: String,
    options: CaseOptions,
    text: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct CaseOptions {
    #[serde(default)]
    add_generation_prompt: bool,
    bos_token: Option<String>,
    eos_token: Option<String>,
    date: Option<String>,
    tools: Option<Value>,
    #[serde(default)]
    extra: Map<String, Value>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("data/templates.json")).unwrap()
}

fn message(value: &Value) -> ChatMessage {
    let mut extra = value.as_object().unwrap().clone();
    let mut take = |name: &str| extra.shift_remove(name).unwrap().as_str().unwrap().to_owned();
    ChatMessage { role: take("role"), content: take("content"), extra }
}

/// Special tokens of many models, including those in the "injection" chat.
fn specials() -> SpecialTexts {
    let texts = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|im_start|>",
        "<|im_end|>",
        "<s>",
        "</s>",
        "<unk>",
        "[INST]",
        "[/INST]",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|user|>",
        "<|assistant|>",
        "<|system|>",
        "<|end|>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜end▁of▁sentence｜>",
        "|<MASK>|",
    ];
    SpecialTexts::new(texts.map(String::from)).unwrap()
}

fn render(golden: &Golden, case: &Case, specials: SpecialTexts) -> Result<String, String> {
    let source = golden.templates[&case.style].as_str().unwrap();
    let messages: Vec<ChatMessage> =
        golden.chats[&case.chat].as_array().unwrap().iter().map(message).collect();
    let options = RenderOptions {
        continue_final: false,
        add_generation_prompt: case.options.add_generation_prompt,
        bos_token: case.options.bos_token.clone(),
        eos_token: case.options.eos_token.clone(),
        date: case.options.date.clone(),
        tools: case.options.tools.clone(),
        extra: case.options.extra.clone(),
        specials,
    };
    let template = ChatTemplate::new(source).map_err(|e| e.to_string())?;
    let prompt = template.render(&messages, &options).map_err(|e| e.to_string())?;
    Ok(prompt.text().to_owned())
}

#[test]
fn every_golden_case_renders_as_in_jinja2() {
    let golden = golden();
    assert!(golden.templates.len() >= 20);
    let mut wrong = Vec::new();
    for case in &golden.cases {
        for specials in [SpecialTexts::default(), specials()] {
            let found = render(&golden, case, specials);
            let right = match (&found, &case.text) {
                (Ok(found), Some(text)) => found == text,
                // Messages raised by a template are compared; messages of the engine may differ.
                (Err(found), None) => {
                    let error = case.error.as_deref().unwrap();
                    found.contains(error) || error.contains("is undefined")
                }
                _ => false,
            };
            if !right {
                let expected = case.text.as_ref().or(case.error.as_ref()).unwrap();
                wrong.push(format!("{} × {}:\n  {found:?}\n  {expected:?}", case.style, case.chat));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
