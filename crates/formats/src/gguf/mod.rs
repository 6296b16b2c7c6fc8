//! GGUF files, read and written.

pub(crate) mod read;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod write;

use std::collections::HashMap;

use read::{Gguf, Record};

use crate::config::gguf::Evidence;
use crate::encoding::{I2sOrder, TernaryEncoding};
use crate::error::Error;
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::{LayerTensor, TensorName, layer_and_part};
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, StoredTensor};
use crate::ternary_floats;
use crate::vocabulary::{GgufVocabulary, SpecialTokenTexts, TokenizerSource};
use crate::{config, size};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"GGUF";

/// Opens a GGUF file.
pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let gguf = Gguf::read(file, source.bytes.as_slice())?;
    let mut decisions = Vec::new();
    let vocabulary = GgufVocabulary::read(&gguf.metadata)?;
    let embedding = find(&gguf, TensorName::Embedding).map(|record| record.rows);
    let Some(vocab_len) = embedding else {
        return Err(Error::unsupported(file, "tensor \"token_embd.weight\" is missing"));
    };
    check_vocabulary(file, vocabulary.as_ref(), vocab_len)?;
    let evidence = Evidence {
        file,
        vocab_len,
        has_output: find(&gguf, TensorName::Output).is_some(),
        sub_norms: gguf.tensors.iter().any(|record| {
            TensorName::from_gguf(&record.name)
                .is_some_and(|n| matches!(n, TensorName::Layer(_, t) if t.is_sub_norm()))
        }),
        vocabulary: vocabulary.as_ref(),
        activation: options.activation,
    };
    let config = config::gguf::read(&gguf.metadata, &evidence, &mut decisions)?;
    let stored = Reader { file, bytes: source.bytes.as_slice(), gguf: &gguf, options }
        .stored(&config, &mut decisions)?;
    let (tensors, extra) = stored.assemble(&[file], &config)?;
    let chat_template = gguf.metadata.string("tokenizer.chat_template")?.map(str::to_owned);
    let summary = FormatSummary {
        kind: FormatKind::Gguf,
        version: Some(gguf.version),
        files: vec![source.summary()],
        decisions,
    };
    Ok(Parts {
        special_tokens: special_tokens(vocabulary.as_ref()),
        tokenizer: vocabulary.map_or_else(
            || TokenizerSource::Missing { looked: "tokenizer.ggml.tokens".to_owned() },
            TokenizerSource::Gguf,
        ),
        files: vec![source],
        config,
        tensors,
        extra,
        chat_template,
        summary,
    })
}

fn find<'a>(gguf: &'a Gguf<'_>, name: TensorName) -> Option<&'a Record> {
    let name = name.gguf();
    gguf.tensors.iter().find(|record| record.name == name)
}

fn check_vocabulary(
    file: &str,
    vocabulary: Option<&GgufVocabulary>,
    vocab_len: usize,
) -> Result<(), Error> {
    let tokens = vocabulary.map_or(0, |vocabulary| vocabulary.tokens.len());
    if tokens <= vocab_len {
        return Ok(());
    }
    let what = format!("{tokens} tokens, the embedding has {vocab_len} rows");
    Err(Error::setting(file, "tokenizer.ggml.tokens", what))
}

fn special_tokens(vocabulary: Option<&GgufVocabulary>) -> SpecialTokenTexts {
    let Some(vocabulary) = vocabulary else { return SpecialTokenTexts::default() };
    let text = |id: Option<u32>| {
        let at = usize::try_from(id?).ok()?;
        vocabulary.tokens.get(at).cloned()
    };
    SpecialTokenTexts { bos: text(vocabulary.bos), eos: text(vocabulary.eos) }
}

/// Turns tensor records into stored tensors of a known encoding.
struct Reader<'r, 'a> {
    file: &'r str,
    bytes: &'r [u8],
    gguf: &'r Gguf<'a>,
    options: &'r OpenOptions,
}

impl Reader<'_, '_> {
    fn stored(
        &self,
        config: &config::ModelConfig,
        decisions: &mut Vec<String>,
    ) -> Result<Stored, Error> {
        let q2_group_len = self.q2_group_len(decisions)?;
        let mut stored = Stored::default();
        // Looked up by name: a search through all tensors for each of 65,536 takes seconds.
        let scales = self.gguf.tensors.iter().filter(|record| record.name.ends_with(".scale"));
        let scales = scales.map(|record| (record.name.as_str(), record)).collect();
        for record in &self.gguf.tensors {
            let Some(name) = TensorName::from_gguf(&record.name) else {
                self.check_unused(record)?;
                stored.extra.push(record.name.clone());
                continue;
            };
            let encoding = self.encoding(record, q2_group_len)?;
            let size = record.size(self.file, encoding)?;
            let mut tensor = StoredTensor {
                source_name: record.name.clone(),
                rows: record.rows,
                cols: record.cols,
                encoding,
                file: 0,
                offset: record.offset,
                size,
                factor: 1.0,
            };
            if name.is_linear() {
                let own = self.admit_ternary_floats(&mut tensor, config)?;
                tensor.factor = own * self.scale_beside(record, &scales)?;
            }
            stored.tensors.push((name, tensor));
        }
        self.note_order(&stored, decisions);
        Ok(stored)
    }

    fn fault(&self, record: &Record, what: impl std::fmt::Display) -> Error {
        Error::tensor(self.file, &record.name, record.offset, what)
    }

    fn encoding(&self, record: &Record, q2_group_len: usize) -> Result<Encoding, Error> {
        if let Some(encoding) = types::agreed(record.type_id) {
            return Ok(encoding);
        }
        match record.type_id {
            36 => {
                let order = self.options.i2s_order.unwrap_or(I2sOrder::Groups128);
                types::type_36(record.weights(), record.room, order)
                    .map_err(|what| self.fault(record, what))
            }
            42 => Ok(Encoding::Ternary(TernaryEncoding::Q2_0 { group_len: q2_group_len })),
            38 | 39 => Err(self.fault(record, types::tiled(record.type_id))),
            other => {
                let name = types::foreign_name(other);
                let what = format!("type {other} ({name}) is not supported; {}", types::SUPPORTED);
                Err(self.fault(record, what))
            }
        }
    }

    /// The group length of type 42: every tensor of a file has the same.
    fn q2_group_len(&self, decisions: &mut Vec<String>) -> Result<usize, Error> {
        let mut found: Option<(usize, &Record)> = None;
        let mut any = false;
        for record in self.gguf.tensors.iter().filter(|record| record.type_id == 42) {
            any = true;
            let vote = types::type_42(record.weights(), record.room)
                .map_err(|what| self.fault(record, what))?;
            match (found, vote) {
                (Some((first, earlier)), Some(group_len)) if first != group_len => {
                    let what = format!(
                        "its size fits Q2_0 in groups of {group_len}, that of \"{}\" groups of {first}",
                        earlier.name
                    );
                    return Err(self.fault(record, what));
                }
                (None, Some(group_len)) => found = Some((group_len, record)),
                _ => {}
            }
        }
        let group_len = found.map_or(64, |(group_len, _)| group_len);
        if any {
            let why = match found {
                Some((_, record)) => format!("{} takes {} bytes", record.name, record.room.bytes),
                None => "both sizes fit; llama.cpp's own is 64".to_owned(),
            };
            decisions.push(format!("Q2_0 in groups of {group_len}: {why}"));
        }
        Ok(group_len)
    }

    /// Float weights are fine where every one is −s, 0 or s; returns that s, or 1 for packed trits.
    fn admit_ternary_floats(
        &self,
        tensor: &mut StoredTensor,
        config: &config::ModelConfig,
    ) -> Result<f32, Error> {
        let Encoding::Float(float) = tensor.encoding else { return Ok(1.0) };
        let bytes = size::slice(self.bytes, tensor.offset, tensor.size).unwrap_or_default();
        let scale = ternary_floats::scale(float, bytes, tensor.cols)
            .map_err(|e| Error::tensor(self.file, &tensor.source_name, tensor.offset, e))?;
        let Some(scale) = scale else {
            let what = format!(
                "is {float} and not ternary (more than one magnitude besides 0): this {} is not a \
                 ternary model",
                config.architecture
            );
            return Err(Error::tensor(self.file, &tensor.source_name, tensor.offset, what));
        };
        tensor.encoding = Encoding::TernaryFloats(float);
        Ok(scale)
    }

    /// llama.cpp may keep one more scale of a projection in a tensor of its own.
    fn scale_beside(&self, record: &Record, scales: &HashMap<&str, &Record>) -> Result<f32, Error> {
        let Some(stem) = record.name.strip_suffix(".weight") else { return Ok(1.0) };
        let name = format!("{stem}.scale");
        let Some(&beside) = scales.get(name.as_str()) else { return Ok(1.0) };
        let bytes = size::slice(self.bytes, beside.offset, 4.min(beside.room.bytes));
        let value = bytes.and_then(|bytes| bytes.try_into().ok()).map(f32::from_le_bytes);
        match value {
            Some(value)
                if beside.type_id == 0
                    && beside.weights() == 1
                    && value.is_finite()
                    && value > 0.0 =>
            {
                Ok(value)
            }
            _ => Err(self.fault(beside, "a scale must be one positive F32")),
        }
    }

    /// A tensor that the network does not use may be anything, but not something it should use: one
    /// that we do not know inside a layer is arithmetic that we would leave out.
    fn check_unused(&self, record: &Record) -> Result<(), Error> {
        let name = record.name.as_str();
        if name == "rope_freqs.weight" || name.ends_with(".bias") {
            return Err(self.fault(record, "changes the network in a way that is not supported"));
        }
        let Some((_, part)) = layer_and_part(name, "blk.") else { return Ok(()) };
        let is_scale = part
            .strip_suffix(".scale")
            .map(|stem| format!("blk.0.{stem}.weight"))
            .and_then(|weight| TensorName::from_gguf(&weight))
            .is_some_and(TensorName::is_linear);
        if is_scale || part == "attn_rot_embd" || part == "attn_rot_embd.weight" {
            return Ok(());
        }
        let known = LayerTensor::ALL.map(|t| TensorName::Layer(0, t).gguf()).join(", ");
        let known = known.replace("blk.0.", "").replace(".weight", "");
        Err(self.fault(record, format!("is no part of this network, whose layers have {known}")))
    }

    fn note_order(&self, stored: &Stored, decisions: &mut Vec<String>) {
        let i2s = stored.tensors.iter().find_map(|(_, tensor)| match tensor.encoding {
            Encoding::Ternary(TernaryEncoding::I2s(order)) => Some(order),
            _ => None,
        });
        let Some(order) = i2s else { return };
        let why = match self.options.i2s_order {
            Some(_) => "as asked for",
            None => "the order of published files; the bytes cannot tell it from 64 or 4row",
        };
        decisions.push(format!("I2_S order {order}: {why}"));
    }
}
