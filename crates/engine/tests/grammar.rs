//! Constrained completions match their grammar in every decoding mode.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use wf_engine::{
    DecodeMode, DecodeSettings, Finish, FinishReason, Frontend, FrontendError, GenerationRequest,
    GrammarSource, ModelSource, PromptInput, RunOptions, SamplingParams, TextEvent, TextStream,
    TokenId, open_model,
};

fn demo() -> &'static Frontend {
    static DEMO: OnceLock<Frontend> = OnceLock::new();
    DEMO.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
        let options = RunOptions { threads: 2, context_len: Some(256), ..RunOptions::default() };
        open_model(&ModelSource::Path(path), &options, &mut |_| {}).unwrap().frontend
    })
}

fn generate(source: &GrammarSource, seed: u64, temperature: f32) -> GenerationRequest {
    let grammar = demo().compile(source).unwrap_or_else(|e| panic!("{source:?}: {e}"));
    GenerationRequest {
        grammar: Some(grammar),
        sampling: SamplingParams { temperature, ..SamplingParams::default() },
        seed: Some(seed),
        max_tokens: Some(200),
        ..GenerationRequest::new(PromptInput::Text("Once upon a time there was".into()))
    }
}

fn reply(generate: GenerationRequest) -> (String, Vec<TokenId>, Finish) {
    let mut stream = demo().generate(generate).unwrap();
    let (mut text, mut end) = (String::new(), None);
    for piece in stream.by_ref() {
        match piece.unwrap() {
            TextEvent::Text { text: more, .. } => text.push_str(&more),
            TextEvent::Done(finish) => end = Some(finish),
            _ => {}
        }
    }
    (text, stream.ids().to_vec(), end.unwrap())
}

/// Returns `true` if a value matches a schema, for the keywords that the schemas below use.
fn fits(schema: &Value, root: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema == &json!(true) };
    let number = |word: &Value| word.as_f64().unwrap();
    let all = |schemas: &Value, count: fn(usize, usize) -> bool| {
        let schemas = schemas.as_array().unwrap();
        let fitting = schemas.iter().filter(|schema| fits(schema, root, value)).count();
        count(fitting, schemas.len())
    };
    words.iter().all(|(word, wanted)| match (word.as_str(), value) {
        ("type", _) => match wanted {
            Value::Array(types) => types.iter().any(|one| is_type(one, value)),
            one => is_type(one, value),
        },
        ("enum", _) => wanted.as_array().unwrap().contains(value),
        ("const", _) => wanted == value,
        ("anyOf", _) => all(wanted, |fitting, _| fitting > 0),
        ("allOf", _) => all(wanted, |fitting, all| fitting == all),
        ("$ref", _) => {
            let path = wanted.as_str().unwrap().strip_prefix('#').unwrap();
            fits(root.pointer(path).unwrap(), root, value)
        }
        ("minimum", Value::Number(n)) => n.as_f64().unwrap() >= number(wanted),
        ("maximum", Value::Number(n)) => n.as_f64().unwrap() <= number(wanted),
        ("multipleOf", Value::Number(n)) => n.as_i64().unwrap() % wanted.as_i64().unwrap() == 0,
        ("minLength", Value::String(s)) => s.chars().count() as f64 >= number(wanted),
        ("maxLength", Value::String(s)) => s.chars().count() as f64 <= number(wanted),
        ("minItems", Value::Array(items)) => items.len() as f64 >= number(wanted),
        ("maxItems", Value::Array(items)) => items.len() as f64 <= number(wanted),
        ("prefixItems", Value::Array(items)) => {
            let schemas = wanted.as_array().unwrap();
            schemas.iter().zip(items).all(|(schema, item)| fits(schema, root, item))
        }
        ("items", Value::Array(items)) => {
            let before = words.get("prefixItems").map_or(0, |p| p.as_array().unwrap().len());
            items.iter().skip(before).all(|item| fits(wanted, root, item))
        }
        ("required", Value::Object(fields)) => wanted
            .as_array()
            .unwrap()
            .iter()
            .all(|name| fields.contains_key(name.as_str().unwrap())),
        ("properties", Value::Object(fields)) => fields
            .iter()
            .all(|(name, value)| wanted.get(name).is_none_or(|schema| fits(schema, root, value))),
        ("additionalProperties", Value::Object(fields)) => fields.iter().all(|(name, value)| {
            let is_known = words.get("properties").is_some_and(|known| known.get(name).is_some());
            is_known || fits(wanted, root, value)
        }),
        _ => true,
    })
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}

/// Returns schemas with bounded values, so that completions end.
fn schemas() -> Vec<Value> {
    let short = json!({"type": "string", "maxLength": 8});
    let point = json!({
        "type": "object",
        "properties": {"x": {"type": "integer", "minimum": -9, "maximum": 9}, "y": {"const": 0}},
        "required": ["x", "y"],
        "additionalProperties": false,
    });
    let object = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties, "required": required,
               "additionalProperties": false})
    };
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer", "minimum": 0, "maximum": 99},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1},
            },
            "required": ["value", "children"],
            "additionalProperties": false,
        }},
    });
    let mut all = vec![
        json!({"type": "null"}),
        json!({"type": "boolean"}),
        json!({"const": "exactly\nthis \"text\" ü"}),
        json!({"enum": ["a", 1, null, {"b": [2]}]}),
        json!({"enum": ["Österreich", "日本", "🙂"]}),
        json!({"type": "integer", "minimum": 17, "maximum": 1234}),
        json!({"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": 7}),
        json!({"type": ["integer", "null"], "minimum": 5, "maximum": 6}),
        json!({"type": "string", "minLength": 3, "maxLength": 5}),
        json!({"type": "string", "maxLength": 0}),
        json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "uuid"}),
        json!({"type": "array", "maxItems": 0}),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}),
        json!({"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "items": {"type": "null"},
               "minItems": 2, "maxItems": 4}),
        json!({"type": "array", "items": point, "minItems": 1, "maxItems": 3}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"anyOf": [{"type": "boolean"}, point]}),
        json!({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}),
        tree,
        object(json!({}), json!([])),
        object(json!({"a": short, "b": short}), json!(["b"])),
        object(json!({"ü \"q\"": {"type": "boolean"}}), json!(["ü \"q\""])),
        object(
            json!({"deep": object(json!({"deeper": point}), json!(["deeper"]))}),
            json!(["deep"]),
        ),
    ];
    // Objects of every two kinds of fields.
    let kinds = [json!({"type": "boolean"}), short, json!({"enum": ["x", "y"]}), point];
    for (at, first) in kinds.iter().enumerate() {
        for second in &kinds[at..] {
            all.push(object(json!({"one": first, "two": second}), json!(["one", "two"])));
        }
    }
    all
}

#[test]
fn json_always_matches_its_schema() {
    let schemas = schemas();
    assert!(schemas.len() >= 35);
    for schema in &schemas {
        for (seed, temperature) in [(0, 0.0), (1, 1.0), (2, 1.5)] {
            let source = GrammarSource::JsonSchema(schema.clone());
            let (text, _, finish) = reply(generate(&source, seed, temperature));
            assert_eq!(finish.reason, FinishReason::Stop, "{schema}: {text}");
            let value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
            assert!(fits(schema, schema, &value), "{schema}: {text}");
        }
    }
}

#[test]
fn any_object_is_valid_json_unless_it_is_cut() {
    let mut whole = 0;
    for seed in 0..12 {
        let (text, _, finish) = reply(generate(&GrammarSource::json_object(), seed, 1.2));
        let parsed: Result<Value, _> = serde_json::from_str(&text);
        match finish.reason {
            FinishReason::Stop => {
                assert!(parsed.unwrap().is_object(), "{text}");
                whole += 1;
            }
            reason => assert_eq!(reason, FinishReason::Length, "{text}"),
        }
    }
    assert!(whole > 0);
}

fn modes() -> Vec<DecodeMode> {
    let named = |mode: &str, tokens| {
        let settings = DecodeSettings::of_mode(mode).with("draft", "tokens", tokens);
        settings.resolve(DecodeMode::Autoregressive).unwrap()
    };
    vec![named("lookup", 2), named("lookup", 6), named("drafted", 4)]
}

#[test]
fn drafts_change_nothing() {
    let list = json!({"type": "array", "minItems": 4, "maxItems": 6, "items": {
        "type": "object", "properties": {"name": {"enum": ["cat", "dog"]}, "n": {"type": "boolean"}},
        "required": ["name", "n"], "additionalProperties": false,
    }});
    let sources = [
        GrammarSource::JsonSchema(list),
        GrammarSource::Regex("(the (cat|dog) sat and ){3,9}[a-z ]{0,20}".into()),
        GrammarSource::Grammar(
            "root ::= (\"one\" | \"two\" | root2) \".\"\nroot2 ::= \"(\" root \")\"".into(),
        ),
    ];
    let mut agreed = 0;
    for source in &sources {
        for (seed, temperature) in [(0, 0.0), (3, 0.8), (4, 1.4)] {
            for ignore_eos in [false, true] {
                let base = GenerationRequest { ignore_eos, ..generate(source, seed, temperature) };
                let (text, tokens, finish) = reply(base.clone());
                for decode in modes() {
                    if demo().engine().check_mode(decode).is_err() {
                        continue;
                    }
                    let (same, same_tokens, same_finish) =
                        reply(GenerationRequest { decode, ..base.clone() });
                    assert_eq!((&same, &same_tokens), (&text, &tokens), "{decode:?}");
                    assert_eq!(same_finish.reason, finish.reason, "{decode:?}: {text}");
                    agreed += same_finish.timings.stats.accepted;
                }
            }
        }
    }
    assert!(agreed > 50, "guesses were right {agreed} times");
}

#[test]
fn concurrent_requests_change_nothing() {
    let slow = GrammarSource::Grammar("root ::= x\nx ::= x x | \"ab\" | \"b\" | \"\"".into());
    let words = GrammarSource::Regex(r"(\p{L}{1,50} ){1,200}".into());
    let object = GrammarSource::json_object();
    let free = GenerationRequest::new(PromptInput::Text("Once upon a time".into()));
    let asked: Vec<GenerationRequest> = [&slow, &words, &object, &slow]
        .into_iter()
        .zip([0.0, 0.8, 1.2, 1.0])
        .map(|(source, temperature)| generate(source, 3, temperature))
        .chain([free.clone(), GenerationRequest { ignore_eos: true, ..free }])
        .map(|asked| GenerationRequest { max_tokens: Some(40), logprobs: None, ..asked })
        .collect();
    // A grammar that exceeds its limits may end a completion, but always at the same token.
    let told = |stream: TextStream| -> Vec<String> {
        let text = |piece: Result<TextEvent, FrontendError>| match piece {
            Ok(TextEvent::Text { text, .. }) => Some(text),
            Ok(TextEvent::Done(finish)) => Some(format!("{:?}", finish.reason)),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        stream.filter_map(text).collect()
    };
    let alone: Vec<_> =
        asked.iter().map(|asked| told(demo().generate(asked.clone()).unwrap()).concat()).collect();
    let streams: Vec<_> =
        asked.iter().map(|asked| demo().generate(asked.clone()).unwrap()).collect();
    let together: Vec<_> = streams.into_iter().map(|stream| told(stream).concat()).collect();
    assert_eq!(together, alone);
}

#[test]
fn a_completion_ends_where_its_grammar_does() {
    let yes = GrammarSource::Choice(vec!["yes".into(), "no \"not\" ]".into()]);
    let end = demo().text().end_tokens.clone();
    let (text, tokens, finish) = reply(generate(&yes, 0, 0.0));
    assert!(text == "yes" || text == "no \"not\" ]", "{text}");
    assert_eq!(finish.reason, FinishReason::Stop);
    assert!(!tokens.iter().any(|token| end.contains(token)), "no pass is spent on an end token");

    // The model decides everything but the first three letters.
    let open = GrammarSource::Regex("[a-z ]{3,}".into());
    let base = GenerationRequest { max_tokens: Some(40), ..generate(&open, 0, 1.0) };
    let long = GenerationRequest { ignore_eos: true, ..base.clone() };
    assert_eq!(reply(long).2.reason, FinishReason::Length);
    let at_once = |sampling: SamplingParams| {
        let logit_bias = end.iter().map(|&token| (token, 100.0)).collect();
        reply(GenerationRequest {
            sampling: SamplingParams { logit_bias, ..sampling },
            ..base.clone()
        })
    };
    let (text, tokens, finish) = at_once(base.sampling.clone());
    assert!(text.len() >= 3 && end.contains(tokens.last().unwrap()), "{text}");
    assert_eq!(finish.reason, FinishReason::Stop);
}

#[test]
fn a_stop_token_that_is_text_ends_only_complete_texts() {
    let tokenizer = demo().tokenizer();
    let comma = tokenizer.id_of(",").unwrap();
    // A digit must follow a comma, so the completion cannot end there.
    let digits = GrammarSource::Regex("[0-9](,[0-9]){0,4}".into());
    let base = GenerationRequest { stop_tokens: vec![comma], ..generate(&digits, 3, 1.5) };
    let (text, _, finish) = reply(base);
    assert_eq!(finish.reason, FinishReason::Stop);
    assert!(text.len() % 2 == 1 && !text.ends_with(','), "{text}");
    let commas = GrammarSource::Regex("([0-9],){3}".into());
    let base = GenerationRequest { stop_tokens: vec![comma], ..generate(&commas, 3, 1.5) };
    let (text, tokens, finish) = reply(base);
    assert_eq!(finish.reason, FinishReason::DeadEnd);
    assert_eq!((text.len(), tokens.len()), (1, 1), "the text up to the dead end is kept");
    assert_eq!(finish.timings.completion_tokens, 1);
}

#[test]
fn diffusion_is_rejected() {
    let decode = DecodeMode::from_name("diffusion").unwrap();
    let asked = GenerationRequest { decode, ..generate(&GrammarSource::Regex("a".into()), 0, 0.0) };
    let refused = demo().generate(asked).map(drop).unwrap_err().to_string();
    assert!(refused.contains("grammar does not work with decode diffusion"), "{refused}");
}

#[test]
fn many_grammars_at_once_wait_for_each_other() {
    let start = std::sync::Barrier::new(24);
    let compile = |number: usize| {
        start.wait();
        demo().compile(&GrammarSource::Regex(format!("(word {number}|[a-z]{{1,9}})+")))
    };
    let compile = &compile;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..24).map(|number| scope.spawn(move || compile(number))).collect();
        for one in all {
            assert!(one.join().unwrap().is_ok());
        }
    });
}
