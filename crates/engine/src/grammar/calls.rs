//! Grammars of tool calls: literal text around arguments of a schema, in the notation of Lark.
//!
//! Each tool's schema stays a separate document, so references inside of it resolve correctly.

use std::fmt::Write;

use serde_json::Value;
use wf_model::TokenId;

use super::GrammarError;
use super::compile::prepared;
use super::narrow::narrow;

/// Structure of a completion with tool calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallGrammar {
    /// Marker before the calls.
    pub trigger: Option<Literal>,
    /// Text before the first call.
    pub begin: String,
    /// Tools that can be called.
    pub tools: Vec<CallGrammar>,
    /// Text between two calls.
    pub separator: Vec<Literal>,
    /// Text after the last call.
    pub end: String,
    /// Maximum number of calls.
    pub max_calls: usize,
    /// Completions without calls.
    pub no_call: NoCall,
}

/// Structure of a call of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct CallGrammar {
    /// Text before the arguments.
    pub begin: String,
    /// Schema of the arguments.
    pub schema: Value,
    /// Text after the arguments.
    pub end: Vec<Literal>,
}

/// Literal part of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// Text.
    Text(String),
    /// A special token.
    Token(TokenId),
}

/// Completions without calls.
#[derive(Clone, Debug, PartialEq)]
pub enum NoCall {
    /// Not allowed.
    Forbidden,
    /// Any text, which may also precede calls. Without a trigger, a text that does not begin like a call.
    Text,
    /// JSON that matches a schema.
    Json(Value),
}

impl ToolCallGrammar {
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Value> {
        let content = match &self.no_call {
            NoCall::Json(schema) => Some(schema),
            NoCall::Forbidden | NoCall::Text => None,
        };
        self.tools.iter().map(|tool| &tool.schema).chain(content)
    }

    /// Returns the grammar in Lark.
    pub(super) fn to_lark(&self) -> Result<String, GrammarError> {
        let mut lark = format!("start: {}\n", self.start());
        let between: String = self.separator.iter().map(literal).collect();
        let names: Vec<String> = (0..self.tools.len()).map(|at| format!("call{at}")).collect();
        let mut line = |text: String| {
            lark.push_str(&text);
            lark.push('\n');
        };
        line(format!(
            "calls: {}first_calls",
            self.trigger.as_ref().map(literal).unwrap_or_default()
        ));
        let more = match self.max_calls {
            0 | 1 => String::new(),
            most => format!("( {between}call ){{0,{}}} ", most - 1),
        };
        let (before, after) = (quoted(&self.begin), quoted(&self.end));
        line(format!("first_calls: {before}call {more}{after}"));
        line(format!("call: {}", names.join(" | ")));
        for (name, tool) in names.iter().zip(&self.tools) {
            let after: String = tool.end.iter().map(literal).collect();
            line(format!("{name}: {}{name}_arguments {after}", quoted(&tool.begin)));
            line(format!("{name}_arguments: %json {}", prepared_schema(&tool.schema)?));
        }
        match &self.no_call {
            NoCall::Forbidden => {}
            NoCall::Json(schema) => line(format!("content: %json {}", prepared_schema(schema)?)),
            NoCall::Text => line(self.text_rules()),
        }
        Ok(lark)
    }

    fn start(&self) -> &'static str {
        match (&self.no_call, &self.trigger) {
            (NoCall::Forbidden, _) => "calls",
            (NoCall::Json(_), _) => "calls | content",
            // The text and the trigger after it are one lexeme, so the end of the text is not searched twice.
            (NoCall::Text, Some(Literal::Text(_))) => "\"\" | FREE | announced first_calls",
            (NoCall::Text, Some(Literal::Token(_))) => "\"\" | FREE | FREE calls | calls",
            (NoCall::Text, None) => "\"\" | FREE | calls",
        }
    }

    fn text_rules(&self) -> String {
        match &self.trigger {
            Some(Literal::Text(mark)) => {
                let mark_regex = literal_regex(mark);
                let mark = Value::from(mark.as_str());
                format!(
                    "FREE: /(?s:.+)/ & ~/(?s:.*){mark_regex}(?s:.*)/\n\
                     announced[suffix={mark}]: /(?s:.*)/"
                )
            }
            Some(Literal::Token(_)) => "FREE: /(?s:.+)/".to_owned(),
            None => "FREE: /\\s*([^\\s{](?s:.*))?/ & /(?s:.+)/".to_owned(),
        }
    }
}

/// Returns a schema as completions follow it.
fn prepared_schema(schema: &Value) -> Result<Value, GrammarError> {
    let mut schema = schema.clone();
    narrow(&mut schema);
    prepared(schema)
}

/// Returns a text in quotes and a space, or nothing if it is empty.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{} ", Value::from(text)) }
}

fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => quoted(text),
        Literal::Token(token) => format!("<[{token}]> "),
    }
}

/// Returns a regular expression that matches exactly this text.
fn literal_regex(text: &str) -> String {
    text.chars().fold(String::new(), |mut regex, c| {
        write!(regex, "\\x{{{:x}}}", c as u32).expect("a string takes everything");
        regex
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::super::{GrammarSource, Grammars};
    use super::*;
    use crate::{ModelSource, ModelText, RunOptions, read_text};

    fn text(text: &str) -> Literal {
        Literal::Text(text.to_owned())
    }

    fn calls(mark: Option<Literal>, max_calls: usize, instead: NoCall) -> ToolCallGrammar {
        let tool = |name: &str| CallGrammar {
            begin: format!("{{\"name\": {}, \"arguments\": ", Value::from(name)),
            schema: json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
                "required": ["a"], "additionalProperties": false, "$defs": {"a": {"enum": [1, 2]}}}),
            end: vec![text("}"), text("</call>")],
        };
        ToolCallGrammar {
            separator: mark.clone().into_iter().collect(),
            trigger: mark,
            begin: String::new(),
            tools: vec![tool("f"), tool("g \"\\x41\" /i")],
            end: String::new(),
            max_calls,
            no_call: instead,
        }
    }

    struct Checker {
        model: ModelText,
        grammars: Grammars,
    }

    impl Checker {
        fn new() -> Self {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
            let file = ModelSource::Path(path).open(&RunOptions::default().open).unwrap();
            let model = read_text(&file).unwrap();
            let grammars = Grammars::new(&model.tokenizer, &model.end_tokens).unwrap();
            Self { model, grammars }
        }

        /// Returns whether a completion can begin with this text, and whether it can end after it.
        fn follow(&self, calls: &ToolCallGrammar, text: &str) -> (bool, bool) {
            let grammar = self.grammars.compile(&GrammarSource::ToolCalls(calls.clone())).unwrap();
            let mut matcher = grammar.start.deep_clone();
            let ids = self.model.tokenizer.encode(text);
            let begins = ids.into_iter().all(|id| matcher.consume_token(id).is_ok());
            (begins, begins && matcher.is_accepting().unwrap())
        }
    }

    const WHOLE: (bool, bool) = (true, true);
    const OPEN: (bool, bool) = (true, false);
    const WRONG: (bool, bool) = (false, false);
    const F: &str = r#"<call>{"name": "f", "arguments": {"a": 1}}</call>"#;

    #[test]
    fn required_calls_allow_nothing_else() {
        let checker = Checker::new();
        let one = calls(Some(text("<call>")), 1, NoCall::Forbidden);
        assert_eq!(checker.follow(&one, F), WHOLE);
        assert_eq!(checker.follow(&one, &F[..20]), OPEN);
        assert_eq!(checker.follow(&one, &F.replace("\"f\"", "\"g \\\"\\\\x41\\\" /i\"")), WHOLE);
        assert_eq!(checker.follow(&one, &F.replace("1", "3")), WRONG);
        assert_eq!(checker.follow(&one, "Hello"), WRONG);
        assert_eq!(checker.follow(&one, &F.repeat(2)), WRONG);
        let several = calls(Some(text("<call>")), 3, NoCall::Forbidden);
        assert_eq!(checker.follow(&several, &F.repeat(3)), WHOLE);
        assert_eq!(checker.follow(&several, &F.repeat(4)), WRONG);
    }

    #[test]
    fn text_may_replace_or_precede_calls() {
        let checker = Checker::new();
        let free = calls(Some(text("<call>")), 2, NoCall::Text);
        assert_eq!(checker.follow(&free, ""), WHOLE);
        assert_eq!(checker.follow(&free, "a < b, and <cal"), WHOLE);
        assert_eq!(checker.follow(&free, F), WHOLE);
        assert_eq!(checker.follow(&free, &format!("Let me see.\n{F}{F}")), WHOLE);
        assert_eq!(checker.follow(&free, "Let me see. <call>{\"name\": \"x"), WRONG);
        assert_eq!(checker.follow(&free, &format!("{F} and")), WRONG);
        let bare = calls(None, 1, NoCall::Text);
        assert_eq!(checker.follow(&bare, &F[6..]), WHOLE);
        assert_eq!(checker.follow(&bare, " Hello {\"name\": \"x"), WHOLE);
        assert_eq!(checker.follow(&bare, "{\"city\""), WRONG);
    }

    #[test]
    fn json_may_replace_calls() {
        let checker = Checker::new();
        let json = calls(Some(text("<call>")), 1, NoCall::Json(json!({"enum": [{"b": 1}]})));
        assert_eq!(checker.follow(&json, "{\"b\": 1}"), WHOLE);
        assert_eq!(checker.follow(&json, F), WHOLE);
        assert_eq!(checker.follow(&json, "Hello"), WRONG);
    }

    #[test]
    fn many_tools_are_supported() {
        let checker = Checker::new();
        let mut many = calls(Some(text("<call>")), 8, NoCall::Text);
        let tool = |at: usize| CallGrammar {
            begin: format!("{{\"name\": \"tool_{at}\", \"arguments\": "),
            schema: json!({"type": "object", "properties": {
                "text": {"type": "string"}, "list": {"type": "array", "items": {"type": "integer"}},
                "unit": {"enum": ["C", "F", at]}}, "required": ["text"]}),
            end: vec![text("}</call>")],
        };
        many.tools = (0..128).map(tool).collect();
        let call = r#"<call>{"name": "tool_127", "arguments": {"text": "x", "unit": 127}}</call>"#;
        assert_eq!(checker.follow(&many, &format!("So: {call}{call}")), WHOLE);
        assert_eq!(checker.follow(&many, &call.replace("127}", "126}")), WRONG);
    }

    #[test]
    fn a_trigger_may_be_a_token() {
        let checker = Checker::new();
        let special = checker.model.tokenizer.special_tokens().next().unwrap().0;
        let token = calls(Some(Literal::Token(special)), 1, NoCall::Text);
        let grammar = checker.grammars.compile(&GrammarSource::ToolCalls(token)).unwrap();
        let mut matcher = grammar.start.deep_clone();
        let before = checker.model.tokenizer.encode("Let me see.");
        let after = checker.model.tokenizer.encode(&F[6..]);
        for id in before.into_iter().chain([special]).chain(after) {
            matcher.consume_token(id).unwrap();
        }
        assert!(matcher.is_accepting().unwrap());
    }
}
