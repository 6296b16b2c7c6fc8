//! Writes a model as `.wf`.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::Job;
use super::config_json::config_values;
use super::copy::Copier;
use super::file::Staged;
use crate::checksum::Hasher;
use crate::error::Error;
use crate::gguf::write::GgufWriter;
use crate::model_file::ModelFile;
use crate::size;
use crate::text::TokenizerSource;
use crate::wf::documents::{CHAT_TEMPLATE, TOKENIZER_JSON, VOCABULARY_GGUF};
use crate::wf::header::{self, Document, Extent, Header, Record};
use crate::wf::{ALIGNMENT, MAX_HEADER_LEN, beginning, data_start};

/// Writes a model as a `.wf` file. The header is written twice, because checksums are known only after
/// the tensors have been written.
pub(super) fn stage(job: &Job<'_>, mut copier: Copier<'_>) -> Result<Staged, Error> {
    let &Job { source, target, out, .. } = job;
    let documents = documents(source).map_err(|e| Error::io(out, e))?;
    let mut header = header(job, &documents);
    check_header_len(&header, out)?;
    Staged::file(out, target.if_exists, |file| {
        let mut body = Body { file, out, at: 0 };
        body.append(&encode_header(&header))?;
        for (document, (_, bytes)) in header.documents.iter_mut().zip(&documents) {
            body.align()?;
            body.append(bytes)?;
            document.extent.checksum = Hasher::of(bytes);
        }
        for (record, (planned, info)) in header.tensors.iter_mut().zip(job.tensors()) {
            body.align()?;
            let mut sum = Hasher::default();
            copier.copy(info, planned.encoding, |bytes| {
                sum.add(bytes);
                body.append(bytes)
            })?;
            record.extent.checksum = sum.finish();
        }
        source.check_unchanged()?;
        body.rewrite(&encode_header(&header))
    })
}

/// Returns the tokenizer and the chat template of the source.
fn documents(source: &ModelFile) -> std::io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut documents = Vec::new();
    match source.tokenizer() {
        TokenizerSource::Missing { .. } => {}
        TokenizerSource::Json(json) => documents.push((TOKENIZER_JSON, json.clone())),
        TokenizerSource::Gguf(vocabulary) => {
            let mut writer = GgufWriter::new();
            writer.set_vocabulary(vocabulary);
            documents.push((VOCABULARY_GGUF, writer.begin(Vec::new())?.finish()?));
        }
    }
    if let Some(template) = source.chat_template() {
        documents.push((CHAT_TEMPLATE, template.as_bytes().to_vec()));
    }
    Ok(documents)
}

/// Returns the header without checksums.
fn header(job: &Job<'_>, documents: &[(&str, Vec<u8>)]) -> Header {
    let source = job.source;
    let mut free = 0_u64;
    let mut extent = |size: u64| {
        let offset = free.next_multiple_of(ALIGNMENT);
        free = offset + size;
        Extent { offset, size, checksum: 0 }
    };
    let documents = documents.iter().map(|(name, bytes)| Document {
        name: (*name).to_owned(),
        extent: extent(size::widen(bytes.len())),
    });
    let documents = documents.collect();
    let tensors = job.tensors().map(|(planned, info)| Record {
        name: planned.name.gguf(),
        rows: info.rows,
        cols: info.cols,
        encoding: header::name(planned.encoding).unwrap_or_default().to_owned(),
        extent: extent(planned.size),
    });
    Header {
        config: config_values(source, job.target),
        generation_config: source.generation_defaults().to_json(),
        special_tokens: source.special_token_texts().clone(),
        tensors: tensors.collect(),
        documents,
    }
}

/// Rejects a header that is too long for the reader.
fn check_header_len(header: &Header, out: &Path) -> Result<(), Error> {
    let len = size::widen(json(header).len());
    if len <= MAX_HEADER_LEN {
        return Ok(());
    }
    let what = format!("header has {len} bytes, the limit is {MAX_HEADER_LEN}");
    Err(Error::unsupported(out.display(), what))
}

fn json(header: &Header) -> Vec<u8> {
    serde_json::to_vec(header).expect("plain values can be serialized")
}

/// Returns everything before documents and tensors.
fn encode_header(header: &Header) -> Vec<u8> {
    let json = json(header);
    let ends = header.tensors.last().map(|t| t.extent.offset + t.extent.size);
    let data = data_start(size::widen(json.len())).unwrap_or(u64::MAX);
    beginning(&json, data + ends.unwrap_or(0))
}

/// The part of the file that has been written.
struct Body<'a> {
    file: &'a mut BufWriter<File>,
    out: &'a Path,
    at: u64,
}

impl Body<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.at += size::widen(bytes.len());
        self.file.write_all(bytes).map_err(|e| Error::io(self.out, e))
    }

    /// Writes zeros up to the next multiple of the alignment.
    fn align(&mut self) -> Result<(), Error> {
        let padding = self.at.next_multiple_of(ALIGNMENT) - self.at;
        self.append(&[0; ALIGNMENT as usize][..padding as usize])
    }

    /// Overwrites the beginning.
    fn rewrite(&mut self, beginning: &[u8]) -> Result<(), Error> {
        let io = |e| Error::io(self.out, e);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.write_all(beginning).map_err(io)
    }
}
