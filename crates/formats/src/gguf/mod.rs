//! GGUF files, read and written.

mod experts;
pub(crate) mod hadamard;
pub(crate) mod read;
pub(crate) mod rope;
mod tiles;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod write;

use std::collections::HashMap;

use read::{Gguf, Record};
use tiles::TileTable;

use wf_core::{Network, Vocabulary};

use crate::config::settings::Settings;
use crate::config::{self, NAIVE_HINT};
use crate::encoding::absmean::FloatTrits;
use crate::encoding::{FloatEncoding, TernaryEncoding};
use crate::error::{Error, quote_safely};
use crate::families::{Evidence, Family, Keys, LAYER_LISTS, mtp};
use crate::map::SourceFile;
use crate::names::{LayerTensor, TensorName, joined_experts, layer_and_part};
use crate::parts::{FormatKind, FormatSummary, OpenOptions, Parts};
use crate::size;
use crate::tensor::{Encoding, Stored, TensorInfo};
use crate::text::{
    GenerationDefaults, ModelText, SpecialTokenTexts, TokenizerSource, read_vocabulary,
};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"GGUF";

pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let mut gguf = Gguf::read(file, source.bytes())?;
    let mut decisions = Vec::new();
    let vocabulary = read_vocabulary(&gguf.metadata, &mut decisions)?;
    let (family, architecture) = Family::of_gguf(&gguf.metadata.settings)?;
    let architecture = &architecture.to_owned();
    let transform = hadamard::read(&gguf.metadata, family)?;
    for list in LAYER_LISTS {
        let limit = size::widen(Network::MAX_LAYERS);
        gguf.metadata.load_list(&format!("{architecture}.{list}"), limit)?;
    }
    let tensors = gguf.tensors.iter();
    let known = tensors.filter_map(|r| Some((family.gguf_tensor(&r.name)?, r.rows)));
    let mut evidence = Evidence::of(file, "token_embd.weight", known)?;
    evidence.rope_divisors = rope::divisors(file, source.bytes(), &gguf.tensors)?;
    evidence.has_mtp_tables = gguf.tensors.iter().any(|record| mtp::is_table(&record.name));
    evidence.hadamard = transform.as_ref().map(|transform| transform.hadamard.clone());
    if let Some(vocabulary) = &vocabulary {
        check_vocabulary(file, vocabulary, evidence.vocab_len)?;
    }
    let keys = Keys {
        family,
        settings: &gguf.metadata.settings,
        architecture: Some(architecture),
        evidence: &evidence,
        vocabulary: vocabulary.as_ref(),
        activation: options.activation,
        decisions: &mut decisions,
    };
    let config = config::gguf::read(&gguf.metadata, architecture, keys)?;
    if let Some(transform) = &transform {
        transform.check(&gguf.metadata, &config.network, &gguf.tensors)?;
    }
    let has_tiles =
        gguf.tensors.iter().any(|record| matches!(record.type_id, types::TL1 | types::TL2));
    let tiles = if has_tiles { TileTable::beside(file)? } else { TileTable::default() };
    let bytes = source.bytes();
    let network = &config.network;
    let stored = Reader { file, bytes, gguf: &gguf, family, network, options, tiles }
        .stored(architecture, &mut decisions)?;
    let text = ModelText {
        special_tokens: special_tokens(vocabulary.as_ref()),
        generation: GenerationDefaults::from_gguf(&gguf.metadata.settings)?,
        chat_template: chat_template(&gguf.metadata.settings, &mut decisions)?,
        tokenizer: vocabulary.map_or_else(
            || TokenizerSource::Missing { looked: "tokenizer.ggml.tokens".to_owned() },
            TokenizerSource::Gguf,
        ),
    };
    let version = Some(gguf.version);
    let files = vec![source];
    let summary = FormatSummary::new(FormatKind::Gguf, version, decisions);
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
    settings: &Settings,
    decisions: &mut Vec<String>,
) -> Result<Option<String>, Error> {
    let template = settings.string("tokenizer.chat_template")?;
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
    vocabulary: &Vocabulary,
    vocab_len: usize,
) -> Result<(), Error> {
    let tokens = vocabulary.tokens.len();
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
    network: &'r Network,
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
        let scales: HashMap<_, _> = scales.map(|record| (record.name.as_str(), record)).collect();
        for record in &self.gguf.tensors {
            if rope::is_divisor(&record.name) {
                continue;
            }
            if let Some(experts) = self.experts(record, q2_0)? {
                stored.extra.extend(experts.is_empty().then(|| record.name.clone()));
                for mut info in experts {
                    self.complete(record, architecture, &scales, &mut info)?;
                    stored.tensors.push(info);
                }
                continue;
            }
            let Some(name) = self.family.gguf_tensor(&record.name) else {
                self.check_unused(record)?;
                stored.extra.push(record.name.clone());
                continue;
            };
            let encoding = self.encoding(record, q2_0)?;
            let size = record.size(self.file, encoding)?;
            let (offset, source_name) = (record.offset, record.name.clone());
            let shape = (record.rows, record.cols);
            let mut info = TensorInfo::new(name, source_name, shape, encoding, offset, size);
            self.complete(record, architecture, &scales, &mut info)?;
            stored.tensors.push(info);
        }
        self.note_order(&stored, decisions);
        self.note_tiles(&stored, decisions);
        Ok(stored)
    }

    /// Adds to a tensor what its neighbours and its values say: its factor, and trits in floats.
    fn complete(
        &self,
        record: &Record,
        architecture: &str,
        scales: &HashMap<&str, &Record>,
        info: &mut TensorInfo,
    ) -> Result<(), Error> {
        info.group_len = self.options.group_len;
        if info.name.is_linear() || matches!(info.encoding, Encoding::Ternary(_)) {
            info.factor = self.scale_beside(record, scales)?;
        }
        if let (true, Encoding::Float(float)) = (info.name.is_linear(), info.encoding) {
            self.find_trits(record, float, architecture, info)?;
        }
        Ok(())
    }

    /// Decides how the weights of a projection in floats are read as trits.
    fn find_trits(
        &self,
        record: &Record,
        float: FloatEncoding,
        architecture: &str,
        info: &mut TensorInfo,
    ) -> Result<(), Error> {
        let bytes = size::slice(self.bytes, info.offset, info.size).unwrap_or_default();
        let parts = FloatTrits::find(float, bytes, record.cols);
        match parts.map_err(|e| self.fault(record, e))? {
            Ok(parts) => info.set_float_trits(float, parts),
            // A prediction head in floats is not used.
            Err(_) if info.name.layer() >= Some(self.network.layers.len()) => {}
            Err(_) if self.options.naive => info.encoding = Encoding::MasterWeights(float),
            Err(row) => {
                let what = format!(
                    "is {float} and not ternary, neither by tensor nor by row or group (row {row} has \
                     several magnitudes besides 0): this {architecture} is not a ternary model; \
                     {NAIVE_HINT}"
                );
                return Err(self.fault(record, what));
            }
        }
        Ok(())
    }

    fn fault(&self, record: &Record, what: impl std::fmt::Display) -> Error {
        Error::tensor(self.file, &record.name, record.offset, what)
    }

    fn encoding(&self, record: &Record, q2_0: TernaryEncoding) -> Result<Encoding, Error> {
        if let Some(encoding) = types::unambiguous(record.type_id) {
            if matches!(record.type_id, types::PQ2_0 | types::PTQ1_0) {
                let (rows, weights) = (size::widen(record.rows), record.weights());
                types::check_prism(record.type_id, rows, weights, record.space)
                    .map_err(|what| self.fault(record, what))?;
            }
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
                let name = types::describe_foreign(other);
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
        if name.ends_with(".bias") {
            return Err(
                self.fault(record, "is not supported: ignoring it would change the network")
            );
        }
        let Some((layer, part)) = layer_and_part(name, "blk.") else { return Ok(()) };
        if layer >= self.network.layers.len() {
            return Ok(());
        }
        let is_scale = part
            .strip_suffix(".scale")
            .or_else(|| part.strip_suffix(".weight_scale"))
            .map(|stem| format!("blk.0.{stem}.weight"))
            .is_some_and(|weight| {
                let known = self.family.gguf_tensor(&weight);
                known.is_some_and(TensorName::is_linear) || joined_experts(&weight).is_some()
            });
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
