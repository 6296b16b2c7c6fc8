//! `.wf`, the native format: a complete model in one file, with trits in the layout of the kernels.
//!
//! ```text
//!  0  "WFMODEL\n" | u32 version = 2 | u32 layout = 1
//! 16  u64 length of the file | u64 length of the header
//! 32  SHA-256 of the 32 bytes above and of the header
//! 64  header (JSON) | zeros | documents and tensors, each from a multiple of 4,096 on
//! ```
//!
//! The header holds the positions and checksums of documents (tokenizer, chat template) and tensors. So
//! the digest covers the whole model, and is verified whenever a file is opened; a checksum is verified
//! when its bytes are read. `layout` counts changes of quad lines, `version` all others: version 2 has
//! other checksums than version 1 (see `checksum`).

pub(crate) mod documents;
pub(crate) mod header;

use sha2::{Digest, Sha256};

use self::header::{Extent, Header, Record};
use crate::checksum::hex;
use crate::checksum::{Algorithm, Checksum};
use crate::companions::Companions;
use crate::config;
use crate::config::settings::Settings;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::families::Evidence;
use crate::gguf::check_vocabulary;
use crate::map::SourceFile;
use crate::names::TensorName;
use crate::parts::{FormatKind, FormatSummary, OpenOptions, Parts};
use crate::size;
use crate::tensor::{Stored, TensorInfo};
use crate::text::{GenerationDefaults, ModelText, TokenizerSource};

/// First bytes of the format.
pub(crate) const MAGIC: &[u8] = b"WFMODEL\n";
/// The version that is written.
const VERSION: u32 = 2;
/// The versions that can be read, with their checksums.
const VERSIONS: [(u32, Algorithm); 2] = [(1, Algorithm::Multiply), (VERSION, Algorithm::Xxh3)];
/// The layout of quad lines: see `layout/quad_lines.rs` in `wf-kernels`.
const LAYOUT: u32 = 1;
/// Documents and tensors start at multiples of this: the smallest page size, and a multiple of a line.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Bytes before the header.
const PREFIX_LEN: u64 = 64;
/// Bytes of the prefix that the digest covers.
const COVERED_LEN: u64 = 32;
/// Maximum length of a header: JSON takes many times its size in memory. That of 30 layers has 60 KB, that
/// of 48 layers with 128 experts each 3 MB.
pub(crate) const MAX_HEADER_LEN: u64 = 4 * 1024 * 1024;

/// Returns the offset of the first document or tensor.
pub(crate) fn data_start(header_len: u64) -> Option<u64> {
    size::align_up(PREFIX_LEN.checked_add(header_len)?, ALIGNMENT)
}

/// Returns everything before documents and tensors.
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

pub(crate) fn open(source: SourceFile, options: &OpenOptions) -> Result<Parts, Error> {
    let file = source.name.as_str();
    let Beginning { version, algorithm, header, digest, data_start } =
        read_beginning(file, source.bytes())?;
    let wf = WfFile { file, bytes: source.bytes(), data: data_start, algorithm };
    wf.check_order(&header)?;
    let mut decisions = Vec::new();
    let (tokenizer, chat_template) = documents::read(&wf, &header.documents, &mut decisions)?;
    let mut stored = Stored::default();
    for record in &header.tensors {
        stored.tensors.push(wf.tensor(record)?);
    }
    let tensors = stored.tensors.iter().map(|t| (t.name, t.rows));
    let evidence = Evidence::of(file, "token_embd.weight", tensors)?;
    if let TokenizerSource::Gguf(vocabulary) = &tokenizer {
        check_vocabulary(file, vocabulary, evidence.vocab_len)?;
    }
    let generation = Settings::part_of(file, "generation_config", header.generation_config);
    let companions = Companions {
        config: Settings::part_of(file, "config", header.config),
        diffusion: Settings::default(),
        pooling: Settings::default(),
        text: ModelText {
            tokenizer,
            chat_template,
            special_tokens: header.special_tokens,
            generation: GenerationDefaults::from_json(&generation)?,
        },
        generation,
    };
    let activation = options.activation;
    let config = config::hugging_face::read(&companions, &evidence, activation, &mut decisions)?;
    let files = vec![source];
    let mut summary = FormatSummary::new(FormatKind::Wf, Some(version), decisions);
    summary.digest = Some(digest);
    Ok(Parts { files, config, stored, text: companions.text, summary })
}

/// Everything before documents and tensors, verified.
struct Beginning {
    version: u32,
    algorithm: Algorithm,
    header: Header,
    digest: String,
    data_start: u64,
}

fn read_beginning(file: &str, bytes: &[u8]) -> Result<Beginning, Error> {
    let mut cursor = Cursor::new(file, bytes);
    cursor.take(size::widen(MAGIC.len()), "magic")?;
    let start = cursor.clone();
    let version = cursor.u32("version")?;
    let Some(&(_, algorithm)) = VERSIONS.iter().find(|(known, _)| *known == version) else {
        let what = format!(
            "{version}, this program reads up to {VERSION}: a newer version wrote the file"
        );
        return Err(start.fault("version", what));
    };
    let start = cursor.clone();
    let layout = cursor.u32("layout")?;
    if layout != LAYOUT {
        let hint = "its trits are in another order; convert the original model again";
        let what = format!("{layout}, this program reads {LAYOUT}: {hint}");
        return Err(start.fault("layout", what));
    }
    let start = cursor.clone();
    let file_len = cursor.u64("file length")?;
    let found = size::widen(bytes.len());
    if file_len != found {
        let how = if file_len > found { "truncated" } else { "extended" };
        let what = format!(
            "the file had {file_len} bytes when it was written and has {found} now: it was {how}"
        );
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
        let what = format!("{}, but the header has {}", hex(expected), hex(&digest));
        return Err(start.fault("digest", format!("{what}: the header is damaged")));
    }
    let header = serde_json::from_str(text).map_err(|e| header_start.fault("header", e))?;
    let Some(data_start) = data_start(header_len) else {
        return Err(header_start.fault("header", "is longer than any file"));
    };
    Ok(Beginning { version, algorithm, header, digest: hex(&digest), data_start })
}

/// The bytes of a file, and the offset of its data.
struct WfFile<'a> {
    file: &'a str,
    bytes: &'a [u8],
    data: u64,
    algorithm: Algorithm,
}

impl<'a> WfFile<'a> {
    /// Checks that documents and tensors are aligned, in the order of the header, and do not overlap.
    fn check_order(&self, header: &Header) -> Result<(), Error> {
        let records = header.documents.iter().map(|d| (&d.name, d.extent));
        let records = records.chain(header.tensors.iter().map(|t| (&t.name, t.extent)));
        let mut free = 0;
        for (name, extent) in records {
            let fault = |what| Error::tensor(self.file, name, self.absolute(extent.offset), what);
            if !extent.offset.is_multiple_of(ALIGNMENT) {
                return Err(fault(format!("does not start at a multiple of {ALIGNMENT}")));
            }
            if extent.offset < free {
                return Err(fault(format!(
                    "overlaps the previous one, which ends at byte {}",
                    self.absolute(free)
                )));
            }
            let Some(end) = extent.offset.checked_add(extent.size) else {
                return Err(fault("is longer than any file".to_owned()));
            };
            if self.absolute(end) > size::widen(self.bytes.len()) {
                let what = format!("its {} bytes end past the file", extent.size);
                return Err(fault(what));
            }
            free = end;
        }
        Ok(())
    }

    fn checksum(&self, extent: Extent) -> Checksum {
        Checksum { algorithm: self.algorithm, value: extent.checksum }
    }

    /// Converts an offset in the data to one in the file; saturates.
    fn absolute(&self, offset: u64) -> u64 {
        self.data.saturating_add(offset)
    }

    fn tensor(&self, record: &Record) -> Result<TensorInfo, Error> {
        let Record { name, rows, cols, encoding, extent } = record;
        let offset = self.absolute(extent.offset);
        let fault = |what: String| Error::tensor(self.file, name, offset, what);
        let Some(known) = TensorName::from_gguf(name) else {
            return Err(fault("is not a known tensor".to_owned()));
        };
        let Some(encoding) = header::encoding(encoding) else {
            let what = format!("has unknown encoding \"{}\"", crate::error::quote_safely(encoding));
            return Err(fault(what));
        };
        let size = encoding.size(*rows, *cols).map_err(|e| fault(e.to_string()))?;
        if size != extent.size {
            let what =
                format!("has {} bytes, but {rows} x {cols} in {encoding} take {size}", extent.size);
            return Err(fault(what));
        }
        let shape = (*rows, *cols);
        let mut info = TensorInfo::new(known, name.clone(), shape, encoding, offset, size);
        info.checksum = Some(self.checksum(*extent));
        Ok(info)
    }
}
