//! Parsers for numbers on the command line.

use std::str::FromStr;

/// Parses a count of at least 1.
pub(crate) fn count<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let count = text.parse().ok().filter(|count| *count >= T::from(1));
    count.ok_or_else(|| "must be a whole number of at least 1".to_owned())
}

/// Parses a fraction from 0 to 1.
pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    between(text, 0.0, 1.0)
}

/// Parses a number from `min` to `max`.
pub(crate) fn between(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("must be a number from {min} to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_at_least_one() {
        assert_eq!(count("512"), Ok(512_usize));
        assert_eq!(count("1"), Ok(1_u32));
        for wrong in ["0", "-1", "many", "1.5"] {
            assert!(count::<usize>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fractions_are_between_zero_and_one() {
        assert_eq!(fraction("0.25"), Ok(0.25));
        for wrong in ["-0.1", "1.1", "NaN", "half"] {
            assert!(fraction(wrong).is_err(), "{wrong}");
        }
    }
}
