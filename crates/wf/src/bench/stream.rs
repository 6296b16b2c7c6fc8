//! How fast memory can be read: what decoding is measured against.
//!
//! On a shared machine the answer changes within seconds. So it is not asked once: decoding and
//! reading take turns, and a share compares what was measured side by side.

use std::time::Instant;

use wf_kernels::{Pool, ReadBuffer, Reading};
use wf_model::{CpuList, pool_on};

use super::machine;
use super::stats::Repeats;

/// Memory to read, and the threads that read it.
pub(super) struct Stream {
    buffer: ReadBuffer,
    pool: Pool,
    cpus: Option<CpuList>,
    reading: Reading,
    /// The most gigabytes a second so far, for each number of threads.
    best: Vec<(usize, f64)>,
}

impl Stream {
    /// A buffer of at least `least_bytes` that no cache holds, read on `cpus`, if some are chosen.
    pub(super) fn new(least_bytes: usize, cpus: Option<CpuList>) -> Self {
        // Where the cache is small or unknown, what was asked for is still the least.
        let cache = machine::last_cache_bytes().map_or(0, |cache| 4 * cache.min(1 << 30));
        let bytes = if least_bytes < 8 << 20 { least_bytes } else { cache.max(least_bytes) };
        Self {
            buffer: ReadBuffer::new(bytes),
            pool: Pool::new(1),
            cpus,
            reading: Reading::Plain,
            best: Vec::new(),
        }
    }

    /// From here on reads on `threads` threads, in the way that is faster on them.
    pub(super) fn set_threads(&mut self, threads: usize, repeats: Repeats) {
        self.pool = pool_on(self.cpus.as_ref(), threads);
        let ways = [Reading::Plain, Reading::AskingAhead].map(|reading| {
            self.reading = reading;
            let mut gb_s = 0.0_f64;
            repeats.time(|| gb_s = gb_s.max(self.read()));
            (reading, gb_s)
        });
        let fastest = ways.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        self.reading = fastest.map_or(Reading::Plain, |(reading, _)| reading);
    }

    /// Reads everything once. Returns gigabytes a second.
    pub(super) fn read(&mut self) -> f64 {
        let start = Instant::now();
        self.buffer.read(&self.pool, self.reading);
        let gb_s = self.buffer.bytes_len() as f64 / start.elapsed().as_secs_f64() / 1e9;
        let threads = self.pool.threads();
        match self.best.iter_mut().find(|(known, _)| *known == threads) {
            Some((_, best)) => *best = best.max(gb_s),
            None => self.best.push((threads, gb_s)),
        }
        gb_s
    }

    /// Bytes of one [`read`](Self::read).
    pub(super) fn bytes_len(&self) -> usize {
        self.buffer.bytes_len()
    }

    /// The most gigabytes a second that `threads` threads have read so far: since a limit is what
    /// can be reached, the best of all repeats.
    pub(super) fn best(&self, threads: usize) -> Option<f64> {
        self.best.iter().find(|(known, _)| *known == threads).map(|(_, gb_s)| *gb_s)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_best_of_all_reads_is_kept_for_each_number_of_threads() {
        let mut stream = Stream::new(1 << 16, None);
        assert_eq!(stream.bytes_len(), 1 << 16);
        assert_eq!(stream.best(1), None);
        for threads in [1, 2] {
            stream.set_threads(threads, Repeats { most: 2, budget: Duration::from_millis(5) });
            let gb_s = stream.read();
            assert!(stream.best(threads).unwrap() >= gb_s, "{gb_s}");
        }
        let first = stream.best(1);
        stream.read();
        assert_eq!(stream.best(1), first, "reads of two threads do not count for one");
    }
}
