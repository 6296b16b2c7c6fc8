//! Templates that build more than they may, with the allocator of `wf`: the rendering ends, and with it the template.

#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use wf_text::{ChatTemplate, RenderOptions};

#[path = "../../wf/src/allocator.rs"]
mod allocator;

/// Returns the message of a template that cannot be rendered, now or later.
fn refusal(source: &str) -> String {
    let template = ChatTemplate::new(source).unwrap();
    let refuse = || template.render(&[], &RenderOptions::default()).unwrap_err().to_string();
    let why = refuse();
    // A second thread would keep as much memory, so none is started.
    assert_eq!(refuse(), why);
    why
}

#[test]
fn a_doubling_string_ends_at_the_memory_limit() {
    let why = refusal(
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    );
    let expected = "chat template: rendering takes more memory than the limit of 128 MiB";
    assert_eq!(why, expected);
}

#[test]
fn a_step_without_end_ends_at_the_limit_of_allocations_or_time() {
    let why = refusal("{% set n = 9223372036854775807 %}{{ 1 in [] * n }}");
    let limits = ["more allocations than the limit of 50000000", "longer than the limit of 5 s"];
    assert!(limits.iter().any(|limit| why.contains(limit)), "{why}");
}

#[test]
fn a_prompt_of_the_largest_size_fits() {
    let source = "{% for i in range(32) %}{{ 'x' * 1048576 }}{% endfor %}";
    let prompt = ChatTemplate::new(source).unwrap().render(&[], &RenderOptions::default()).unwrap();
    assert_eq!(prompt.text().len(), 32 << 20);
}
