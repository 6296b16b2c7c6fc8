//! `wf embed`: turn texts into vectors.

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::{Embed, Embedding, Pooling, RunOptions};

use crate::args::{ComputeArgs, FileArgs, HELP, ModelAndWord, parse_count};
use crate::{open, report};

/// Texts the engine has at once: enough to fill its steps.
const AT_ONCE: usize = 32;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf embed [OPTIONS] [MODEL] <TEXT>",
    before_help = "\
MODEL is left out for WF_MODEL or the built-in demo. TEXT - reads standard input.
A vector is one line: a JSON list of numbers. It has length 1, so a dot product is a cosine.",
    after_help = "\
Examples:
  wf embed \"The cat sat on the mat\"
  wf embed bitnet-2b.gguf - --lines --json < wiki.txt"
)]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    pub(crate) words: ModelAndWord,

    /// Every line is a text of its own; empty ones are left out
    #[arg(long, env = "WF_LINES")]
    lines: bool,

    /// Which hidden states a vector is made of: last, mean or cls [default: what the model's file
    /// says, or else last]
    #[arg(long, env = "WF_POOLING", value_name = "NAME", value_parser = parse_pooling)]
    pooling: Option<Pooling>,

    /// Keep so many numbers of each vector, scaled to length 1 again [default: all]
    #[arg(long, env = "WF_DIMENSIONS", value_name = "COUNT", value_parser = parse_count)]
    dimensions: Option<usize>,

    /// Print a JSON object for each text: index, tokens, embedding
    #[arg(long, env = "WF_JSON")]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Serialize)]
struct Vector {
    index: usize,
    tokens: usize,
    embedding: Vec<f32>,
}

/// Runs the command.
pub(crate) fn embed(args: &EmbedArgs) -> Result<()> {
    let (model, text) = args.words.split("text")?;
    let text = open::text_or_stdin(text)?;
    let texts: Vec<&str> = match args.lines {
        true => text.lines().filter(|line| !line.is_empty()).collect(),
        false => vec![&text],
    };
    ensure!(texts.iter().any(|text| !text.is_empty()), "the text is empty");
    let options = RunOptions { max_running: AT_ONCE, ..args.compute.options(&args.file) };
    let frontend = open::model(model, None, &options)?.frontend;
    let most = frontend.embedding_len();
    if let Some(len) = args.dimensions {
        ensure!(len <= most, "--dimensions is {len}: this model's vectors have {most} numbers");
    }
    let begin = |index: usize| -> Result<(usize, Embedding)> {
        let tokens = frontend.text().embed_ids(texts[index]);
        let count = tokens.len();
        let embed =
            Embed { pooling: args.pooling, dimensions: args.dimensions, ..Embed::new(tokens) };
        let begun = frontend.embed(embed).with_context(|| format!("text {}", index + 1))?;
        Ok((count, begun))
    };
    for first in (0..texts.len()).step_by(AT_ONCE) {
        let indexes = first..texts.len().min(first + AT_ONCE);
        let begun = indexes.clone().map(begin).collect::<Result<Vec<_>>>()?;
        for (index, (tokens, embedding)) in indexes.zip(begun) {
            let embedding = embedding.vector_blocking()?;
            match args.json {
                true => report::json(&Vector { index, tokens, embedding })?,
                false => report::json(&embedding)?,
            }
        }
    }
    Ok(())
}

fn parse_pooling(name: &str) -> Result<Pooling, String> {
    let names = || format!("use {}", Pooling::ALL.map(Pooling::name).join(", "));
    Pooling::named(name).ok_or_else(names)
}
