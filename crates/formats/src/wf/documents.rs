//! The texts inside a `.wf` file: tokenizer and chat template.

use super::Room;
use super::header::Document;
use crate::checksum::Checksum;
use crate::companions::MAX_TOKENIZER_LEN;
use crate::error::Error;
use crate::gguf::check_vocabulary;
use crate::gguf::read::Gguf;
use crate::gguf::value::MAX_TEMPLATE_LEN;
use crate::size;
use crate::vocabulary::{GgufVocabulary, TokenizerSource};

/// A tokenizer as Hugging Face has it.
pub(crate) const TOKENIZER_JSON: &str = "tokenizer.json";
/// A tokenizer as GGUF has it: a GGUF file without tensors.
pub(crate) const VOCABULARY_GGUF: &str = "vocabulary.gguf";
/// A chat template.
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// The documents of a file, read and checked.
pub(super) struct Documents {
    pub(super) tokenizer: TokenizerSource,
    pub(super) chat_template: Option<String>,
}

impl Documents {
    pub(super) fn read(
        room: &Room<'_>,
        documents: &[Document],
        decisions: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut tokenizer = None;
        let mut chat_template = None;
        for document in documents {
            let bytes = room.document(document)?;
            let fault = |what: &str| Err(room.document_fault(document, what));
            match document.name.as_str() {
                TOKENIZER_JSON | VOCABULARY_GGUF if tokenizer.is_some() => {
                    return fault("is a second tokenizer");
                }
                TOKENIZER_JSON => tokenizer = Some(TokenizerSource::Json(bytes.to_vec())),
                VOCABULARY_GGUF => {
                    let vocabulary = room.vocabulary(bytes, decisions)?;
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
                _ => return fault("is no document that this program knows"),
            }
        }
        let missing = || TokenizerSource::Missing { looked: format!("{}: documents", room.file) };
        Ok(Self { tokenizer: tokenizer.unwrap_or_else(missing), chat_template })
    }

    /// Refuses tokens that the network has no rows for.
    pub(super) fn check_vocabulary(&self, file: &str, vocab_len: usize) -> Result<(), Error> {
        let TokenizerSource::Gguf(vocabulary) = &self.tokenizer else { return Ok(()) };
        check_vocabulary(file, Some(vocabulary), vocab_len)
    }
}

impl<'a> Room<'a> {
    /// The bytes of a document, which are what was written.
    fn document(&self, document: &Document) -> Result<&'a [u8], Error> {
        let place = document.place;
        let template = document.name == CHAT_TEMPLATE;
        let limit = if template { MAX_TEMPLATE_LEN } else { MAX_TOKENIZER_LEN };
        if place.size > limit {
            let what = format!("has {} bytes, at most {limit} are allowed", place.size);
            return Err(self.document_fault(document, &what));
        }
        let bytes = size::slice(self.bytes, self.absolute(place.offset), place.size);
        let bytes = bytes.unwrap_or_default();
        let found = Checksum::of(bytes);
        if found != place.checksum.0 {
            let what =
                format!("is damaged: checksum {found:016x}, the file says {}", place.checksum);
            return Err(self.document_fault(document, &what));
        }
        Ok(bytes)
    }

    fn document_fault(&self, document: &Document, what: &str) -> Error {
        let offset = self.absolute(document.place.offset);
        let field = format!("document \"{}\"", crate::error::quote_safely(&document.name));
        Error::malformed(self.file, offset, &field, what)
    }

    /// A vocabulary inside the file. Messages about it count bytes from where it begins.
    fn vocabulary(
        &self,
        bytes: &[u8],
        decisions: &mut Vec<String>,
    ) -> Result<Option<GgufVocabulary>, Error> {
        let name = format!("{}: {VOCABULARY_GGUF}", self.file);
        let gguf = Gguf::read(&name, bytes)?;
        GgufVocabulary::read(&gguf.metadata, decisions)
    }
}
