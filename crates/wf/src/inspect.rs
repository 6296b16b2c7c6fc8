//! `wf inspect`: describes and checks a model file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde::Serialize;
use wf_engine::read_text;
use wf_formats::encoding::Scales;
use wf_formats::{ModelFile, Pooling, TensorInfo, TokenizerSource};

use crate::args::FileArgs;
use crate::{open, output};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf inspect bitnet-2b.gguf                 describe it, and check every weight
  wf inspect bitnet-2b.gguf --quick         describe it only
  wf inspect --tensors --json               every tensor of the built-in demo, as JSON")]
pub(crate) struct InspectArgs {
    /// Model [default: the built-in demo]
    #[arg(env = "WF_MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// List every tensor
    #[arg(long, env = "WF_TENSORS")]
    pub(crate) tensors: bool,

    /// Skip the check of every weight
    #[arg(long, env = "WF_QUICK")]
    pub(crate) quick: bool,

    /// Print a JSON object
    #[arg(long, env = "WF_JSON")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Number of rows to read at a time, which bounds memory.
const ROWS_PER_READ: usize = 64;

#[derive(Serialize)]
struct Inspection {
    format: String,
    version: Option<u32>,
    /// `None` if the file has none.
    digest: Option<String>,
    files: Vec<File>,
    config: Config,
    /// Number and size of tensors by encoding.
    encodings: BTreeMap<String, Share>,
    trits: u64,
    tokenizer: String,
    chat_template: bool,
    unused_tensors: Vec<String>,
    decisions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Tensor>>,
    /// Fraction of trits that are zero; `None` if weights were not read.
    zeros: Option<f64>,
    /// `None` if weights were not read.
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
    /// Pooling of embeddings, if the file has it.
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

pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let file = open::file(&open::original(args.model.as_deref())?, &args.file.options())?;
    let mut inspection = describe(&file, args.tensors);
    if !args.quick {
        check_weights(&file, &mut inspection);
    }
    if args.json {
        output::json(&inspection)?;
    } else {
        print_text(&inspection)?;
    }
    match inspection.faults.len() {
        0 => Ok(()),
        faults => {
            let name = inspection.files.first().map_or("the model", |file| file.path.as_str());
            bail!("{name}: {} found", output::count(faults, "fault"))
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
        config: describe_config(file),
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

fn describe_config(file: &ModelFile) -> Config {
    let (network, info) = (file.network(), file.info());
    // Layers of today's families are alike in what is shown here.
    let layer = network.layers.first().copied().unwrap_or_default();
    let attention = layer.attention();
    let dense = layer.ffn.dense().copied().unwrap_or_default();
    Config {
        architecture: info.architecture.clone(),
        name: info.name.clone(),
        layers: network.layers.len(),
        hidden: network.hidden_len,
        feed_forward: dense.ffn_len,
        heads: attention.heads,
        kv_heads: attention.kv_heads,
        head_dim: attention.head_dim,
        vocabulary: network.vocab_len,
        context: info.context_len,
        rope_theta: attention.rope.unwrap_or_default().theta,
        norm_eps: network.norm.eps,
        activation: dense.activation.key(),
        sub_norms: attention.sub_norm.is_some(),
        tied_head: network.head.tied,
        bos: info.bos,
        eos: info.eos.clone(),
        block_diffusion: info.block_diffusion.map(|b| Blocks {
            mask_token: b.mask_token,
            block: b.block_len,
            sub_block: b.sub_block_len,
            token_shift: b.token_shift,
            context: if b.causal_context { "causal" } else { "block" },
        }),
        pooling: info.pooling.map(Pooling::name),
    }
}

/// Describes the tokenizer, with an error if it or the chat template is unusable.
fn describe_tokenizer(file: &ModelFile) -> (String, Option<String>) {
    let origin = match file.tokenizer() {
        TokenizerSource::Json(_) => "tokenizer.json".to_owned(),
        TokenizerSource::Gguf(v) => match &v.pre {
            Some(pre) => format!("in the file, {} ({pre})", v.model),
            None => format!("in the file, {}", v.model),
        },
        TokenizerSource::Missing { looked } => {
            return (format!("missing (looked for {looked})"), None);
        }
    };
    match read_text(file) {
        Ok(text) => (format!("{origin}, {} tokens", text.tokenizer.len()), None),
        Err(error) => (format!("{origin}, unusable"), Some(error.to_string())),
    }
}

/// Reads every weight: each code must be a trit, each scale and float finite, and checksums must
/// match if the file has any.
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
    let _: Scales = file.scales(tensor)?;
    let mut trits = vec![0; ROWS_PER_READ.min(tensor.rows) * tensor.cols];
    for rows in row_ranges(tensor.rows) {
        let trits = &mut trits[..rows.len() * tensor.cols];
        file.trits(tensor, rows, trits)?;
        *zeros += trits.iter().filter(|&&trit| trit == 0).count() as u64;
    }
    Ok(())
}

fn check_floats(file: &ModelFile, tensor: &TensorInfo) -> Result<()> {
    let mut values = vec![0.0; ROWS_PER_READ.min(tensor.rows) * tensor.cols];
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
    (0..rows).step_by(ROWS_PER_READ).map(move |first| first..(first + ROWS_PER_READ).min(rows))
}

fn print_text(i: &Inspection) -> Result<()> {
    let c = &i.config;
    let version = i.version.map_or(String::new(), |version| format!(" version {version}"));
    let mut rows = vec![("format", format!("{}{version}", i.format))];
    for file in &i.files {
        rows.push(("file", format!("{}, {}", file.path, output::megabytes(file.size_bytes))));
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
        if c.tied_head { "tied head" } else { "separate head" },
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
        let size = output::megabytes(share.size_bytes);
        rows.push(("tensors", format!("{} of {encoding}, {size}", share.tensors)));
    }
    let zeros = i.zeros.map_or(String::new(), |z| format!(", {:.1} % zero", z * 100.0));
    rows.push(("trits", format!("{:.1} million{zeros}", i.trits as f64 / 1e6)));
    for name in &i.unused_tensors {
        rows.push(("unused", name.clone()));
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
        "check",
        match i.sound {
            Some(true) => "passed: every weight was read",
            Some(false) => "failed",
            None if i.faults.is_empty() => "skipped (--quick)",
            None => "failed",
        }
        .to_owned(),
    ));
    output::table(&rows)
}
