//! Number of tokens to draft next, adapted to the acceptance of earlier drafts.

/// Draft length that follows acceptance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftLen {
    len: usize,
    /// Minimum and maximum of `len`.
    range: (usize, usize),
    adaptive: bool,
    /// Number of steps until drafting resumes.
    pause: usize,
    next_pause: usize,
}

/// Maximum pause in steps: text that cannot be predicted costs one extra pass in so many.
const MAX_PAUSE: usize = 16;

impl DraftLen {
    /// Creates the length of drafts of which one of fewer than `min` tokens is worth nothing.
    pub(crate) fn new((min, max): (usize, usize), adaptive: bool) -> Self {
        let len = if adaptive { max.min(4) } else { max };
        Self { len, range: (min.min(max), max), adaptive, pause: 0, next_pause: 1 }
    }

    /// Returns the number of tokens to draft now, 0 during a pause.
    pub(crate) fn get(&self) -> usize {
        if self.pause > 0 { 0 } else { self.len }
    }

    /// Records a step without a draft.
    pub(crate) fn skipped(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// Records that `accepted` of `drafted` tokens were accepted. If all were, the length doubles; if some
    /// were, it is one more than those; if none was, drafting pauses, each time for longer.
    pub(crate) fn verified(&mut self, drafted: usize, accepted: usize) {
        // There was no room for a draft.
        if !self.adaptive || drafted == 0 {
            return;
        }
        if accepted == 0 {
            self.pause = self.next_pause;
            self.next_pause = (2 * self.next_pause).min(MAX_PAUSE);
        } else {
            self.next_pause = 1;
        }
        let len = if accepted == drafted { 2 * drafted } else { accepted + 1 };
        self.len = len.clamp(self.range.0, self.range.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_lengthens_drafts_and_rejection_shortens_them() {
        let mut len = DraftLen::new((1, 15), true);
        assert_eq!(len.get(), 4);
        len.verified(4, 4);
        assert_eq!(len.get(), 8);
        len.verified(8, 8);
        assert_eq!(len.get(), 15);
        len.verified(15, 2);
        assert_eq!(len.get(), 3);
    }

    #[test]
    fn pauses_grow_while_every_draft_is_rejected() {
        let mut len = DraftLen::new((1, 8), true);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            len.verified(1, 0);
            let mut pause = 0;
            while len.get() == 0 {
                len.skipped();
                pause += 1;
            }
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        len.verified(1, 1);
        len.verified(2, 0);
        assert_eq!((len.get(), len.pause), (0, 1));
    }

    #[test]
    fn a_rejected_draft_is_followed_by_one_that_is_worth_its_pass() {
        let mut len = DraftLen::new((2, 8), true);
        len.verified(4, 0);
        len.skipped();
        assert_eq!(len.get(), 2);
        assert_eq!(DraftLen::new((2, 1), true).get(), 1, "within the limit of the request");
    }

    #[test]
    fn an_empty_draft_changes_nothing() {
        let mut len = DraftLen::new((1, 8), true);
        len.verified(0, 0);
        assert_eq!(len.get(), 4);
    }

    #[test]
    fn a_fixed_length_stays() {
        let mut len = DraftLen::new((1, 7), false);
        len.verified(7, 0);
        assert_eq!(len.get(), 7);
    }
}
