//! `wf run`: generates a response to a prompt.

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use serde_json::json;
use wf_engine::{
    Finish, FinishReason, Frontend, GenerationRequest, OpenedModel, PromptInput, RunOptions,
    TextEvent, TextStream, Timings, required_logits,
};
use wf_model::{HeadCounts, HeadMode, Scoring};
use wf_text::ChatMessage;

use crate::args::{
    ConstraintArgs, DecodingArgs, DiskCacheArgs, EngineArgs, HELP, ModelAndInput, SamplingArgs,
};
use crate::{input, open, output};

#[derive(ClapArgs)]
#[command(
    args_override_self = true,
    help_template = HELP,
    override_usage = "wf run [OPTIONS] [MODEL] <PROMPT>",
    before_help = "\
MODEL is a GGUF file, an SGLBITNT .bin, a .safetensors file or a Hugging Face directory
[default: WF_MODEL, or the built-in demo]. PROMPT is a text, or - for standard input.",
    after_help = "\
Examples:
  wf run \"Once upon a time\"                          with the built-in demo model
  wf run bitnet-2b.gguf \"Why is the sky blue?\"       with another model
  wf run \"Tell me a story\" --temperature 0.8 --seed 7
                                                     a different story for each seed
  wf run --raw \"The little dog\" --max-tokens 48      continue a text
  echo \"Who are you?\" | wf run -                     the prompt from standard input
  wf run --json \"What is the capital of France?\"     ids, text and timings as JSON
  wf run \"Are cats animals?\" --regex \"yes|no\"        constrained; also --json-schema"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: ModelAndInput,

    /// Continue the prompt without the chat template
    #[arg(long)]
    pub(crate) raw: bool,

    /// With --raw: parse special tokens such as <|eot_id|> in the prompt
    #[arg(long)]
    pub(crate) specials: bool,

    /// System message
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print a JSON object: prompt_ids, ids, text, finish_reason, seed, timings
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten, next_help_heading = "Sampling (greedy unless a temperature is set)")]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) disk_cache: DiskCacheArgs,
}

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let (model, prompt) = args.input.split("prompt")?;
    let prompt = input::text_or_stdin(prompt)?;
    ensure!(!prompt.is_empty(), "the prompt is empty");
    let constraint = args.constraint.source()?;
    let options = args.engine.options();
    // Sampling that needs all logits has no use for an int8 copy.
    let needs_all = required_logits(&args.sampling.params()) == Scoring::All;
    let head = match options.head {
        HeadMode::Auto if needs_all => HeadMode::Full,
        head => head,
    };
    let disk_cache = args.disk_cache.options(output::note);
    let options = RunOptions { head, disk_cache, ..options };
    let model = open::model(model, args.decoding.draft.as_deref(), &options)?;
    let decode = args.decoding.mode(&model.frontend)?;
    let generate = args.sampling.generate(prompt_input(args, prompt, &model.frontend));
    let compile = |(flag, source)| model.frontend.compile(&source).context(flag);
    let grammar = constraint.map(compile).transpose()?;
    let generate = GenerationRequest { decode, grammar, ..generate };
    let stream = model.frontend.generate(generate)?;
    let reason = if args.json { print_json(stream)? } else { print_text(stream, &model)? };
    ensure!(
        reason != Some(FinishReason::DeadEnd),
        "the response is not complete: after it, the grammar allows none of this model's tokens, or exceeds \
         its complexity limit"
    );
    if head == HeadMode::Check {
        model.head_counts.iter().for_each(|(name, counts)| print_head_counts(name, counts));
    }
    // Pages that are to be kept are on disk then.
    model.frontend.close();
    Ok(())
}

/// Prints what `--head check` found.
fn print_head_counts(name: &str, counts: &HeadCounts) {
    let (picks, candidates) = (counts.picks.get(), counts.candidates.get());
    let mean = candidates as f64 / picks.max(1) as f64;
    output::note(&format!(
        "head check: {name}: {} equal to the full head, {mean:.1} candidates each, {} widened, {} read in full",
        output::count(counts.checked.get() as usize, "pick"),
        counts.widened.get(),
        counts.whole.get(),
    ));
}

/// Returns the input of the model: a chat, if it has a template, unless `--raw` is set.
fn prompt_input(args: &RunArgs, prompt: String, frontend: &Frontend) -> PromptInput {
    if args.raw && args.specials {
        return PromptInput::TextWithSpecials(prompt);
    }
    // A system message without a template is an error of the engine.
    if args.raw || (frontend.text().template.is_none() && args.system.is_none()) {
        return PromptInput::Text(prompt);
    }
    let system = args.system.iter().map(|text| ChatMessage::new("system", text));
    PromptInput::Chat(system.chain([ChatMessage::new("user", &prompt)]).collect())
}

/// Prints the text as it comes. Returns the reason of its end.
fn print_text(mut stream: TextStream, model: &OpenedModel) -> Result<Option<FinishReason>> {
    let (mut ended_line, mut reason, mut thinking) = (true, None, ShownThinking::default());
    while let Some(piece) = stream.next() {
        match piece? {
            TextEvent::Text { reasoning, text, .. } => {
                thinking.show(&reasoning, &text);
                output::stream(&text)?;
                ended_line = text.chars().next_back().map_or(ended_line, |c| c == '\n');
            }
            TextEvent::Done(finish) => {
                if !ended_line {
                    output::stream("\n")?;
                }
                let summary = summary(&finish, stream.seed(), model);
                output::note(&format!("\n{summary}"));
                reason = Some(finish.reason);
            }
            _ => {}
        }
    }
    Ok(reason)
}

/// Thinking, which goes to standard error: standard output has the response alone.
#[derive(Default)]
struct ShownThinking {
    is_open: bool,
}

impl ShownThinking {
    fn show(&mut self, reasoning: &str, text: &str) {
        if !reasoning.is_empty() {
            self.is_open = true;
            output::note_part(reasoning);
        }
        if self.is_open && !text.is_empty() {
            self.is_open = false;
            output::note("\n");
        }
    }
}

fn summary(finish: &Finish, seed: u64, model: &OpenedModel) -> String {
    let t = &finish.timings;
    let ended = if finish.reason == FinishReason::Length { ", stopped at the limit" } else { "" };
    format!(
        "prompt {}, {:.1} tok/s · response {}{}, {:.1} tok/s{ended} · {} on {} · seed {seed}",
        output::count(t.prompt_tokens, "token"),
        output::rate(t.prompt_tokens, t.prompt),
        output::count(t.completion_tokens, "token"),
        passes(t),
        output::rate(t.timed_tokens, t.decode),
        model.isa,
        output::count(model.threads, "thread"),
    )
}

/// Returns the number of passes, if it is not one per token.
fn passes(t: &Timings) -> String {
    match t.stats.passes {
        passes if passes == t.completion_tokens => String::new(),
        1 => " in 1 pass".to_owned(),
        passes => format!(" in {passes} passes"),
    }
}

/// Prints the whole response as JSON. Returns the reason of its end.
fn print_json(mut stream: TextStream) -> Result<Option<FinishReason>> {
    let (mut reasoning, mut text, mut ended) = (String::new(), String::new(), None);
    while let Some(piece) = stream.next() {
        match piece? {
            TextEvent::Text { reasoning: thought, text: piece, .. } => {
                reasoning.push_str(&thought);
                text.push_str(&piece);
            }
            TextEvent::Done(Finish { reason, timings: t, .. }) => {
                ended = Some(reason);
                output::json(&json!({
                    "prompt_ids": stream.prompt_ids(),
                    "ids": stream.ids(),
                    "text": text,
                    "reasoning": reasoning,
                    "finish_reason": reason.name(),
                    "seed": stream.seed(),
                    "timings": {
                        "prompt_tokens": t.prompt_tokens,
                        "cached_tokens": t.cached_tokens,
                        "prompt_ms": t.prompt.as_secs_f64() * 1e3,
                        "prompt_tokens_per_second": output::rate(t.prompt_tokens, t.prompt),
                        "reply_tokens": t.completion_tokens,
                        "reply_ms": t.decode.as_secs_f64() * 1e3,
                        "reply_tokens_per_second": output::rate(t.timed_tokens, t.decode),
                        "passes": t.stats.passes,
                        "rows": t.stats.rows,
                        "drafted_tokens": t.stats.drafted,
                        "accepted_tokens": t.stats.accepted,
                    },
                }))?;
            }
            _ => {}
        }
    }
    Ok(ended)
}
