//! The owner of a file or a batch.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::{Caller, Keys, Peer};

/// Owner of a file or a batch: an API key, or everyone who needs none. It tells nothing about the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Owner(String);

/// Owner of what callers without a key store.
const EVERYONE: &str = "everyone";
/// Makes the name of an owner differ from any other digest of its key.
const PURPOSE: &[u8] = b"owner of files";

impl Owner {
    pub(crate) fn of(caller: &Caller) -> Self {
        caller.digest().map_or_else(|| Self(EVERYONE.to_owned()), Self::of_key)
    }

    fn of_key(digest: [u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(PURPOSE).chain_update(digest).finalize();
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the owner as a caller; `None` if its key was removed.
    pub(crate) fn to_caller(&self, keys: &Keys) -> Option<Caller> {
        if self.0 == EVERYONE {
            return Some(Caller::new(None, Peer::default()));
        }
        let known = keys.find(|digest| Self::of_key(digest) == *self)?;
        Some(Caller::new(Some(known), Peer::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_found_by_its_key_alone() {
        let keys = Keys::new(["one", "two"]);
        let caller = |nth: usize| {
            let mut seen = 0;
            let nth_key = |_| {
                seen += 1;
                seen == nth
            };
            let nth_key = std::cell::RefCell::new(nth_key);
            Caller::new(keys.find(|digest| nth_key.borrow_mut()(digest)), Peer::default())
        };
        let (one, two) = (Owner::of(&caller(1)), Owner::of(&caller(2)));
        let everyone = Owner::of(&Caller::new(None, Peer::default()));
        assert!(one != two && one != everyone);
        assert_eq!(one.to_caller(&keys).unwrap().digest(), caller(1).digest());
        assert!(one.to_caller(&Keys::new(["two"])).is_none());
        assert!(everyone.to_caller(&keys).unwrap().key().is_none());
    }
}
