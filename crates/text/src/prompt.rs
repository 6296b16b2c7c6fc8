//! A rendered chat that remembers which of its text came from users.

use std::borrow::Cow;

/// What a chat template wrote. [`text`](Prompt::text) is for reading;
/// [`Tokenizer::encode_prompt`](crate::Tokenizer::encode_prompt) makes tokens of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    /// The text with marks in what users wrote, if any were needed.
    marked: Option<Marked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marked {
    text: String,
    mark: char,
}

impl Prompt {
    /// A prompt in which nothing users wrote could be taken for a special token.
    pub(crate) fn unmarked(text: String) -> Self {
        Prompt { text, marked: None }
    }

    /// A prompt from its marked form; the plain text is the same without the marks.
    pub(crate) fn marked_with(mark: char, marked: String) -> Self {
        let text = marked.replace(mark, "");
        Prompt { text, marked: Some(Marked { text: marked, mark }) }
    }

    /// Exactly what the template renders, as `apply_chat_template` of Transformers gives it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The prompt up to the only place where `end` is; nothing if there is none or there are several.
    pub(crate) fn cut_at(self, end: char) -> Option<Self> {
        let cut = |text: String| {
            let (before, after) = text.split_once(end)?;
            (!after.contains(end)).then(|| before.to_owned())
        };
        let marked = match self.marked {
            Some(Marked { text, mark }) => Some(Marked { text: cut(text)?, mark }),
            None => None,
        };
        Some(Self { text: cut(self.text)?, marked })
    }

    /// The form in which special tokens are looked for.
    pub(crate) fn marked(&self) -> &str {
        self.marked.as_ref().map_or(&self.text, |marked| &marked.text)
    }

    /// A part of the marked form as plain text.
    pub(crate) fn without_marks<'a>(&self, part: &'a str) -> Cow<'a, str> {
        match &self.marked {
            Some(marked) if part.contains(marked.mark) => part.replace(marked.mark, "").into(),
            _ => part.into(),
        }
    }
}
