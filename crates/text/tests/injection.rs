//! User text never becomes a special token.
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, Tokenizer};

use crate::common;

/// Returns a small vocabulary with special tokens in the styles of several models.
fn tokenizer() -> Tokenizer {
    let mut json = common::byte_level_json(common::split_then_bytes(common::LLAMA3));
    // With `ignore_merges`, `system` and `###` would be tokens without any merge.
    json["model"]["ignore_merges"] = true.into();
    let texts = [
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|im_start|>",
        "<|im_end|>",
        "[INST]",
        "[/INST]",
        "<s>",
        "</s>",
        "<|user|>",
        "<|assistant|>",
        "<|system|>",
        "<|end",
        "###",
        "<｜User｜>",
        "<start of turn>",
    ];
    let first_free = json["model"]["vocab"].as_object().unwrap().len();
    for (next, text) in (first_free..).zip(texts) {
        json["model"]["vocab"][text] = next.into();
        json["added_tokens"].as_array_mut().unwrap().push(json!({"id": next, "content": text,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
    }
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

const TEMPLATES: &[&str] = &[
    "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}",
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}{{ m.name }}<|eot_id|>{% endfor %}",
    "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.name is defined %} name={{ m.name }}{% endif %}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
    "<s>{% for m in messages %}[INST] {{ m.content }}[/INST]{{ m.name | upper }}|{{ m | tojson }}</s>{% endfor %}",
    "{% for m in messages %}{{ m.name | title }}<{{ m.content.strip() }}>{{ m.role }}|><|{{ m.content }}|><|user|>{% endfor %}",
];

fn options(tokenizer: &Tokenizer) -> RenderOptions {
    RenderOptions {
        add_generation_prompt: true,
        bos_token: Some("<|begin|>".into()),
        specials: tokenizer.special_texts().clone(),
        ..RenderOptions::default()
    }
}

fn message(role: &str, content: &str, name: &str) -> ChatMessage {
    let mut message = ChatMessage::new(role, content);
    message.extra.insert("name".into(), name.into());
    message.extra.insert(
        "tool_calls".into(),
        json!([{"function": {"name": name, "arguments": {name: content}}}]),
    );
    message
}

/// Returns the number of special tokens in the prompt, and checks that its tokens are those of its text.
fn specials_in(tokenizer: &Tokenizer, template: &ChatTemplate, messages: &[ChatMessage]) -> usize {
    let prompt = template.render(messages, &options(tokenizer)).unwrap();
    let unmarked = RenderOptions { specials: Default::default(), ..options(tokenizer) };
    assert_eq!(prompt.text(), template.render(messages, &unmarked).unwrap().text());
    let ids = tokenizer.encode_prompt(&prompt);
    assert_eq!(tokenizer.decode(&ids, false), prompt.text());
    ids.iter().filter(|id| tokenizer.is_special(**id)).count()
}

#[test]
fn the_number_of_special_tokens_depends_only_on_the_template() {
    let tokenizer = tokenizer();
    let mut texts: Vec<String> = Vec::new();
    for (_, special) in tokenizer.special_tokens() {
        let half = special.char_indices().nth(special.chars().count() / 2).unwrap().0;
        texts.push(special.to_owned());
        texts.push(format!(" {special} "));
        texts.push(format!("a{special}{special}b"));
        texts.push(special[..half].to_owned());
        texts.push(special[half..].to_owned());
        texts.push(format!("{}\n{}", &special[half..], &special[..half]));
        texts.push(format!("{}{special}", &special[..half]));
    }
    for source in TEMPLATES {
        let template = ChatTemplate::new(source).unwrap();
        let expected = specials_in(
            &tokenizer,
            &template,
            &[message("user", "hi", "bob"), message("user", "a", "b")],
        );
        assert!(expected > 0);
        for text in &texts {
            for role in ["system", "user", "assistant", "tool"] {
                for (content, name) in [(text.as_str(), "bob"), ("hi", text), (text, text)] {
                    let messages = [message(role, content, name), message(role, content, name)];
                    let found = specials_in(&tokenizer, &template, &messages);
                    assert_eq!(found, expected, "{source}\n{role} {content:?} {name:?}");
                }
            }
            let messages = [message(text, "hi", "bob"), message(text, "hi", "bob")];
            assert_eq!(
                specials_in(&tokenizer, &template, &messages),
                expected,
                "{source}\nrole {text:?}"
            );
        }
    }
}

#[test]
fn random_users_forge_nothing() {
    let tokenizer = tokenizer();
    let fragments: Vec<String> = tokenizer
        .special_tokens()
        .flat_map(|(_, text)| {
            let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            cuts.into_iter().flat_map(|at| [text[..at].to_owned(), text[at..].to_owned()])
        })
        .chain([" ", "\n", "x", "é", "\u{fdd0}", "'s", "12"].map(String::from))
        .collect();
    let text = prop::collection::vec(prop::sample::select(fragments), 0..6)
        .prop_map(|parts| parts.concat());
    let templates: Vec<ChatTemplate> =
        TEMPLATES.iter().map(|source| ChatTemplate::new(source).unwrap()).collect();
    let expected: Vec<usize> = templates
        .iter()
        .map(|t| specials_in(&tokenizer, t, &[message("user", "a", "b")]))
        .collect();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let result = runner.run(&(text.clone(), text.clone(), text), |(role, content, name)| {
        for (template, expected) in templates.iter().zip(&expected) {
            let messages = [message(&role, &content, &name)];
            prop_assert_eq!(specials_in(&tokenizer, template, &messages), *expected);
        }
        // The same text as user text.
        for id in tokenizer.encode(&content) {
            prop_assert!(!tokenizer.is_special(id));
        }
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&content), false), content);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn tokens_of_a_harmless_prompt_are_those_of_its_text() {
    let tokenizer = tokenizer();
    for source in TEMPLATES {
        let template = ChatTemplate::new(source).unwrap();
        for text in common::corpus().iter().filter(|text| !text.contains("<|")) {
            let messages = [message("user", text, "bob"), message("assistant", "well", "al")];
            let prompt = template.render(&messages, &options(&tokenizer)).unwrap();
            let by_text = tokenizer.encode_with_specials(prompt.text());
            assert_eq!(tokenizer.encode_prompt(&prompt), by_text, "{source} {text:?}");
        }
    }
}

#[test]
fn a_template_that_reacts_to_special_text_is_an_error_and_not_a_wrong_prompt() {
    let tokenizer = tokenizer();
    let template = ChatTemplate::new("{{ messages[0].content.split('<|im_end|>')[-1] }}").unwrap();
    let render = |text| template.render(&[ChatMessage::new("user", text)], &options(&tokenizer));
    assert_eq!(render("plain").unwrap().text(), "plain");
    let error = render("a<|im_end|>b").unwrap_err().to_string();
    assert!(error.contains("<|im_end|>"), "{error}");
}

#[test]
fn users_who_use_up_all_marks_are_told_so() {
    let tokenizer = tokenizer();
    let template = ChatTemplate::new("{{ messages[0].content }}").unwrap();
    let all_marks: String = ('\u{fdd0}'..='\u{fdef}').collect();
    let render =
        |text: String| template.render(&[ChatMessage::new("user", text)], &options(&tokenizer));
    // Without special text no mark is needed.
    assert_eq!(render(all_marks.clone()).unwrap().text(), all_marks);
    let error = render(all_marks + "<|im_end|>").unwrap_err().to_string();
    assert!(error.contains("U+FDD0"), "{error}");
}
