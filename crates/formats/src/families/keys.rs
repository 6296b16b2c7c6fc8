//! The keys of a model's configuration, read alike from GGUF metadata and from `config.json`.

use std::collections::HashSet;

use wf_core::{Activation, Hadamard, RopeDivisors, Vocabulary};

use super::Family;
use crate::config::settings::Settings;
use crate::error::{Error, quote_safely};
use crate::names::{LayerTensor, TensorName};

/// Settings of GGUF files with a value for each layer, without the architecture in front.
pub(crate) const LAYER_LISTS: [&str; 2] = ["attention.sliding_window_pattern", "swiglu_clamp_exp"];

const HIDDEN_ACTIVATION: Key = Key::new("hidden_activation", "hidden_activation");

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
    /// Divisors of rotary frequencies that a GGUF file stores as tensors.
    pub(crate) rope_divisors: Option<RopeDivisors>,
    /// Transform that a GGUF file declares.
    pub(crate) hadamard: Option<Hadamard>,
    /// True for floats that `transformers` runs as such.
    pub(crate) runs_as_floats: bool,
    /// True if a prediction head has an embedding or an output head of its own.
    pub(crate) has_mtp_tables: bool,
    found: HashSet<LayerTensor>,
}

impl Evidence {
    /// Collects the facts from every tensor's name and rows; fails without an embedding, which the
    /// file calls `embedding`.
    pub(crate) fn of(
        file: &str,
        embedding: &str,
        tensors: impl Iterator<Item = (TensorName, usize)>,
    ) -> Result<Self, Error> {
        let (mut vocab_len, mut has_output, mut found) = (None, false, HashSet::new());
        for (name, rows) in tensors {
            match name {
                TensorName::Embedding => vocab_len = Some(rows),
                TensorName::Output => has_output = true,
                TensorName::OutputNorm | TensorName::Expert(..) => {}
                TensorName::Layer(_, tensor) => {
                    found.insert(tensor);
                }
            }
        }
        let missing = || Error::unsupported(file, format!("tensor \"{embedding}\" is missing"));
        let vocab_len = vocab_len.ok_or_else(missing)?;
        Ok(Self {
            vocab_len,
            has_output,
            rope_divisors: None,
            hadamard: None,
            runs_as_floats: false,
            has_mtp_tables: false,
            found,
        })
    }

    pub(super) fn has_any(&self, tensors: &[LayerTensor]) -> bool {
        tensors.iter().any(|tensor| self.found.contains(tensor))
    }
}

/// Typed access to the configuration of a model, and to what else decides about its network.
pub(crate) struct Keys<'a> {
    pub(crate) family: &'static Family,
    /// GGUF metadata or a `config.json`.
    pub(crate) settings: &'a Settings,
    /// Architecture of a GGUF file, with which its keys begin.
    pub(crate) architecture: Option<&'a str>,
    pub(crate) evidence: &'a Evidence,
    /// Vocabulary of a GGUF file.
    pub(crate) vocabulary: Option<&'a Vocabulary>,
    /// Activation set by the user, which overrides the file.
    pub(crate) activation: Option<Activation>,
    /// Every choice made where the file leaves one, and the reason.
    pub(crate) decisions: &'a mut Vec<String>,
}

type Read<'a, T> = fn(&'a Settings, &str) -> Result<Option<T>, Error>;

impl<'a> Keys<'a> {
    /// Full name of a setting in this source, if it has the setting.
    fn name(&self, key: Key) -> Option<String> {
        match self.architecture {
            Some(architecture) => Some(format!("{architecture}.{}", key.gguf?)),
            None => key.json.map(str::to_owned),
        }
    }

    pub(super) fn is_gguf(&self) -> bool {
        self.architecture.is_some()
    }

    fn read<T>(&self, key: Key, read: Read<'a, T>) -> Result<Option<T>, Error> {
        self.name(key).map_or(Ok(None), |name| read(self.settings, &name))
    }

    pub(super) fn optional_size(&self, key: Key) -> Result<Option<usize>, Error> {
        self.read(key, Settings::optional_size)
    }

    pub(super) fn size(&self, key: Key) -> Result<usize, Error> {
        self.optional_size(key)?.ok_or_else(|| self.fault(key, "missing"))
    }

    pub(super) fn number(&self, key: Key) -> Result<Option<f64>, Error> {
        self.read(key, Settings::number)
    }

    pub(super) fn text(&self, key: Key) -> Result<Option<&'a str>, Error> {
        self.read(key, Settings::string)
    }

    pub(super) fn flag(&self, key: Key) -> Result<Option<bool>, Error> {
        self.read(key, Settings::bool)
    }

    /// Returns `true` if the file has this setting.
    pub(super) fn is_set(&self, key: Key) -> bool {
        self.name(key).is_some_and(|name| self.settings.get(&name).is_some())
    }

    /// Returns the number of elements of a list.
    pub(super) fn list_len(&self, key: Key) -> Option<usize> {
        let value = self.settings.get(&self.name(key)?)?;
        value.as_array().map(Vec::len)
    }

    /// Returns `true` if a setting is a list. Of a GGUF file, only those of [`LAYER_LISTS`] have elements.
    pub(super) fn is_list(&self, key: Key) -> bool {
        self.list_len(key).is_some()
    }

    pub(super) fn flags(&self, key: Key) -> Result<Option<Vec<bool>>, Error> {
        self.read(key, Settings::bools)
    }

    pub(super) fn floats(&self, key: Key) -> Result<Option<Vec<f32>>, Error> {
        self.read(key, Settings::floats)
    }

    pub(super) fn texts(&self, key: Key) -> Result<Option<Vec<&'a str>>, Error> {
        self.read(key, Settings::strings)
    }

    pub(super) fn fault(&self, key: Key, what: impl std::fmt::Display) -> Error {
        self.settings.fault(&self.name(key).unwrap_or_default(), what)
    }

    /// Reads a number, or takes `default` and notes that `what` is a guess.
    pub(super) fn number_or(&mut self, key: Key, default: f64, what: &str) -> Result<f64, Error> {
        if let Some(value) = self.number(key)? {
            return Ok(value);
        }
        let name = self.name(key).unwrap_or_default();
        self.decisions.push(format!("{what} {default}: {name} is not set"));
        Ok(default)
    }

    /// As [`number_or`](Self::number_or), for a factor, which is positive.
    pub(super) fn factor_or(&mut self, key: Key, default: f64, what: &str) -> Result<f64, Error> {
        let factor = self.number_or(key, default, what)?;
        // Networks have factors in single precision, in which a tiny one is 0.
        if (factor as f32).is_finite() && factor as f32 > 0.0 {
            return Ok(factor);
        }
        Err(self.fault(key, format!("{factor}, must be a positive number")))
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
        for key in [HIDDEN_ACTIVATION, Key::new("hidden_act", "hidden_act")] {
            let Some(name) = self.text(key)? else { continue };
            let Some(activation) = Activation::from_key(name) else {
                let known = Activation::ALL.map(Activation::key).join(", ");
                let found = quote_safely(name);
                return Err(self.fault(key, format!("\"{found}\", must be one of {known}")));
            };
            return Ok(self.name(key).map(|name| (activation, name)));
        }
        Ok(None)
    }

    /// Pairs an activation with the reason that it is the default of the family.
    pub(super) fn family_default(&self, activation: Activation) -> (Activation, String) {
        let name = self.architecture.unwrap_or(self.family.class());
        (activation, format!("default of {name}"))
    }
}
