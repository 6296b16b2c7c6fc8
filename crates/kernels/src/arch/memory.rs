//! Memory for lines, in huge pages if the system provides them.
//!
//! A forward pass reads all weights once. With pages of 4 KiB, hardware prefetching restarts on every
//! page, and each page costs a page table walk: plain reading ran at 17 GB/s, and at 31 GB/s with pages
//! of 2 MiB.
//!
//! A page is allocated when it is first written: the system clears it on the writing thread and takes
//! it from the memory next to the CPU of that thread. Memory is therefore first written by the threads
//! that fill it, each its own part.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::Pool;
use crate::line::Line;

/// Bytes in a huge page. Miri, which has none, follows the same paths with fewer bytes.
const HUGE_PAGE: usize = if cfg!(miri) { 1 << 14 } else { 2 << 20 };

/// An owned slice of lines.
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
    /// Creates `len` copies of `line`, written by this thread.
    pub(crate) fn filled(line: Line, len: usize) -> Self {
        let mut lines = Self::unwritten(len);
        written(lines.room(), line);
        lines
    }

    /// Creates pieces of `piece_len` lines on all threads of `pool`. `job` gets the number of a piece,
    /// the piece, full of `line`, and the scratch of its thread.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer scratch values than threads, or if a job panics.
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

    /// Creates `len` lines whose bytes `job` fills on all threads of `pool`. It gets the number of a
    /// piece of `piece_len` lines and its bytes, full of zeros. The last piece may be shorter.
    ///
    /// # Panics
    ///
    /// Panics if a job panics.
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

    /// Allocates `len` lines. All of them must be written before they are read.
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
            // Before the first write, which determines the size of pages.
            advise_huge_pages(start.as_ptr().cast(), layout.size() / HUGE_PAGE * HUGE_PAGE);
        }
        Self { start, len, layout }
    }

    /// Returns the lines, written or not.
    fn room(&mut self) -> &mut [MaybeUninit<Line>] {
        // SAFETY: `len` lines, aligned and ours; they need not be written to be this type.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len) }
    }
}

/// Fills `room` with `line`.
fn written(room: &mut [MaybeUninit<Line>], line: Line) -> &mut [Line] {
    room.fill(MaybeUninit::new(line));
    // SAFETY: every line was written.
    unsafe { room.assume_init_mut() }
}

impl Default for Lines {
    /// Returns no lines.
    fn default() -> Self {
        Self::unwritten(0)
    }
}

impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: `len` lines, aligned, written by every constructor, and ours.
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

/// Lines of zeros that take memory only when written.
pub(crate) struct ZeroLines {
    /// One line more than `len`, because the start may not be aligned.
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

/// Numbers for which every bit pattern is valid, and of which a line holds a whole number.
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

/// Returns the bytes of `lines` as numbers.
pub(crate) fn numbers<T: Plain>(lines: &[Line]) -> &[T] {
    let len = size_of_val(lines) / size_of::<T>();
    // SAFETY: the same bytes, of which any are numbers, aligned better than needed.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), len) }
}

/// Returns the bytes of `lines` as mutable numbers.
pub(crate) fn numbers_mut<T: Plain>(lines: &mut [Line]) -> &mut [T] {
    let len = size_of_val(lines) / size_of::<T>();
    // SAFETY: as for `numbers`, and any bytes are a line.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
}

/// Makes all threads allocate from one arena of the C library, for long-running programs.
///
/// By default, glibc gives each thread an arena of its own. In a server, threads free what others have
/// allocated, and the arenas grew by about 500 bytes with every response, still after 12,000 of them.
/// Does nothing with other C libraries.
pub fn limit_malloc_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// `M_ARENA_MAX` of `malloc.h`.
        const ARENA_MAX: std::ffi::c_int = -8;
        // SAFETY: as declared in `malloc.h`.
        unsafe extern "C" {
            safe fn mallopt(param: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        // A failure leaves the default.
        let _ = mallopt(ARENA_MAX, 1);
    }
}

/// Returns the allocation layout of `len` lines. Large slices start at a huge page. The last, partial
/// huge page is allocated whole if at most half of it is unused, and as small pages otherwise. With a
/// quarter, 40 % of a matrix of 3.4 MiB was in small pages and read at 15 instead of 25 GB/s.
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

/// Asks the system for huge pages for the capacity of `vec`, for tables that are read from end to end.
/// Has no effect on pages that were already written.
pub fn prefer_huge_pages<T>(vec: &Vec<T>) {
    let bytes_len = vec.capacity() * size_of::<T>();
    let start = vec.as_ptr().cast::<u8>();
    let skipped = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
    if skipped < bytes_len {
        let len = (bytes_len - skipped) / HUGE_PAGE * HUGE_PAGE;
        advise_huge_pages(start.wrapping_add(skipped), len);
    }
}

/// Asks the system for huge pages between `start`, which is aligned to one, and `start + len`. Does
/// nothing on systems without such advice.
fn advise_huge_pages(start: *const u8, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: this advice changes nothing a program can observe about its memory.
        // A rejection leaves small pages in place, which are correct but slower.
        let _ = unsafe { madvise(start.cast_mut().cast(), len, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, len);
}

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
        let bytes = |pages: f64| (pages * HUGE_PAGE as f64) as usize;
        for (pages, expected, aligned) in
            [(0.45, 0.45, false), (0.55, 1.0, true), (1.0, 1.0, true), (2.375, 2.375, true)]
        {
            let layout = layout_of(bytes(pages).div_ceil(64));
            assert_eq!(layout.size(), bytes(expected).next_multiple_of(64), "{pages} pages");
            assert_eq!(layout.align() == HUGE_PAGE, aligned, "{pages} pages");
        }
    }
}
