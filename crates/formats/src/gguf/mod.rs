//! GGUF files, read and written.

pub(crate) mod read;
mod tiles;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod write;

use std::collections::HashMap;

use read::{Gguf, Record};
use tiles::TileTable;

use crate::config::Evidence;
use crate::encoding::{FloatEncoding, I2sOrder, TernaryEncoding};
use crate::error::{Error, quote_safely};
use crate::generation::GenerationDefaults;
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::{LayerTensor, TensorName, layer_and_part};
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::ternary_floats;
use crate::vocabulary::{GgufVocabulary, ModelText, SpecialTokenTexts, TokenizerSource};
use crate::{config, size};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"GGUF";

/// Opens a GGUF file.
pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let gguf = Gguf::read(file, source.bytes.as_slice())?;
    let mut decisions = Vec::new();
    let vocabulary = GgufVocabulary::read(&gguf.metadata, &mut decisions)?;
    let tensors = gguf.tensors.iter();
    let known = tensors.filter_map(|r| Some((TensorName::from_gguf(&r.name)?, r.rows)));
    let Some(evidence) = Evidence::of(known, options.activation) else {
        return Err(Error::unsupported(file, "tensor \"token_embd.weight\" is missing"));
    };
    check_vocabulary(file, vocabulary.as_ref(), evidence.vocab_len)?;
    let config =
        config::gguf::read(&gguf.metadata, &evidence, vocabulary.as_ref(), &mut decisions)?;
    let has_tiles = gguf.tensors.iter().any(|record| matches!(record.type_id, 38 | 39));
    let tiles = if has_tiles { TileTable::beside(file)? } else { TileTable::default() };
    let stored = Reader { file, bytes: source.bytes.as_slice(), gguf: &gguf, options, tiles }
        .stored(&config, &mut decisions)?;
    let text = ModelText {
        special_tokens: special_tokens(vocabulary.as_ref()),
        generation: GenerationDefaults::from_gguf(&gguf.metadata)?,
        chat_template: chat_template(&gguf.metadata, &mut decisions)?,
        tokenizer: vocabulary.map_or_else(
            || TokenizerSource::Missing { looked: "tokenizer.ggml.tokens".to_owned() },
            TokenizerSource::Gguf,
        ),
    };
    let version = Some(gguf.version);
    let files = vec![source];
    let stored = stored.fit(&files, &config)?;
    let summary = FormatSummary::new(FormatKind::Gguf, version, &files, decisions);
    Ok(Parts { files, config, stored, text, summary })
}

/// Found in the chat template of the official BitNet-b1.58-2B-4T GGUF, which is not the one the model
/// was trained with: under it no reply ever ends.
const WRONG_TEMPLATE: &str = "BITNETAssistant";

/// What the model was trained with, as its Hugging Face checkpoint has it.
const BITNET_2B_TEMPLATE: &str = "{{ bos_token }}{% for message in messages %}\
    {{ message['role'] | capitalize }}: {{ message['content'] | trim }}<|eot_id|>{% endfor %}\
    {% if add_generation_prompt %}Assistant: {% endif %}";

fn chat_template(
    metadata: &value::Metadata<'_>,
    decisions: &mut Vec<String>,
) -> Result<Option<String>, Error> {
    let template = metadata.string("tokenizer.chat_template")?;
    if template.is_some_and(|template| template.contains(WRONG_TEMPLATE)) {
        let why =
            "chat template of the original checkpoint: the one in this file is known to be wrong";
        decisions.push(why.to_owned());
        return Ok(Some(BITNET_2B_TEMPLATE.to_owned()));
    }
    Ok(template.map(str::to_owned))
}

pub(crate) fn check_vocabulary(
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
    let text = |id: Option<u32>| {
        let at = usize::try_from(id?).ok()?;
        vocabulary?.tokens.get(at).cloned()
    };
    SpecialTokenTexts {
        bos: text(vocabulary.and_then(|v| v.bos)),
        eos: text(vocabulary.and_then(|v| v.eos)),
    }
}

/// Turns tensor records into stored tensors of a known encoding.
struct Reader<'r, 'a> {
    file: &'r str,
    bytes: &'r [u8],
    gguf: &'r Gguf<'a>,
    options: &'r OpenOptions,
    tiles: TileTable,
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
        let is_scale = |name: &str| name.ends_with(".scale") || name.ends_with(".weight_scale");
        let scales = self.gguf.tensors.iter().filter(|record| is_scale(&record.name));
        let scales = scales.map(|record| (record.name.as_str(), record)).collect();
        for record in &self.gguf.tensors {
            let Some(name) = TensorName::from_gguf(&record.name) else {
                self.check_unused(record)?;
                stored.extra.push(record.name.clone());
                continue;
            };
            let mut encoding = self.encoding(record, q2_group_len)?;
            let size = record.size(self.file, encoding)?;
            let mut factor = 1.0;
            if name.is_linear() {
                factor = self.scale_beside(record, &scales)?;
                if let Encoding::Float(float) = encoding {
                    encoding = match self.ternary_scale(record, float, size)? {
                        Some(scale) => {
                            factor *= scale;
                            Encoding::TernaryFloats(float)
                        }
                        None if self.options.naive => Encoding::MasterWeights(float),
                        None => return Err(self.not_ternary(record, float, &config.architecture)),
                    };
                }
            }
            stored.tensors.push(TensorInfo {
                name,
                source_name: record.name.clone(),
                rows: record.rows,
                cols: record.cols,
                encoding,
                offset: record.offset,
                size,
                file: 0,
                factor,
                group_len: self.options.group_len,
                checksum: None,
            });
        }
        self.note_order(&stored, decisions);
        self.note_tiles(&stored, decisions);
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
            38 | 39 => self.tiled(record).map_err(|what| self.fault(record, what)),
            other => {
                let name = types::foreign_name(other);
                let what = format!("type {other} ({name}) is not supported; {}", types::SUPPORTED);
                Err(self.fault(record, what))
            }
        }
    }

    fn tiled(&self, record: &Record) -> Result<Encoding, String> {
        types::check_tiled(record.type_id, record.weights(), record.room)?;
        let is_tl1 = record.type_id == 38;
        let (tiles, _) = self.tiles.find(is_tl1, record.rows, record.cols)?;
        let encoding =
            if is_tl1 { TernaryEncoding::Tl1(tiles) } else { TernaryEncoding::Tl2(tiles) };
        Ok(Encoding::Ternary(encoding))
    }

    /// The group length of type 42: every tensor of a file has the same.
    fn q2_group_len(&self, decisions: &mut Vec<String>) -> Result<usize, Error> {
        let records = self.gguf.tensors.iter().filter(|record| record.type_id == 42);
        let mut votes = Vec::new();
        for record in records {
            let vote = types::type_42(record.weights(), record.room);
            votes.push((vote.map_err(|what| self.fault(record, what))?, record));
        }
        if votes.is_empty() {
            return Ok(64);
        }
        let mut clear = votes.into_iter().filter_map(|(vote, record)| Some((vote?, record)));
        let Some((group_len, first)) = clear.next() else {
            decisions
                .push("Q2_0 in groups of 64: both sizes fit; llama.cpp's own is 64".to_owned());
            return Ok(64);
        };
        if let Some((other, record)) = clear.find(|(other, _)| *other != group_len) {
            let what = format!(
                "its size fits Q2_0 in groups of {other}, that of \"{}\" groups of {group_len}",
                quote_safely(&first.name)
            );
            return Err(self.fault(record, what));
        }
        let (name, room) = (quote_safely(&first.name), first.room.bytes);
        decisions.push(format!("Q2_0 in groups of {group_len}: {name} takes {room} bytes"));
        Ok(group_len)
    }

    /// The s of float weights that are all −s, 0 or s; `None` if they are not.
    fn ternary_scale(
        &self,
        record: &Record,
        float: FloatEncoding,
        size: u64,
    ) -> Result<Option<f32>, Error> {
        let bytes = size::slice(self.bytes, record.offset, size).unwrap_or_default();
        ternary_floats::scale(float, bytes, record.cols).map_err(|e| self.fault(record, e))
    }

    fn not_ternary(&self, record: &Record, float: FloatEncoding, architecture: &str) -> Error {
        let what = format!(
            "is {float} and not ternary (more than one magnitude besides 0): this {architecture} is \
             not a ternary model; {}",
            config::NAIVE_HINT
        );
        self.fault(record, what)
    }

    /// llama.cpp may keep one more scale of a projection in a tensor of its own.
    fn scale_beside(&self, record: &Record, scales: &HashMap<&str, &Record>) -> Result<f32, Error> {
        let Some(stem) = record.name.strip_suffix(".weight") else { return Ok(1.0) };
        // bitnet.cpp's converter has another name for that of TL1 and TL2, which have no scale else.
        let is_tiled = matches!(record.type_id, 38 | 39);
        let name = format!("{stem}{}", if is_tiled { ".weight_scale" } else { ".scale" });
        let Some(&beside) = scales.get(name.as_str()) else {
            if is_tiled {
                return Err(self.fault(record, format!("has no scale \"{}\"", quote_safely(&name))));
            }
            return Ok(1.0);
        };
        let bytes = size::slice(self.bytes, beside.offset, 4.min(beside.room.bytes));
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(f32::from_le_bytes)
            .filter(|value| beside.type_id == 0 && beside.weights() == 1 && value.is_finite())
            .filter(|&value| value > 0.0)
            .ok_or_else(|| self.fault(beside, "a scale must be one positive F32"))
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
            .or_else(|| part.strip_suffix(".weight_scale"))
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

    fn note_tiles(&self, stored: &Stored, decisions: &mut Vec<String>) {
        let tiled: Vec<_> = stored
            .tensors
            .iter()
            .filter_map(|t| match t.encoding {
                Encoding::Ternary(TernaryEncoding::Tl1(_)) => Some((t, true)),
                Encoding::Ternary(TernaryEncoding::Tl2(_)) => Some((t, false)),
                _ => None,
            })
            .collect();
        let Some((first, is_tl1)) = tiled.first() else { return };
        let name = if *is_tl1 { "TL1" } else { "TL2" };
        if let Ok((_, from)) = self.tiles.find(*is_tl1, first.rows, first.cols) {
            decisions.push(format!("the tiles of {name} are those of {from}: the file has none"));
        }
        if tiled.iter().all(|(t, _)| t.factor == 1.0) {
            let why = "bitnet.cpp's converter loses the scales of packed checkpoints so";
            decisions
                .push(format!("every scale is 1: {why}; if this is such a file, it is broken"));
        }
    }

    fn note_order(&self, stored: &Stored, decisions: &mut Vec<String>) {
        let i2s = stored.tensors.iter().find_map(|tensor| match tensor.encoding {
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
