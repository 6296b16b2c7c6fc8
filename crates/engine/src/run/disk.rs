//! The engine and the prefix cache on disk: pages are fetched before a sequence starts, and kept once they are
//! full. Nothing here waits for the disk: a sequence whose pages are being read lets others start first.

use wf_model::Forward;

use super::{Engine, Message};
use crate::disk::{BeforeStart, DiskCache};
use crate::schedule::Rank;

/// Maximum number of sequences whose pages are being read, or have been read and wait for them to start.
const MAX_FETCHES: usize = 4;

impl<F: Forward> Engine<F> {
    /// Keeps pages on disk from now on.
    pub(crate) fn keep_pages(&mut self, disk: DiskCache) {
        self.disk = Some(disk);
    }

    /// Returns `true` if a waiting sequence has to wait for its pages on disk, and begins to read them.
    pub(super) fn awaits_disk(&mut self, rank: Rank) -> bool {
        let Some(disk) = &self.disk else { return false };
        let holding = self.waiting.values().filter(|waiting| waiting.trail().has_fetched()).count();
        let may_fetch = self.fetches + holding < MAX_FETCHES;
        let sequence = self.waiting.get_mut(&rank).expect("it is waiting");
        match (sequence.before_start(disk, &self.store, may_fetch), self.own_inbox.upgrade()) {
            (BeforeStart::Nothing, _) => false,
            (BeforeStart::Wait, _) => true,
            (BeforeStart::Fetch(keys), Some(inbox)) => {
                self.fetches += 1;
                disk.fetch(keys, move |pages| {
                    // The engine may have ended meanwhile.
                    let _ = inbox.send(Message::Fetched(rank, pages));
                });
                true
            }
            // All handles are gone, and with them whoever could answer.
            (BeforeStart::Fetch(_), None) => {
                sequence.trail_mut().set_fetched(Vec::new());
                false
            }
        }
    }

    /// Notes the pages that were read for a sequence, unless it is gone.
    pub(super) fn fetched(&mut self, rank: Rank, pages: Vec<Vec<u8>>) {
        self.fetches -= 1;
        if let Some(sequence) = self.waiting.get_mut(&rank) {
            sequence.trail_mut().set_fetched(pages);
        }
    }

    /// Hands the pages that sequences have filled to the disk.
    pub(super) fn keep_full_pages(&mut self) {
        let Some(disk) = &self.disk else { return };
        for sequence in &mut self.running {
            for (key, page) in sequence.new_full_pages(disk) {
                disk.write(key, |bytes| self.model.read_page(page, bytes));
            }
        }
    }
}
