//! Admission: which sequences run, and which of them release their pages. `crate::admission` decides, from the
//! places and pages of all callers; this carries it out.

use wf_model::Forward;

use super::Engine;
use crate::admission::{Census, Member, Shared};
use crate::schedule::Rank;
use crate::sequence::Sequence;

/// Number of sequences that are passed over in one admission because they wait for a prefix.
const MAX_SKIPS: usize = 64;

impl<F: Forward> Engine<F> {
    /// Starts waiting sequences while there are places, and pages for all of their tokens.
    pub(super) fn admit(&mut self) {
        let mut census = self.census();
        let mut promised = 0;
        let mut skips = 0;
        while skips < MAX_SKIPS
            && let Some(next) = census.next()
        {
            let sequence = &self.waiting[&next.rank];
            // A prefix that another sequence is computing is not computed twice.
            if self.running.iter().any(|running| sequence.should_wait_for(running, &self.store))
                || self.awaits_disk(next.rank)
            {
                census.skip(next.rank);
                skips += 1;
                continue;
            }
            let needed = promised + self.waiting[&next.rank].pages_needed(&self.store);
            if !self.free_pages(needed, &next, &mut census) {
                self.waiting.entry(next.rank).and_modify(|next| next.steps_without_pages += 1);
                if next.is_overdue {
                    break;
                }
                census.skip_caller(next.origin.party());
                continue;
            }
            // Pages from disk are in memory now.
            promised = needed - self.start(next.rank);
            census.admit(next);
        }
        let standings = census.standings();
        self.running.sort_by_key(|sequence| standings.get(&sequence.rank).copied());
    }

    fn census(&self) -> Census {
        let shared = Shared { sequences: self.max_running, pages: self.model.pages() };
        let running = self.running.iter().map(Sequence::member).collect();
        Census::new(shared, running, self.waiting.values().map(Sequence::member).collect())
    }

    /// Preempts sequences until `pages`, and a state where it needs one, are available for `next`. Returns `false`
    /// if there are too few that have to make room for it.
    fn free_pages(&mut self, pages: usize, next: &Member, census: &mut Census) -> bool {
        while pages > self.store.available() || !self.store.has_state() {
            let Some(rank) = census.preempt_for(next) else { return false };
            let at = self.running.iter().position(|sequence| sequence.rank == rank);
            let preempted = self.running.remove(at.expect("the census has running sequences"));
            self.preempt(preempted);
        }
        true
    }

    pub(super) fn preempt(&mut self, mut sequence: Sequence) {
        sequence.release(&mut self.store);
        self.waiting.insert(sequence.rank, sequence);
        self.stats.lock().preemptions += 1;
    }

    /// Starts a sequence. Returns the number of its pages that came from disk.
    fn start(&mut self, rank: Rank) -> usize {
        let mut sequence = self.waiting.remove(&rank).expect("it is waiting");
        let is_new = !sequence.started;
        let write_page = |page, bytes: &[u8]| self.model.write_page(page, bytes);
        let (cached, restored) = sequence.start(&mut self.store, write_page);
        if let Some((snapshot, state)) = sequence.restored_state(&mut self.store) {
            self.model.copy_state(snapshot, state);
        }
        if is_new {
            let mut stats = self.stats.lock();
            stats.prompt_tokens += sequence.state.prompt_len as u64;
            stats.cached_tokens += cached as u64;
        }
        self.running.push(sequence);
        restored
    }
}
