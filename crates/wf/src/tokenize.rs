//! `wf tokenize`: show the tokens of a text.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::{TokenId, read_text};
use wf_formats::OpenOptions;
use wf_text::Tokenizer;

use crate::report::UsageError;
use crate::{open, report};

#[derive(ClapArgs)]
#[command(
    after_help = "\
Examples:
  wf tokenize \"Café 😀\"                     with the tokenizer of the built-in demo
  wf tokenize bitnet-2b.gguf \"Café 😀\"      with that of a model
  wf tokenize bitnet-2b.gguf --file wiki.txt --json",
    override_usage = "wf tokenize [OPTIONS] [MODEL] <TEXT>\n       \
                            wf tokenize [OPTIONS] [MODEL] --file <FILE>\n       \
                            wf tokenize [OPTIONS] --tokenizer <FILE> <TEXT>"
)]
pub(crate) struct TokenizeArgs {
    /// The model (left out: the built-in demo), and the text; - reads standard input
    #[arg(value_name = "MODEL TEXT")]
    pub(crate) words: Vec<OsString>,

    /// Another way to name the model
    #[arg(long, env = "WF_MODEL", value_name = "MODEL", hide = true)]
    pub(crate) model: Option<PathBuf>,

    /// Use this tokenizer.json instead of a model's
    #[arg(long, env = "WF_TOKENIZER", value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Let names such as <|eot_id|> in the text stand for those tokens
    #[arg(long, env = "WF_SPECIALS")]
    pub(crate) specials: bool,

    /// Print one JSON object: ids, pieces
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,
}

impl TokenizeArgs {
    /// Whether a word is left for the model once the text has its own.
    pub(crate) fn names_a_model(&self) -> bool {
        self.words.len() > usize::from(self.file.is_none())
    }
}

#[derive(Serialize)]
struct Tokens {
    ids: Vec<TokenId>,
    pieces: Vec<String>,
}

/// Runs the command.
pub(crate) fn tokenize(args: &TokenizeArgs) -> Result<()> {
    let (model, text) = model_and_text(args)?;
    let tokenizer = match &args.tokenizer {
        Some(path) => {
            let json = open::read_tokenizer_file(path)?;
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
        String::from_utf8_lossy(tokenizer.piece(id).unwrap_or_default()).into_owned()
    };
    let tokens = Tokens { pieces: ids.iter().map(piece).collect(), ids };
    if args.json {
        return report::json(&tokens);
    }
    for (id, piece) in tokens.ids.iter().zip(&tokens.pieces) {
        report::stream(&format!("{id:>7}  {piece:?}\n"))?;
    }
    report::note(&report::count(tokens.ids.len(), "token"));
    Ok(())
}

/// With --file one word is the model; else a lone word is the text.
fn model_and_text(args: &TokenizeArgs) -> Result<(Option<&Path>, String)> {
    let usage = |message: &str| Err(UsageError::new(message).into());
    if args.names_a_model() && args.tokenizer.is_some() {
        return usage("give either a model or --tokenizer, not both");
    }
    let named = args.model.as_deref();
    match (&args.file, &args.words[..]) {
        (Some(file), []) => Ok((named, open::read_text_file(file)?)),
        (Some(file), [model]) => Ok((Some(Path::new(model)), open::read_text_file(file)?)),
        (Some(_), _) => usage("the text is given twice: as an argument and by --file"),
        (None, []) => usage("no text: give it as an argument, by --file, or - for standard input"),
        (None, [text]) => Ok((named, open::text_or_stdin(text)?)),
        (None, [model, text]) => Ok((Some(Path::new(model)), open::text_or_stdin(text)?)),
        (None, _) => usage("more than a model and a text: put a text with spaces in quotes"),
    }
}
