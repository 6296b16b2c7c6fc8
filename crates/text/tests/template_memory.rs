//! No template takes more memory than it may, whatever it does to get it.

#[path = "../../formats/tests/hostile/counting_alloc.rs"]
mod counting_alloc;

use std::time::{Duration, Instant};

use counting_alloc::peak_of;
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, TextError};

/// What a rendering may take in all: its own limit, what parsing takes, and the messages.
const LIMIT: usize = 64 << 20;

/// The length of the prompt, and the most memory that was held at once.
fn measured(source: &str) -> (Result<usize, TextError>, usize) {
    let messages = [ChatMessage::new("user", "hello")];
    peak_of(|| {
        let template = ChatTemplate::new(source)?;
        let prompt = template.render(&messages, &RenderOptions::default())?;
        Ok(prompt.text().len())
    })
}

/// Templates that grow without end: `grow` sixty times over.
fn grown(start: &str, grow: &str) -> String {
    format!(
        "{{% set ns = namespace(a={start}, l=[]) %}}{{% for i in range(60) %}}{{% set a = ns.a %}}{grow}{{% endfor %}}{{{{ ns.a | length }}}}"
    )
}

fn bombs() -> Vec<String> {
    let doublings = [
        "{% set ns.a = a ~ a %}",
        "{% set ns.a = a + a %}",
        "{% set ns.a = a * 1000 %}",
        "{% set ns.a = 1000 * a %}",
        "{% set ns.a = a.replace('', a) %}",
        "{% set ns.a = a | replace('x', a) %}",
        "{% set ns.a = a.replace('x', 'xxxx') %}",
        "{% set ns.a = [a, a] | join(a) %}",
        "{% set ns.a = a.join([a, a]) %}",
        "{% set ns.a = a | join(a) %}",
        "{% set ns.a = '%s%s' | format(a, a) %}",
        "{% set ns.a = '%s%s' % (a, a) %}",
        "{% set ns.a = '{0}{0}'.format(a) %}",
        "{% set ns.a = [a, a] | string %}",
        "{% set ns.a = [a, a] | tojson %}",
        "{% set ns.a = ([a, a] | tojson(indent=900)) %}",
        "{% set b %}{{ a }}{{ a }}{% endset %}{% set ns.a = b %}",
        "{% set b | upper %}{{ a }}{{ a }}{% endset %}{% set ns.a = b %}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns.a = m(a) %}",
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% set b %}{% call m() %}{{ a }}{% endcall %}{% endset %}{% set ns.a = b %}",
        "{% set b %}{% filter replace('x', a) %}{{ a }}{% endfilter %}{% endset %}{% set ns.a = b %}",
        "{% set ns.a = (a ~ '\\n' ~ a) | indent(900, true, true) %}",
        "{% set ns.a = (a ~ a) | e | upper | lower | title %}",
        "{% set ns.a = (a ~ '<>') | e %}{% set ns.a = ns.a ~ a ~ a %}",
        "{% set ns.l = ns.l + [a ~ a] %}{% set ns.a = a ~ a %}",
    ];
    let mut bombs: Vec<String> = doublings.iter().map(|grow| grown("'xxxxxxxx'", grow)).collect();
    let lists = [
        "{% set ns.a = a + a %}",
        "{% set ns.a = a * 1000 %}",
        "{% set ns.a = (a + a) | list | reverse | list %}",
        "{% set ns.a = (a + a) | sort %}",
        "{% set ns.a = (a + a) | map('string') | list %}",
        "{% set ns.a = (a + a) | select | list %}",
        "{% set ns.a = (a + a)[::-1] %}",
        "{% set ns.a = [a + a, ns.a] | sum(start=[]) %}",
        "{% set ns.a = ((a | join('abc')) ~ 'abc')  * 3 %}{% set ns.a = ns.a | list %}",
        "{% set ns.a = (a | join('abc') * 3).split('b') %}",
    ];
    bombs.extend(lists.iter().map(|grow| grown("[1, 2, 3]", grow)));
    bombs.extend(
        [
            "{{ 'x' * 1000000000 }}",
            "{% set a = 'x' * 10000000 %}{{ a.replace('x', 'y' * 1000000) }}",
            "{{ range(1000000000) | list }}",
            "{{ range(-(2 ** 126), 2 ** 126) }}",
            "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, range(100000)] %}{% endfor %}",
            "{% set ns = namespace(l=()) %}{% for i in range(100000) %}{% set ns.l = ns.l + ((range(100000)),) %}{% endfor %}",
            "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
            "{% for i in range(100000) %}{% set x = namespace(a='x' * 1000) %}{% endfor %}",
            "{% for i in range(100000) %}{% for j in range(100000) %}{% set x = namespace(a=1, b=loop) %}{% endfor %}{% endfor %}",
            "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [loop] %}{% endfor %}",
            "{{ raise_exception('x' * 8000000) }}",
            "{{ '%.999f' | format(1.5) * 100000 }}",
            "{% set a = 'x' * 4000000 %}{{ a | list }}",
            "{% macro f(n) %}{% set a = 'x' * 1000000 %}{{ a }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        ]
        .map(String::from),
    );
    bombs
}

/// Sources as long as they may be: what is parsed, and what a single expression holds.
fn long_sources() -> Vec<String> {
    let long = |open: &str, item: &str, close: &str| {
        format!("{open}{}{close}", item.repeat((127 << 10) / item.len()))
    };
    vec![
        long("{{ [", "1,", "] | length }}"),
        long("{{ [", "[],", "] | length }}"),
        long("{{ range(", "1,", ") }}"),
        long("{{ {", "1:1,", "} }}"),
        long("", "{{a}}", ""),
        long("{% if 0 %}", "{%elif 0%}", "{% endif %}"),
        long("{{ ", "1+", "1 }}"),
        long("{{ ", "a.", "a }}"),
        long("{% macro f() %}{{ f(", "1,", "f()) }}{% endmacro %}{{ f() }}"),
        long("{% macro f(", "a,", ") %}{{ f() }}{% endmacro %}{{ f() }}"),
        long("", "((((", ""),
        "x".repeat(1 << 20),
    ]
}

/// Renders, and checks what that took.
fn within_limits(source: &str) -> (Result<usize, TextError>, usize) {
    let shown: String = source.chars().take(300).collect();
    let started = Instant::now();
    let (result, peak) = measured(source);
    let took = started.elapsed();
    assert!(peak <= LIMIT, "{shown} took {peak} bytes");
    assert!(took < Duration::from_secs(3), "{shown} took {took:?}");
    (result, peak)
}

#[test]
fn bombs_meet_the_limit() {
    let mut highest = 0;
    for source in bombs() {
        let (result, peak) = within_limits(&source);
        assert!(result.is_err(), "{source} gave {} bytes", result.unwrap());
        highest = highest.max(peak);
    }
    // A limit that is never approached would prove nothing.
    assert!(highest > LIMIT / 4, "the highest peak is {highest}");
}

#[test]
fn long_sources_stay_within_the_limit() {
    for source in long_sources() {
        let (result, _) = within_limits(&source);
        assert!(source.len() <= 128 << 10 || result.is_err());
    }
}

#[test]
fn circles_are_given_back() {
    let source = "{% set ns = namespace(a='x' * 100000) %}{% set ns.me = [ns] %}{% macro f() %}{{ ns.a }}{% endmacro %}{% set ns.f = f %}{% for i in [1] %}{% set ns.loop = loop %}{{ loop.changed(loop) }}{% endfor %}{{ ns.f() | length }}";
    let (_, once) = measured(source);
    let ((), often) = peak_of(|| (0..10).for_each(|_| assert!(measured(source).0.is_ok())));
    assert!(often < once + 10_000, "{once} bytes once, {often} bytes in ten times");
}
