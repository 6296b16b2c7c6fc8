//! Properties of the machine, where Linux reports them.

use std::fs::read_to_string;

pub(super) fn cpu_name() -> Option<String> {
    let text = read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the load average of the last minute.
pub(super) fn load_average() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Returns the size of the last-level cache in bytes.
pub(super) fn last_cache_bytes() -> Option<usize> {
    let size_of = |level: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
        parse_size(read_to_string(path).ok()?.trim())
    };
    (0..=4).filter_map(size_of).max()
}

/// Parses a size such as `32768K`.
fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    Some(number.parse::<usize>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("12"), None);
        assert_eq!(parse_size("hugeK"), None);
    }
}
