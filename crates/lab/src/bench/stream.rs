//! Memory bandwidth, which decoding is compared with.
//!
//! On a shared machine it changes within seconds, so it is not measured once: decoding and reading
//! alternate, and are compared with what was measured at the same time.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::time::Instant;

use wf_kernels::{Pool, ReadBuffer, ReadMode};
use wf_model::{CpuList, Placement};

use crate::stats::Repeats;

/// A buffer, and the threads that read it.
pub(super) struct Stream {
    buffer: ReadBuffer,
    pool: Pool,
    cpus: Option<CpuList>,
    reading: ReadMode,
    /// Maximum GB/s so far for each number of threads.
    best: BTreeMap<usize, f64>,
}

impl Stream {
    /// Creates a buffer of at least `min_bytes` that no cache holds, to be read on `cpus`, if given.
    pub(super) fn new(min_bytes: usize, cpus: Option<CpuList>) -> Self {
        let cache = last_cache_bytes().map_or(0, |cache| 4 * cache.min(1 << 30));
        let bytes = if min_bytes < 8 << 20 { min_bytes } else { cache.max(min_bytes) };
        Self {
            buffer: ReadBuffer::new(bytes),
            pool: Pool::new(1),
            cpus,
            reading: ReadMode::Plain,
            best: BTreeMap::new(),
        }
    }

    /// Sets the number of threads, and the faster way to read on them.
    pub(super) fn set_threads(&mut self, threads: usize, repeats: Repeats) {
        self.pool = Placement::new(self.cpus.as_ref(), threads).pool(threads);
        let ways = [ReadMode::Plain, ReadMode::Prefetch].map(|reading| {
            self.reading = reading;
            let mut gb_s = 0.0_f64;
            repeats.time(|| gb_s = gb_s.max(self.read()));
            (reading, gb_s)
        });
        let fastest = ways.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        self.reading = fastest.map_or(ReadMode::Plain, |(reading, _)| reading);
    }

    /// Reads the buffer once. Returns GB/s.
    pub(super) fn read(&mut self) -> f64 {
        let start = Instant::now();
        self.buffer.read(&self.pool, self.reading);
        let gb_s = self.buffer.bytes_len() as f64 / start.elapsed().as_secs_f64() / 1e9;
        let threads = self.pool.threads();
        let best = self.best.entry(threads).or_insert(gb_s);
        *best = best.max(gb_s);
        gb_s
    }

    pub(super) fn bytes_len(&self) -> usize {
        self.buffer.bytes_len()
    }

    /// Returns the maximum GB/s of `threads` threads so far.
    pub(super) fn best(&self, threads: usize) -> Option<f64> {
        self.best.get(&threads).copied()
    }
}

/// Returns the size of the last-level cache of the first CPU in bytes.
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_maximum_is_kept_for_each_number_of_threads() {
        let mut stream = Stream::new(1 << 16, None);
        assert_eq!(stream.bytes_len(), 1 << 16);
        assert_eq!(stream.best(1), None);
        for threads in [1, 2] {
            stream.set_threads(threads, Repeats { max: 2, budget: Duration::from_millis(5) });
            let gb_s = stream.read();
            assert!(stream.best(threads).unwrap() >= gb_s, "{gb_s}");
        }
        let first = stream.best(1);
        stream.read();
        assert_eq!(stream.best(1), first, "reads of two threads do not count for one");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("12"), None);
        assert_eq!(parse_size("hugeK"), None);
    }
}
