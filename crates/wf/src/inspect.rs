//! `wf inspect`: say what a model file is, and whether it is sound.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::read_text;
use wf_formats::encoding::TritScales;
use wf_formats::{ModelConfig, ModelFile, Pooling, TensorInfo, TokenizerSource};

use crate::args::FileArgs;
use crate::{open, report};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf inspect bitnet-2b.gguf                 what it is, and whether every weight is sound
  wf inspect bitnet-2b.gguf --quick         its structure only
  wf inspect --tensors --json               every tensor of the built-in demo, for a program")]
pub(crate) struct InspectArgs {
    /// The model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// List every tensor
    #[arg(long, env = "WF_TENSORS")]
    pub(crate) tensors: bool,

    /// Look at the structure only, not at every weight
    #[arg(long, env = "WF_QUICK")]
    pub(crate) quick: bool,

    /// Print one JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Rows read at once while checking weights: bounds the memory it takes.
const ROWS_AT_ONCE: usize = 64;

#[derive(Serialize)]
struct Inspection {
    format: String,
    version: Option<u32>,
    /// Nothing where the file has none.
    digest: Option<String>,
    files: Vec<File>,
    config: Config,
    /// Encoding → tensors and bytes.
    encodings: BTreeMap<String, Share>,
    trits: u64,
    tokenizer: String,
    chat_template: bool,
    unused_tensors: Vec<String>,
    decisions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Tensor>>,
    /// Share of zeros among the trits; nothing if weights were not read.
    zeros: Option<f64>,
    /// Nothing if weights were not read.
    sound: Option<bool>,
    faults: Vec<String>,
}

#[derive(Serialize)]
struct File {
    path: String,
    size_bytes: u64,
}

#[derive(Serialize, Default)]
struct Share {
    tensors: usize,
    size_bytes: u64,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    rows: usize,
    cols: usize,
    encoding: String,
    offset: u64,
    size_bytes: u64,
}

#[derive(Serialize)]
struct Config {
    architecture: String,
    name: Option<String>,
    layers: usize,
    hidden: usize,
    feed_forward: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocabulary: usize,
    context: usize,
    rope_theta: f64,
    norm_eps: f32,
    activation: &'static str,
    sub_norms: bool,
    tied_head: bool,
    bos: Option<u32>,
    eos: Vec<u32>,
    block_diffusion: Option<Blocks>,
    /// How its makers want embeddings to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pooling: Option<&'static str>,
}

#[derive(Serialize)]
struct Blocks {
    mask_token: u32,
    block: usize,
    sub_block: Option<usize>,
    token_shift: bool,
    context: &'static str,
}

/// Runs the command.
pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let file = open::file(&open::original(args.model.as_deref())?, &args.file.options())?;
    let mut inspection = describe(&file, args.tensors);
    if !args.quick {
        check_weights(&file, &mut inspection);
    }
    if args.json {
        report::json(&inspection)?;
    } else {
        print_text(&inspection)?;
    }
    match inspection.faults.len() {
        0 => Ok(()),
        faults => {
            let name = inspection.files.first().map_or("the model", |file| file.path.as_str());
            bail!("{name}: not sound, {} found", report::count(faults, "fault"))
        }
    }
}

fn describe(file: &ModelFile, list_tensors: bool) -> Inspection {
    let format = file.format();
    let (tokenizer, fault) = describe_tokenizer(file);
    let mut encodings = BTreeMap::<String, Share>::new();
    for tensor in file.tensors() {
        let share = encodings.entry(tensor.encoding.to_string()).or_default();
        share.tensors += 1;
        share.size_bytes += tensor.size;
    }
    let trits = file.tensors().iter().filter(|t| t.name.is_linear());
    let listed = |t: &TensorInfo| Tensor {
        name: t.source_name.clone(),
        rows: t.rows,
        cols: t.cols,
        encoding: t.encoding.to_string(),
        offset: t.offset,
        size_bytes: t.size,
    };
    Inspection {
        format: format.kind.to_string(),
        version: format.version,
        digest: format.digest.clone(),
        files: format
            .files
            .iter()
            .map(|f| File { path: f.path.clone(), size_bytes: f.size_bytes })
            .collect(),
        config: describe_config(file.config()),
        encodings,
        trits: trits.map(|t| t.rows as u64 * t.cols as u64).sum(),
        tokenizer,
        chat_template: file.chat_template().is_some(),
        unused_tensors: file.extra_tensors().to_vec(),
        decisions: format.decisions.clone(),
        tensors: list_tensors.then(|| file.tensors().iter().map(listed).collect()),
        zeros: None,
        sound: None,
        faults: fault.into_iter().collect(),
    }
}

fn describe_config(c: &ModelConfig) -> Config {
    Config {
        architecture: c.architecture.clone(),
        name: c.name.clone(),
        layers: c.layers,
        hidden: c.hidden_len,
        feed_forward: c.ffn_len,
        heads: c.heads,
        kv_heads: c.kv_heads,
        head_dim: c.head_dim,
        vocabulary: c.vocab_len,
        context: c.context_len,
        rope_theta: c.rope_theta,
        norm_eps: c.norm_eps,
        activation: c.activation.key(),
        sub_norms: c.sub_norms,
        tied_head: c.tied_head,
        bos: c.bos,
        eos: c.eos.clone(),
        block_diffusion: c.block_diffusion.map(|b| Blocks {
            mask_token: b.mask_token,
            block: b.block_len,
            sub_block: b.sub_block_len,
            token_shift: b.token_shift,
            context: if b.causal_context { "causal" } else { "block" },
        }),
        pooling: c.pooling.map(Pooling::name),
    }
}

/// Where the tokenizer is, and why it or the chat template cannot be used if so.
fn describe_tokenizer(file: &ModelFile) -> (String, Option<String>) {
    let place = match file.tokenizer() {
        TokenizerSource::Json(_) => "tokenizer.json".to_owned(),
        TokenizerSource::Gguf(v) => match &v.pre {
            Some(pre) => format!("in the file, {} ({pre})", v.model),
            None => format!("in the file, {}", v.model),
        },
        TokenizerSource::Missing { looked } => {
            return (format!("missing: looked for {looked}"), None);
        }
    };
    match read_text(file) {
        Ok(text) => (format!("{place}, {} tokens", text.tokenizer.len()), None),
        Err(error) => (format!("{place}, cannot be used"), Some(error.to_string())),
    }
}

/// Reads every weight: each code must be a trit, each scale and float finite, and all of them what
/// was written where the file has checksums.
fn check_weights(file: &ModelFile, inspection: &mut Inspection) {
    let mut zeros = 0;
    for tensor in file.tensors() {
        let outcome = file.check(tensor).map_err(anyhow::Error::from).and_then(|()| {
            if tensor.name.is_linear() {
                check_trits(file, tensor, &mut zeros)
            } else {
                check_floats(file, tensor)
            }
        });
        if let Err(error) = outcome {
            inspection.faults.push(error.to_string());
        }
    }
    inspection.sound = Some(inspection.faults.is_empty());
    inspection.zeros = Some(zeros as f64 / inspection.trits as f64);
}

fn check_trits(file: &ModelFile, tensor: &TensorInfo, zeros: &mut u64) -> Result<()> {
    let _: TritScales = file.scales(tensor)?;
    let mut trits = vec![0; ROWS_AT_ONCE.min(tensor.rows) * tensor.cols];
    for rows in row_ranges(tensor.rows) {
        let trits = &mut trits[..rows.len() * tensor.cols];
        file.trits(tensor, rows, trits)?;
        *zeros += trits.iter().filter(|&&trit| trit == 0).count() as u64;
    }
    Ok(())
}

fn check_floats(file: &ModelFile, tensor: &TensorInfo) -> Result<()> {
    let mut values = vec![0.0; ROWS_AT_ONCE.min(tensor.rows) * tensor.cols];
    for rows in row_ranges(tensor.rows) {
        let first = rows.start;
        let values = &mut values[..rows.len() * tensor.cols];
        file.floats(tensor, rows, values)?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (row, col) = (first + at / tensor.cols, at % tensor.cols);
            let name = &tensor.source_name;
            bail!("tensor {name:?}, row {row}, column {col}: {} is not finite", values[at]);
        }
    }
    Ok(())
}

fn row_ranges(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..rows).step_by(ROWS_AT_ONCE).map(move |first| first..(first + ROWS_AT_ONCE).min(rows))
}

fn print_text(i: &Inspection) -> Result<()> {
    let c = &i.config;
    let version = i.version.map_or(String::new(), |version| format!(" version {version}"));
    let mut rows = vec![("format", format!("{}{version}", i.format))];
    for file in &i.files {
        rows.push(("file", format!("{}, {}", file.path, report::megabytes(file.size_bytes))));
    }
    rows.extend(i.digest.iter().map(|digest| ("digest", digest.clone())));
    rows.push(("model", c.name.clone().unwrap_or_else(|| "(no name)".to_owned())));
    rows.push(("architecture", c.architecture.clone()));
    rows.push((
        "network",
        format!(
            "{} layers, hidden {}, feed-forward {}, {} heads ({} K/V) of {}",
            c.layers, c.hidden, c.feed_forward, c.heads, c.kv_heads, c.head_dim
        ),
    ));
    let (sub_norms, head) = (
        if c.sub_norms { "sub-norms" } else { "no sub-norms" },
        if c.tied_head { "tied head" } else { "own head" },
    );
    rows.push(("", format!("{}, {sub_norms}, {head}, rope θ {}", c.activation, c.rope_theta)));
    rows.push(("context", format!("{} tokens", c.context)));
    rows.push(("vocabulary", format!("{}, tokenizer {}", c.vocabulary, i.tokenizer)));
    rows.push(("chat template", if i.chat_template { "yes" } else { "no" }.to_owned()));
    if let Some(pooling) = c.pooling {
        rows.push(("embeddings", format!("{pooling} pooling")));
    }
    if let Some(b) = &c.block_diffusion {
        rows.push((
            "diffusion",
            format!("blocks of {}, mask token {}, {} context", b.block, b.mask_token, b.context),
        ));
    }
    for (encoding, share) in &i.encodings {
        let size = report::megabytes(share.size_bytes);
        rows.push(("tensors", format!("{} of {encoding}, {size}", share.tensors)));
    }
    let zeros = i.zeros.map_or(String::new(), |z| format!(", {:.1} % of them zero", z * 100.0));
    rows.push(("trits", format!("{:.1} million{zeros}", i.trits as f64 / 1e6)));
    for name in &i.unused_tensors {
        rows.push(("not used", name.clone()));
    }
    for decision in &i.decisions {
        rows.push(("decided", decision.clone()));
    }
    for t in i.tensors.iter().flatten() {
        let (name, at) = (&t.name, t.offset);
        rows.push(("tensor", format!("{name} {}×{} {} at byte {at}", t.rows, t.cols, t.encoding)));
    }
    for fault in &i.faults {
        rows.push(("fault", fault.clone()));
    }
    rows.push((
        "sound",
        match i.sound {
            Some(true) => "yes: every weight was read",
            Some(false) => "no",
            None if i.faults.is_empty() => "not checked (--quick)",
            None => "no",
        }
        .to_owned(),
    ));
    report::table(&rows)
}
