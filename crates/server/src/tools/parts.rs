//! Replies taken apart into text and calls.

use wf_text::{CallFinder, CallPart, ToolFormat};

use super::Tools;
use crate::asked::Asked;
use crate::request_id::RequestId;

/// Takes replies apart, if there are tools to be called in them.
#[derive(Default)]
pub(crate) struct Parts {
    /// One for each reply, or none.
    finders: Vec<CallFinder>,
}

impl Parts {
    /// For so many replies of a model that writes calls in this format.
    pub(crate) fn new(asked: &Asked, format: ToolFormat, replies: usize) -> Self {
        let finder = |tools: &Tools| {
            let finder = CallFinder::new(format, tools.names());
            if tools.is_certain { finder.certain() } else { finder }
        };
        let finders = asked.tools.iter().flat_map(|tools| (0..replies).map(|_| finder(tools)));
        Self { finders: finders.collect() }
    }

    /// Whether there are tools.
    pub(crate) fn have_tools(&self) -> bool {
        !self.finders.is_empty()
    }

    /// What is decided with more text of a reply.
    pub(crate) fn push(&mut self, reply: usize, text: String) -> Vec<CallPart> {
        match self.finders.get_mut(reply) {
            Some(finder) => finder.push(&text),
            None if text.is_empty() => Vec::new(),
            None => vec![CallPart::Text(text)],
        }
    }

    /// What is decided with the end of a reply.
    pub(crate) fn finish(&mut self, reply: usize) -> Vec<CallPart> {
        self.finders.get_mut(reply).map(CallFinder::finish).unwrap_or_default()
    }
}

/// A new name for a call. Calls of one conversation come from many requests, whose own names may be
/// the client's and equal.
pub(crate) fn call_id(kind: &str) -> String {
    let drawn = RequestId::draw();
    format!("{kind}_{}", &drawn.as_str()[..24])
}
