//! Models in this process, for programs in other languages.
//!
//! A model is named, opened and run as by `wf run`: options are the flags of the command line, by name
//! ([`Keyword`]), with the same defaults, checks and messages. Variables such as `WF_THREADS` are not read, so
//! that the results of a program depend on its own arguments alone.

mod error;
mod keywords;
#[cfg(test)]
mod python_types;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use wf_api::wire;
use wf_engine::{
    DecodeMode, Embedding, Frontend, GenerationRequest, KvCapacity, OpenedModel, PromptInput,
    RunOptions,
};
use wf_text::ChatMessage;

pub use self::error::{Error, ErrorKind};
pub use self::keywords::Keyword;
use self::keywords::{Parsed, parse};
use crate::args::{
    ConstraintArgs, DecodingArgs, EngineArgs, SamplingArgs, parse_count, parse_size,
};
use crate::embed::VectorArgs;
use crate::{memory, open};

/// Maximum number of waiting sequences: a program that submits a large batch is not turned away.
const MAX_WAITING: usize = 1 << 20;

/// Options of opening a model.
#[derive(ClapArgs)]
struct ModelArgs {
    /// Maximum number of sequences of a step; others wait
    #[arg(long, value_name = "N", default_value = "32", value_parser = parse_count)]
    max_running: usize,

    /// Memory for the K/V cache, such as 2G [default: four full contexts, or half of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    kv_memory: Option<usize>,

    #[command(flatten)]
    decoding: DecodingArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Options of a completion.
#[derive(ClapArgs)]
struct CompletionArgs {
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    constraint: ConstraintArgs,
}

/// A model that is loaded, and its engine.
pub struct LocalModel {
    opened: OpenedModel,
    path: Option<PathBuf>,
    decode: DecodeMode,
}

impl LocalModel {
    /// Opens a model: a path, a reference such as `hf:owner/repo`, a short name, or else the built-in demo.
    ///
    /// # Errors
    ///
    /// If an option is unknown or invalid, or the model cannot be found, downloaded or loaded.
    pub fn open(model: Option<&Path>, keywords: &[Keyword]) -> Result<Self, Error> {
        let Parsed { args, .. } = parse::<ModelArgs>(keywords)?;
        let options = RunOptions {
            kv_capacity: args.kv_memory.map_or_else(memory::kv_capacity, KvCapacity::Bytes),
            max_running: args.max_running,
            max_waiting: MAX_WAITING,
            ..args.engine.options()
        };
        let opened = open::model(model, args.decoding.draft.as_deref(), &options);
        let opened = opened.map_err(|error| Error::new(ErrorKind::Model, &error))?;
        let decode = args.decoding.mode(&opened.frontend);
        let decode = decode.map_err(|error| Error::new(ErrorKind::Request, &error.into()))?;
        Ok(Self { opened, path: model.map(Path::to_owned), decode })
    }

    /// Returns the names of the options of [`Self::open`].
    pub fn option_names() -> Vec<String> {
        keywords::names::<ModelArgs>()
    }

    /// Returns a request without a prompt.
    ///
    /// # Errors
    ///
    /// If an option is unknown or invalid.
    pub fn completion(&self, keywords: &[Keyword]) -> Result<GenerationRequest, Error> {
        let Parsed { mut args, given } = parse::<CompletionArgs>(keywords)?;
        let usage = |error: anyhow::Error| Error::new(ErrorKind::Request, &error);
        args.constraint.resolve(given).map_err(|error| usage(error.into()))?;
        args.sampling.check().map_err(|error| usage(error.into()))?;
        let compile = |(flag, source)| {
            let compiled = self.frontend().compile(&source);
            compiled.map_err(|error| usage(anyhow::Error::new(error).context(flag)))
        };
        let grammar = args.constraint.source().map_err(usage)?.map(compile).transpose()?;
        let request = args.sampling.generate(PromptInput::default());
        Ok(GenerationRequest { grammar, decode: self.decode, ..request })
    }

    /// Returns the names of the options of [`Self::completion`].
    pub fn completion_option_names() -> Vec<String> {
        keywords::names::<CompletionArgs>()
    }

    /// Starts to embed texts.
    ///
    /// # Errors
    ///
    /// If an option is unknown or invalid, or a text is empty or too long.
    pub fn embed(&self, texts: &[String], keywords: &[Keyword]) -> Result<Vec<Embedding>, Error> {
        let Parsed { args, .. } = parse::<VectorArgs>(keywords)?;
        args.check(self.frontend()).map_err(|error| Error::new(ErrorKind::Request, &error))?;
        let embed = |(at, text): (usize, &String)| {
            let tokens = self.frontend().text().embed_ids(text);
            let pending = self.frontend().embed(args.request(tokens));
            pending.map_err(|error| Error::from(error).about(&format!("text {}", at + 1)))
        };
        texts.iter().enumerate().map(embed).collect()
    }

    /// Returns the names of the options of [`Self::embed`].
    pub fn embedding_option_names() -> Vec<String> {
        keywords::names::<VectorArgs>()
    }

    /// Returns the text side of the engine, which generates and embeds.
    pub fn frontend(&self) -> &Frontend {
        &self.opened.frontend
    }

    /// Returns the name of the model, if its file or its metadata has one.
    pub fn name(&self) -> Option<String> {
        open::name(&self.opened.info, self.path.as_deref())
    }
}

/// Reads messages in the JSON of OpenAI's chat API.
///
/// # Errors
///
/// If the JSON or a message is invalid, with the message of the API.
pub fn read_messages(json: &str) -> Result<Vec<ChatMessage>, Error> {
    let invalid = |message: String| Error::from_message(ErrorKind::Request, message);
    let messages: Vec<wire::ChatMessage> =
        serde_json::from_str(json).map_err(|error| invalid(format!("messages: {error}")))?;
    let read = |(at, message)| wf_server::read_chat_message(at, message).map_err(invalid);
    messages.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyword(name: &str, value: &str) -> Keyword {
        Keyword { name: name.to_owned(), values: vec![value.to_owned()] }
    }

    #[test]
    fn options_have_the_defaults_checks_and_messages_of_the_command_line() {
        let model = LocalModel::open(None, &[keyword("threads", "1")]).unwrap();
        let request = model.completion(&[]).unwrap();
        assert_eq!((request.max_tokens, request.sampling.temperature), (Some(256), 0.0));
        let request =
            model.completion(&[keyword("temperature", "0.5"), keyword("regex", "a|b")]).unwrap();
        assert_eq!(request.sampling.temperature, 0.5);
        assert!(request.grammar.is_some());
        let error = model.completion(&[keyword("temperature", "200")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid value '200' for '--temperature <T>': must be between 0 and 100"
        );
        assert_eq!(error.kind(), ErrorKind::Request);
        let two = [keyword("regex", "a"), keyword("grammar", "start: \"a\"")];
        let error = model.completion(&two).unwrap_err().to_string();
        assert!(error.contains("cannot be used together"), "{error}");
        let error = model.completion(&[keyword("regex", "(")]).unwrap_err().to_string();
        assert!(error.starts_with("--regex: "), "{error}");
    }

    #[test]
    fn a_model_that_is_missing_is_an_error_of_its_own_kind() {
        let error = LocalModel::open(Some(Path::new("no/such.gguf")), &[]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.to_string().starts_with("no model at no/such.gguf"), "{error}");
        let error = LocalModel::open(None, &[keyword("decode", "diffusion")]).err();
        assert_eq!(error.map(|error| error.kind()), None, "the demo supports it");
        let error = LocalModel::open(None, &[keyword("decode", "x")]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
    }

    #[test]
    fn messages_are_those_of_the_chat_api() {
        let json =
            r#"[{"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "x"}]"#;
        let messages = read_messages(json).unwrap();
        assert_eq!((&*messages[0].role, &*messages[0].content), ("user", "Hi"));
        assert_eq!(messages[0].extra["name"], "x");
        let error = read_messages(r#"[{"role": "wizard", "content": ""}]"#).unwrap_err();
        assert!(error.to_string().starts_with("messages[0].role: "), "{error}");
        assert!(read_messages(r#"[{"content": ""}]"#).is_err());
    }
}
