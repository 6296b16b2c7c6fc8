//! What a rendering may use: steps and memory, counted as they are used.
//!
//! Every value a template makes holds a [`Charge`] for its memory and gives it back when it is dropped, so
//! the count is of what is alive, and no allocation happens that was not paid for first.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::failure::Failure;

/// Steps a rendering may take. A thousand messages through the longest templates in use take a tenth.
pub(super) const MAX_STEPS: u64 = 2_000_000;
/// Memory a rendering may hold at any time, its output included: far beyond any context window.
pub(super) const MAX_BYTES: usize = 40 << 20;
/// Reading or copying this many bytes of text takes about as long as a step.
const BYTES_PER_STEP: usize = 64;

/// What is left of the limits.
#[derive(Debug)]
pub(super) struct Budget {
    steps: Cell<u64>,
    bytes: Cell<usize>,
}

impl Budget {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Budget { steps: Cell::new(MAX_STEPS), bytes: Cell::new(MAX_BYTES) })
    }

    /// Pays for `count` steps.
    pub(super) fn step(&self, count: usize) -> Result<(), Failure> {
        match self.steps.get().checked_sub(count as u64) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => {
                self.steps.set(0);
                Err(Failure::Limit { what: "steps", limit: MAX_STEPS })
            }
        }
    }

    /// Pays for one pass over `bytes` bytes of text.
    pub(super) fn scan(&self, bytes: usize) -> Result<(), Failure> {
        self.step(1 + bytes / BYTES_PER_STEP)
    }

    /// Pays for sorting `count` items by keys of `bytes` bytes in all.
    pub(super) fn sort(&self, count: usize, bytes: usize) -> Result<(), Failure> {
        let rounds = count.checked_ilog2().unwrap_or(0) as usize + 1;
        self.step((count + bytes / BYTES_PER_STEP).saturating_mul(rounds))
    }

    /// Pays for memory, for as long as the charge lives.
    pub(super) fn charge(self: &Rc<Self>, bytes: usize) -> Result<Charge, Failure> {
        let mut charge = Charge { budget: Rc::clone(self), bytes: 0 };
        charge.add(bytes)?;
        Ok(charge)
    }
}

/// Memory that was paid for.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Charge {
    /// Pays for more.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        let left = self.budget.bytes.get().checked_sub(bytes);
        let left =
            left.ok_or(Failure::Limit { what: "bytes of memory", limit: MAX_BYTES as u64 })?;
        self.budget.bytes.set(left);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.bytes.set(self.budget.bytes.get() + self.bytes);
    }
}

/// What a shared value takes besides its items: two counts, a vector, a charge.
const OVERHEAD: usize = 96;

/// The new capacity and the charge for it, if `more` items do not fit. While items move to a larger place
/// both places are paid for.
fn larger<T>(
    charge: &Charge,
    len: usize,
    capacity: usize,
    more: usize,
) -> Result<Option<(usize, Charge)>, Failure> {
    let needed = len.saturating_add(more);
    if needed <= capacity {
        return Ok(None);
    }
    let capacity = needed.max(2 * capacity);
    let bytes = capacity.saturating_mul(size_of::<T>()).saturating_add(OVERHEAD);
    Ok(Some((capacity, charge.budget.charge(bytes)?)))
}

/// A vector that pays for its capacity.
#[derive(Debug)]
pub(super) struct Paid<T> {
    items: Vec<T>,
    charge: Charge,
}

impl<T> Paid<T> {
    pub(super) fn new(budget: &Rc<Budget>) -> Result<Self, Failure> {
        Ok(Paid { items: Vec::new(), charge: budget.charge(OVERHEAD)? })
    }

    pub(super) fn push(&mut self, item: T) -> Result<(), Failure> {
        let (len, capacity) = (self.items.len(), self.items.capacity());
        if let Some((capacity, charge)) = larger::<T>(&self.charge, len, capacity, 1)? {
            self.items.reserve_exact(capacity - len);
            self.charge = charge;
        }
        self.items.push(item);
        Ok(())
    }
}

impl<T> Deref for Paid<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for Paid<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

/// A text that pays for its capacity, and for the time it takes to write it.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    charge: Charge,
}

impl Text {
    pub(super) fn new(budget: &Rc<Budget>) -> Result<Self, Failure> {
        Ok(Text { text: String::new(), charge: budget.charge(OVERHEAD)? })
    }

    /// Pays for memory besides the text, from the same budget.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, Failure> {
        self.charge.budget.charge(bytes)
    }

    /// An empty text that pays from the same budget.
    pub(super) fn beside(&self) -> Result<Self, Failure> {
        Text::new(&self.charge.budget)
    }

    pub(super) fn push_str(&mut self, piece: &str) -> Result<(), Failure> {
        let (len, capacity) = (self.text.len(), self.text.capacity());
        if let Some((capacity, charge)) = larger::<u8>(&self.charge, len, capacity, piece.len())? {
            self.text.reserve_exact(capacity - len);
            self.charge = charge;
        }
        let steps = (len + piece.len()) / BYTES_PER_STEP - len / BYTES_PER_STEP;
        self.charge.budget.step(steps)?;
        self.text.push_str(piece);
        Ok(())
    }

    pub(super) fn push(&mut self, c: char) -> Result<(), Failure> {
        self.push_str(c.encode_utf8(&mut [0; 4]))
    }

    /// The text itself, no longer paid for.
    pub(super) fn into_string(self) -> String {
        self.text
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}
