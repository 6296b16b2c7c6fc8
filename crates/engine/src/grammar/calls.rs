//! Replies that call tools: fixed text around arguments of a schema, in the notation of Lark.
//!
//! Each tool's schema stays a document of its own, so references inside of it mean what they say.

use std::fmt::Write;

use serde_json::Value;
use wf_model::TokenId;

use super::BadGrammar;
use super::compile::prepared;
use super::narrow::narrow;

/// What calls of tools look like, and what may stand in their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// What announces calls, if anything does.
    pub mark: Option<Fixed>,
    /// What stands before the first call.
    pub before: String,
    /// The calls there can be.
    pub tools: Vec<ToolCall>,
    /// What stands between two calls.
    pub between: Vec<Fixed>,
    /// What stands after the last call.
    pub after: String,
    /// The most calls of a reply.
    pub most: usize,
    /// What a reply without calls is.
    pub instead: Instead,
}

/// A call of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// What stands before its arguments.
    pub before: String,
    /// The schema of its arguments.
    pub arguments: Value,
    /// What stands after them.
    pub after: Vec<Fixed>,
}

/// What is written as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// A text.
    Text(String),
    /// A token that is no text.
    Token(TokenId),
}

/// What a reply without calls is.
#[derive(Clone, Debug, PartialEq)]
pub enum Instead {
    /// There is none.
    Nothing,
    /// Any text, which may also come before calls. Where no mark announces calls, it is a text that begins
    /// otherwise.
    Text,
    /// JSON of a schema.
    Json(Value),
}

impl Calls {
    /// The schemas in it.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Value> {
        let content = match &self.instead {
            Instead::Json(schema) => Some(schema),
            Instead::Nothing | Instead::Text => None,
        };
        self.tools.iter().map(|tool| &tool.arguments).chain(content)
    }

    /// The grammar.
    pub(super) fn to_lark(&self) -> Result<String, BadGrammar> {
        let mut lark = format!("start: {}\n", self.start());
        let between: String = self.between.iter().map(fixed).collect();
        let names: Vec<String> = (0..self.tools.len()).map(|at| format!("call{at}")).collect();
        let mut line = |text: String| {
            lark.push_str(&text);
            lark.push('\n');
        };
        line(format!("calls: {}first_calls", self.mark.as_ref().map(fixed).unwrap_or_default()));
        let more = match self.most {
            0 | 1 => String::new(),
            most => format!("( {between}call ){{0,{}}} ", most - 1),
        };
        let (before, after) = (quoted(&self.before), quoted(&self.after));
        line(format!("first_calls: {before}call {more}{after}"));
        line(format!("call: {}", names.join(" | ")));
        for (name, tool) in names.iter().zip(&self.tools) {
            let after: String = tool.after.iter().map(fixed).collect();
            line(format!("{name}: {}{name}_arguments {after}", quoted(&tool.before)));
            line(format!("{name}_arguments: %json {}", followed(&tool.arguments)?));
        }
        match &self.instead {
            Instead::Nothing => {}
            Instead::Json(schema) => line(format!("content: %json {}", followed(schema)?)),
            Instead::Text => line(self.text_rules()),
        }
        Ok(lark)
    }

    fn start(&self) -> &'static str {
        match (&self.instead, &self.mark) {
            (Instead::Nothing, _) => "calls",
            (Instead::Json(_), _) => "calls | content",
            // The text up to the mark is one lexeme with it: the end of a text is not looked for twice.
            (Instead::Text, Some(Fixed::Text(_))) => "\"\" | FREE | announced first_calls",
            (Instead::Text, Some(Fixed::Token(_))) => "\"\" | FREE | FREE calls | calls",
            (Instead::Text, None) => "\"\" | FREE | calls",
        }
    }

    fn text_rules(&self) -> String {
        match &self.mark {
            Some(Fixed::Text(mark)) => {
                let mark_regex = literal_regex(mark);
                let mark = Value::from(mark.as_str());
                format!(
                    "FREE: /(?s:.+)/ & ~/(?s:.*){mark_regex}(?s:.*)/\n\
                     announced[suffix={mark}]: /(?s:.*)/"
                )
            }
            Some(Fixed::Token(_)) => "FREE: /(?s:.+)/".to_owned(),
            None => "FREE: /\\s*([^\\s{](?s:.*))?/ & /(?s:.+)/".to_owned(),
        }
    }
}

/// A schema as replies follow it.
fn followed(schema: &Value) -> Result<Value, BadGrammar> {
    let mut schema = schema.clone();
    narrow(&mut schema);
    prepared(schema)
}

/// A text in quotes, and a space; nothing if it is empty.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{} ", Value::from(text)) }
}

fn fixed(fixed: &Fixed) -> String {
    match fixed {
        Fixed::Text(text) => quoted(text),
        Fixed::Token(token) => format!("<[{token}]> "),
    }
}

/// A regular expression that matches this text alone.
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
    use crate::open::{ModelSource, ModelText, RunOptions, read_text};

    fn text(text: &str) -> Fixed {
        Fixed::Text(text.to_owned())
    }

    fn calls(mark: Option<Fixed>, most: usize, instead: Instead) -> Calls {
        let tool = |name: &str| ToolCall {
            before: format!("{{\"name\": {}, \"arguments\": ", Value::from(name)),
            arguments: json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
                "required": ["a"], "additionalProperties": false, "$defs": {"a": {"enum": [1, 2]}}}),
            after: vec![text("}"), text("</call>")],
        };
        Calls {
            between: mark.clone().into_iter().collect(),
            mark,
            before: String::new(),
            tools: vec![tool("f"), tool("g \"\\x41\" /i")],
            after: String::new(),
            most,
            instead,
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

        /// Whether a reply can begin like this, and whether it can end here.
        fn follow(&self, calls: &Calls, text: &str) -> (bool, bool) {
            let grammar = self.grammars.compile(&GrammarSource::Calls(calls.clone())).unwrap();
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
    fn calls_that_must_come_are_all_there_is() {
        let checker = Checker::new();
        let one = calls(Some(text("<call>")), 1, Instead::Nothing);
        assert_eq!(checker.follow(&one, F), WHOLE);
        assert_eq!(checker.follow(&one, &F[..20]), OPEN);
        assert_eq!(checker.follow(&one, &F.replace("\"f\"", "\"g \\\"\\\\x41\\\" /i\"")), WHOLE);
        assert_eq!(checker.follow(&one, &F.replace("1", "3")), WRONG);
        assert_eq!(checker.follow(&one, "Hello"), WRONG);
        assert_eq!(checker.follow(&one, &F.repeat(2)), WRONG);
        let several = calls(Some(text("<call>")), 3, Instead::Nothing);
        assert_eq!(checker.follow(&several, &F.repeat(3)), WHOLE);
        assert_eq!(checker.follow(&several, &F.repeat(4)), WRONG);
    }

    #[test]
    fn text_may_come_instead_and_before() {
        let checker = Checker::new();
        let free = calls(Some(text("<call>")), 2, Instead::Text);
        assert_eq!(checker.follow(&free, ""), WHOLE);
        assert_eq!(checker.follow(&free, "a < b, and <cal"), WHOLE);
        assert_eq!(checker.follow(&free, F), WHOLE);
        assert_eq!(checker.follow(&free, &format!("Let me see.\n{F}{F}")), WHOLE);
        assert_eq!(checker.follow(&free, "Let me see. <call>{\"name\": \"x"), WRONG);
        assert_eq!(checker.follow(&free, &format!("{F} and")), WRONG);
        let bare = calls(None, 1, Instead::Text);
        assert_eq!(checker.follow(&bare, &F[6..]), WHOLE);
        assert_eq!(checker.follow(&bare, " Hello {\"name\": \"x"), WHOLE);
        assert_eq!(checker.follow(&bare, "{\"city\""), WRONG);
    }

    #[test]
    fn json_may_come_instead() {
        let checker = Checker::new();
        let json = calls(Some(text("<call>")), 1, Instead::Json(json!({"enum": [{"b": 1}]})));
        assert_eq!(checker.follow(&json, "{\"b\": 1}"), WHOLE);
        assert_eq!(checker.follow(&json, F), WHOLE);
        assert_eq!(checker.follow(&json, "Hello"), WRONG);
    }

    #[test]
    fn many_tools_fit() {
        let checker = Checker::new();
        let mut many = calls(Some(text("<call>")), 8, Instead::Text);
        let tool = |at: usize| ToolCall {
            before: format!("{{\"name\": \"tool_{at}\", \"arguments\": "),
            arguments: json!({"type": "object", "properties": {
                "text": {"type": "string"}, "list": {"type": "array", "items": {"type": "integer"}},
                "unit": {"enum": ["C", "F", at]}}, "required": ["text"]}),
            after: vec![text("}</call>")],
        };
        many.tools = (0..128).map(tool).collect();
        let call = r#"<call>{"name": "tool_127", "arguments": {"text": "x", "unit": 127}}</call>"#;
        assert_eq!(checker.follow(&many, &format!("So: {call}{call}")), WHOLE);
        assert_eq!(checker.follow(&many, &call.replace("127}", "126}")), WRONG);
    }

    #[test]
    fn a_mark_may_be_a_token() {
        let checker = Checker::new();
        let special = checker.model.tokenizer.special_tokens().next().unwrap().0;
        let token = calls(Some(Fixed::Token(special)), 1, Instead::Text);
        let grammar = checker.grammars.compile(&GrammarSource::Calls(token)).unwrap();
        let mut matcher = grammar.start.deep_clone();
        let before = checker.model.tokenizer.encode("Let me see.");
        let after = checker.model.tokenizer.encode(&F[6..]);
        for id in before.into_iter().chain([special]).chain(after) {
            matcher.consume_token(id).unwrap();
        }
        assert!(matcher.is_accepting().unwrap());
    }
}
