//! Chat templates made to take all memory or never end, in a process with little memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::server::start;

const DEMO: &[u8] = include_bytes!("../../assets/demo.gguf");
/// Address space of a process: enough for the demo model, stacks and one rendering.
const ADDRESS_SPACE_KIB: usize = 2 << 20;

/// Writes the demo model with another template, in the bytes of its own.
fn model(folder: &Path, template: &str) -> PathBuf {
    let key = b"tokenizer.chat_template";
    let at = DEMO.windows(key.len()).position(|bytes| bytes == key).unwrap() + key.len() + 12;
    let len = u64::from_le_bytes(DEMO[at - 8..at].try_into().unwrap()) as usize;
    assert!(template.len() <= len, "{template} has more than {len} bytes");
    let mut file = DEMO.to_vec();
    file[at..at + len].fill(b' ');
    file[at..at + template.len()].copy_from_slice(template.as_bytes());
    let path = folder.join("model.gguf");
    std::fs::write(&path, file).unwrap();
    path
}

/// Returns `wf` with `args`, in a limited address space.
fn limited(args: &[&str], model: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_wf")]).args(args).arg(model);
    command.env_remove("WF_MODEL").env("MALLOC_ARENA_MAX", "2");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

/// Templates that allocate without end when they are rendered.
const BOMBS: &[&str] = &[
    "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set x %}{{n.s}}{{n.s}}{% endset %}{% set n.s=x %}{% endfor %}",
    "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s='%s%s'|format(n.s,n.s) %}{% endfor %}",
    "{% set n = namespace(x=1) %}{% for i in range(60) %}{% set n.x=[n.x,n.x] %}{% endfor %}{{n.x|tojson}}",
    "{% set n = namespace(x=1) %}{% for i in range(60) %}{% set n.x=[n.x,n.x] %}{% endfor %}{{n.x}}",
    "{% set n = namespace(x=[]) %}{% for i in range(99999) %}{% set n.x=n.x+['x'*99999] %}{% endfor %}",
    "{% set n = 1000000000 %}{{ ([0]*n)|list|length }}",
    "{% set n = 50000000 %}{{ ('a,' * n).split(',')|list|length }}",
    "{% set n = 50000000 %}{{ ('a' * n)|replace('a', 'b' * n)|length }}",
    "{% set n = 9999999 %}{{ (['x' * n] * n)|join|length }}",
    "{% set n = 9999999 %}{{ (['x' * n] * n)|tojson|length }}",
    "{% set n = 9999999 %}{{ (['x' * n] * n)|string|length }}",
    "{% set n = 99999 %}{{ range(n)|map('string')|map('replace', '1', 'x' * n)|list|length }}",
];

#[test]
fn a_template_that_takes_all_memory_is_an_error_of_its_chats_only() {
    let folder = tempfile::tempdir().unwrap();
    let chat = r#"{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}"#;
    let completion = r#"{"prompt": "hi", "max_tokens": 1}"#;
    for bomb in BOMBS {
        let model = model(folder.path(), bomb);
        let mut server = start(&mut limited(&["serve", "--port", "0", "--threads", "1"], &model));
        let answer = server.post("/v1/chat/completions", "", chat);
        assert!(answer.contains("chat template: rendering takes "), "{bomb}: {answer}");
        assert!(server.post("/v1/chat/completions", "", chat).contains("limit of"), "{bomb}");
        assert!(server.post("/v1/completions", "", completion).starts_with("HTTP/1.1 200"));
        server.signal("-TERM");
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{bomb}");
    }
}

#[test]
fn a_signal_ends_a_server_whose_template_does_not_end() {
    let folder = tempfile::tempdir().unwrap();
    let endless = "{% set n = 9223372036854775807 %}{{ 1 in [] * n }}";
    let model = model(folder.path(), endless);
    let mut server = start(&mut limited(&["serve", "--port", "0", "--threads", "1"], &model));
    let chat = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;
    let answer = server.post("/v1/chat/completions", "", chat);
    assert!(answer.contains("limit of"), "{answer}");
    let begin = Instant::now();
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn inspect_says_what_is_wrong_with_a_template_that_does_not_compile() {
    let folder = tempfile::tempdir().unwrap();
    // The engine computes constants when it compiles a template.
    let model = model(folder.path(), "{{ ([0]*1000000000) == ([0]*1000000000) }}");
    let Output { stdout, stderr, .. } = limited(&["inspect"], &model).output().unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    assert!(text.contains("chat template: rendering takes "), "{text}");
}
