//! An allocator that knows how much memory a thread holds, and how much it held at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

struct CountingAlloc;

thread_local! {
    // Signed: a thread may free what another allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    HELD.with(|held| {
        held.set(held.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system allocator unchanged. The counters have no destructor and need
// no memory, so they can be touched inside an allocation and while a thread ends.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`; `alloc` used the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may live side by side while the system moves them.
        count(new_size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `realloc`; `alloc` used the same allocator.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Runs `work` and returns the most memory it held at once, beyond what was held before.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let peak = PEAK.with(Cell::get);
    (result, usize::try_from(peak - before).unwrap_or(0))
}

#[test]
fn the_allocator_counts() {
    let (_, peak) = peak_of(|| {
        drop(std::hint::black_box(vec![0_u8; 1 << 20]));
        std::hint::black_box(vec![0_u8; 1 << 10])
    });
    assert!((1 << 20..1 << 21).contains(&peak), "{peak}");
}
