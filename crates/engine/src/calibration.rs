//! Calibration files of activation sparsity: what each input of each layer of one model loses.
//!
//! A file is JSON, written by `wf eval sparsity --calibrate`. It names its model by the digest of its bytes, because a
//! limit that costs one model nothing can ruin another. Every number is checked when a file is read.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wf_core::Network;
use wf_formats::ModelFile;
use wf_model::{LayerZeros, Zeroing};

/// Maximum size of a file: 64 bytes for each of four numbers of more layers than a network may have.
const MAX_BYTES: u64 = 4 << 20;

/// Value of `format`.
const FORMAT: &str = "wf-activation-sparsity";

/// Version of the format.
const VERSION: u32 = 1;

/// Allowed magnitudes: any that a row of activations can have.
const MAGNITUDES: RangeInclusive<f32> = 0.0..=f32::MAX;

/// Allowed shares of a row.
const SHARES: RangeInclusive<f32> = 0.05..=1.0;

/// A number for each input of each layer: query, key and value; output; gate and up; down.
pub type PerInput = Vec<[f32; 4]>;

/// Limits and shares for the inputs of each layer of a model, with where they came from.
#[derive(Clone, Debug)]
pub struct Calibration {
    contents: Contents,
    path: PathBuf,
    digest: String,
}

/// The contents of a calibration file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    format: String,
    version: u32,
    /// Digest of the model's bytes.
    model: String,
    shape: Shape,
    threshold: Thresholds,
    adaptive: Shares,
}

/// Sizes of a network that a calibration is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    layers: usize,
    hidden_len: usize,
    ffn_len: usize,
}

impl Shape {
    fn of(network: &Network) -> Self {
        let (layers, hidden_len) = (network.layers.len(), network.hidden_len);
        Self { layers, hidden_len, ffn_len: network.max_ffn_len() }
    }
}

/// Magnitudes up to which activations become zero.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Share of zeros that the magnitudes were chosen for.
    pub zeros: f32,
    /// Magnitude for each input of each layer.
    pub magnitudes: PerInput,
}

/// Shares of rows that are kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Maximum increase of the mean of −ln p that they were chosen for, in nats per token.
    pub max_loss: f64,
    /// Share for each input of each layer.
    pub kept: PerInput,
}

/// Error of a calibration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file cannot be read.
    #[error("cannot read the calibration file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is larger than any calibration.
    #[error("{path} is no calibration file: it has more than {MAX_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// The file is no calibration, or one with a value that is not allowed.
    #[error("{path} is no calibration file: {reason}")]
    Contents {
        /// The file.
        path: String,
        /// The first fault of its contents.
        reason: String,
    },
    /// The calibration was made for another model.
    #[error(
        "calibration {path} was made for another model: {difference}. `wf eval sparsity --calibrate TEXT` makes one \
         for this model"
    )]
    OtherModel {
        /// The file.
        path: String,
        /// The first property in which the models differ.
        difference: String,
    },
}

impl Calibration {
    /// Creates the calibration of a model.
    pub fn new(file: &ModelFile, threshold: Thresholds, adaptive: Shares) -> Self {
        let contents = Contents {
            format: FORMAT.to_owned(),
            version: VERSION,
            model: file.digest(),
            shape: Shape::of(file.network()),
            threshold,
            adaptive,
        };
        let digest = digest(contents.text().as_bytes());
        Self { contents, path: PathBuf::new(), digest }
    }

    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, CalibrationError> {
        let name = || path.display().to_string();
        let mut bytes = Vec::new();
        let file =
            File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        file.map_err(|source| CalibrationError::Read { path: name(), source })?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(CalibrationError::TooLarge { path: name() });
        }
        let invalid = |reason| CalibrationError::Contents { path: name(), reason };
        let contents: Contents =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        contents.check().map_err(invalid)?;
        Ok(Self { contents, path: path.to_owned(), digest: digest(&bytes) })
    }

    /// Returns the file as text.
    pub fn text(&self) -> String {
        self.contents.text()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the digest of the file.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the magnitudes up to which activations become zero.
    pub fn thresholds(&self) -> Vec<LayerZeros> {
        let layers = self.contents.threshold.magnitudes.iter();
        layers.map(|limits| limits.map(Zeroing::UpTo)).collect()
    }

    /// Returns the shares of rows that are kept.
    pub fn shares(&self) -> Vec<LayerZeros> {
        let layers = self.contents.adaptive.kept.iter();
        layers.map(|shares| shares.map(Zeroing::AllBut)).collect()
    }

    /// Fails unless the calibration was made for the model of `file`. Reads every byte of it.
    pub(crate) fn check_model(&self, file: &ModelFile) -> Result<(), CalibrationError> {
        let other = |difference| CalibrationError::OtherModel {
            path: self.path.display().to_string(),
            difference,
        };
        let (own, shape) = (&self.contents.shape, Shape::of(file.network()));
        if *own != shape {
            let of = |shape: &Shape| {
                let Shape { layers, hidden_len, ffn_len } = shape;
                format!("{layers} layers of {hidden_len} and {ffn_len} columns")
            };
            return Err(other(format!("it has {}, this one {}", of(own), of(&shape))));
        }
        let digest = file.digest();
        if self.contents.model != digest {
            let of = |digest: &str| digest.chars().take(12).collect::<String>();
            return Err(other(format!(
                "its digest is {}, that of this one {}",
                of(&self.contents.model),
                of(&digest)
            )));
        }
        Ok(())
    }
}

impl Contents {
    fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("numbers and strings are JSON");
        text + "\n"
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT || self.version != VERSION {
            return Err(format!(
                "its format is {:?}, version {}: must be {FORMAT:?}, version {VERSION}",
                self.format, self.version
            ));
        }
        check_numbers(
            "threshold.magnitudes",
            &self.threshold.magnitudes,
            self.shape.layers,
            MAGNITUDES,
        )?;
        check_numbers("adaptive.kept", &self.adaptive.kept, self.shape.layers, SHARES)
    }
}

/// Fails unless there is a row of numbers within `range` for each layer.
fn check_numbers(
    name: &str,
    numbers: &[[f32; 4]],
    layers: usize,
    range: RangeInclusive<f32>,
) -> Result<(), String> {
    if numbers.len() != layers {
        return Err(format!("{name} has {} layers: must have {layers}", numbers.len()));
    }
    for (layer, row) in numbers.iter().enumerate() {
        if let Some(number) = row.iter().find(|number| !range.contains(number)) {
            let (start, end) = (range.start(), range.end());
            return Err(format!(
                "{name} of layer {layer} has {number}: must be {start} to {end:e}"
            ));
        }
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ModelSource;

    fn open(name: &str) -> ModelFile {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        ModelSource::Path(path).open(&wf_formats::OpenOptions::default()).unwrap()
    }

    fn demo() -> ModelFile {
        open("../wf/assets/demo.gguf")
    }

    fn calibration(file: &ModelFile) -> Calibration {
        let layers = file.network().layers.len();
        let threshold = Thresholds { zeros: 0.4, magnitudes: vec![[0.5, 0.25, 0.0, 1e8]; layers] };
        let adaptive = Shares { max_loss: 0.01, kept: vec![[0.5, 0.75, 1.0, 0.05]; layers] };
        Calibration::new(file, threshold, adaptive)
    }

    fn read(text: &str) -> Result<Calibration, CalibrationError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("calibration.json");
        std::fs::write(&path, text).unwrap();
        Calibration::read(&path)
    }

    #[test]
    fn a_file_is_read_back_as_it_was_written() {
        let file = demo();
        let written = calibration(&file);
        let read = read(&written.text()).unwrap();
        assert_eq!((read.thresholds(), read.shares()), (written.thresholds(), written.shares()));
        assert_eq!((read.text(), read.digest()), (written.text(), written.digest()));
        assert!(read.check_model(&file).is_ok());
    }

    #[test]
    fn a_calibration_of_another_model_is_refused_with_the_reason() {
        let file = demo();
        let text = calibration(&file).text();
        let error = read(&text)
            .unwrap()
            .check_model(&open("../../tests/data/weight_only/ternary-yarn.gguf"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("another model: it has 12 layers of"), "{error}");
        let other = text.replace(&file.digest(), &"ab".repeat(32));
        let error = read(&other).unwrap().check_model(&file).unwrap_err().to_string();
        assert!(error.contains("its digest is abababababab, that of this one "), "{error}");
    }

    #[test]
    fn hostile_files_are_refused_with_the_reason() {
        let text = calibration(&demo()).text();
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        for (text, words) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "invalid"),
            ("[".repeat(1 << 20), "no calibration file"),
            (" ".repeat((MAX_BYTES + 1) as usize), "more than"),
            (with(FORMAT, "other"), "format is \"other\""),
            (with("\"version\": 1", "\"version\": 2"), "version 2: must be"),
            (with("\"layers\": 12", "\"layers\": 13"), "12 layers: must have 13"),
            (with("\"layers\": 12", "\"layers\": 99999999999999"), "must have 99999999999999"),
            (with("0.5,", "-0.5,"), "threshold.magnitudes of layer 0 has -0.5: must be 0 to"),
            (with("0.5,", "1e999,"), "out of range"),
            (with("0.5,", "null,"), "null"),
            (with("0.05", "0.04"), "adaptive.kept of layer 0 has 0.04: must be 0.05 to 1"),
            (with("0.75", "1.75"), "has 1.75"),
            (with("\"zeros\"", "\"more\": 1, \"zeros\""), "unknown field `more`"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
