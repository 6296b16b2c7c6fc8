//! `wf tokenize`: prints the tokens of a text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use serde_json::json;
use wf_engine::{TokenId, read_text};
use wf_formats::OpenOptions;
use wf_text::Tokenizer;

use crate::output::UsageError;
use crate::{input, open, output};

#[derive(ClapArgs)]
#[command(
    after_help = "\
Examples:
  wf tokenize \"Café 😀\"                     with the tokenizer of the built-in demo
  wf tokenize bitnet-2b.gguf \"Café 😀\"      with the tokenizer of a model
  wf tokenize bitnet-2b.gguf --file wiki.txt --json",
    override_usage = "wf tokenize [OPTIONS] [MODEL] <TEXT>\n       \
                            wf tokenize [OPTIONS] [MODEL] --file <FILE>\n       \
                            wf tokenize [OPTIONS] --tokenizer <FILE> <TEXT>"
)]
pub(crate) struct TokenizeArgs {
    /// Model [default: the built-in demo] and text; - reads standard input
    #[arg(value_name = "MODEL TEXT")]
    pub(crate) arguments: Vec<OsString>,

    /// Model
    #[arg(long, short, alias = "model-path", value_name = "MODEL", hide = true)]
    pub(crate) model: Option<PathBuf>,

    /// Use a tokenizer.json instead of a model
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Parse special tokens such as <|eot_id|> in the text
    #[arg(long)]
    pub(crate) specials: bool,

    /// Print a JSON object: ids, pieces
    #[arg(long)]
    pub(crate) json: bool,
}

impl TokenizeArgs {
    /// Returns `true` if there is an argument for the model besides the text.
    pub(crate) fn has_model(&self) -> bool {
        self.arguments.len() > usize::from(self.file.is_none())
    }
}

pub(crate) fn tokenize(args: &TokenizeArgs) -> Result<()> {
    let (model, text) = model_and_text(args)?;
    let tokenizer = match &args.tokenizer {
        Some(path) => {
            let json = input::read_tokenizer_file(path)?;
            Tokenizer::from_json(&json).with_context(|| format!("{}", path.display()))?
        }
        None => {
            let file = open::file(&open::original(model)?, &OpenOptions::default())?;
            read_text(&file)?.tokenizer
        }
    };
    let ids =
        if args.specials { tokenizer.encode_with_specials(&text) } else { tokenizer.encode(&text) };
    let piece = |&id: &TokenId| {
        String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned()
    };
    let pieces: Vec<String> = ids.iter().map(piece).collect();
    if args.json {
        return output::json(&json!({"ids": ids, "pieces": pieces}));
    }
    for (id, piece) in ids.iter().zip(&pieces) {
        output::stream(&format!("{id:>7}  {piece:?}\n"))?;
    }
    output::note(&output::count(ids.len(), "token"));
    Ok(())
}

/// Returns the model and the text. A single argument is the text, or with `--file` the model.
fn model_and_text(args: &TokenizeArgs) -> Result<(Option<&Path>, String)> {
    let usage = |message: &str| Err(UsageError::new(message).into());
    if args.has_model() && args.tokenizer.is_some() {
        return usage("a model and --tokenizer cannot be used together");
    }
    let named = args.model.as_deref();
    match (&args.file, &args.arguments[..]) {
        (Some(file), []) => Ok((named, input::read_text_file(file)?)),
        (Some(file), [model]) => Ok((Some(Path::new(model)), input::read_text_file(file)?)),
        (Some(_), _) => usage("the text cannot be given both as an argument and by --file"),
        (None, []) => {
            usage("missing text: give it as an argument or by --file, or use - for standard input")
        }
        (None, [text]) => Ok((named, input::text_or_stdin(text)?)),
        (None, [model, text]) => Ok((Some(Path::new(model)), input::text_or_stdin(text)?)),
        (None, _) => {
            usage("too many arguments: expected a model and a text; quote a text with spaces")
        }
    }
}
