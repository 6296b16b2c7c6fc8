//! `wf run`: write a reply to a prompt.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::{
    Finish, FinishReason, Frontend, Generate, Input, OpenedModel, Piece, RunOptions, TextStream,
    Timings, TokenId,
};
use wf_model::{HeadCounts, HeadMode, Scoring};
use wf_text::ChatMessage;

use crate::args::{
    ComputeArgs, DecodingArgs, FileArgs, FormArgs, HELP, HeadArgs, ModelAndWord, SamplingArgs,
};
use crate::{open, report};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf run [OPTIONS] [MODEL] <PROMPT>",
    before_help = "\
MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file or a Hugging Face directory
[default: WF_MODEL, or the built-in demo]. PROMPT is a text; - reads it from standard input.",
    after_help = "\
Examples:
  wf run \"Once upon a time\"                          with the built-in demo model
  wf run bitnet-2b.gguf \"Why is the sky blue?\"       with a model of your own
  wf run \"Tell me a story\" --temperature 0.8 --seed 7
                                                     another story for each seed
  wf run --raw \"The little dog\" --max-tokens 48      go on with a text
  echo \"Who are you?\" | wf run -                     the prompt from standard input
  wf run --json \"What is the capital of France?\"     ids, text and timings for a program
  wf run \"Are cats animals?\" --regex \"yes|no\"      a reply of that form; also --json-schema"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) words: ModelAndWord,

    /// Continue the prompt as it is, without the chat template
    #[arg(long, env = "WF_RAW")]
    pub(crate) raw: bool,

    /// With --raw: let names such as <|eot_id|> in the prompt stand for those tokens
    #[arg(long, env = "WF_SPECIALS")]
    pub(crate) specials: bool,

    /// A system message before the prompt
    #[arg(long, env = "WF_SYSTEM", value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print one JSON object: prompt_ids, ids, text, finish_reason, seed, timings
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    #[command(flatten)]
    pub(crate) head: HeadArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let (model, prompt) = args.words.split("prompt")?;
    let prompt = open::text_or_stdin(prompt)?;
    ensure!(!prompt.is_empty(), "the prompt is empty: give it a text to answer or to continue");
    let form = args.form.source()?;
    let head = args.head.head;
    // No copy is made for picks that look at every score, unless asked for.
    let looks_at_all = args.sampling.params().scoring() == Scoring::All;
    let head = if looks_at_all && head == HeadMode::Auto { HeadMode::Full } else { head };
    let sparse = args.head.sparse;
    let options = RunOptions { head, sparse, ..args.compute.options(&args.file) };
    let model = open::model(model, args.decoding.draft.as_deref(), &options)?;
    let decode = args.decoding.mode(&model.frontend)?;
    let generate = args.sampling.generate(input(args, prompt, &model.frontend));
    let grammar = form.map(|form| model.frontend.compile(&form)).transpose();
    let grammar = grammar.with_context(|| args.form.flag())?;
    let generate = Generate { decode, grammar, ..generate };
    let reply = model.frontend.generate(generate)?;
    if args.json {
        print_json(reply)?
    } else {
        print_text(reply, &model)?
    }
    if head == HeadMode::Check {
        model.head_counts.iter().for_each(|(name, counts)| tell_counts(name, counts));
    }
    Ok(())
}

/// What a check of the head saw.
fn tell_counts(name: &str, counts: &HeadCounts) {
    let (picks, candidates) = (counts.picks(), counts.candidates());
    let each = candidates as f64 / picks.max(1) as f64;
    report::note(&format!(
        "head check: {name}: {} equal to the full head, {each:.1} candidates each, {} widened, {} read whole",
        report::count(counts.checked() as usize, "pick"),
        counts.widened(),
        counts.whole(),
    ));
}

/// The chat template by default, where the model has one.
fn input(args: &RunArgs, prompt: String, frontend: &Frontend) -> Input {
    if args.raw && args.specials {
        return Input::RawWithSpecials(prompt);
    }
    // A system message makes no sense without a template: let the engine say so.
    if args.raw || (frontend.text().template.is_none() && args.system.is_none()) {
        return Input::Raw(prompt);
    }
    let system = args.system.iter().map(|text| ChatMessage::new("system", text));
    Input::Chat(system.chain([ChatMessage::new("user", &prompt)]).collect())
}

fn print_text(mut reply: TextStream, model: &OpenedModel) -> Result<()> {
    let mut ended_line = true;
    while let Some(piece) = reply.next() {
        match piece? {
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => {}
            Piece::Text { text, .. } => {
                report::stream(&text)?;
                ended_line = text.chars().next_back().map_or(ended_line, |c| c == '\n');
            }
            Piece::Done(finish) => {
                if !ended_line {
                    report::stream("\n")?;
                }
                let summary = summary(&finish, reply.seed(), model);
                report::note(&format!("\n{summary}"));
            }
        }
    }
    Ok(())
}

fn summary(finish: &Finish, seed: u64, model: &OpenedModel) -> String {
    let t = &finish.timings;
    let ended = if finish.reason == FinishReason::Length { ", cut at the limit" } else { "" };
    format!(
        "prompt {}, {:.1} tok/s · reply {}{}, {:.1} tok/s{ended} · {} on {} · seed {seed}",
        report::count(t.prompt_tokens, "token"),
        rate(t.prompt_tokens, t.prompt),
        report::count(t.reply_tokens, "token"),
        passes(t),
        rate(t.timed_tokens, t.reply),
        model.isa,
        report::count(model.threads, "thread"),
    )
}

/// In how many passes a reply was written, where that is not one for each token.
fn passes(t: &Timings) -> String {
    match t.work.passes {
        passes if passes == t.reply_tokens => String::new(),
        1 => " in 1 pass".to_owned(),
        passes => format!(" in {passes} passes"),
    }
}

/// Tokens a second; 0 where no time went by.
fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

#[derive(Serialize)]
struct Reply<'a> {
    prompt_ids: &'a [TokenId],
    ids: &'a [TokenId],
    text: &'a str,
    finish_reason: &'static str,
    seed: u64,
    timings: ReplyTimings,
}

#[derive(Serialize)]
struct ReplyTimings {
    prompt_tokens: usize,
    prompt_ms: f64,
    prompt_tokens_per_second: f64,
    reply_tokens: usize,
    reply_ms: f64,
    reply_tokens_per_second: f64,
    passes: usize,
    rows: usize,
    drafted_tokens: usize,
    accepted_tokens: usize,
}

fn print_json(mut reply: TextStream) -> Result<()> {
    let mut text = String::new();
    while let Some(piece) = reply.next() {
        match piece? {
            Piece::Started { .. }
            | Piece::Progress { .. }
            | Piece::Preview(_)
            | Piece::PromptLogprobs(_) => {}
            Piece::Text { text: piece, .. } => text.push_str(&piece),
            Piece::Done(Finish { reason, timings: t, .. }) => {
                report::json(&Reply {
                    prompt_ids: reply.prompt_ids(),
                    ids: reply.ids(),
                    text: &text,
                    finish_reason: reason.name(),
                    seed: reply.seed(),
                    timings: ReplyTimings {
                        prompt_tokens: t.prompt_tokens,
                        prompt_ms: t.prompt.as_secs_f64() * 1e3,
                        prompt_tokens_per_second: rate(t.prompt_tokens, t.prompt),
                        reply_tokens: t.reply_tokens,
                        reply_ms: t.reply.as_secs_f64() * 1e3,
                        reply_tokens_per_second: rate(t.timed_tokens, t.reply),
                        passes: t.work.passes,
                        rows: t.work.rows,
                        drafted_tokens: t.work.drafted,
                        accepted_tokens: t.work.agreed,
                    },
                })?;
            }
        }
    }
    Ok(())
}
