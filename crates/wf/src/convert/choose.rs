//! The target of a conversion: from flags, or else from the source and the name of the destination.

use std::path::Path;

use anyhow::{Result, bail};
use wf_formats::{
    Container, FloatEncoding, IfExists, ModelFile, Rounding, TableEncoding, Target, TensorName,
    TernaryEncoding, compatible_encodings,
};

use super::args::{ConvertArgs, Format};
use crate::cpu;
use crate::output::UsageError;

pub(super) fn target(args: &ConvertArgs, source: &ModelFile) -> Result<Target> {
    let container = container(args, source)?;
    Ok(Target {
        container,
        head: head(args, source, container)?,
        // Unavoidable for f16 scales; the report has the largest change.
        rounding: Rounding::Allow,
        name: None,
        if_exists: if args.force { IfExists::Replace } else { IfExists::Fail },
        threads: args.threads.unwrap_or_else(cpu::default_threads),
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
            "--encoding {encoding} requires GGUF: packed safetensors, SGLBITNT and .wf have one \
             encoding each"
        );
        return Err(UsageError::new(message).into());
    }
    Ok(match format {
        Format::Gguf => Container::Gguf(match args.encoding {
            Some(encoding) => encoding,
            None => default_encoding(source)?,
        }),
        Format::Safetensors => Container::Packed,
        Format::Sglbitnt => Container::Sglbitnt,
        Format::Wf => Container::Wf,
    })
}

/// Returns the format of a file name.
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
                "{path}: unknown extension: use .gguf, .wf, .bin or a directory, or set the format with \
                 --to"
            );
            Err(UsageError::new(message).into())
        }
    }
}

/// Returns the first encoding that fits the shapes and, as far as known without reading weights, the
/// scales.
fn default_encoding(source: &ModelFile) -> Result<TernaryEncoding> {
    match compatible_encodings(source).first() {
        Some(encoding) => Ok(*encoding),
        None => bail!(
            "no GGUF encoding fits these rows and scales: use packed safetensors (a directory as DST), \
             which hold any rows with one scale per tensor, or .wf, which holds any scales too"
        ),
    }
}

fn head(args: &ConvertArgs, source: &ModelFile, container: Container) -> Result<TableEncoding> {
    let embedding = source.tensor(TensorName::Embedding);
    if args.pack_lm_head {
        if !container.supports_head(FloatEncoding::Q6_K.into()) {
            bail!(
                "--pack-lm-head requires GGUF or .wf: other formats only support f32, f16 and bf16, and an \
                 output head of trits, which other converters write to .bin, ruins the responses of a model \
                 that was not trained with one. Convert to a .gguf or .wf, or run the .bin as it is: \
                 --head scan4, the default, reads a quarter of a 16-bit head for each token"
            );
        }
        let fits = embedding.is_some_and(|t| FloatEncoding::Q6_K.row_size(t.cols).is_ok());
        return Ok(if fits { FloatEncoding::Q6_K } else { FloatEncoding::Q8_0 }.into());
    }
    match args.head_type {
        Some(head) => Ok(head.into()),
        None => Ok(Target::default_head(source, container)?),
    }
}
