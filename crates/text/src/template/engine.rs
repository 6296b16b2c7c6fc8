//! The template engine, sandboxed. The only file that sets up `minijinja`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use minijinja::{Environment, Error, ErrorKind, Template, Value};
use serde_json::Map;

use super::date::Date;
use super::python;
use super::values::to_json;
use crate::TextError;

/// Maximum number of steps of a rendering. A thousand messages in the longest templates take a tenth of it.
const MAX_STEPS: u64 = 1_000_000;
/// Maximum depth of nested calls. Real templates nest macros two or three deep.
const MAX_DEPTH: usize = 100;
/// Maximum size of a prompt, far beyond any context window.
const MAX_PROMPT_BYTES: usize = 32 << 20;
/// Stack of the rendering thread. Within its steps, a hostile template can nest a list about 10⁵ deep, which the
/// engine frees recursively. Untouched stack costs nothing.
const STACK_BYTES: usize = 128 << 20;
/// Maximum duration of a rendering: one step can compare lists of 10⁹ items, and no step can be interrupted.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Engine {
    compiled: Arc<Compiled>,
    /// True after a rendering that did not end in time. Its thread still runs, so there must not be a second one.
    is_stuck: AtomicBool,
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
        let engine = Engine { compiled, is_stuck: AtomicBool::new(false) };
        engine.on_own_stack(|compiled| compiled.template().map(drop))?;
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
        self.on_own_stack(move |compiled| compiled.render(variables, date))
    }

    /// Runs `job` on a thread with a deep stack, up to the time limit. A thread that exceeds it is left alone: it
    /// does not keep the process alive.
    fn on_own_stack<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Compiled) -> Result<T, TextError> + Send + 'static,
    ) -> Result<T, TextError> {
        let too_slow = || {
            let seconds = TIMEOUT.as_secs();
            TextError::Template(format!("rendering takes longer than the limit of {seconds} s"))
        };
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(too_slow());
        }
        let compiled = Arc::clone(&self.compiled);
        let (sender, result) = mpsc::sync_channel(1);
        let run = move || {
            // The receiver is gone after the time limit.
            let _ = sender.send(job(&compiled));
        };
        std::thread::Builder::new()
            .name("chat-template".into())
            .stack_size(STACK_BYTES)
            .spawn(run)
            .map_err(|e| {
                TextError::TemplateRender(format!("cannot start the rendering thread: {e}"))
            })?;
        result.recv_timeout(TIMEOUT).unwrap_or_else(|why| match why {
            mpsc::RecvTimeoutError::Timeout => {
                self.is_stuck.store(true, Ordering::Relaxed);
                Err(too_slow())
            }
            mpsc::RecvTimeoutError::Disconnected => {
                Err(TextError::Template("the template engine failed".to_owned()))
            }
        })
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
