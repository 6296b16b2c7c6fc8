//! The tools that a model may call in a chat, and the calls that need no question.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::args::ChatArgs;
use super::mcp::{McpServer, McpTool};

/// A call of a tool, as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Arguments as JSON.
    pub(crate) arguments: String,
}

impl ToolCall {
    /// Returns the call in the format of the OpenAI API.
    pub(crate) fn to_json(&self) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": self.id, "type": "function", "function": function})
    }
}

/// The tools of all servers.
#[derive(Default)]
pub(crate) struct Tools {
    servers: Vec<McpServer>,
    offered: Vec<Offered>,
    allows_all: bool,
    allowed: BTreeSet<String>,
}

struct Offered {
    /// Name that the model uses: that of the tool, with a number if another server has the same.
    name: String,
    server: usize,
    tool: McpTool,
}

impl Tools {
    /// Starts the servers of the command line and lists their tools.
    pub(crate) async fn start(args: &ChatArgs, is_interactive: bool) -> Result<Self> {
        ensure!(
            args.mcp_command.is_empty() || args.mcp_allow || is_interactive,
            "--mcp-server in a script requires --mcp-allow: nobody is there to allow its calls"
        );
        let mut tools = Self { allows_all: args.mcp_allow, ..Self::default() };
        for command in &args.mcp_command {
            let mut server = McpServer::start(command).await?;
            for tool in server.tools().await? {
                tools.offer(tool);
            }
            tools.servers.push(server);
        }
        Ok(tools)
    }

    /// Adds a tool of the server that is started next.
    fn offer(&mut self, tool: McpTool) {
        let is_free = |name: &String| self.offered.iter().all(|other| other.name != *name);
        let numbered = (2..).map(|number| format!("{}_{number}", tool.name));
        let mut names = std::iter::once(tool.name.clone()).chain(numbered);
        let name = names.find(is_free).expect("some number is not taken");
        self.offered.push(Offered { name, server: self.servers.len(), tool });
    }

    /// Returns the names of all tools.
    pub(crate) fn names(&self) -> Vec<String> {
        self.offered.iter().map(|offered| offered.name.clone()).collect()
    }

    /// Returns the definitions of all tools, in the format of the OpenAI API.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        let definition = |offered: &Offered| {
            let McpTool { description, input_schema, .. } = &offered.tool;
            let function = json!({
                "name": offered.name,
                "description": description,
                "parameters": input_schema,
            });
            json!({"type": "function", "function": function})
        };
        self.offered.iter().map(definition).collect()
    }

    /// True if a tool may be called without a question.
    pub(crate) fn is_allowed(&self, name: &str) -> bool {
        self.allows_all || self.allowed.contains(name)
    }

    /// Allows a tool for the rest of the chat.
    pub(crate) fn allow(&mut self, name: &str) {
        self.allowed.insert(name.to_owned());
    }

    /// Calls a tool. Problems are results that the model can read.
    pub(crate) async fn call(&mut self, call: &ToolCall) -> String {
        let Some(offered) = self.offered.iter().find(|offered| offered.name == call.name) else {
            return format!("there is no tool named {}", call.name);
        };
        let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let Ok(arguments) = serde_json::from_str(text) else {
            return "the arguments are not valid JSON".to_owned();
        };
        let result = self.servers[offered.server].call(&offered.tool.name, &arguments).await;
        result.unwrap_or_else(|error| format!("the call failed: {error:#}"))
    }
}
