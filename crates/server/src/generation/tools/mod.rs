//! Tools: definitions in a request, whether they must be called, and the grammar that makes sure of it.
//!
//! Dialects spell tools differently ([`ToolSyntax`]); from there on they are the same. Calls are parsed from
//! the generated text by `wf_text::ToolCallParser`.

mod grammar;
mod read;

use serde_json::{Value, json};
use wf_text::{ToolCallParser, ToolFormat};

pub(crate) use read::{ToolSyntax, read_openai_choice};

use super::fields::check_count;
use crate::error::ApiError;
use crate::http::request_id;

const MAX_TOOLS: usize = 128;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    name: String,
    description: Option<String>,
    /// Schema of the arguments.
    parameters: Value,
    strict: bool,
    /// Path of the schema in the request.
    field: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolChoice {
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
    Named(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tools {
    tools: Vec<Tool>,
    choice: ToolChoice,
    /// Allows several calls in one response.
    parallel: bool,
    /// True if a grammar guarantees well-formed calls.
    is_constrained: bool,
}

impl Tools {
    /// Checks names and the choice. There is nothing to offer to a model that must not call tools.
    pub(crate) fn new(
        tools: Vec<Tool>,
        choice: ToolChoice,
        parallel: bool,
    ) -> Result<Option<Self>, ApiError> {
        check_count("tools", tools.len(), MAX_TOOLS)?;
        for (at, tool) in tools.iter().enumerate() {
            if let Some(first) = tools[..at].iter().position(|other| other.name == tool.name) {
                let what = format!("the name {:?} is already used by tools[{first}]", tool.name);
                return Err(ApiError::at(format!("tools[{at}]"), &what));
            }
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        match &choice {
            ToolChoice::Named(name) if !names.contains(&name.as_str()) => Err(ApiError::at(
                "tool_choice",
                &format!("{name:?} is not one of the tools {names:?}"),
            )),
            ToolChoice::Required if tools.is_empty() => {
                Err(ApiError::at("tool_choice", "\"required\" needs at least one tool"))
            }
            ToolChoice::None => Ok(None),
            _ if tools.is_empty() => Ok(None),
            _ => Ok(Some(Self { tools, choice, parallel, is_constrained: false })),
        }
    }

    /// Returns the definitions as chat templates expect them.
    pub(crate) fn for_template(tools: Option<&Self>) -> Vec<Value> {
        let definition = |tool: &Tool| {
            let mut function = json!({"name": tool.name});
            if let Some(description) = &tool.description {
                function["description"] = json!(description);
            }
            function["parameters"] = tool.parameters.clone();
            json!({"type": "function", "function": function})
        };
        tools.into_iter().flat_map(|tools| &tools.tools).map(definition).collect()
    }

    /// Creates a parser for calls in one completion.
    pub(crate) fn parser(&self, format: ToolFormat) -> ToolCallParser {
        let names = self.tools.iter().map(|tool| tool.name.clone()).collect();
        let parser = ToolCallParser::new(format, names);
        if self.is_constrained { parser.constrained() } else { parser }
    }
}

/// Returns a new id for a call. Calls of one conversation come from many requests, whose ids may repeat.
pub(crate) fn call_id(prefix: &str) -> String {
    format!("{prefix}_{}", &request_id::random()[..24])
}
