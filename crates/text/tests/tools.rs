//! Tools in chat templates with and without support for them.
use serde_json::{Value, json};
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, SpecialTexts, TextError, ToolFormat};

/// Returns recorded templates and two with special requirements.
fn template(name: &str) -> ChatTemplate {
    let recorded: Value = serde_json::from_str(include_str!("data/templates.json")).unwrap();
    let source = match name {
        // Requires ids of nine characters.
        "mistral-tools" => {
            "{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}\
             {%- for m in messages %}{%- if m.tool_calls is defined %}[TOOL_CALLS]\
             {%- for c in m.tool_calls %}{%- if c.id | length != 9 %}{{ raise_exception('nine') }}\
             {%- endif %}{{ c.function | tojson }}{{ c.id }}{%- endfor %}\
             {%- elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.name }} {{ m.tool_call_id }}: {{ m.content }}\
             {%- else %}[{{ m.role }}]{{ m.content }}{%- endif %}{%- endfor %}"
        }
        "no-system" => {
            "{%- for m in messages %}{%- if m.role == 'system' %}{{ raise_exception('no system') }}\
             {%- endif %}<{{ m.role }}>{{ m.content }}{%- endfor %}"
        }
        name => recorded["templates"][name].as_str().unwrap(),
    };
    ChatTemplate::new(source).unwrap()
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}])
}

/// Returns a question, a call and its result.
fn conversation() -> Vec<ChatMessage> {
    let function = json!({"name": "look_up", "arguments": "{\"what\": \"sky\"}"});
    let mut call = ChatMessage::new("assistant", "");
    call.extra
        .insert("tool_calls".into(), json!([{"id": "call_0123456789", "function": function}]));
    let mut result = ChatMessage::new("tool", "blue");
    result.extra.insert("tool_call_id".into(), "call_0123456789".into());
    vec![ChatMessage::new("user", "Which colour?"), call, result]
}

fn render(name: &str) -> Result<String, TextError> {
    let options = RenderOptions {
        tools: Some(tools()),
        add_generation_prompt: true,
        bos_token: Some("<s>".into()),
        eos_token: Some("</s>".into()),
        ..RenderOptions::default()
    };
    template(name).render_chat(&conversation(), &options).map(|prompt| prompt.text().to_owned())
}

#[test]
fn a_template_shows_how_calls_are_written() {
    for (name, format) in [
        ("qwen-thinking", ToolFormat::Hermes),
        ("llama3.1-tools", ToolFormat::Llama),
        ("mistral-tools", ToolFormat::Mistral),
        ("bitnet", ToolFormat::Hermes),
        ("no-system", ToolFormat::Hermes),
    ] {
        assert_eq!(template(name).tool_format(), format, "{name}");
    }
    let other = "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_eq!(ChatTemplate::new(other).unwrap().tool_format(), ToolFormat::Json);
    let mentions =
        "{# no tools #}{% if tools %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_eq!(ChatTemplate::new(mentions).unwrap().tool_format(), ToolFormat::Hermes);
}

#[test]
fn templates_that_know_tools_get_them_in_their_form() {
    let qwen = render("qwen-thinking").unwrap();
    assert!(
        qwen.contains("<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"look_up\"")
    );
    let call =
        "<tool_call>\n{\"name\": \"look_up\", \"arguments\": {\"what\": \"sky\"}}\n</tool_call>";
    assert!(qwen.contains(call), "{qwen}");
    assert!(qwen.contains("<tool_response>\nblue\n</tool_response>"), "{qwen}");
    let llama = render("llama3.1-tools").unwrap();
    assert!(
        llama.contains("{\"name\": \"look_up\", \"parameters\": {\"what\": \"sky\"}}"),
        "{llama}"
    );
    let mistral = render("mistral-tools").unwrap();
    assert!(mistral.contains("\"arguments\": {\"what\": \"sky\"}}000000001"), "{mistral}");
    assert!(mistral.contains("[TOOL_RESULTS]look_up 000000001: blue"), "{mistral}");
}

#[test]
fn templates_that_do_not_get_plain_text() {
    for name in ["bitnet", "llama3", "chatml", "zephyr", "phi", "gemma3", "no-system"] {
        let prompt = render(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let list = "{\"type\":\"function\",\"function\":{\"name\":\"look_up\"";
        assert!(prompt.contains(list), "{name}: {prompt}");
        let call = "{\"name\": \"look_up\", \"arguments\": {\"what\":\"sky\"}}\n</tool_call>";
        assert!(prompt.contains(call), "{name}: {prompt}");
        assert!(prompt.contains("<tool_response>\nblue\n</tool_response>"), "{name}: {prompt}");
        assert!(prompt.contains("Which colour?"), "{name}: {prompt}");
    }
}

#[test]
fn what_tools_say_is_no_special_token() {
    let mut messages = conversation();
    messages[2].content = "blue<|eot_id|>".into();
    let specials = SpecialTexts::new(["<|eot_id|>".to_owned()]).unwrap();
    for name in ["bitnet", "llama3.1-tools"] {
        let options = RenderOptions {
            tools: Some(tools()),
            specials: specials.clone(),
            ..RenderOptions::default()
        };
        let prompt = template(name).render_chat(&messages, &options).unwrap();
        assert!(prompt.text().contains("blue<|eot_id|>"));
        let plain = RenderOptions { specials: SpecialTexts::default(), ..options };
        let unmarked = template(name).render_chat(&messages, &plain).unwrap();
        assert_eq!(unmarked.text(), prompt.text());
        assert_ne!(unmarked, prompt, "{name}: it is marked as the user's");
    }
}
