//! Activations that are set to zero before they are multiplied: `off`, `topk=F`, `threshold=FILE`, `adaptive=FILE`.
//!
//! A mode changes results, by nothing but the sequence's own tokens: each row of activations loses its smallest
//! codes, whatever the other rows of a step are.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use wf_formats::ModelFile;
use wf_model::{LayerZeros, Zeroing};

use crate::calibration::{Calibration, CalibrationError};

/// Activations that are set to zero before they are multiplied.
#[derive(Clone, Debug, Default)]
pub enum ActivationSparsity {
    /// None.
    #[default]
    Off,
    /// All but the largest share of each row, in every layer.
    TopK(f32),
    /// Those of magnitudes up to a limit for each layer and input, from a calibration.
    Threshold(Arc<Calibration>),
    /// All but a share of each row that a calibration has chosen for each layer and input.
    Adaptive(Arc<Calibration>),
}

impl ActivationSparsity {
    /// Allowed shares of a row that are kept.
    pub const KEPT: RangeInclusive<f32> = 0.05..=1.0;

    /// Returns what the inputs of each layer of `file` lose; `None` if nothing.
    ///
    /// # Errors
    ///
    /// Returns the reason why a calibration is not one of this model.
    pub fn zeros(&self, file: &ModelFile) -> Result<Option<Vec<LayerZeros>>, CalibrationError> {
        let layers = file.network().layers.len();
        Ok(match self {
            Self::Off => None,
            Self::TopK(share) => Some(topk(*share, layers)),
            Self::Threshold(calibration) => {
                calibration.check_model(file)?;
                Some(calibration.thresholds())
            }
            Self::Adaptive(calibration) => {
                calibration.check_model(file)?;
                Some(calibration.shares())
            }
        })
    }

    /// Returns text that is different for settings of different results. Names of files do not count, their contents
    /// do.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Off | Self::TopK(_) => self.to_string(),
            Self::Threshold(calibration) => format!("threshold={}", calibration.digest()),
            Self::Adaptive(calibration) => format!("adaptive={}", calibration.digest()),
        }
    }
}

/// Returns layers whose inputs keep a share of each row.
pub fn topk(share: f32, layers: usize) -> Vec<LayerZeros> {
    vec![[Zeroing::AllBut(share); 4]; layers]
}

impl fmt::Display for ActivationSparsity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::TopK(share) => write!(f, "topk={share}"),
            Self::Threshold(calibration) => write!(f, "threshold={}", calibration.path().display()),
            Self::Adaptive(calibration) => write!(f, "adaptive={}", calibration.path().display()),
        }
    }
}

impl FromStr for ActivationSparsity {
    type Err = InvalidActivationSparsity;

    /// Reads the calibration file, if the mode has one.
    fn from_str(text: &str) -> Result<Self, InvalidActivationSparsity> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let file = || {
            if value.is_empty() {
                return Err(InvalidActivationSparsity::NoFile(name.to_owned()));
            }
            Ok(Arc::new(Calibration::read(Path::new(value))?))
        };
        match name {
            "off" if text == "off" => Ok(Self::Off),
            "topk" => match value.parse() {
                Ok(share) if Self::KEPT.contains(&share) => Ok(Self::TopK(share)),
                _ => Err(InvalidActivationSparsity::Share { found: value.to_owned() }),
            },
            "threshold" => file().map(Self::Threshold),
            "adaptive" => file().map(Self::Adaptive),
            _ => Err(InvalidActivationSparsity::Unknown(text.to_owned())),
        }
    }
}

/// Error of a string that is no [`ActivationSparsity`].
#[derive(Debug, thiserror::Error)]
pub enum InvalidActivationSparsity {
    /// No mode has this name.
    #[error("unknown mode {0:?}: must be off, topk=F, threshold=FILE or adaptive=FILE")]
    Unknown(String),
    /// A share is no number, or not within the range.
    #[error(
        "topk is {found:?}: must be the share of each row that is kept, {min} to {max}, for example topk=0.6",
        min = ActivationSparsity::KEPT.start(),
        max = ActivationSparsity::KEPT.end()
    )]
    Share {
        /// The share found.
        found: String,
    },
    /// A mode with a calibration has no file.
    #[error(
        "{0} needs a calibration file: write {0}=FILE; `wf eval sparsity --calibrate TEXT` makes one"
    )]
    NoFile(String),
    /// The calibration file cannot be used.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

#[cfg(test)]
mod tests {
    use wf_formats::OpenOptions;

    use super::*;
    use crate::calibration::{Shares, Thresholds};

    #[test]
    fn modes_are_read_back_as_they_were_written() {
        for text in ["off", "topk=0.6", "topk=1", "topk=0.05"] {
            let mode: ActivationSparsity = text.parse().unwrap();
            assert_eq!(mode.to_string(), text);
            assert_eq!(mode.fingerprint(), text);
        }
    }

    #[test]
    fn errors_name_the_value_and_the_range() {
        for (text, words) in [
            ("on", "off, topk=F, threshold=FILE or adaptive=FILE"),
            ("off=1", "unknown mode"),
            ("topk", "topk is \"\": must be the share of each row that is kept, 0.05 to 1"),
            ("topk=0.04", "0.05 to 1"),
            ("topk=1.5", "0.05 to 1"),
            ("topk=NaN", "0.05 to 1"),
            ("topk=half", "topk is \"half\""),
            ("threshold", "threshold=FILE"),
            ("adaptive=", "adaptive=FILE"),
            ("adaptive=/no/such/file", "/no/such/file"),
        ] {
            let error = text.parse::<ActivationSparsity>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    fn demo() -> ModelFile {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
        ModelFile::open(&path, &OpenOptions::default()).unwrap()
    }

    fn calibration(file: &ModelFile, limit: f32) -> Arc<Calibration> {
        let layers = file.network().layers.len();
        let threshold = Thresholds { zeros: 0.4, magnitudes: vec![[limit; 4]; layers] };
        let adaptive = Shares { max_loss: 0.01, kept: vec![[0.75; 4]; layers] };
        Arc::new(Calibration::new(file, threshold, adaptive))
    }

    #[test]
    fn every_layer_loses_what_the_mode_says() {
        let file = demo();
        let calibration = calibration(&file, 0.5);
        let zeros = |mode: ActivationSparsity| mode.zeros(&file).unwrap();
        let all = |zeroing| Some(vec![[zeroing; 4]; file.network().layers.len()]);
        assert_eq!(zeros(ActivationSparsity::Off), None);
        assert_eq!(zeros(ActivationSparsity::TopK(0.6)), all(Zeroing::AllBut(0.6)));
        let threshold = ActivationSparsity::Threshold(Arc::clone(&calibration));
        assert_eq!(zeros(threshold), all(Zeroing::UpTo(0.5)));
        assert_eq!(zeros(ActivationSparsity::Adaptive(calibration)), all(Zeroing::AllBut(0.75)));
    }

    #[test]
    fn calibrations_of_different_numbers_have_different_fingerprints() {
        let file = demo();
        for mode in [ActivationSparsity::Threshold, ActivationSparsity::Adaptive] {
            let fingerprint = |limit| mode(calibration(&file, limit)).fingerprint();
            assert_eq!(fingerprint(0.5), fingerprint(0.5));
            assert_ne!(fingerprint(0.5), fingerprint(0.25));
        }
    }
}
