//! The keys `prism.hadamard.*` of PrismML's fork of llama.cpp: weights that are stored under a Walsh–Hadamard
//! transform. docs/formats.md has the contract; whatever is not part of it is rejected.

use std::collections::HashSet;

use wf_core::{Hadamard, Network};

use super::read::Record;
use super::value::Metadata;
use crate::error::{Error, quote_safely};
use crate::families::Family;
use crate::names::{TensorName, layer_and_part};
use crate::size;

const PREFIX: &str = "prism.hadamard.";
/// All keys, without the prefix.
const KEYS: [&str; 10] = [
    "version",
    "block_size",
    "transform",
    "axis",
    "sign_mode",
    "weight_names",
    "inverse_weight_names",
    "sign_widths",
    "sign_values",
    "gdn_v_grouped",
];
pub(crate) const TRANSFORM: &str = "normalized-sylvester-walsh-hadamard";
pub(crate) const AXIS: &str = "input-last-dimension";
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";
/// Maximum number of names, and of lengths of inputs.
const MAX_NAMES: u64 = 65_536;
const MAX_LENS: u64 = 64;

/// Returns the name of a key.
pub(crate) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The transform of a file, and the tensors that are under it.
pub(super) struct Declared {
    pub(super) hadamard: Hadamard,
    weights: HashSet<String>,
}

/// Reads the transform of a file that has one, and rejects what is not known of it.
pub(super) fn read(metadata: &Metadata<'_>, family: &Family) -> Result<Option<Declared>, Error> {
    let settings = &metadata.settings;
    let Some(first) = settings.keys_with(PREFIX).next() else { return Ok(None) };
    if !family.transforms {
        let what = "the weights are under a Walsh–Hadamard transform of PrismML's fork of llama.cpp, which is \
                    supported in qwen35 only: without it the model would write nonsense";
        return Err(settings.fault(first, what));
    }
    let is_known = |name: &str| KEYS.contains(&name.strip_prefix(PREFIX).unwrap_or_default());
    if let Some(unknown) = settings.keys_with(PREFIX).find(|name| !is_known(name)) {
        let what =
            format!("is not known, and may change the transform: known are {}", KEYS.join(", "));
        return Err(settings.fault(unknown, what));
    }
    let reader = Reader { metadata };
    reader.expect_version()?;
    reader.expect("transform", TRANSFORM)?;
    reader.expect("axis", AXIS)?;
    let weights: HashSet<String> = reader.names("weight_names")?.into_iter().collect();
    let inverse = reader.names("inverse_weight_names")?;
    if let Some(other) = inverse.iter().find(|name| *name != EMBEDDING) {
        let what = format!("\"{}\", must be {EMBEDDING}", quote_safely(other));
        return Err(settings.fault(&key("inverse_weight_names"), what));
    }
    let hadamard = Hadamard {
        block_len: settings.size(&key("block_size"))?,
        signs: reader.signs()?,
        embedding: !inverse.is_empty(),
        head: weights.contains(HEAD),
        grouped_values: settings.bool(&key("gdn_v_grouped"))?.unwrap_or(false),
    };
    Ok(Some(Declared { hadamard, weights }))
}

struct Reader<'r, 'a> {
    metadata: &'r Metadata<'a>,
}

impl Reader<'_, '_> {
    fn expect_version(&self) -> Result<(), Error> {
        let (settings, key) = (&self.metadata.settings, key("version"));
        match settings.size(&key)? {
            1 => Ok(()),
            other => Err(settings.fault(&key, format!("{other}, must be 1"))),
        }
    }

    fn expect(&self, name: &str, value: &str) -> Result<(), Error> {
        let (settings, key) = (&self.metadata.settings, key(name));
        match settings.string(&key)? {
            Some(found) if found == value => Ok(()),
            Some(found) => {
                let what = format!("\"{}\", must be {value}", quote_safely(found));
                Err(settings.fault(&key, what))
            }
            None => Err(settings.fault(&key, format!("missing, must be {value}"))),
        }
    }

    fn names(&self, name: &str) -> Result<Vec<String>, Error> {
        Ok(self.metadata.strings(&key(name), MAX_NAMES)?.unwrap_or_default())
    }

    /// Reads the signs of each length of inputs.
    fn signs(&self) -> Result<Vec<Vec<i8>>, Error> {
        let (settings, mode) = (&self.metadata.settings, key("sign_mode"));
        let lens = self.metadata.whole_numbers(&key("sign_widths"), MAX_LENS)?;
        let limit = size::widen(Network::MAX_WIDTH).saturating_mul(MAX_LENS);
        let values = self.metadata.whole_numbers(&key("sign_values"), limit)?;
        match settings.string(&mode)? {
            Some("identity") if lens.is_none() && values.is_none() => return Ok(Vec::new()),
            Some("identity") => {
                return Err(settings.fault(&mode, "identity, but there are signs"));
            }
            Some("explicit") => {}
            Some(other) => {
                let what = format!("\"{}\", must be identity or explicit", quote_safely(other));
                return Err(settings.fault(&mode, what));
            }
            None => return Err(settings.fault(&mode, "missing, must be identity or explicit")),
        }
        let (lens, values) = (lens.unwrap_or_default(), values.unwrap_or_default());
        self.divide(&lens, &values)
    }

    /// Divides the signs of all lengths, which follow each other.
    fn divide(&self, lens: &[i64], values: &[i64]) -> Result<Vec<Vec<i8>>, Error> {
        let fault = |name: &str, what: String| Err(self.metadata.settings.fault(&key(name), what));
        let (mut rest, mut signs) = (values, Vec::<Vec<i8>>::new());
        for &len in lens {
            let taken = usize::try_from(len).ok().filter(|&len| len > 0);
            let Some((of_len, others)) = taken.and_then(|len| rest.split_at_checked(len)) else {
                let what = format!("{len}, but {} signs are left of {}", rest.len(), values.len());
                return fault("sign_widths", what);
            };
            if signs.iter().any(|known| known.len() == of_len.len()) {
                return fault("sign_widths", format!("{len} appears twice"));
            }
            if let Some(other) = of_len.iter().find(|value| !matches!(value, 1 | -1)) {
                return fault("sign_values", format!("{other}, must be 1 or -1"));
            }
            signs.push(of_len.iter().map(|&value| if value < 0 { -1 } else { 1 }).collect());
            rest = others;
        }
        if signs.is_empty() || !rest.is_empty() {
            let what = format!("{} signs more than sign_widths has", rest.len());
            return fault("sign_values", what);
        }
        Ok(signs)
    }
}

impl Declared {
    /// Checks that every projection of the network is under the transform, and nothing else but the head.
    pub(super) fn check(
        &self,
        metadata: &Metadata<'_>,
        network: &Network,
        tensors: &[Record],
    ) -> Result<(), Error> {
        let fault = |what: String| Err(metadata.settings.fault(&key("weight_names"), what));
        if network.head.tied && self.hadamard.embedding {
            let what = "the embedding is the output head too, which is not known to be transformed";
            return Err(metadata.settings.fault(&key("inverse_weight_names"), what));
        }
        let linear = TensorName::all(network).filter(|name| name.is_linear());
        let linear: HashSet<String> = linear.map(|name| name.gguf_in(network)).collect();
        if let Some(plain) = linear.iter().filter(|name| !self.weights.contains(*name)).min() {
            let what =
                format!("\"{plain}\" is missing: all projections must be under the transform");
            return fault(what);
        }
        let is_unused = |name: &str| {
            let behind =
                layer_and_part(name, "blk.").is_some_and(|(l, _)| l >= network.layers.len());
            behind && tensors.iter().any(|record| record.name == name)
        };
        let is_known = |name: &str| name == HEAD || linear.contains(name) || is_unused(name);
        match self.weights.iter().filter(|name| !is_known(name)).min() {
            None => Ok(()),
            Some(other) => {
                fault(format!("\"{}\" is no projection of the network", quote_safely(other)))
            }
        }
    }
}
