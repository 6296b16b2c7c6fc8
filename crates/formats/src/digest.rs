//! The digest that identifies the bytes of a model.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::model_file::ModelFile;

impl ModelFile {
    /// Computes the SHA-256 of the model's file, as `sha256sum` does. For several files it is the
    /// SHA-256 of their digests, one per line. Reads every byte.
    pub fn digest(&self) -> String {
        let of_each: Vec<_> = self.file_bytes().map(|bytes| hex(&Sha256::digest(bytes))).collect();
        match &of_each[..] {
            [one] => one.clone(),
            several => {
                let lines: String = several.iter().flat_map(|one| [one, "\n"]).collect();
                hex(&Sha256::digest(lines.as_bytes()))
            }
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&Sha256::digest(b"")), empty);
    }
}
