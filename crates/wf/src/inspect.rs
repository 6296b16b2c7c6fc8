//! `wf inspect`: describes and checks a model file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde_json::{Map, Value, json};
use wf_engine::read_text;
use wf_formats::encoding::Scales;
use wf_formats::{ModelFile, TensorInfo, TokenizerSource};

use crate::args::FileArgs;
use crate::{layer_kinds, open, output, recipe, scales};

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
    #[arg(long)]
    pub(crate) tensors: bool,

    /// Skip the check of every weight
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) file: FileArgs,
}

/// Number of rows to read at a time, which bounds memory.
const ROWS_PER_READ: usize = 64;

pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let file = open::file(&open::original(args.model.as_deref())?, &args.file.options())?;
    let (tokenizer, mut faults) = describe_tokenizer(&file);
    let checked = (!args.quick).then(|| check_weights(&file, &mut faults));
    let inspection = Inspection { file: &file, tokenizer, checked, faults };
    match args.json {
        true => output::json(&inspection.json(args.tensors))?,
        false => output::table(&inspection.rows(args.tensors))?,
    }
    match inspection.faults.len() {
        0 => Ok(()),
        faults => {
            let file = file.format().files.first();
            let name = file.map_or("the model", |file| file.path.as_str());
            bail!("{name}: {} found", output::count(faults, "fault"))
        }
    }
}

struct Inspection<'a> {
    file: &'a ModelFile,
    tokenizer: String,
    /// Number of trits that are zero; `None` if weights were not read.
    checked: Option<u64>,
    faults: Vec<String>,
}

impl Inspection<'_> {
    fn json(&self, list_tensors: bool) -> Value {
        let (file, format) = (self.file, self.file.format());
        let files =
            format.files.iter().map(|f| json!({"path": f.path, "size_bytes": f.size_bytes}));
        let encodings: Map<String, Value> = self
            .encodings()
            .into_iter()
            .map(|(name, (tensors, bytes))| {
                (name, json!({"tensors": tensors, "size_bytes": bytes}))
            })
            .collect();
        let mut json = json!({
            "format": format.kind.to_string(),
            "version": format.version,
            "digest": format.digest,
            "files": files.collect::<Vec<_>>(),
            "config": self.config(),
            "encodings": encodings,
            "trits": self.trits(),
            "tokenizer": self.tokenizer,
            "chat_template": file.chat_template().is_some(),
            "unused_tensors": file.extra_tensors(),
            "decisions": format.decisions,
        });
        if list_tensors {
            let tensor = |t: &TensorInfo| {
                json!({
                    "name": t.source_name,
                    "rows": t.rows,
                    "cols": t.cols,
                    "encoding": t.encoding.to_string(),
                    "offset": t.offset,
                    "size_bytes": t.size,
                })
            };
            json["tensors"] = file.tensors().iter().map(tensor).collect();
        }
        json["zeros"] = json!(self.zeros());
        json["sound"] = json!(self.checked.map(|_| self.faults.is_empty()));
        json["faults"] = json!(self.faults);
        json
    }

    fn config(&self) -> Value {
        let (network, info) = (self.file.network(), self.file.info());
        let layer = recipe::typical_layer(network);
        let (attention, dense) = (recipe::typical_attention(network), layer.ffn.block());
        // Through text, because an f32 as a double would print with more digits.
        let eps: f64 = network.norm.eps.to_string().parse().unwrap_or_default();
        let mut config = json!({
            "architecture": info.architecture,
            "name": info.name,
            "layers": network.layers.len(),
            "hidden": network.hidden_len,
            "feed_forward": dense.ffn_len,
            "heads": attention.heads,
            "kv_heads": attention.kv_heads,
            "head_dim": attention.head_dim,
            "vocabulary": network.vocab_len,
            "context": info.context_len,
            "rope_theta": attention.rope.unwrap_or_default().theta,
            "rope_scaling": recipe::rope_scaling(attention.rope.unwrap_or_default().scaling),
            "activations": network.activations.key(),
            "scales": self.scales(),
            "norm_eps": eps,
            "activation": dense.activation.key(),
            "sub_norms": attention.sub_norm.is_some(),
            "tied_head": network.head.tied,
            "bos": info.bos,
            "eos": info.eos,
            "block_diffusion": info.block_diffusion.map(|b| json!({
                "mask_token": b.mask_token,
                "block": b.block_len,
                "sub_block": b.sub_block_len,
                "token_shift": b.token_shift,
                "context": context_kind(b.causal_context),
            })),
        });
        for (key, value) in recipe::fields(network) {
            config[key] = value;
        }
        config["layer_kinds"] = layer_kinds::json(network);
        if let Some(pooling) = info.pooling {
            config["pooling"] = json!(pooling.name());
        }
        config
    }

    fn scales(&self) -> Option<String> {
        scales::describe(self.file, self.checked.is_some())
    }

    /// Returns the number and size of tensors by encoding.
    fn encodings(&self) -> BTreeMap<String, (usize, u64)> {
        let mut encodings = BTreeMap::<String, (usize, u64)>::new();
        for tensor in self.file.tensors() {
            let (tensors, bytes) = encodings.entry(tensor.encoding.to_string()).or_default();
            *tensors += 1;
            *bytes += tensor.size;
        }
        encodings
    }

    fn trits(&self) -> u64 {
        let linear = self.file.tensors().iter().filter(|t| t.encoding.is_ternary());
        linear.map(|t| t.rows as u64 * t.cols as u64).sum()
    }

    /// Returns the fraction of trits that are zero.
    fn zeros(&self) -> Option<f64> {
        Some(self.checked? as f64 / self.trits() as f64)
    }

    fn rows(&self, list_tensors: bool) -> Vec<(&'static str, String)> {
        let (file, format) = (self.file, self.file.format());
        let (network, info) = (file.network(), file.info());
        let layer = recipe::typical_layer(network);
        let (attention, dense) = (recipe::typical_attention(network), layer.ffn.block());
        let version = format.version.map_or(String::new(), |version| format!(" version {version}"));
        let mut rows = vec![("format", format!("{}{version}", format.kind))];
        rows.extend(format.files.iter().map(|file| {
            ("file", format!("{}, {}", file.path, output::megabytes(file.size_bytes)))
        }));
        rows.extend(format.digest.iter().map(|digest| ("digest", digest.clone())));
        rows.push(("model", info.name.clone().unwrap_or_else(|| "(no name)".to_owned())));
        rows.push(("architecture", info.architecture.clone()));
        rows.push((
            "network",
            format!(
                "{} layers, hidden {}, feed-forward {}, {} heads ({} K/V) of {}",
                network.layers.len(),
                network.hidden_len,
                dense.ffn_len,
                attention.heads,
                attention.kv_heads,
                attention.head_dim
            ),
        ));
        let sub_norms = if attention.sub_norm.is_some() { "sub-norms" } else { "no sub-norms" };
        let head = if network.head.tied { "tied head" } else { "separate head" };
        let (activation, theta) =
            (dense.activation.key(), attention.rope.unwrap_or_default().theta);
        rows.push(("", format!("{activation}, {sub_norms}, {head}, rope θ {theta}")));
        rows.extend(layer_kinds::rows(network));
        rows.extend(recipe::rows(network));
        rows.push(("activations", format!("{} codes", network.activations)));
        rows.extend(self.scales().map(|scales| ("scales", scales)));
        rows.push(("context", format!("{} tokens", info.context_len)));
        rows.push(("vocabulary", format!("{}, tokenizer {}", network.vocab_len, self.tokenizer)));
        let has_template = if file.chat_template().is_some() { "yes" } else { "no" };
        rows.push(("chat template", has_template.to_owned()));
        rows.extend(info.pooling.map(|p| ("embeddings", format!("{} pooling", p.name()))));
        rows.extend(info.block_diffusion.map(|b| {
            let (len, mask, context) = (b.block_len, b.mask_token, context_kind(b.causal_context));
            ("diffusion", format!("blocks of {len}, mask token {mask}, {context} context"))
        }));
        for (encoding, (tensors, bytes)) in self.encodings() {
            let size = output::megabytes(bytes);
            rows.push(("tensors", format!("{tensors} of {encoding}, {size}")));
        }
        let zeros = self.zeros().map_or(String::new(), |z| format!(", {:.1} % zero", z * 100.0));
        rows.push(("trits", format!("{:.1} million{zeros}", self.trits() as f64 / 1e6)));
        rows.extend(file.extra_tensors().iter().map(|name| ("unused", name.clone())));
        rows.extend(format.decisions.iter().map(|decision| ("decided", decision.clone())));
        rows.extend(file.tensors().iter().filter(|_| list_tensors).map(|t| {
            let (name, rows, cols) = (&t.source_name, t.rows, t.cols);
            ("tensor", format!("{name} {rows}×{cols} {} at byte {}", t.encoding, t.offset))
        }));
        rows.extend(self.faults.iter().map(|fault| ("fault", fault.clone())));
        let check = match self.checked {
            _ if !self.faults.is_empty() => "failed",
            Some(_) => "passed: every weight was read",
            None => "skipped (--quick)",
        };
        rows.push(("check", check.to_owned()));
        rows
    }
}

fn context_kind(is_causal: bool) -> &'static str {
    if is_causal { "causal" } else { "block" }
}

/// Describes the tokenizer, with a fault if it or the chat template is unusable.
fn describe_tokenizer(file: &ModelFile) -> (String, Vec<String>) {
    let origin = match file.tokenizer() {
        TokenizerSource::Json(_) => "tokenizer.json".to_owned(),
        TokenizerSource::Gguf(v) => match &v.pre {
            Some(pre) => format!("in the file, {} ({pre})", v.model),
            None => format!("in the file, {}", v.model),
        },
        TokenizerSource::Missing { looked } => {
            return (format!("missing (looked for {looked})"), Vec::new());
        }
    };
    match read_text(file) {
        Ok(text) => (format!("{origin}, {} tokens", text.tokenizer.len()), Vec::new()),
        Err(error) => (format!("{origin}, unusable"), vec![error.to_string()]),
    }
}

/// Reads every weight: each code must be a trit, each scale and float finite, and checksums must
/// match if the file has any. Returns the number of trits that are zero.
fn check_weights(file: &ModelFile, faults: &mut Vec<String>) -> u64 {
    let mut zeros = 0;
    for tensor in file.tensors() {
        let outcome = file.check(tensor).map_err(anyhow::Error::from).and_then(|()| {
            if tensor.encoding.is_ternary() {
                check_trits(file, tensor, &mut zeros)
            } else {
                check_floats(file, tensor)
            }
        });
        faults.extend(outcome.err().map(|error| error.to_string()));
    }
    zeros
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
