//! `wf embed`: computes embeddings of texts.

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::{Embedding, EmbeddingRequest, Frontend, Pooling, RunOptions, TokenId};

use crate::args::{ComputeArgs, FileArgs, HELP, ModelAndInput, parse_count};
use crate::{input, open, output};

/// Number of texts in flight: enough to fill the engine's steps.
const BATCH: usize = 32;

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf embed [OPTIONS] [MODEL] <TEXT>",
    before_help = "\
MODEL defaults to WF_MODEL, or the built-in demo. TEXT can be - for standard input.
Each embedding is printed as a JSON array on one line. It has length 1, so the dot product of two
is their cosine similarity.",
    after_help = "\
Examples:
  wf embed \"The cat sat on the mat\"
  wf embed bitnet-2b.gguf - --lines --json < wiki.txt"
)]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    pub(crate) input: ModelAndInput,

    /// Embed every line separately, except empty ones
    #[arg(long)]
    lines: bool,

    #[command(flatten)]
    vector: VectorArgs,

    /// Print a JSON object per text: index, tokens, embedding
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// Options of a vector.
#[derive(ClapArgs)]
pub(crate) struct VectorArgs {
    /// Pooling of hidden states: last, mean or cls [default: that of the model, or last]
    #[arg(long, value_name = "NAME", value_parser = parse_pooling)]
    pooling: Option<Pooling>,

    /// Number of dimensions to keep, normalized to length 1 again [default: all]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    dimensions: Option<usize>,
}

impl VectorArgs {
    /// Checks the options against a model.
    pub(crate) fn check(&self, frontend: &Frontend) -> Result<()> {
        let (len, max) = (self.dimensions.unwrap_or(1), frontend.embedding_len());
        ensure!(
            len <= max,
            "--dimensions is {len}: embeddings of this model have {max} dimensions"
        );
        Ok(())
    }

    pub(crate) fn request(&self, tokens: Vec<TokenId>) -> EmbeddingRequest {
        let (pooling, dimensions) = (self.pooling, self.dimensions);
        EmbeddingRequest { pooling, dimensions, ..EmbeddingRequest::new(tokens) }
    }
}

#[derive(Serialize)]
struct Vector {
    index: usize,
    tokens: usize,
    embedding: Vec<f32>,
}

pub(crate) fn embed(args: &EmbedArgs) -> Result<()> {
    let (model, text) = args.input.split("text")?;
    let text = input::text_or_stdin(text)?;
    let texts: Vec<&str> = match args.lines {
        true => text.lines().filter(|line| !line.is_empty()).collect(),
        false => vec![&text],
    };
    ensure!(texts.iter().any(|text| !text.is_empty()), "the text is empty");
    let options = RunOptions { max_running: BATCH, ..args.compute.options(&args.file) };
    let frontend = open::model(model, None, &options)?.frontend;
    args.vector.check(&frontend)?;
    let submit = |index: usize| -> Result<(usize, Embedding)> {
        let tokens = frontend.text().embed_ids(texts[index]);
        let count = tokens.len();
        let pending = frontend
            .embed(args.vector.request(tokens))
            .with_context(|| format!("text {}", index + 1))?;
        Ok((count, pending))
    };
    for first in (0..texts.len()).step_by(BATCH) {
        let indexes = first..texts.len().min(first + BATCH);
        let pending = indexes.clone().map(submit).collect::<Result<Vec<_>>>()?;
        for (index, (tokens, embedding)) in indexes.zip(pending) {
            let embedding = embedding.vector_blocking()?;
            match args.json {
                true => output::json(&Vector { index, tokens, embedding })?,
                false => output::json(&embedding)?,
            }
        }
    }
    Ok(())
}

fn parse_pooling(name: &str) -> Result<Pooling, String> {
    let names = || format!("must be one of {}", Pooling::ALL.map(Pooling::name).join(", "));
    Pooling::from_name(name).ok_or_else(names)
}
