//! The template engine, sandboxed. The only file that sets up `minijinja`.

use std::io;
use std::sync::Arc;

use minijinja::{Environment, Error, ErrorKind, Template, Value};
use serde_json::Map;

use super::date::Date;
use super::python;
use super::runner::Runner;
use super::values::to_json;
use crate::TextError;

/// Maximum number of steps of a rendering. A thousand messages in the longest templates take a tenth of it.
const MAX_STEPS: u64 = 1_000_000;
/// Maximum depth of nested calls. Real templates nest macros two or three deep.
const MAX_DEPTH: usize = 100;
/// Maximum size of a prompt, far beyond any context window.
const MAX_PROMPT_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(super) struct Engine {
    compiled: Arc<Compiled>,
    runner: Runner,
}

#[derive(Debug)]
struct Compiled {
    environment: Environment<'static>,
    source: String,
}

impl Engine {
    pub(super) fn new(source: &str) -> Result<Self, TextError> {
        let mut environment = Environment::new();
        python::install(&mut environment);
        environment.add_filter("tojson", to_json);
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_recursion_limit(MAX_DEPTH);
        environment.add_function("raise_exception", raise_exception);
        // Jinja2 reads every kind of line ending in a template as a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = without_generation_tags(&source);
        let compiled = Arc::new(Compiled { environment, source });
        let engine = Engine { compiled, runner: Runner::default() };
        engine.run(|compiled| compiled.template().map(drop))?;
        Ok(engine)
    }

    pub(super) fn source(&self) -> &str {
        &self.compiled.source
    }

    pub(super) fn render(
        &self,
        variables: Map<String, serde_json::Value>,
        date: Option<Date>,
    ) -> Result<String, TextError> {
        self.run(move |compiled| compiled.render(variables, date))
    }

    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Compiled) -> Result<T, TextError> + Send + 'static,
    ) -> Result<T, TextError> {
        let compiled = Arc::clone(&self.compiled);
        self.runner.run(move || job(&compiled))
    }
}

impl Compiled {
    fn template(&self) -> Result<Template<'_, '_>, TextError> {
        let template = self.environment.template_from_str(&self.source);
        template.map_err(|error| TextError::Template(describe(&error)))
    }

    fn render(
        &self,
        variables: Map<String, serde_json::Value>,
        date: Option<Date>,
    ) -> Result<String, TextError> {
        let template = self.template()?;
        let variables = variables.into_iter();
        let mut context: Vec<(String, Value)> =
            variables.map(|(name, value)| (name, Value::from_serialize(value))).collect();
        if let Some(date) = date {
            let strftime_now = move |format: &str| {
                date.format(format).map_err(|what| Error::new(ErrorKind::InvalidOperation, what))
            };
            context.push(("strftime_now".into(), Value::from_function(strftime_now)));
        }
        let mut output = Output { bytes: Vec::new(), full: false };
        match template.render_captured_to(Value::from_iter(context), &mut output) {
            Ok(_) => {}
            Err(_) if output.full => {
                let what = format!("output is larger than the limit of {MAX_PROMPT_BYTES} bytes");
                return Err(TextError::Template(what));
            }
            Err(error) => return Err(TextError::TemplateRender(describe(&error))),
        }
        String::from_utf8(output.bytes)
            .map_err(|_| TextError::TemplateRender("output is not UTF-8".into()))
    }
}

/// Function that templates call to reject messages.
fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Output buffer with a size limit.
struct Output {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Output {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > MAX_PROMPT_BYTES {
            self.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats an engine error: message and line, without the engine's preamble.
fn describe(error: &Error) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}

/// Replaces the `{% generation %}` tags of Transformers, which mark assistant messages for training, by a
/// condition that is always true. White-space control is preserved.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        out.push_str(&rest[..start]);
        let tag_end = rest[start..].find("%}").map_or(rest.len(), |end| start + end + 2);
        let tag = &rest[start..tag_end];
        let name =
            tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        match name {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[tag_end..];
    }
    out.push_str(rest);
    out
}
