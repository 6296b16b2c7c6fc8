//! Numbers on the command line.

/// Maximum number of threads: each takes memory and time to start.
const MAX_THREADS: usize = 1024;
/// Maximum time limit: a year.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| "must be a whole number of at least 1".to_owned())
}

pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| format!("must be a whole number from 1 to {MAX_THREADS}"))
}

/// Parses a time limit in seconds. Times beyond a year would not fit into the clocks of some systems.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    let seconds = text.trim().parse().ok().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    seconds.ok_or_else(|| format!("must be a whole number from 1 to {MAX_SECONDS}"))
}

/// Parses a whole number that may be 0 and surrounded by spaces.
pub(crate) fn parse_whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.trim().parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| {
        let max = u64::MAX >> (64 - 8 * size_of::<T>());
        format!("must be a whole number from 0 to {max}")
    })
}

/// Parses a float. The engine checks the range of each setting.
pub(crate) fn parse_number(text: &str) -> Result<f32, String> {
    text.parse().map_err(|_| "must be a number, for example 0.7".to_owned())
}

/// Parses a size in bytes, with a suffix K, M or G for powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let invalid = || "must be a size, such as 512M or 2G".to_owned();
    let text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: f64 = number.trim().parse().map_err(|_| invalid())?;
    let bytes = number * f64::from(1 << shift);
    if bytes >= 1.0 && bytes <= isize::MAX as f64 { Ok(bytes as usize) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_size("2GB"), Ok(2 << 30));
        for wrong in ["", "G", "-1", "1T", "nan", "1e30G", "0"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_limits_are_between_a_second_and_a_year() {
        assert_eq!(parse_seconds("600"), Ok(600));
        assert_eq!(parse_seconds("31536000"), Ok(MAX_SECONDS));
        for wrong in ["0", "-1", "1.5", "31536001", "18446744073709551615", "nan"] {
            let error = parse_seconds(wrong).unwrap_err();
            assert_eq!(error, "must be a whole number from 1 to 31536000", "{wrong}");
        }
    }
}
