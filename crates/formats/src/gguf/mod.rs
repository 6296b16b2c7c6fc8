//! GGUF files, read and written.

pub(crate) mod read;
mod tiles;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod write;

use std::collections::HashMap;

use read::{Gguf, Record};
use tiles::TileTable;

use wf_core::Vocabulary;

use crate::config::NAIVE_HINT;
use crate::config::gguf::GgufConfig;
use crate::encoding::{FloatEncoding, TernaryEncoding};
use crate::error::{Error, quote_safely};
use crate::families::{Evidence, Family};
use crate::generation::GenerationDefaults;
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::{LayerTensor, TensorName, layer_and_part};
use crate::size;
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::ternary_floats;
use crate::vocabulary::{ModelText, SpecialTokenTexts, TokenizerSource, read_vocabulary};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"GGUF";

/// Opens a GGUF file.
pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let gguf = Gguf::read(file, source.bytes.as_slice())?;
    let mut decisions = Vec::new();
    let vocabulary = read_vocabulary(&gguf.metadata, &mut decisions)?;
    let (family, architecture) = Family::of_gguf(&gguf.metadata)?;
    let tensors = gguf.tensors.iter();
    let known = tensors.filter_map(|r| Some((family.gguf_tensor(&r.name)?, r.rows)));
    let Some(evidence) = Evidence::of(known) else {
        return Err(Error::unsupported(file, "tensor \"token_embd.weight\" is missing"));
    };
    check_vocabulary(file, vocabulary.as_ref(), evidence.vocab_len)?;
    let (metadata, known) = (&gguf.metadata, vocabulary.as_ref());
    let config = GgufConfig { metadata, family, architecture, vocabulary: known };
    let config = config.read(&evidence, options.activation, &mut decisions)?;
    let has_tiles =
        gguf.tensors.iter().any(|record| matches!(record.type_id, types::TL1 | types::TL2));
    let tiles = if has_tiles { TileTable::beside(file)? } else { TileTable::default() };
    let bytes = source.bytes.as_slice();
    let stored = Reader { file, bytes, gguf: &gguf, family, options, tiles }
        .stored(architecture, &mut decisions)?;
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
    let stored = stored.fit(&files, &config.network)?;
    let summary = FormatSummary::new(FormatKind::Gguf, version, &files, decisions);
    Ok(Parts { files, config, stored, text, summary })
}

/// Part of the chat template of the official BitNet-b1.58-2B-4T GGUF, which is not the one the model
/// was trained with: with it, generation does not end.
const WRONG_TEMPLATE: &str = "BITNETAssistant";

/// The template the model was trained with, as in its Hugging Face checkpoint.
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
            "chat template of the original checkpoint: that of this file is known to be wrong";
        decisions.push(why.to_owned());
        return Ok(Some(BITNET_2B_TEMPLATE.to_owned()));
    }
    Ok(template.map(str::to_owned))
}

pub(crate) fn check_vocabulary(
    file: &str,
    vocabulary: Option<&Vocabulary>,
    vocab_len: usize,
) -> Result<(), Error> {
    let tokens = vocabulary.map_or(0, |vocabulary| vocabulary.tokens.len());
    if tokens <= vocab_len {
        return Ok(());
    }
    let what = format!("{tokens} tokens, but the embedding has {vocab_len} rows");
    Err(Error::setting(file, "tokenizer.ggml.tokens", what))
}

fn special_tokens(vocabulary: Option<&Vocabulary>) -> SpecialTokenTexts {
    let text = |id: Option<u32>| {
        let at = usize::try_from(id?).ok()?;
        vocabulary?.tokens.get(at).cloned()
    };
    SpecialTokenTexts {
        bos: text(vocabulary.and_then(|v| v.bos)),
        eos: text(vocabulary.and_then(|v| v.eos)),
    }
}

/// Determines the encodings of tensors.
struct Reader<'r, 'a> {
    file: &'r str,
    bytes: &'r [u8],
    gguf: &'r Gguf<'a>,
    family: &'static Family,
    options: &'r OpenOptions,
    tiles: TileTable,
}

impl Reader<'_, '_> {
    fn stored(&self, architecture: &str, decisions: &mut Vec<String>) -> Result<Stored, Error> {
        let q2_0 = self.q2_0(decisions)?;
        let mut stored = Stored::default();
        // A map, because a linear search for each of 65,536 tensors takes seconds.
        let is_scale = |name: &str| name.ends_with(".scale") || name.ends_with(".weight_scale");
        let scales = self.gguf.tensors.iter().filter(|record| is_scale(&record.name));
        let scales = scales.map(|record| (record.name.as_str(), record)).collect();
        for record in &self.gguf.tensors {
            let Some(name) = self.family.gguf_tensor(&record.name) else {
                self.check_unused(record)?;
                stored.extra.push(record.name.clone());
                continue;
            };
            let mut encoding = self.encoding(record, q2_0)?;
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
                        None => return Err(self.not_ternary(record, float, architecture)),
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

    fn encoding(&self, record: &Record, q2_0: TernaryEncoding) -> Result<Encoding, Error> {
        if let Some(encoding) = types::unambiguous(record.type_id) {
            return Ok(encoding);
        }
        match record.type_id {
            types::I2_S => {
                let order = self.options.i2s_order.unwrap_or_default();
                types::type_36(record.weights(), record.space, order)
                    .map_err(|what| self.fault(record, what))
            }
            types::Q2_0 => Ok(Encoding::Ternary(q2_0)),
            types::TL1 | types::TL2 => self.tiled(record).map_err(|what| self.fault(record, what)),
            other => {
                let name = types::foreign_name(other);
                let what =
                    format!("type {other} ({name}) is not supported; {}", types::supported());
                Err(self.fault(record, what))
            }
        }
    }

    fn tiled(&self, record: &Record) -> Result<Encoding, String> {
        types::check_tiled(record.type_id, record.weights(), record.space)?;
        let is_tl1 = record.type_id == types::TL1;
        let (tiles, _) = self.tiles.find(is_tl1, record.rows, record.cols)?;
        let encoding = if is_tl1 { TernaryEncoding::TL1 } else { TernaryEncoding::TL2 };
        Ok(Encoding::Ternary(encoding.with_tiles(tiles)))
    }

    /// Returns the variant of type 42, which is the same for all tensors of a file.
    fn q2_0(&self, decisions: &mut Vec<String>) -> Result<TernaryEncoding, Error> {
        let records = self.gguf.tensors.iter().filter(|record| record.type_id == types::Q2_0);
        let mut votes = Vec::new();
        for record in records {
            let vote = types::type_42(record.weights(), record.space);
            votes.push((vote.map_err(|what| self.fault(record, what))?, record));
        }
        if votes.is_empty() {
            return Ok(TernaryEncoding::Q2_0);
        }
        let mut clear = votes.into_iter().filter_map(|(vote, record)| Some((vote?, record)));
        let Some((encoding, first)) = clear.next() else {
            let usual = TernaryEncoding::Q2_0;
            decisions.push(format!("{usual}: both group lengths fit; llama.cpp uses 64"));
            return Ok(usual);
        };
        if let Some((other, record)) = clear.find(|(other, _)| *other != encoding) {
            let first = quote_safely(&first.name);
            let what = format!("its size fits {other}, that of \"{first}\" {encoding}");
            return Err(self.fault(record, what));
        }
        let (name, space) = (quote_safely(&first.name), first.space.bytes);
        decisions.push(format!("{encoding}: {name} takes {space} bytes"));
        Ok(encoding)
    }

    /// Returns the s of float weights that are all −s, 0 or s; `None` if they are not.
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
            NAIVE_HINT
        );
        self.fault(record, what)
    }

    /// Returns the scale that is stored as a tensor of its own, or 1.
    fn scale_beside(&self, record: &Record, scales: &HashMap<&str, &Record>) -> Result<f32, Error> {
        let Some(stem) = record.name.strip_suffix(".weight") else { return Ok(1.0) };
        // bitnet.cpp has another name for that of TL1 and TL2, which have no other scale.
        let is_tiled = matches!(record.type_id, types::TL1 | types::TL2);
        let name = format!("{stem}{}", if is_tiled { ".weight_scale" } else { ".scale" });
        let Some(&beside) = scales.get(name.as_str()) else {
            if is_tiled {
                return Err(self.fault(record, format!("has no scale \"{}\"", quote_safely(&name))));
            }
            return Ok(1.0);
        };
        let bytes = size::slice(self.bytes, beside.offset, 4.min(beside.space.bytes));
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(f32::from_le_bytes)
            .filter(|value| beside.type_id == 0 && beside.weights() == 1 && value.is_finite())
            .filter(|&value| value > 0.0)
            .ok_or_else(|| self.fault(beside, "a scale must be one positive F32"))
    }

    /// Rejects unknown tensors that belong to the network: ignoring one inside a layer would change the
    /// result.
    fn check_unused(&self, record: &Record) -> Result<(), Error> {
        let name = record.name.as_str();
        if name == "rope_freqs.weight" || name.ends_with(".bias") {
            return Err(
                self.fault(record, "is not supported: ignoring it would change the network")
            );
        }
        let Some((_, part)) = layer_and_part(name, "blk.") else { return Ok(()) };
        let is_scale = part
            .strip_suffix(".scale")
            .or_else(|| part.strip_suffix(".weight_scale"))
            .map(|stem| format!("blk.0.{stem}.weight"))
            .and_then(|weight| self.family.gguf_tensor(&weight))
            .is_some_and(TensorName::is_linear);
        if is_scale || part == "attn_rot_embd" || part == "attn_rot_embd.weight" {
            return Ok(());
        }
        let known = LayerTensor::ALL.map(|t| TensorName::Layer(0, t).gguf()).join(", ");
        let known = known.replace("blk.0.", "").replace(".weight", "");
        Err(self
            .fault(record, format!("is not a tensor of this network, whose layers have {known}")))
    }

    fn note_tiles(&self, stored: &Stored, decisions: &mut Vec<String>) {
        let is_tiled =
            |t: &&TensorInfo| matches!(t.encoding, Encoding::Ternary(e) if !e.is_writable());
        let mut tiled = stored.tensors.iter().filter(is_tiled).peekable();
        let Some(first) = tiled.peek() else { return };
        let name = first.encoding.name();
        if let Ok((_, from)) = self.tiles.find(name == "TL1", first.rows, first.cols) {
            decisions.push(format!("tiles of {name} from {from}: the file does not contain them"));
        }
        if tiled.all(|t| t.factor == 1.0) {
            let why = "bitnet.cpp's converter loses the scales of packed checkpoints";
            decisions.push(format!(
                "every scale is 1: {why}; if it wrote this file, the file is broken"
            ));
        }
    }

    fn note_order(&self, stored: &Stored, decisions: &mut Vec<String>) {
        let i2s = stored.tensors.iter().find_map(|tensor| match tensor.encoding {
            Encoding::Ternary(encoding) => encoding.i2s_order(),
            _ => None,
        });
        let Some(order) = i2s else { return };
        let why = match self.options.i2s_order {
            Some(_) => "as requested",
            None => "the order of published files; the bytes do not show whether it is 64 or 4row",
        };
        decisions.push(format!("I2_S order {order}: {why}"));
    }
}
