//! Our own file, `.wf`: a whole model in one file, its trits as the kernels compute with them.
//!
//! ```text
//!  0  "WFMODEL\n" | u32 version = 1 | u32 layout = 1
//! 16  u64 length of the file | u64 length of the header
//! 32  SHA-256 of the 32 bytes above and of the header
//! 64  header (JSON) | zeros | documents and tensors, each from a multiple of 4,096 on
//! ```
//!
//! The header says where documents (tokenizer, chat template) and tensors lie, and what the bytes of
//! each sum up to. So the digest is one of all of the model, and is checked at every opening; a sum is
//! checked when its bytes are read. `layout` counts changes of how trits lie in quad lines; `version`
//! counts all others.

pub(crate) mod documents;
pub(crate) mod header;

use sha2::{Digest, Sha256};

use self::documents::Documents;
use self::header::{Header, Record};
use crate::companions::Companions;
use crate::config::settings::Settings;
use crate::config::{self, Evidence};
use crate::cursor::Cursor;
use crate::digest::hex;
use crate::error::Error;
use crate::generation::GenerationDefaults;
use crate::model_file::{OpenOptions, Parts, SourceFile};
use crate::names::TensorName;
use crate::size;
use crate::summary::{FormatKind, FormatSummary};
use crate::tensor::{Stored, TensorInfo};
use crate::vocabulary::ModelText;

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"WFMODEL\n";
/// What this program reads and writes.
const VERSION: u32 = 1;
/// How quad lines lie: see `encoding/quad_lines.rs`.
const LAYOUT: u32 = 1;
/// Documents and tensors start at multiples of this: the smallest page of any system, and a multiple
/// of a line.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Bytes before the header.
const PREFIX_LEN: u64 = 64;
/// Bytes of these that the digest covers.
const COVERED_LEN: u64 = 32;
/// Longest header: JSON takes many times its text in memory. 30 layers have one of 60 KB.
pub(crate) const MAX_HEADER_LEN: u64 = 1024 * 1024;

/// Where documents and tensors begin.
pub(crate) fn data_start(header_len: u64) -> Option<u64> {
    size::align_up(size::end(PREFIX_LEN, header_len)?, ALIGNMENT)
}

/// All that comes before documents and tensors.
pub(crate) fn beginning(header: &[u8], file_len: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(LAYOUT.to_le_bytes());
    bytes.extend(file_len.to_le_bytes());
    bytes.extend(size::widen(header.len()).to_le_bytes());
    let digest = digest(&bytes, header);
    bytes.extend(digest);
    bytes.extend(header);
    bytes
}

fn digest(covered: &[u8], header: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(covered).chain_update(header).finalize().into()
}

/// Opens a file.
pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let (header, digest, data) = read_beginning(file, source.bytes.as_slice())?;
    let room = Room { file, bytes: source.bytes.as_slice(), data };
    room.check_order(&header)?;
    let mut decisions = Vec::new();
    let documents = Documents::read(&room, &header.documents, &mut decisions)?;
    let mut stored = Stored::default();
    for record in &header.tensors {
        stored.tensors.push(room.tensor(record)?);
    }
    let evidence =
        Evidence::of(stored.tensors.iter().map(|t| (t.name, t.rows)), options.activation);
    let Some(evidence) = evidence else {
        let what = format!("tensor \"{}\" is missing", TensorName::Embedding);
        return Err(Error::unsupported(file, what));
    };
    documents.check_vocabulary(file, evidence.vocab_len)?;
    let generation = Settings::part_of(file, "generation_config", header.generation_config);
    let companions = Companions {
        config: Settings::part_of(file, "config", header.config),
        diffusion: Settings::default(),
        pooling: Settings::default(),
        text: ModelText {
            tokenizer: documents.tokenizer,
            chat_template: documents.chat_template,
            special_tokens: header.special_tokens,
            generation: GenerationDefaults::from_json(&generation)?,
        },
        generation,
    };
    let config = config::hugging_face::read(&companions, &evidence, &mut decisions)?;
    let files = vec![source];
    let stored = stored.fit(&files, &config)?;
    let mut summary = FormatSummary::new(FormatKind::Wf, Some(VERSION), &files, decisions);
    summary.digest = Some(digest);
    Ok(Parts { files, config, stored, text: companions.text, summary })
}

/// The header, its digest, and where the data begin.
fn read_beginning(file: &str, bytes: &[u8]) -> Result<(Header, String, u64), Error> {
    let mut cursor = Cursor::new(file, bytes);
    cursor.take(size::widen(MAGIC.len()), "magic")?;
    for (field, known, hint) in [
        ("version", VERSION, "the file is of another version of this program"),
        ("layout", LAYOUT, "its trits lie in another order: convert the original again"),
    ] {
        let start = cursor.clone();
        let found = cursor.u32(field)?;
        if found != known {
            return Err(start.fault(field, format!("{found}, this program reads {known}: {hint}")));
        }
    }
    let start = cursor.clone();
    let file_len = cursor.u64("file length")?;
    let found = size::widen(bytes.len());
    if file_len != found {
        let how = if file_len > found { "cut short" } else { "followed by something else" };
        let what = format!("{file_len} bytes were written and {found} are there: it was {how}");
        return Err(start.fault("file length", what));
    }
    let header_len = cursor.u64("header length")?;
    let covered = size::slice(bytes, 0, COVERED_LEN).unwrap_or_default();
    let start = cursor.clone();
    let expected = cursor.take(32, "digest")?;
    let header_start = cursor.clone();
    let text = cursor.text(header_len, MAX_HEADER_LEN, "header")?;
    let digest = digest(covered, text.as_bytes());
    if digest != expected {
        let what = format!("{}, that of the header is {}", hex(expected), hex(&digest));
        return Err(start.fault("digest", format!("{what}: it is damaged")));
    }
    let header = serde_json::from_str(text).map_err(|e| header_start.fault("header", e))?;
    let Some(data) = data_start(header_len) else {
        return Err(header_start.fault("header", "is longer than any file"));
    };
    Ok((header, hex(&digest), data))
}

/// A file, and where its data begin.
struct Room<'a> {
    file: &'a str,
    bytes: &'a [u8],
    data: u64,
}

impl<'a> Room<'a> {
    /// Refuses overlaps. Everything lies in the order of the header, so nothing is looked at twice.
    fn check_order(&self, header: &Header) -> Result<(), Error> {
        let records = header.documents.iter().map(|d| (&d.name, d.place));
        let records = records.chain(header.tensors.iter().map(|t| (&t.name, t.place)));
        let mut free = 0;
        for (name, place) in records {
            let fault = |what| Error::tensor(self.file, name, self.absolute(place.offset), what);
            if !place.offset.is_multiple_of(ALIGNMENT) {
                return Err(fault(format!("does not begin at a multiple of {ALIGNMENT}")));
            }
            if place.offset < free {
                return Err(fault(format!(
                    "the one before it ends at byte {}",
                    self.absolute(free)
                )));
            }
            let Some(end) = size::end(place.offset, place.size) else {
                return Err(fault("is longer than any file".to_owned()));
            };
            if self.absolute(end) > size::widen(self.bytes.len()) {
                let what = format!("its {} bytes end past the file", place.size);
                return Err(fault(what));
            }
            free = end;
        }
        Ok(())
    }

    /// From the start of the file; past all files where that does not fit.
    fn absolute(&self, offset: u64) -> u64 {
        self.data.saturating_add(offset)
    }

    fn tensor(&self, record: &Record) -> Result<TensorInfo, Error> {
        let Record { name, rows, cols, encoding, place } = record;
        let offset = self.absolute(place.offset);
        let fault = |what: String| Error::tensor(self.file, name, offset, what);
        let Some(known) = TensorName::from_gguf(name) else {
            return Err(fault("is no tensor of a network".to_owned()));
        };
        let Some(encoding) = header::encoding(encoding) else {
            let what =
                format!("has the unknown encoding \"{}\"", crate::error::quote_safely(encoding));
            return Err(fault(what));
        };
        let size = encoding.size(*rows, *cols).map_err(|e| fault(e.to_string()))?;
        if size != place.size {
            let what =
                format!("has {} bytes, {rows} x {cols} of {encoding} take {size}", place.size);
            return Err(fault(what));
        }
        Ok(TensorInfo {
            name: known,
            source_name: name.clone(),
            rows: *rows,
            cols: *cols,
            encoding,
            offset,
            size,
            file: 0,
            factor: 1.0,
            group_len: None,
            checksum: Some(place.checksum.0),
        })
    }
}
