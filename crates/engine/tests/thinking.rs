//! Thinking in a completion: limited, unconstrained, and the same however it is computed.

use std::path::Path;

use wf_engine::{
    ChatOptions, DecodeMode, Frontend, GenerationRequest, GrammarSource, KvCapacity, ModelSource,
    ModelText, PromptInput, RunOptions, SamplingParams, TextEvent, TextStream, ThinkingStart,
    TokenId, open_model, read_text,
};
use wf_formats::{ModelFile, OpenOptions};
use wf_text::{ChatMessage, ChatTemplate};

const MESSAGES: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
/// End of templates: one that opens thinking, one with a switch as Qwen3 has it, and one that leaves it to the model.
const OPEN: &str = "assistant:{{ '<think>\\n' }}";
const SWITCH: &str = "assistant:{% if enable_thinking is defined and not enable_thinking %}\
                      <think>\n\n</think>\n\n{% endif %}";
const UNDECLARED_SWITCH: &str = "{# <think> #}assistant:";

fn text(template_end: &str) -> ModelText {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&demo, &OpenOptions::default()).unwrap();
    let template = ChatTemplate::new(&format!("{MESSAGES}{template_end}")).unwrap();
    ModelText { template: Some(template), ..read_text(&file).unwrap() }
}

/// The demo model with a template that opens thinking, and with little memory for K/V.
fn frontend(contexts: usize) -> Frontend {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let kv_capacity = KvCapacity::Contexts { count: contexts, max_bytes: None };
    let options =
        RunOptions { threads: 2, context_len: Some(160), kv_capacity, ..RunOptions::default() };
    let opened = open_model(&ModelSource::Path(path), &options, &mut |_| {}).unwrap();
    Frontend::new(text(OPEN), opened.frontend.engine().clone())
}

fn chat(seed: u64) -> GenerationRequest {
    let messages = vec![ChatMessage::new("user", "Tell me a story about a dog and a dog.")];
    GenerationRequest {
        sampling: SamplingParams { temperature: 0.7, ..SamplingParams::default() },
        seed: Some(seed),
        max_tokens: Some(80),
        max_thinking_tokens: Some(3 + 7 * seed as usize),
        ignore_eos: true,
        ..GenerationRequest::new(PromptInput::Chat(messages))
    }
}

#[derive(Debug, PartialEq)]
struct Reply {
    ids: Vec<TokenId>,
    reasoning: String,
    answer: String,
    reasoning_tokens: usize,
}

fn reply(mut stream: TextStream) -> Reply {
    let (mut reasoning, mut answer, mut reasoning_tokens) = (String::new(), String::new(), 0);
    for event in stream.by_ref() {
        match event.unwrap() {
            TextEvent::Text { reasoning: thought, text, .. } => {
                reasoning.push_str(&thought);
                answer.push_str(&text);
            }
            TextEvent::Done(finish) => reasoning_tokens = finish.timings.reasoning_tokens,
            _ => {}
        }
    }
    Reply { ids: stream.ids().to_vec(), reasoning, answer, reasoning_tokens }
}

#[test]
fn at_the_limit_the_answer_begins() {
    let frontend = frontend(1);
    let tokenizer = frontend.tokenizer();
    let closing = tokenizer.encode_with_specials("\n</think>\n\n");
    for seed in 0..3 {
        let limit = 3 + 7 * seed as usize;
        let reply = reply(frontend.generate(chat(seed)).unwrap());
        assert_eq!(reply.ids[limit..][..closing.len()], closing, "{reply:?}");
        assert_eq!(reply.ids.len(), 80);
        let [thought, rest] = [&reply.ids[..limit], &reply.ids[limit + closing.len()..]];
        assert_eq!(reply.reasoning, tokenizer.decode(thought, true).trim());
        assert_eq!(reply.answer, tokenizer.decode(rest, true).trim_start());
        assert!(reply.reasoning_tokens >= limit + closing.len());
    }
}

#[test]
fn a_request_turns_thinking_off() {
    let frontend = frontend(1);
    let off =
        GenerationRequest { enable_thinking: Some(false), max_thinking_tokens: None, ..chat(1) };
    let reply = reply(frontend.generate(off.clone()).unwrap());
    assert_eq!((reply.reasoning.as_str(), reply.reasoning_tokens), ("", 0));
    assert!(!reply.answer.is_empty());
    for (input, words) in [
        (off.input.clone(), "the chat template of this model does not declare it"),
        (PromptInput::Text("hi".into()), "the prompt is not a conversation"),
    ] {
        let plain = Frontend::new(text("assistant:"), frontend.engine().clone());
        let on = GenerationRequest { input, enable_thinking: Some(true), ..off.clone() };
        let message = plain.generate(on).map(drop).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_limit_and_a_grammar_each_open_thinking_that_the_template_leaves_to_the_model() {
    let frontend = Frontend::new(text(SWITCH), frontend(1).engine().clone());
    let closing = frontend.tokenizer().encode_with_specials("\n</think>\n\n");
    let limited = reply(frontend.generate(chat(1)).unwrap());
    assert_eq!(limited.ids[10..][..closing.len()], closing, "{limited:?}");
    let grammar = frontend.compile(&GrammarSource::Choice(vec!["yes".into()])).unwrap();
    let constrained =
        GenerationRequest { grammar: Some(grammar), max_thinking_tokens: None, ..chat(1) };
    let constrained = reply(frontend.generate(constrained).unwrap());
    assert!(!constrained.reasoning.is_empty(), "{constrained:?}");
    let free = reply(
        frontend.generate(GenerationRequest { max_thinking_tokens: None, ..chat(1) }).unwrap(),
    );
    assert_eq!((free.reasoning.as_str(), free.reasoning_tokens), ("", 0));
}

#[test]
fn a_limit_is_refused_without_thinking() {
    let plain = Frontend::new(text("assistant:"), frontend(1).engine().clone());
    let message = plain.generate(chat(1)).map(drop).unwrap_err().to_string();
    assert!(message.contains("does not declare it"), "{message}");
}

#[test]
fn a_grammar_and_stop_strings_are_those_of_the_answer() {
    let frontend = frontend(1);
    let grammar =
        frontend.compile(&GrammarSource::Choice(vec!["yes".into(), "no".into()])).unwrap();
    let free = reply(frontend.generate(chat(3)).unwrap());
    let word = free.reasoning.split_whitespace().next().unwrap().to_owned();
    let request = GenerationRequest { grammar: Some(grammar), stop: vec![word], ..chat(3) };
    let constrained = reply(frontend.generate(request).unwrap());
    assert_eq!(constrained.reasoning, free.reasoning);
    assert!(["yes", "no"].contains(&constrained.answer.as_str()), "{constrained:?}");
}

#[test]
fn load_drafts_and_preemption_change_nothing() {
    let roomy = frontend(1);
    let object = roomy.compile(&GrammarSource::json_object()).unwrap();
    let requests: Vec<GenerationRequest> = (0..8)
        .map(|seed| GenerationRequest {
            grammar: (seed % 2 == 1).then(|| object.clone()),
            logprobs: (seed % 3 == 0).then_some(1),
            sampling: SamplingParams {
                temperature: if seed % 4 < 2 { 0.0 } else { 0.8 },
                ..SamplingParams::default()
            },
            ..chat(seed % 5)
        })
        .collect();
    let alone: Vec<Reply> =
        requests.iter().map(|request| reply(roomy.generate(request.clone()).unwrap())).collect();
    assert!(alone.iter().all(|reply| reply.reasoning_tokens > 3), "{alone:?}");
    for mode in ["autoregressive", "lookup", "auto"] {
        let decode = DecodeMode::from_name(mode).unwrap();
        let crowded = frontend(2);
        let streams: Vec<_> = requests
            .iter()
            .map(|one| crowded.generate(GenerationRequest { decode, ..one.clone() }).unwrap())
            .collect();
        let together: Vec<Reply> = streams.into_iter().map(reply).collect();
        assert_eq!(together, alone, "{mode}");
    }
}

#[test]
fn a_limit_needs_tokens_from_left_to_right() {
    let decode = DecodeMode::from_name("diffusion").unwrap();
    let refused = frontend(1).generate(GenerationRequest { decode, ..chat(1) });
    let message = refused.map(drop).unwrap_err().to_string();
    assert!(
        message.contains("limit of thinking tokens does not work with decode diffusion"),
        "{message}"
    );
}

fn turn(
    end: &str,
    thinking: Option<bool>,
    opens_thinking: bool,
) -> (String, Option<ThinkingStart>) {
    let text = text(end);
    let options = ChatOptions { thinking, opens_thinking, ..ChatOptions::default() };
    let turn = text.chat_turn(&[ChatMessage::new("user", "hi")], &options).unwrap();
    let prompt = text.tokenizer.decode(&turn.prompt, false);
    (prompt.split_once("assistant:").unwrap().1.to_owned(), turn.thinking)
}

#[test]
fn prompts_open_and_close_thinking_as_requested() {
    use ThinkingStart::{Answer, MayOpen, Open};
    let closed = "<think>\n\n</think>\n\n";
    for (end, thinking, opens, expected) in [
        (OPEN, None, false, ("<think>\n", Some(Open))),
        (OPEN, Some(true), true, ("<think>\n", Some(Open))),
        (OPEN, Some(false), false, (closed, Some(Answer))),
        (SWITCH, None, false, ("", Some(MayOpen))),
        (SWITCH, None, true, ("<think>\n", Some(Open))),
        (SWITCH, Some(true), true, ("<think>\n", Some(Open))),
        (SWITCH, Some(false), false, (closed, Some(Answer))),
        (SWITCH, Some(false), true, (closed, Some(Answer))),
        (UNDECLARED_SWITCH, None, true, ("", Some(MayOpen))),
        (UNDECLARED_SWITCH, Some(true), true, ("<think>\n", Some(Open))),
        (UNDECLARED_SWITCH, Some(false), false, (closed, Some(Answer))),
        ("assistant:", Some(false), true, ("", None)),
    ] {
        let (prompt, start) = turn(end, thinking, opens);
        assert_eq!((prompt.as_str(), start), expected, "{end:?} {thinking:?} {opens}");
    }
}

#[test]
fn a_continued_message_is_inside_or_after_its_thinking() {
    let text = text("{# <think> #}");
    for (content, expected) in [
        ("<think>\nfirst", ThinkingStart::Open),
        ("<think>\nfirst\n</think>\nSo", ThinkingStart::Answer),
        ("So", ThinkingStart::Answer),
        ("", ThinkingStart::MayOpen),
    ] {
        let options = ChatOptions {
            continue_final: true,
            add_generation_prompt: false,
            ..ChatOptions::default()
        };
        let turn = text.chat_turn(&[ChatMessage::new("assistant", content)], &options).unwrap();
        assert_eq!(turn.thinking, Some(expected), "{content:?}");
    }
}
