//! Seeds of random numbers.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Seed of the random numbers: any whole number of 64 bits, with or without a sign. Responses have it as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(i128);

impl Seed {
    /// Returns the 64 bits of the seed.
    pub fn bits(self) -> u64 {
        self.0 as u64
    }
}

impl From<i64> for Seed {
    fn from(seed: i64) -> Self {
        Self(seed.into())
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self(seed.into())
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(self.0) {
            Ok(seed) => serializer.serialize_i64(seed),
            Err(_) => serializer.serialize_u64(self.bits()),
        }
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeedVisitor;
        impl Visitor<'_> for SeedVisitor {
            type Value = Seed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of 64 bits")
            }
            fn visit_i64<E: Error>(self, seed: i64) -> Result<Seed, E> {
                Ok(seed.into())
            }
            fn visit_u64<E: Error>(self, seed: u64) -> Result<Seed, E> {
                Ok(seed.into())
            }
        }
        deserializer.deserialize_any(SeedVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_64_bits_and_are_written_as_they_were_sent() {
        for text in ["0", "-1", "-9223372036854775808", "18446744073709551615"] {
            let seed: Seed = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&seed).unwrap(), text);
        }
        assert_eq!(Seed::from(-1_i64).bits(), u64::MAX);
        for text in ["0.5", "18446744073709551616", "\"7\"", "null"] {
            let error = serde_json::from_str::<Seed>(text).unwrap_err().to_string();
            assert!(error.contains("a whole number of 64 bits"), "{text}: {error}");
        }
    }
}
