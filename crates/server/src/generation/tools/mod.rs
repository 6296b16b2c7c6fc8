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

impl Tool {
    /// Returns the names of parameters whose schema allows text and nothing else.
    fn text_parameters(&self) -> Vec<String> {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let is_text = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "string");
        let texts = properties.into_iter().flatten().filter(|(_, schema)| is_text(schema));
        texts.map(|(name, _)| name.clone()).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolChoice {
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
    Named(String),
    /// Some of the tools, of which at least one is called if that is required.
    Allowed {
        names: Vec<String>,
        is_required: bool,
    },
}

impl ToolChoice {
    /// True if the model decides whether to call a tool.
    fn is_auto(&self) -> bool {
        matches!(self, Self::Auto | Self::Allowed { is_required: false, .. })
    }

    /// Returns the names of tools that it mentions.
    fn names(&self) -> &[String] {
        match self {
            Self::Named(name) => std::slice::from_ref(name),
            Self::Allowed { names, .. } => names,
            Self::None | Self::Auto | Self::Required => &[],
        }
    }

    /// True if this tool may be called.
    fn allows(&self, tool: &Tool) -> bool {
        match self {
            Self::None => false,
            Self::Auto | Self::Required => true,
            Self::Named(_) | Self::Allowed { .. } => self.names().contains(&tool.name),
        }
    }
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
        if let Some(name) = choice.names().iter().find(|name| !names.contains(&name.as_str())) {
            let what = format!("{name:?} is not one of the tools {names:?}");
            return Err(ApiError::at("tool_choice", &what));
        }
        match &choice {
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
        let callable = || self.tools.iter().filter(|tool| self.choice.allows(tool));
        let names = callable().map(|tool| tool.name.clone()).collect();
        let texts = callable().map(Tool::text_parameters).collect();
        let parser = ToolCallParser::new(format, names).with_text_parameters(texts);
        if self.is_constrained { parser.constrained() } else { parser }
    }
}

/// Returns a new id for a call. Calls of one conversation come from many requests, whose ids may repeat.
pub(crate) fn call_id(prefix: &str) -> String {
    format!("{prefix}_{}", &request_id::random()[..24])
}
