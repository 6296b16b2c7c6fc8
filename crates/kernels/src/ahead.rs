//! Prefetching in step with reading: while lines are read, others are fetched that will be read next.
//!
//! A CPU keeps few fetches in flight and waits when it is given more. Many at once, say those of a page of K/V, are
//! therefore no better than none; one for each line that is read goes on beside the arithmetic.

use crate::arch::prefetch;
use crate::line::Line;

/// Maximum number of groups of tokens that share the prefetching of a strip, as a power of two.
const MAX_SHIFT: u32 = 2;

/// Lines that are prefetched while others are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Address of the first line that is read.
    read: usize,
    /// Address of the first line that is prefetched; `None` if none is.
    next: Option<usize>,
    /// Lines that are read for each one that is prefetched, as a power of two.
    shift: u32,
}

impl Ahead {
    /// Prefetches nothing.
    pub(crate) const NOTHING: Self = Self { read: 0, next: None, shift: 0 };

    /// Prefetches the lines from `next` on while those from `read` on are read.
    #[inline(always)]
    pub(crate) fn new(read: usize, next: usize) -> Self {
        Self { read, next: Some(next), shift: 0 }
    }

    /// Prefetches the strip after `strip` while it is multiplied by `groups` groups of tokens, one after another:
    /// the part of `group`. The first groups share the work, later ones find the strip in the cache.
    #[inline(always)]
    pub(crate) fn next_strip(strip: &[Line], group: usize, groups: usize) -> Self {
        let shift = groups.max(1).ilog2().min(MAX_SHIFT);
        if group >> shift > 0 {
            return Self::NOTHING;
        }
        let (read, len) = (strip.as_ptr().addr(), size_of_val(strip));
        Self { read, next: Some(read + len + group * (len >> shift)), shift }
    }

    /// Returns what `T` tokens prefetch that are multiplied together: nothing if they are one or two, which take no
    /// longer than memory does. For them, kernels prefetch at a fixed distance.
    #[inline(always)]
    pub(crate) fn for_tokens<const T: usize>(self) -> Self {
        if T <= 2 { Self::NOTHING } else { self }
    }

    /// Prefetches the line that belongs to `read`, if there is one.
    #[inline(always)]
    pub(crate) fn of<T>(self, read: &T) {
        if let Some(address) = self.address(std::ptr::from_ref(read).addr()) {
            prefetch(address);
        }
    }

    /// Returns the address to prefetch when `read` is read: one for each line whose turn it is.
    #[inline(always)]
    fn address(self, read: usize) -> Option<usize> {
        let offset = read.wrapping_sub(self.read);
        let is_its_turn = offset & ((size_of::<Line>() << self.shift) - 1) == 0;
        self.next.filter(|_| is_its_turn).map(|next| next.wrapping_add(offset >> self.shift))
    }
}

/// Lines that are prefetched one after another, in whatever order others are read meanwhile: the CPU's own
/// prefetching joins in when addresses ascend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinesAhead {
    next: usize,
    step: usize,
}

impl LinesAhead {
    /// Prefetches the lines from `next` on.
    #[inline(always)]
    pub(crate) fn new(next: usize) -> Self {
        Self { next, step: size_of::<Line>() }
    }

    /// Prefetches nothing but a line that is in a cache already, which takes less time than asking each time.
    #[inline(always)]
    pub(crate) fn nothing(cached: usize) -> Self {
        Self { next: cached, step: 0 }
    }

    /// Leaves out the lines that begin in the first `bytes` bytes.
    #[inline(always)]
    pub(crate) fn skip(self, bytes: usize) -> Self {
        let lines = bytes.div_ceil(size_of::<Line>());
        Self { next: self.next.wrapping_add(lines * self.step), ..self }
    }

    /// Prefetches as many lines as begin in element `i` of elements that follow each other.
    #[inline(always)]
    pub(crate) fn fetch<T>(&mut self, i: usize) {
        for _ in 0..lines_of::<T>(i) {
            prefetch(self.take());
        }
    }

    /// Returns the address of the next line.
    #[inline(always)]
    fn take(&mut self) -> usize {
        let line = self.next;
        self.next = line.wrapping_add(self.step);
        line
    }
}

/// Returns the number of lines that begin in element `i`. A line is a whole number of elements, or the other way round.
#[inline(always)]
fn lines_of<T>(i: usize) -> usize {
    match size_of::<T>() / size_of::<Line>() {
        0 => usize::from((i * size_of::<T>()).is_multiple_of(size_of::<Line>())),
        lines => lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses that are prefetched while lines are read in steps of `step` bytes.
    fn fetched(ahead: Ahead, lines: &[Line], step: usize) -> Vec<usize> {
        let start = lines.as_ptr().addr();
        let read = (start..start + size_of_val(lines)).step_by(step);
        read.filter_map(|read| ahead.address(read)).collect()
    }

    #[test]
    fn each_line_is_fetched_once_however_it_is_read() {
        let lines = [Line([0; 64]); 6];
        let ahead = Ahead::new(lines.as_ptr().addr(), 4096);
        let expected: Vec<_> = (0..6).map(|line| 4096 + 64 * line).collect();
        for step in [16, 32, 64] {
            assert_eq!(fetched(ahead, &lines, step), expected, "{step} bytes at a time");
            assert!(fetched(Ahead::NOTHING, &lines, step).is_empty());
        }
    }

    #[test]
    fn groups_of_tokens_fetch_the_next_strip_once_between_them() {
        let lines = [Line([0; 64]); 40];
        let next = lines.as_ptr_range().end.addr();
        let expected: Vec<_> = (0..40).map(|line| next + 64 * line).collect();
        for groups in 1..=9 {
            let of_group = |group| fetched(Ahead::next_strip(&lines, group, groups), &lines, 64);
            let by_all: Vec<_> = (0..groups).flat_map(of_group).collect();
            assert_eq!(by_all, expected, "{groups} groups");
            let rest = Ahead::next_strip(&lines, groups, groups);
            assert_eq!(rest.address(next), None, "a rest behind {groups} groups");
        }
        // Three tokens alone are no group, and fetch the whole strip; one or two nothing.
        let rest = Ahead::next_strip(&lines, 0, 0);
        assert_eq!(fetched(rest.for_tokens::<3>(), &lines, 64), expected);
        assert!(fetched(rest.for_tokens::<2>(), &lines, 64).is_empty());
    }

    #[test]
    fn lines_are_fetched_in_order_as_many_as_are_read() {
        assert_eq!([0, 1, 2, 3].map(lines_of::<[f32; 16]>), [1; 4]);
        assert_eq!([0, 1, 2, 3].map(lines_of::<[f32; 32]>), [2; 4]);
        assert_eq!([0, 1, 2, 3].map(lines_of::<[u16; 16]>), [1, 0, 1, 0]);
        assert_eq!([0, 3, 4, 5].map(lines_of::<[u8; 16]>), [1, 0, 1, 0]);
        let mut ahead = LinesAhead::new(4096).skip(65);
        assert_eq!([ahead.take(), ahead.take()], [4096 + 128, 4096 + 192]);
        let mut nothing = LinesAhead::nothing(640).skip(1000);
        assert_eq!([nothing.take(), nothing.take()], [640; 2]);
    }
}
