//! The keys of a model's configuration, read alike from GGUF metadata and from `config.json`.

use std::collections::HashSet;

use wf_core::{Activation, Vocabulary};

use super::Family;
use crate::config::settings::Settings;
use crate::error::{Error, quote_safely};
use crate::gguf::value::Metadata;
use crate::names::{LayerTensor, TensorName};

/// The two names of a setting. GGUF names come without the architecture in front.
#[derive(Clone, Copy)]
pub(super) struct Key {
    gguf: Option<&'static str>,
    json: Option<&'static str>,
}

impl Key {
    pub(super) const fn new(gguf: &'static str, json: &'static str) -> Self {
        Self { gguf: Some(gguf), json: Some(json) }
    }

    /// A setting that only GGUF files have.
    pub(super) const fn gguf(gguf: &'static str) -> Self {
        Self { gguf: Some(gguf), json: None }
    }

    /// A setting that only `config.json` has.
    pub(super) const fn json(json: &'static str) -> Self {
        Self { gguf: None, json: Some(json) }
    }
}

/// Facts about a network that its tensors tell, and its configuration does not.
pub(crate) struct Evidence {
    /// Rows of the embedding.
    pub(crate) vocab_len: usize,
    /// True if the output head has a tensor of its own.
    pub(crate) has_output: bool,
    /// Tensors found in any layer.
    found: HashSet<LayerTensor>,
}

impl Evidence {
    /// Collects the facts from every tensor's name and rows; `None` without an embedding.
    pub(crate) fn of(tensors: impl Iterator<Item = (TensorName, usize)>) -> Option<Self> {
        let (mut vocab_len, mut has_output, mut found) = (None, false, HashSet::new());
        for (name, rows) in tensors {
            match name {
                TensorName::Embedding => vocab_len = Some(rows),
                TensorName::Output => has_output = true,
                TensorName::OutputNorm => {}
                TensorName::Layer(_, tensor) => {
                    found.insert(tensor);
                }
            }
        }
        Some(Self { vocab_len: vocab_len?, has_output, found })
    }

    /// Returns `true` if a layer has one of these tensors.
    pub(super) fn has_any(&self, tensors: &[LayerTensor]) -> bool {
        tensors.iter().any(|tensor| self.found.contains(tensor))
    }
}

/// Source of the keys.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The metadata of a GGUF file, whose keys begin with the architecture.
    Gguf { metadata: &'a Metadata<'a>, architecture: &'a str },
    /// A `config.json`.
    Json(&'a Settings),
}

/// Typed access to the configuration of a model, and to what else decides about its network.
pub(crate) struct Keys<'a> {
    pub(crate) family: &'static Family,
    pub(crate) source: Source<'a>,
    pub(crate) evidence: &'a Evidence,
    /// Vocabulary of a GGUF file.
    pub(crate) vocabulary: Option<&'a Vocabulary>,
    /// Activation set by the user, which overrides the file.
    pub(crate) activation: Option<Activation>,
    /// Every choice made where the file leaves one, and the reason.
    pub(crate) decisions: &'a mut Vec<String>,
}

impl<'a> Keys<'a> {
    pub(crate) fn file(&self) -> &str {
        match self.source {
            Source::Gguf { metadata, .. } => metadata.file(),
            Source::Json(settings) => &settings.file,
        }
    }

    pub(super) fn is_gguf(&self) -> bool {
        self.architecture().is_some()
    }

    /// Architecture of a GGUF file.
    pub(super) fn architecture(&self) -> Option<&'a str> {
        match self.source {
            Source::Gguf { architecture, .. } => Some(architecture),
            Source::Json(_) => None,
        }
    }

    /// Reads a setting from whichever source this is; `None` if it has no such setting.
    fn read<T>(
        &self,
        key: Key,
        gguf: impl FnOnce(&'a Metadata<'a>, &str) -> Result<Option<T>, Error>,
        json: impl FnOnce(&'a Settings, &str) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        match (self.source, key) {
            (Source::Gguf { metadata, architecture }, Key { gguf: Some(name), .. }) => {
                gguf(metadata, &format!("{architecture}.{name}"))
            }
            (Source::Json(settings), Key { json: Some(name), .. }) => json(settings, name),
            _ => Ok(None),
        }
    }

    pub(super) fn optional_size(&self, key: Key) -> Result<Option<usize>, Error> {
        // A u32 fits a usize on every supported machine.
        let gguf = |metadata: &Metadata<'_>, name: &str| {
            Ok(metadata.u32(name)?.map(|value| value as usize))
        };
        self.read(key, gguf, Settings::optional_size)
    }

    pub(super) fn size(&self, key: Key) -> Result<usize, Error> {
        self.optional_size(key)?
            .ok_or_else(|| Error::setting(self.file(), &self.name(key), "missing"))
    }

    pub(super) fn number(&self, key: Key) -> Result<Option<f64>, Error> {
        self.read(key, Metadata::float, Settings::number)
    }

    pub(super) fn text(&self, key: Key) -> Result<Option<&'a str>, Error> {
        self.read(key, Metadata::string, Settings::string)
    }

    pub(super) fn flag(&self, key: Key) -> Result<Option<bool>, Error> {
        self.read(key, Metadata::bool, Settings::bool)
    }

    /// Reads a number, or takes `default` and notes that `what` is a guess.
    pub(super) fn number_or(&mut self, key: Key, default: f64, what: &str) -> Result<f64, Error> {
        if let Some(value) = self.number(key)? {
            return Ok(value);
        }
        self.decisions.push(format!("{what} {default}: {} is not set", self.name(key)));
        Ok(default)
    }

    /// Full name of a setting in this source.
    fn name(&self, key: Key) -> String {
        match self.source {
            Source::Gguf { architecture, .. } => {
                format!("{architecture}.{}", key.gguf.unwrap_or_default())
            }
            Source::Json(_) => key.json.unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn fault(&self, key: Key, what: impl std::fmt::Display) -> Error {
        match self.source {
            Source::Gguf { metadata, .. } => metadata.fault(&self.name(key), what),
            Source::Json(settings) => settings.fault(&self.name(key), what),
        }
    }

    /// Returns the activation that the user set, the file names, or `default` gives with a reason.
    pub(super) fn activation(
        &mut self,
        default: impl FnOnce(&Self) -> Result<(Activation, String), Error>,
    ) -> Result<Activation, Error> {
        let (activation, why) = match (self.activation, self.named_activation()?) {
            (Some(activation), _) => (activation, "set by the user".to_owned()),
            (None, Some(named)) => named,
            (None, None) => default(self)?,
        };
        self.decisions.push(format!("activation {activation}: {why}"));
        Ok(activation)
    }

    fn named_activation(&self) -> Result<Option<(Activation, String)>, Error> {
        for key in [Key::gguf("hidden_activation"), Key::new("hidden_act", "hidden_act")] {
            let Some(name) = self.text(key)? else { continue };
            let Some(activation) = Activation::from_key(name) else {
                let known = Activation::ALL.map(Activation::key).join(", ");
                let found = quote_safely(name);
                return Err(self.fault(key, format!("\"{found}\", must be one of {known}")));
            };
            return Ok(Some((activation, self.name(key))));
        }
        Ok(None)
    }

    /// Pairs an activation with the reason that it is the default of the family.
    pub(super) fn family_default(&self, activation: Activation) -> (Activation, String) {
        let name = self.architecture().unwrap_or(self.family.class());
        (activation, format!("default of {name}"))
    }
}
