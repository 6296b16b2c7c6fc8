//! Templates that try to escape the sandbox or never end get an error.

use std::time::{Duration, Instant};

use serde_json::{Map, json};
use wf_text::{ChatMessage, ChatTemplate, RenderOptions, TextError};

fn render(source: &str) -> Result<String, TextError> {
    let messages = [ChatMessage::new("user", "hello")];
    let prompt = ChatTemplate::new(source)?.render(&messages, &RenderOptions::default())?;
    Ok(prompt.text().to_owned())
}

/// Sandbox escapes of Python templates.
const ESCAPES: &[&str] = &[
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ().__class__.__base__.__subclasses__()[104].__init__.__globals__['sys'].modules['os'].popen('id').read() }}",
    "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
    "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ get_flashed_messages.__globals__.__builtins__.open('/etc/passwd').read() }}",
    "{{ request.application.__globals__.__builtins__.__import__('os') }}",
    "{{ config.__class__.from_envvar.__globals__.import_string('os').popen('id').read() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{% if 'warning' in x.__name__ %}{{ x()._module.__builtins__['__import__']('os').popen('id').read() }}{% endif %}{% endfor %}",
    "{{ ''|attr('__class__')|attr('__mro__') }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
    "{{ ('%c' % 7).__class__ }}{{ open('/etc/passwd') }}",
    "{{ range.__globals__ }}{{ raise_exception.__globals__['os'] }}{{ raise_exception.__globals__.os.environ }}",
    "{% include '/etc/passwd' %}",
    "{% import '/etc/passwd' as x %}",
    "{% extends '/etc/passwd' %}",
    "{% from '/etc/passwd' import x %}",
    "{{ debug() }}",
    "{{ messages.append(1) }}{{ messages[0].update({'role': 'system'}) }}",
    "{{ env('HOME') }}{{ now() }}{{ random([1, 2]) }}",
    "{{ strftime_now('%Y') }}",
];

#[test]
fn ways_out_lead_nowhere() {
    for source in ESCAPES {
        match render(source) {
            Err(_) => {}
            Ok(text) => {
                // Undefined attributes print as nothing.
                assert!(text.trim().is_empty(), "{source} gave {text:?}");
            }
        }
    }
}

/// Templates that would exhaust time, memory or stack.
const BOMBS: &[&str] = &[
    "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}",
    "{% for a in range(99999999999) %}x{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ 'x' * 100000000000 }}",
    "{{ 'x' * 90000000 }}",
    "{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for a in range(1000) %}{% for a in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for a in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for a in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "{{ [1] | tojson(indent=100000000000) }}{{ raise_exception('end') }}",
    "{{ '%0100000000000d' | format(1) }}",
    "{{ 2 ** 100000000 }}",
    "{{ (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
];

#[test]
fn bombs_end_quickly_in_an_error() {
    for source in BOMBS {
        let started = Instant::now();
        let result = render(source);
        let took = started.elapsed();
        assert!(result.is_err(), "{source} gave {} bytes", result.unwrap().len());
        assert!(took < Duration::from_secs(30), "{source} took {took:?}");
    }
}

/// Single steps that would take minutes, or forever. The engine computes constants when it parses a template.
const ENDLESS_STEPS: &[&str] = &[
    "{{ ([0]*1000000000) == ([0]*1000000000) }}",
    "{{ [] * 9223372036854775807 }}",
    "{% set n = 1000000000 %}{{ ([0]*n) == ([0]*n) }}",
    "{% set n = 9223372036854775807 %}{{ [] * n }}",
    "{% set n = 9223372036854775807 %}{{ 1 in [] * n }}",
];

#[test]
fn a_step_without_end_is_given_up_once() {
    std::thread::scope(|scope| {
        for source in ENDLESS_STEPS {
            scope.spawn(move || {
                let expect = |error: TextError| {
                    let message = error.to_string();
                    assert!(message.contains("takes longer than the limit"), "{source}: {message}");
                };
                let template = match ChatTemplate::new(source) {
                    Ok(template) => template,
                    Err(error) => return expect(error),
                };
                let render = || template.render(&[], &RenderOptions::default());
                expect(render().unwrap_err());
                // A second thread would not end either, so none is started and waited for, which would take 5 s.
                let start = Instant::now();
                expect(render().unwrap_err());
                assert!(start.elapsed() < Duration::from_secs(4), "{source}");
            });
        }
    });
}

#[test]
fn a_small_stack_of_the_caller_is_enough() {
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let run = small.spawn(|| BOMBS.iter().for_each(|source| assert!(render(source).is_err())));
    run.unwrap().join().unwrap();
}

#[test]
fn template_arguments_cannot_replace_what_the_template_relies_on() {
    for name in ["messages", "raise_exception", "bos_token", "strftime_now"] {
        let mut extra = Map::new();
        extra.insert(name.into(), json!([]));
        let options = RenderOptions { extra, ..RenderOptions::default() };
        let error = ChatTemplate::new("x").unwrap().render(&[], &options).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn errors_say_what_and_where() {
    let raised = render("a\nb{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(raised.to_string(), "chat template: roles must alternate (line 2)");
    let syntax = render("{% if %}").unwrap_err().to_string();
    assert!(syntax.starts_with("chat template: syntax error"), "{syntax}");
}
