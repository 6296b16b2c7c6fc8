//! `wf tokenize`: show the tokens of a text.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use wf_engine::{TokenId, read_text};
use wf_formats::OpenOptions;
use wf_text::Tokenizer;

use crate::args::TokenizeArgs;
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
            let name = path.display();
            let json = std::fs::read(path).with_context(|| format!("reading {name}"))?;
            Tokenizer::from_json(&json).with_context(|| format!("{name}"))?
        }
        None => {
            let file = open::source(model.map(Path::new)).open(&OpenOptions::default())?;
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
    eprintln!("{} tokens", tokens.ids.len());
    Ok(())
}

/// With --file or --tokenizer one word is enough; else a lone word is the text.
fn model_and_text(args: &TokenizeArgs) -> Result<(Option<&str>, String)> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let (model, text) = match (&args.file, &words[..]) {
        (Some(file), []) => (None, open::read_text_file(file)?),
        (Some(file), [model]) => (Some(*model), open::read_text_file(file)?),
        (Some(_), _) => bail!("the text is given twice: as an argument and by --file"),
        (None, [text]) => (None, open::text_or_stdin(text)?),
        (None, [model, text]) => (Some(*model), open::text_or_stdin(text)?),
        (None, _) => bail!("no text: give it as an argument, by --file, or - for standard input"),
    };
    if model.is_some() && args.tokenizer.is_some() {
        bail!("give either a model or --tokenizer, not both");
    }
    Ok((model, text))
}
