//! Memory for lines, in huge pages where the system gives them.
//!
//! A forward pass reads all weights once. In pages of 4 KiB that lie anywhere in memory, the
//! prefetching of a CPU starts anew on every page, and each page costs a walk through the page
//! tables: plain reading was seen to run at 17 GB/s, and at 31 GB/s in pages of 2 MiB.
//!
//! A page comes into being when it is first written: the system clears it on the thread that writes,
//! and takes it from the memory next to that thread's CPU. So memory is first written by the threads
//! that make what it will hold, each its own part.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::Pool;
use crate::line::Line;

/// Bytes in a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A slice of lines with memory of its own.
pub(crate) struct Lines {
    start: NonNull<Line>,
    len: usize,
    layout: Layout,
}

// SAFETY: owns its memory like a `Vec`, and lines are plain bytes.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Lines {
    /// `len` times `line`, written by this thread.
    pub(crate) fn filled(line: Line, len: usize) -> Self {
        let mut lines = Self::unwritten(len);
        written(lines.room(), line);
        lines
    }

    /// Some pieces of `piece_len` lines, on all threads of `pool`: `job` gets each by its number, full
    /// of `line`, and something to write on.
    ///
    /// # Panics
    ///
    /// If there is less scratch than threads, or if a job panics.
    pub(crate) fn made<S: Send>(
        pool: &Pool,
        line: Line,
        (pieces, piece_len): (usize, usize),
        scratch: &mut [S],
        job: impl Fn(usize, &mut [Line], &mut S) + Sync,
    ) -> Self {
        let mut lines = Self::unwritten(pieces * piece_len);
        pool.rows_with(lines.room(), piece_len, scratch, |piece, room, scratch| {
            job(piece, written(room, line), scratch);
        });
        lines
    }

    /// `len` lines whose bytes `job` fills, on all threads of `pool`: it gets pieces of `piece_len` lines
    /// by their numbers, full of zeros. The last may be shorter.
    ///
    /// # Panics
    ///
    /// If a job panics.
    pub(crate) fn from_bytes(
        pool: &Pool,
        len: usize,
        piece_len: usize,
        job: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Self {
        let mut lines = Self::unwritten(len);
        pool.strips(lines.room(), len, piece_len, |piece, mut room| {
            job(piece, numbers_mut(written(room.row(0), Line([0; 64]))));
        });
        lines
    }

    /// Memory for `len` lines. All of them have to be written before anybody else gets it.
    fn unwritten(len: usize) -> Self {
        let layout = layout_of(len);
        if layout.size() == 0 {
            return Self { start: NonNull::dangling(), len, layout };
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        // The alignment of the layout is at least that of lines.
        let Some(start) = NonNull::new(start.cast::<Line>()) else { handle_alloc_error(layout) };
        if layout.align() == HUGE_PAGE {
            // Before the first write, so that the pages come in the size we ask for.
            advise_huge_pages(start.addr().get(), layout.size() / HUGE_PAGE * HUGE_PAGE);
        }
        Self { start, len, layout }
    }

    /// Where the lines lie, written or not.
    fn room(&mut self) -> &mut [MaybeUninit<Line>] {
        // SAFETY: `len` lines, aligned and ours; they need not be written to be this type.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len) }
    }
}

/// Writes `line` everywhere.
fn written(room: &mut [MaybeUninit<Line>], line: Line) -> &mut [Line] {
    room.fill(MaybeUninit::new(line));
    // SAFETY: every line was written.
    unsafe { room.assume_init_mut() }
}

impl Default for Lines {
    /// No lines.
    fn default() -> Self {
        Self::unwritten(0)
    }
}

impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: `len` lines, aligned, written by who made them, and ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated by `unwritten` with this layout.
            unsafe { dealloc(self.start.as_ptr().cast(), self.layout) };
        }
    }
}

/// Lines of zeros that take memory only once they are written.
pub(crate) struct ZeroLines {
    /// One line more than asked for, because it may start anywhere.
    bytes: Vec<u8>,
    len: usize,
}

impl ZeroLines {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; (len + 1) * size_of::<Line>()];
        prefer_huge_pages(&bytes);
        Self { bytes, len }
    }
}

impl Deref for ZeroLines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: a line is plain bytes.
        let (_, lines, _) = unsafe { self.bytes.align_to::<Line>() };
        &lines[..self.len]
    }
}

impl DerefMut for ZeroLines {
    fn deref_mut(&mut self) -> &mut [Line] {
        // SAFETY: a line is plain bytes.
        let (_, lines, _) = unsafe { self.bytes.align_to_mut::<Line>() };
        &mut lines[..self.len]
    }
}

/// Numbers that may have any bits, and of which a line holds a whole number.
///
/// # Safety
///
/// The type has no padding, every bit pattern is a value of it, and its size divides 64.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a number of four bytes.
unsafe impl Plain for f32 {}
// SAFETY: a number of two bytes.
unsafe impl Plain for u16 {}
// SAFETY: a number of one byte.
unsafe impl Plain for u8 {}
// SAFETY: a number of one byte.
unsafe impl Plain for i8 {}

/// What lies in `lines`, as numbers.
pub(crate) fn numbers<T: Plain>(lines: &[Line]) -> &[T] {
    let len = size_of_val(lines) / size_of::<T>();
    // SAFETY: the same bytes, of which any are numbers, aligned better than needed.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), len) }
}

/// What lies in `lines`, as numbers that can be changed.
pub(crate) fn numbers_mut<T: Plain>(lines: &mut [Line]) -> &mut [T] {
    let len = size_of_val(lines) / size_of::<T>();
    // SAFETY: as for `numbers`, and any bytes are a line.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
}

/// Has all threads take small pieces of memory from the same few places.
///
/// The system's C library gives each thread a place of its own. In a server, what one thread takes
/// another gives back, and the places grow with every reply: by some 500 bytes, without end in sight
/// after 12,000. For programs that run long; where there is another library, nothing happens.
pub fn share_memory_places() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// `M_ARENA_MAX` of `malloc.h`.
        const MOST_PLACES: std::ffi::c_int = -8;
        // SAFETY: as `malloc.h` declares it; it takes two numbers and knows what they mean.
        unsafe extern "C" {
            safe fn mallopt(what: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        // Where it says no, all is as before.
        let _ = mallopt(MOST_PLACES, 1);
    }
}

/// Starts large slices at a huge page. The last, unfinished huge page is taken whole if at most half
/// of it is lost; otherwise the lines in it lie in small pages. With a quarter, 40 % of a matrix of
/// 3.4 MiB lay in small pages, and was read at 15 instead of 25 GB/s.
fn layout_of(len: usize) -> Layout {
    let layout = Layout::array::<Line>(len).expect("no more lines than memory has");
    let size = layout.size();
    let rest = size % HUGE_PAGE;
    let whole = if rest >= HUGE_PAGE / 2 { size.next_multiple_of(HUGE_PAGE) } else { size };
    if whole < HUGE_PAGE {
        return layout;
    }
    Layout::from_size_align(whole, HUGE_PAGE).expect("no more lines than memory has")
}

/// Asks the system for huge pages for what `vec` has room for. To be called before anything is
/// written to it: pages that exist keep their size. For tables that are read from end to end.
pub fn prefer_huge_pages<T>(vec: &Vec<T>) {
    let start = vec.as_ptr().addr();
    let end = start + vec.capacity() * size_of::<T>();
    let start = start.next_multiple_of(HUGE_PAGE);
    if start < end {
        advise_huge_pages(start, (end - start) / HUGE_PAGE * HUGE_PAGE);
    }
}

/// Asks for huge pages between `start`, which is aligned to one, and `start + len`. Where the system
/// does not know what that is, nothing happens.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux is asked"))]
fn advise_huge_pages(start: usize, len: usize) {
    #[cfg(all(target_os = "linux", not(miri), target_arch = "x86_64"))]
    super::x86_64::madvise(start, len, MADV_HUGEPAGE);
    #[cfg(all(target_os = "linux", not(miri), target_arch = "aarch64"))]
    super::aarch64::madvise(start, len, MADV_HUGEPAGE);
}

/// From the interface of Linux, the same on all CPUs.
#[cfg(target_os = "linux")]
const MADV_HUGEPAGE: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_hold_what_they_were_filled_with() {
        let page = HUGE_PAGE / size_of::<Line>();
        for len in [0, 1, 100, page - 1, page, page + 1, 2 * page - page / 5, 2 * page + 7] {
            let mut lines = Lines::filled(Line([7; 64]), len);
            assert_eq!(lines.len(), len);
            assert!(lines.iter().all(|line| line.0 == [7; 64]));
            if let Some(last) = lines.last_mut() {
                last.0[63] = 9;
                assert_eq!(lines[len - 1].0[62..], [7, 9]);
            }
        }
    }

    #[test]
    fn lines_are_made_in_pieces_on_all_threads() {
        let page = HUGE_PAGE / size_of::<Line>();
        let pool = Pool::new(3);
        for (pieces, piece_len) in [(0, 5), (5, 0), (1, 1), (7, 3), (9, page / 4 + 1)] {
            let mut jobs = [0; 3];
            let shape = (pieces, piece_len);
            let lines = Lines::made(&pool, Line([7; 64]), shape, &mut jobs, |i, lines, jobs| {
                assert!(lines.iter().all(|line| line.0 == [7; 64]));
                lines[0].0[1] = i as u8;
                *jobs += 1;
            });
            assert_eq!(lines.len(), pieces * piece_len);
            assert_eq!(jobs.iter().sum::<usize>(), if piece_len > 0 { pieces } else { 0 });
            for (i, line) in lines.iter().enumerate() {
                let first = i % piece_len == 0;
                assert_eq!(line.0[..2], [7, if first { (i / piece_len) as u8 } else { 7 }]);
            }
        }
    }

    #[test]
    fn lines_of_zeros_are_aligned_and_hold_numbers() {
        for len in [0, 1, 77, 2 * HUGE_PAGE / size_of::<Line>()] {
            let mut lines = ZeroLines::new(len);
            assert_eq!(lines.len(), len);
            assert!(lines.iter().all(|line| line.0 == [0; 64]));
            if len > 0 {
                numbers_mut::<f32>(&mut lines[len - 1..])[15] = 2.5;
                assert_eq!(lines.as_ptr().addr() % 64, 0);
                assert_eq!(numbers::<f32>(&lines)[16 * len - 1], 2.5);
                assert_eq!(numbers::<u16>(&lines)[32 * len - 1], 0x4020);
            }
        }
    }

    #[test]
    fn a_vec_in_huge_pages_is_a_vec() {
        for len in [0, 10, 3 * HUGE_PAGE / 4 + 5] {
            let mut vec: Vec<u32> = Vec::with_capacity(len);
            prefer_huge_pages(&vec);
            vec.extend(0..len as u32);
            assert!(vec.iter().copied().eq(0..len as u32));
        }
    }

    #[test]
    fn large_slices_start_at_a_huge_page_and_waste_little() {
        let bytes = |mib: f64| (mib * f64::from(1 << 20)) as usize;
        for (mib, expected, aligned) in
            [(0.9, 0.9, false), (1.1, 2.0, true), (2.0, 2.0, true), (4.75, 4.75, true)]
        {
            let layout = layout_of(bytes(mib).div_ceil(64));
            assert_eq!(layout.size(), bytes(expected).next_multiple_of(64), "{mib} MiB");
            assert_eq!(layout.align() == HUGE_PAGE, aligned, "{mib} MiB");
        }
    }
}
