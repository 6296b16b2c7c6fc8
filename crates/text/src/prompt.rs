//! A rendered chat in which user text is distinguishable.

use std::borrow::Cow;

/// Output of a chat template, encoded by [`Tokenizer::encode_prompt`](crate::Tokenizer::encode_prompt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    /// Text with marks inside user text, if any are needed.
    marked: Option<Marked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marked {
    text: String,
    mark: char,
}

impl Prompt {
    /// Creates a prompt whose user text cannot be read as a special token.
    pub(crate) fn unmarked(text: String) -> Self {
        Prompt { text, marked: None }
    }

    /// Creates a prompt from its marked text.
    pub(crate) fn marked_with(mark: char, marked: String) -> Self {
        let text = marked.replace(mark, "");
        Prompt { text, marked: Some(Marked { text: marked, mark }) }
    }

    /// Returns the rendered text, equal to that of `apply_chat_template` in Transformers.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends text of the model, in which special tokens are searched.
    pub fn push_str(&mut self, more: &str) {
        self.text.push_str(more);
        if let Some(marked) = &mut self.marked {
            marked.text.push_str(more);
        }
    }

    /// Cuts the prompt at the only occurrence of `end`. Returns `None` if there is none or several.
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

    /// Returns the text in which special tokens are searched.
    pub(crate) fn marked(&self) -> &str {
        self.marked.as_ref().map_or(&self.text, |marked| &marked.text)
    }

    /// Removes the marks from a part of the marked text.
    pub(crate) fn without_marks<'a>(&self, part: &'a str) -> Cow<'a, str> {
        match &self.marked {
            Some(marked) if part.contains(marked.mark) => part.replace(marked.mark, "").into(),
            _ => part.into(),
        }
    }
}
