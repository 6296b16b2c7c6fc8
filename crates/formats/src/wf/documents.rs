//! The documents of a `.wf` file: tokenizer and chat template.

use super::WfFile;
use super::header::Document;
use wf_core::Vocabulary;

use crate::companions::MAX_TOKENIZER_LEN;
use crate::error::Error;
use crate::gguf::read::Gguf;
use crate::gguf::value::MAX_TEMPLATE_LEN;
use crate::size;
use crate::text::{TokenizerSource, read_vocabulary};

/// A tokenizer of Hugging Face.
pub(crate) const TOKENIZER_JSON: &str = "tokenizer.json";
/// A vocabulary of GGUF, as a GGUF file without tensors.
pub(crate) const VOCABULARY_GGUF: &str = "vocabulary.gguf";
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// Returns the tokenizer and the chat template among the documents of a file.
pub(super) fn read(
    wf: &WfFile<'_>,
    documents: &[Document],
    decisions: &mut Vec<String>,
) -> Result<(TokenizerSource, Option<String>), Error> {
    let mut tokenizer = None;
    let mut chat_template = None;
    for document in documents {
        let bytes = wf.document(document)?;
        let fault = |what: &str| Err(wf.document_fault(document, what));
        match document.name.as_str() {
            TOKENIZER_JSON | VOCABULARY_GGUF if tokenizer.is_some() => {
                return fault("is a second tokenizer");
            }
            TOKENIZER_JSON => tokenizer = Some(TokenizerSource::Json(bytes.to_vec())),
            VOCABULARY_GGUF => {
                let vocabulary = wf.vocabulary(bytes, decisions)?;
                let Some(vocabulary) = vocabulary else { return fault("has no tokens") };
                tokenizer = Some(TokenizerSource::Gguf(vocabulary));
            }
            CHAT_TEMPLATE if chat_template.is_some() => {
                return fault("is a second chat template");
            }
            CHAT_TEMPLATE => match std::str::from_utf8(bytes) {
                Ok(text) => chat_template = Some(text.to_owned()),
                Err(_) => return fault("is not UTF-8"),
            },
            _ => return fault("is not a known document"),
        }
    }
    let missing = || TokenizerSource::Missing { looked: format!("{}: documents", wf.file) };
    Ok((tokenizer.unwrap_or_else(missing), chat_template))
}

impl<'a> WfFile<'a> {
    /// Returns the bytes of a document after verifying their checksum.
    fn document(&self, document: &Document) -> Result<&'a [u8], Error> {
        let extent = document.extent;
        let template = document.name == CHAT_TEMPLATE;
        let limit = if template { MAX_TEMPLATE_LEN } else { MAX_TOKENIZER_LEN };
        if extent.size > limit {
            let what = format!("has {} bytes, the limit is {limit}", extent.size);
            return Err(self.document_fault(document, &what));
        }
        let bytes = size::slice(self.bytes, self.absolute(extent.offset), extent.size);
        let bytes = bytes.unwrap_or_default();
        let checksum = self.checksum(extent);
        let checked = checksum.check(checksum.algorithm.of(bytes));
        checked.map_err(|what| self.document_fault(document, &what))?;
        Ok(bytes)
    }

    fn document_fault(&self, document: &Document, what: &str) -> Error {
        let offset = self.absolute(document.extent.offset);
        let field = format!("document \"{}\"", crate::error::quote_safely(&document.name));
        Error::malformed(self.file, offset, &field, what)
    }

    /// Reads a vocabulary. Errors have positions relative to its first byte.
    fn vocabulary(
        &self,
        bytes: &[u8],
        decisions: &mut Vec<String>,
    ) -> Result<Option<Vocabulary>, Error> {
        let name = format!("{}: {VOCABULARY_GGUF}", self.file);
        let gguf = Gguf::read(&name, bytes)?;
        read_vocabulary(&gguf.metadata, decisions)
    }
}
