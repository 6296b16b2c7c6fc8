//! Salts that separate the prefix caches of callers.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

const KEY_LEN: usize = 32;

/// A secret that salts are computed with: without it, no caller can aim at another's cache.
#[derive(Clone)]
pub struct SaltKey([u8; KEY_LEN]);

impl Default for SaltKey {
    /// Returns a new key, as every process has that keeps nothing.
    fn default() -> Self {
        // The standard library keys its hashers from the system's randomness.
        let random = RandomState::new();
        let mut key = [0; KEY_LEN];
        for (at, part) in key.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *part = random.hash_one(at).to_le_bytes();
        }
        Self(key)
    }
}

impl std::fmt::Debug for SaltKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SaltKey(…)")
    }
}

impl SaltKey {
    /// Reads the key of a file that is readable by its owner only, and creates it if needed. With the same key,
    /// a caller finds the prefixes of an earlier process. A file without a key is replaced: what was cached
    /// with another one is not found, which is safe.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        match read(path) {
            Ok(Some(key)) => return Ok(key),
            Ok(None) => fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let key = Self::default();
        match create(path, &key) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path)?.ok_or(error),
            created => created.map(|()| key),
        }
    }

    /// Returns the salt of a caller, by the digest of its API key, and of the salt that it chose.
    pub(crate) fn salt(&self, caller: Option<[u8; 32]>, chosen: Option<&str>) -> u64 {
        let mut hash = Sha256::new_with_prefix(self.0);
        // Marks and a fixed length, so that no two pairs have the same bytes.
        hash.update([u8::from(caller.is_some()), u8::from(chosen.is_some())]);
        hash.update(caller.unwrap_or_default());
        hash.update(chosen.unwrap_or_default());
        let digest: [u8; 32] = hash.finalize().into();
        let (first, _) = digest.as_chunks();
        u64::from_le_bytes(first.first().copied().unwrap_or_default())
    }
}

/// Returns the key of a file, or `None` if it does not have one.
fn read(path: &Path) -> io::Result<Option<SaltKey>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KEY_LEN as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok().map(SaltKey))
}

fn create(path: &Path, key: &SaltKey) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(&key.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts_differ_by_key_caller_and_choice() {
        let keys = [SaltKey([1; 32]), SaltKey([2; 32])];
        let mut seen = std::collections::HashSet::new();
        for key in &keys {
            for caller in [None, Some([0; 32]), Some([1; 32])] {
                for chosen in [None, Some(""), Some("a"), Some("\0a")] {
                    assert!(seen.insert(key.salt(caller, chosen)), "{caller:?}, {chosen:?}");
                    assert_eq!(key.salt(caller, chosen), key.salt(caller, chosen));
                }
            }
        }
        assert_ne!(SaltKey::default().0, SaltKey::default().0);
    }

    #[test]
    fn a_key_is_created_once_and_a_damaged_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("salt-key");
        let first = SaltKey::from_file(&path).unwrap();
        assert_eq!(SaltKey::from_file(&path).unwrap().0, first.0);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        for damaged in [&b"short"[..], &[7; 33]] {
            fs::write(&path, damaged).unwrap();
            let new = SaltKey::from_file(&path).unwrap();
            assert_ne!(new.0, first.0);
            assert_eq!(SaltKey::from_file(&path).unwrap().0, new.0);
        }
        assert!(SaltKey::from_file(&folder.path().join("none/salt-key")).is_err());
    }
}
