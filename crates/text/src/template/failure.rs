//! Why a rendering stopped.

use crate::TextError;

/// Texts of errors are for people; a template must not fill memory with one.
const MAX_CHARS: usize = 500;

/// Why a template could not be parsed or rendered.
#[derive(Debug)]
pub(super) enum Failure {
    /// It used more than it may.
    Limit { what: &'static str, limit: u64 },
    /// It is wrong, or says that the messages are.
    Error { what: String, line: Option<u32> },
}

impl Failure {
    pub(super) fn new(what: impl Into<String>) -> Self {
        let mut what = what.into();
        if let Some((end, _)) = what.char_indices().nth(MAX_CHARS) {
            what.truncate(end);
            what.push('…');
        }
        Failure::Error { what, line: None }
    }

    /// What the template itself says is wrong.
    pub(super) fn raised(message: &str) -> Self {
        // Cut before it is copied: the message may be as long as memory allows.
        let end = message.char_indices().nth(MAX_CHARS + 1).map_or(message.len(), |(end, _)| end);
        Failure::new(&message[..end])
    }

    /// The same failure with the line it happened in, unless a line closer to the cause is known.
    pub(super) fn at(mut self, here: u32) -> Self {
        if let Failure::Error { line: line @ None, .. } = &mut self {
            *line = Some(here);
        }
        self
    }

    /// This failure of a rendering.
    pub(super) fn in_rendering(self) -> TextError {
        match self {
            Failure::Limit { what, limit } => TextError::TemplateLimit { what, limit },
            Failure::Error { what, line } => TextError::TemplateRender(with_line(&what, line)),
        }
    }

    /// This failure of a parser.
    pub(super) fn in_parsing(self) -> TextError {
        match self {
            Failure::Limit { what, limit } => TextError::TemplateLimit { what, limit },
            Failure::Error { what, line } => TextError::TemplateSyntax(with_line(&what, line)),
        }
    }
}

fn with_line(what: &str, line: Option<u32>) -> String {
    line.map_or_else(|| what.to_owned(), |line| format!("{what} (line {line})"))
}
