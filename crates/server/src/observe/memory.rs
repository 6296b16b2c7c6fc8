//! Memory of the process.

/// Returns the bytes of the process that are in memory, weights included; `None` where the system does not tell.
pub(crate) fn resident_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_linux_is_understood() {
        assert_eq!(parse("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\nThreads:\t1\n"), Some(12 * 1024));
        for wrong in ["", "VmRSS: many kB", "VmRSS: 12 MB", "VmRSS: 18446744073709551615 kB"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
