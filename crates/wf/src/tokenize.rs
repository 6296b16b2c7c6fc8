//! `wf tokenize`: show the tokens of a text.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use wf_engine::{TokenId, read_text};
use wf_formats::OpenOptions;
use wf_text::Tokenizer;

use crate::args::TokenizeArgs;
use crate::report::UsageError;
use crate::{open, report};

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
            let file = open::original(model)?.open(&OpenOptions::default())?;
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
