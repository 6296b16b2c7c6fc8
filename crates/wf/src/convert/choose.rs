//! What a model is to become: what the flags say, and what follows where they say nothing.

use std::path::Path;

use anyhow::{Result, bail};
use wf_formats::{
    Container, Existing, FloatEncoding, ModelFile, Rounding, Target, TensorName, TernaryEncoding,
    fitting,
};

use super::args::{ConvertArgs, Format};
use crate::open;
use crate::report::UsageError;

/// The target of a conversion.
pub(super) fn target(args: &ConvertArgs, source: &ModelFile) -> Result<Target> {
    let container = container(args, source)?;
    Ok(Target {
        container,
        head: head(args, source, container)?,
        // Where scales are f16 there is no other way; the report says by how much they changed.
        rounding: Rounding::Allow,
        name: None,
        existing: if args.force { Existing::Replace } else { Existing::Keep },
        threads: args.threads.unwrap_or_else(open::cores),
    })
}

fn container(args: &ConvertArgs, source: &ModelFile) -> Result<Container> {
    let format = match args.to {
        Some(format) => format,
        None => by_name(&args.destination)?,
    };
    if let (Some(encoding), Format::Safetensors | Format::Sglbitnt | Format::Wf) =
        (args.encoding, format)
    {
        let message = format!(
            "--encoding {encoding} is for GGUF: packed safetensors, SGLBITNT and .wf have one encoding \
             each"
        );
        return Err(UsageError::new(message).into());
    }
    Ok(match format {
        Format::Gguf => Container::Gguf(match args.encoding {
            Some(encoding) => encoding,
            None => usual_encoding(source)?,
        }),
        Format::Safetensors => Container::Packed,
        Format::Sglbitnt => Container::Sglbitnt,
        Format::Wf => Container::Wf,
    })
}

/// The kind of file that a name stands for.
fn by_name(path: &Path) -> Result<Format> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let ends_in_slash = path.as_os_str().to_string_lossy().ends_with(['/', '\\']);
    match extension {
        _ if path.is_dir() || ends_in_slash => Ok(Format::Safetensors),
        Some("gguf") => Ok(Format::Gguf),
        Some("bin") => Ok(Format::Sglbitnt),
        Some("wf") => Ok(Format::Wf),
        None => Ok(Format::Safetensors),
        Some(_) => {
            let path = path.display();
            let message = format!(
                "the name {path} does not say what to write: use .gguf, .wf, .bin or a directory, \
                 or say it with --to"
            );
            Err(UsageError::new(message).into())
        }
    }
}

/// The first that fits by shape and, as far as is known without reading weights, by scales.
fn usual_encoding(source: &ModelFile) -> Result<TernaryEncoding> {
    match fitting(source).first() {
        Some(encoding) => Ok(*encoding),
        None => bail!(
            "no encoding of GGUF fits rows that are no multiple of 64, or scales of such groups: \
             packed safetensors (a directory as DST) hold any row, with one scale a tensor, and .wf \
             with any scales"
        ),
    }
}

fn head(args: &ConvertArgs, source: &ModelFile, container: Container) -> Result<FloatEncoding> {
    let embedding = source.tensor(TensorName::Embedding);
    if args.pack_lm_head {
        if !container.holds(FloatEncoding::Q6K) {
            bail!("--pack-lm-head is for GGUF and .wf: other formats hold f32, f16 and bf16 only");
        }
        let fits = embedding.is_some_and(|t| FloatEncoding::Q6K.row_size(t.cols).is_ok());
        return Ok(if fits { FloatEncoding::Q6K } else { FloatEncoding::Q8_0 });
    }
    match args.head_type {
        Some(head) => Ok(head),
        None => Ok(Target::usual_head(source, container)?),
    }
}

/// What a head costs in quality, as published for BitNet-b1.58-2B-4T.
pub(super) fn cost_of(head: FloatEncoding) -> Option<&'static str> {
    match head {
        FloatEncoding::F32 | FloatEncoding::F16 | FloatEncoding::Bf16 => None,
        FloatEncoding::Q8_0 => Some("costs 0.06 % in perplexity (17.120 for 17.109)"),
        FloatEncoding::Q6K => Some("costs 0.23 % in perplexity (17.149 for 17.109)"),
        FloatEncoding::Q4_0 => Some("costs 1.4 % in perplexity (17.353 for 17.109)"),
    }
}
