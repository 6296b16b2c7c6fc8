//! Writes the start of each target's corpus: small valid models of every format and encoding.

#![expect(dead_code, reason = "the marks and some of the models are for the tests")]

#[path = "../../crates/formats/tests/hostile/gguf.rs"]
mod gguf;
#[path = "../../crates/formats/tests/hostile/hugging_face.rs"]
mod hugging_face;
#[path = "../../crates/formats/tests/hostile/sample.rs"]
mod sample;
#[path = "../../crates/formats/tests/hostile/sglbitnt.rs"]
mod sglbitnt;

use std::fs;
use std::io;
use std::path::Path;

use wf_formats::{
    Container, FloatEncoding, IfExists, ModelFile, OpenOptions, Rounding, TableEncoding, Target,
};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(corpus.join(target))?;
        fs::write(corpus.join(target).join(name), bytes)
    };
    for (at, (encoding, type_id)) in gguf::encodings().into_iter().enumerate() {
        let model = gguf::model(encoding, type_id, &gguf::Twist::default());
        write("gguf", &format!("{at}"), &model.files[0].bytes)?;
    }
    write("sglbitnt", "0", &sglbitnt::model().files[0].bytes)?;
    write_wf_seeds(write)?;

    let checkpoint = hugging_face::single();
    let file = |name: &str| {
        let found = checkpoint.files.iter().find(|file| file.name == name);
        found.map(|file| file.bytes.as_slice()).unwrap_or_default()
    };
    let config = file("config.json");
    let len = u16::try_from(config.len()).map_err(io::Error::other)?;
    let bytes = [&len.to_le_bytes(), config, file("model.safetensors")].concat();
    write("safetensors", "0", &bytes)?;

    for which in 0..18 {
        // An encoding, four rows, 256 columns, and bytes that are trits in all of them.
        let mut bytes = vec![which, 4, 16];
        bytes.resize(3 + 4 * 256, 0);
        write("encodings", &which.to_string(), &bytes)?;
    }
    write_text_seeds(write)?;
    write_request_seeds(write)
}

/// A `.wf` file, and the parts that the target adds a digest to.
fn write_wf_seeds(write: impl Fn(&str, &str, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let directory = std::env::temp_dir().join(format!("wf-seeds-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let (from, to) = (directory.join("model.gguf"), directory.join("model.wf"));
    let (encoding, type_id) = gguf::encodings()[0];
    let model = gguf::model(encoding, type_id, &gguf::Twist::default());
    fs::write(&from, &model.files[0].bytes)?;
    let target = Target {
        container: Container::Wf,
        head: TableEncoding::Float(FloatEncoding::F32),
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Replace,
        threads: 1,
    };
    let source = ModelFile::open(&from, &OpenOptions::default()).map_err(io::Error::other)?;
    target.write(&source, &to).map_err(io::Error::other)?;
    let bytes = fs::read(&to)?;
    fs::remove_dir_all(&directory)?;
    write("wf", "0", &bytes)?;
    let header_len = usize::from(u16::from_le_bytes([bytes[24], bytes[25]]));
    let (header, data) =
        (&bytes[64..64 + header_len], &bytes[(64 + header_len).next_multiple_of(4096)..]);
    write("wf", "1", &[&bytes[24..26], header, data].concat())
}

/// A vocabulary of three letters in both forms, and a template that uses most of the language.
fn write_text_seeds(write: impl Fn(&str, &str, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let tokenizer = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "<s>": 4},
            "merges": ["a b"]},
    });
    let text = "ab a<s>";
    let bytes = [&[text.len() as u8], text.as_bytes(), tokenizer.to_string().as_bytes()].concat();
    write("tokenizer_json", "0", &bytes)?;
    for (name, model) in [("0", "gpt2"), ("1", "llama")] {
        let vocab = serde_json::json!({"text": text, "model": model, "pre": "gpt-2",
            "tokens": ["<unk>", "<s>", "a", "b", "ab", "▁"], "token_types": [2, 3, 1, 1, 1, 1],
            "merges": ["a b"], "scores": [0.0, 0.0, -1.0, -2.0, -0.5, -3.0], "bos": 1});
        write("gguf_vocab", name, vocab.to_string().as_bytes())?;
    }
    let messages = r#"[{"role": "user", "content": "<s>hi", "n": [1, null, {"a": 1.5}]}]"#;
    let template = "{% macro f(x, y=1) %}{{ x | upper ~ y }}{% endmacro %}\
        {%- for m in messages if m.role != 'x' -%}{% set c = m['content'][1:] | trim %}\
        {{ f(c) + '%s' | format(loop.index) }}{{ m.n | tojson(indent=2) }}{% else %}-{% endfor %}\
        {% set ns = namespace(a=[1]) %}{% set ns.a = ns.a + [2] * 3 %}{{ ns.a | join(', ') }}\
        {% if ns.a is defined and not 1 in ns.a %}{{ 'a b'.split() }}{% endif %}";
    let bytes =
        [&(messages.len() as u16).to_le_bytes(), messages.as_bytes(), template.as_bytes()].concat();
    write("chat_template", "0", &bytes)
}

/// One request of each dialect, the calls of each format, and a source of each kind of grammar.
fn write_request_seeds(write: impl Fn(&str, &str, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let write_kind = |target: &str, kind: u8, rest: &str| {
        write(target, &kind.to_string(), &[&[kind], rest.as_bytes()].concat())
    };
    for (at, body) in [
        r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "tools": [{"type": "function",
            "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "required", "max_completion_tokens": 9,
            "response_format": {"type": "text"}, "metadata": {"decode": "lookup"}, "logit_bias": {"1": 2}, "stop": ["x"]}"#,
        r#"{"prompt": ["a", "b"], "echo": true, "logprobs": 2, "seed": -1, "regex": "a+", "stream_options": null, "n": 2}"#,
        r#"{"input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, {"role": "user",
            "content": [{"type": "input_text", "text": "hi"}]}], "text": {"format": {"type": "json_object"}}}"#,
        r#"{"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}],
            "system": "s", "max_tokens": 5, "stop_sequences": ["x"], "tools": [{"name": "f", "input_schema": {}}]}"#,
        r#"{"messages": [{"role": "user", "content": "hi", "images": []}], "format": "json", "options": {"num_predict": 3,
            "repeat_penalty": 1.1, "num_ctx": 5}, "keep_alive": "5m"}"#,
        r#"{"prompt": "hi", "system": "s", "raw": false, "stream": false, "options": {"stop": "x", "seed": -1}}"#,
        r#"{"text": "hi", "sampling_params": {"max_new_tokens": 3, "ebnf": "root ::= \"a\"", "n": 2}, "rid": "1"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        write_kind("dialects", at as u8, body)?;
    }
    for (format, text) in [
        "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\"]}}\n</tool_call> b",
        "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"get_weather\", \"parameters\": {}}",
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"a\": null}}]",
        "{\"name\": \"f\", \"arguments\": {}}",
    ]
    .into_iter()
    .enumerate()
    {
        for is_constrained in [0, 4] {
            write_kind("tool_calls", format as u8 + is_constrained, &format!("\u{1}{text}"))?;
        }
    }
    for (start, text) in
        ["a </think> b", " <think>\na < / b\n</think>\n\nb", "b </think>"].iter().enumerate()
    {
        write_kind("thinking", start as u8, &format!("\u{1}{text}"))?;
    }
    let keys = "sk-1\nopen sesame name=alice requests=2 tokens-per-minute=9 kv-share=0.5 models=a,b admin=true\n";
    write("keys", "0", keys.as_bytes())?;
    let form = "x--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\n\r\n--x--\r\n";
    write("form", "0", &[&[1, 9], form.as_bytes()].concat())?;
    for (kind, source) in [
        r##"{"type": "object", "properties": {"a": {"type": "string", "maxLength": 600}, "b": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"anyOf": [{"type": "integer", "multipleOf": 3}, {"enum": [1, null]}]}}, "required": ["b"]}"##,
        r"(a|b+)*[^\n]{2,5}",
        "start: a T | \"x\"\na: %json {\"type\": \"number\"}\nT: /[a-z]+/ & ~/b*/\n",
        "yes\nno",
    ]
    .into_iter()
    .enumerate()
    {
        write_kind("grammars", kind as u8, source)?;
    }
    write_kind("grammars", 6, "root ::= [a-z]+ (\",\" root)?")
}
