//! The small files beside a checkpoint's weights: configuration, tokenizer, chat template.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::Value;

use crate::config::MASK_TEXT;
use crate::config::settings::Settings;
use crate::error::Error;
use crate::gguf::value::MAX_TEMPLATE_LEN;
use crate::map::open_regular;
use crate::size;
use crate::text::{
    GenerationDefaults, ModelText, SpecialTokenTexts, TokenizerSource, added_tokens,
};

/// Maximum size of a configuration file, small because parsed JSON takes many times its text.
const MAX_CONFIG_LEN: u64 = 1024 * 1024;
/// Maximum size of a `tokenizer.json`. The one of Llama 3 has 9 MB.
pub(crate) const MAX_TOKENIZER_LEN: u64 = 64 * 1024 * 1024;

/// Name of the file of a chat template.
pub(crate) const TEMPLATE_NAME: &str = "chat_template.jinja";

/// The contents of a checkpoint directory besides its weights.
#[derive(Debug)]
pub(crate) struct Companions {
    pub(crate) config: Settings,
    /// `generation_config.json`
    pub(crate) generation: Settings,
    /// `dlm_config.json`
    pub(crate) diffusion: Settings,
    /// `1_Pooling/config.json` of sentence-transformers
    pub(crate) pooling: Settings,
    pub(crate) text: ModelText,
}

impl Companions {
    /// Reads the files of `directory`; `config` may come from elsewhere.
    pub(crate) fn read(directory: &Path, config: Settings) -> Result<Self, Error> {
        let tokenizer_path = directory.join("tokenizer.json");
        let tokenizer = match read_limited(&tokenizer_path, MAX_TOKENIZER_LEN)? {
            Some(json) => TokenizerSource::Json(json),
            None => TokenizerSource::Missing { looked: tokenizer_path.display().to_string() },
        };
        let settings =
            |name: &str| read_settings(&directory.join(name)).map(Option::unwrap_or_default);
        let tokenizer_config = settings("tokenizer_config.json")?;
        let generation = settings("generation_config.json")?;
        let defaults = GenerationDefaults::from_json(&generation)?;
        Ok(Self {
            config,
            generation,
            diffusion: settings("dlm_config.json")?,
            pooling: settings("1_Pooling/config.json")?,
            text: ModelText {
                tokenizer,
                chat_template: chat_template(directory, &tokenizer_config)?,
                special_tokens: SpecialTokenTexts {
                    bos: token_text(&tokenizer_config, "bos_token"),
                    eos: token_text(&tokenizer_config, "eos_token"),
                },
                generation: defaults,
            },
        })
    }

    /// Returns the id of the added token `|<MASK>|` in `tokenizer.json`.
    pub(crate) fn mask_token(&self) -> Option<u32> {
        let TokenizerSource::Json(json) = &self.text.tokenizer else { return None };
        added_tokens(json).into_iter().find(|t| t.content == MASK_TEXT).map(|t| t.id)
    }
}

/// Reads the `config.json` of a directory, which must exist.
pub(crate) fn read_config(directory: &Path) -> Result<Settings, Error> {
    let path = directory.join("config.json");
    read_settings(&path)?.ok_or_else(|| {
        let missing = std::io::Error::new(ErrorKind::NotFound, "no such file");
        Error::io(&path, missing)
    })
}

fn read_settings(path: &Path) -> Result<Option<Settings>, Error> {
    let Some(bytes) = read_limited(path, MAX_CONFIG_LEN)? else { return Ok(None) };
    Settings::parse(&path.display().to_string(), &bytes).map(Some)
}

/// Reads the template from its own file, or from `tokenizer_config.json`: a string, or a list of
/// named templates with one called `default`.
fn chat_template(directory: &Path, tokenizer_config: &Settings) -> Result<Option<String>, Error> {
    let path = directory.join(TEMPLATE_NAME);
    if let Some(bytes) = read_limited(&path, MAX_TEMPLATE_LEN)? {
        let text = String::from_utf8(bytes).map_err(|e| Error::unsupported(path.display(), e))?;
        return Ok(Some(text));
    }
    let template = match tokenizer_config.get("chat_template") {
        None => None,
        Some(Value::String(template)) => Some(template.as_str()),
        Some(Value::Array(named)) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| entry.get("template")?.as_str()),
        Some(_) => {
            let what = "must be a string or a list of objects with name and template";
            return Err(tokenizer_config.fault("chat_template", what));
        }
    };
    Ok(template.map(str::to_owned))
}

/// Returns the text of a special token: a string, or an object whose `content` is one.
fn token_text(tokenizer_config: &Settings, key: &str) -> Option<String> {
    let value = tokenizer_config.get(key)?;
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

/// Returns the directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a file of up to `limit` bytes; `None` if it does not exist.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
    if size::widen(bytes.len()) > limit {
        let what = format!("file is larger than the limit of {limit} bytes");
        return Err(Error::unsupported(path.display(), what));
    }
    Ok(Some(bytes))
}
