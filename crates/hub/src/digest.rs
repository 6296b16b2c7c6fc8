//! Digests of files.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

const BUFFER_LEN: usize = 1 << 20;

/// The digest of a file as the hub announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Digest {
    /// SHA-256 of the bytes, for files in Git LFS.
    Sha256(String),
    /// SHA-1 of Git's header and the bytes, for other files.
    GitBlob(String),
}

impl Digest {
    /// Returns the digest as text, which is also the name of the content in the cache.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }

    /// Computes the same kind of digest of a local file.
    pub(crate) fn of(&self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        match self {
            Self::Sha256(_) => sha256(&mut file),
            Self::GitBlob(_) => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {}\0", file.metadata()?.len()));
                read_all(&mut file, |bytes| hasher.update(bytes))?;
                Ok(hex(&hasher.finalize()))
            }
        }
    }
}

/// Computes the SHA-256 of all bytes of a reader.
pub(crate) fn sha256(from: &mut impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    read_all(from, |bytes| hasher.update(bytes))?;
    Ok(hex(&hasher.finalize()))
}

/// Computes the SHA-256 of a text.
pub(crate) fn sha256_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn read_all(from: &mut impl Read, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_LEN];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            len => each(&buffer[..len]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_equal_those_of_git_and_lfs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        // `git hash-object` and `sha256sum` of the same bytes.
        let git = Digest::GitBlob(String::new()).of(&path).unwrap();
        assert_eq!(git, "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = Digest::Sha256(String::new()).of(&path).unwrap();
        assert_eq!(sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
        assert_eq!(sha256_of("hello\n"), sha256);
    }
}
