//! The global allocator, which counts what rendering threads allocate. It is that of the system, except in static
//! binaries: the allocator of musl has one lock for all threads; docs/install.md has the cost.

#[cfg(not(target_env = "musl"))]
use std::alloc::System as Base;
use std::alloc::{GlobalAlloc, Layout};

#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as Base;

use wf_text::allocations::{charge, refund};

#[global_allocator]
static ALLOCATOR: Counted = Counted;

struct Counted;

// SAFETY: every call goes to the base allocator unchanged, except that a thread over its budget stays in
// `charge` for ever. `charge` and `refund` do not unwind. They read thread-local data without a destructor, so they
// can be called while a thread ends.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { Base.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { Base.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        refund(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`; `alloc` used the same allocator.
        unsafe { Base.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        charge(new_size.saturating_sub(layout.size()));
        refund(layout.size().saturating_sub(new_size));
        // SAFETY: the caller keeps the contract of `realloc`; `alloc` used the same allocator.
        unsafe { Base.realloc(pointer, layout, new_size) }
    }
}
