//! Tools: what a request offers, whether they must be called, and the calls in the replies.
//!
//! Every dialect describes tools in its own words (`read.rs`); from there on they are the same. A call that
//! must come, or must be of its schema, is written under a grammar (`form.rs`). All calls are found in the
//! text of a reply, by [`Parts`].

pub(crate) mod blocks;
pub(crate) mod chat;
mod form;
mod history;
pub(crate) mod items;
mod parts;
pub(crate) mod read;

use serde_json::{Value, json};

pub(crate) use history::check_calls;
pub(crate) use parts::{Parts, call_id};

use crate::asked::check_count;
use crate::error::ApiError;

/// The most tools of a request.
const MOST_TOOLS: usize = 128;
/// The longest name of a tool.
const LONGEST_NAME: usize = 128;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    name: String,
    description: Option<String>,
    /// The schema of its arguments.
    parameters: Value,
    strict: bool,
    /// What the request calls that schema.
    field: String,
}

/// Whether tools are called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Never.
    None,
    /// As the model likes.
    Auto,
    /// At least one.
    Required,
    /// The one of this name.
    Named(String),
}

/// The tools of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tools {
    offered: Vec<Tool>,
    choice: Choice,
    /// Whether a reply may have several calls.
    parallel: bool,
    /// Whether a grammar makes sure of the calls.
    is_certain: bool,
}

impl Tools {
    /// The tools that are to be known of, if any: a model that must not call any is not told of them.
    fn new(offered: Vec<Tool>, choice: Choice, parallel: bool) -> Result<Option<Self>, ApiError> {
        check_count("tools", offered.len(), MOST_TOOLS)?;
        for (at, tool) in offered.iter().enumerate() {
            if let Some(first) = offered[..at].iter().position(|other| other.name == tool.name) {
                let message = format!("tools[{at}]: {:?} is tools[{first}] already", tool.name);
                return Err(ApiError::field(format!("tools[{at}]"), message));
            }
        }
        let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
        match &choice {
            Choice::Named(name) if !names.contains(&name.as_str()) => {
                let message = format!("tool_choice: {name:?} is none of tools: {names:?}");
                Err(ApiError::field("tool_choice", message))
            }
            Choice::Required if offered.is_empty() => {
                let message = "tool_choice: there are no tools to call";
                Err(ApiError::field("tool_choice", message))
            }
            Choice::None => Ok(None),
            _ if offered.is_empty() => Ok(None),
            _ => Ok(Some(Self { offered, choice, parallel, is_certain: false })),
        }
    }

    /// The tools as templates expect them.
    pub(crate) fn for_template(&self) -> Vec<Value> {
        let one = |tool: &Tool| {
            let mut function = json!({"name": tool.name});
            if let Some(description) = &tool.description {
                function["description"] = json!(description);
            }
            function["parameters"] = tool.parameters.clone();
            json!({"type": "function", "function": function})
        };
        self.offered.iter().map(one).collect()
    }

    fn names(&self) -> Vec<String> {
        self.offered.iter().map(|tool| tool.name.clone()).collect()
    }
}
