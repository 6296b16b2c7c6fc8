//! How many tokens to guess next, by how the last guesses fared.

/// Guesses made, guesses that were right: what to do next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftLen {
    now: usize,
    most: usize,
    adapts: bool,
    /// Steps without guesses still to come.
    pause: usize,
    next_pause: usize,
}

/// The longest pause: text that cannot be guessed costs one pass more in so many.
const LONGEST_PAUSE: usize = 16;

impl DraftLen {
    pub(crate) fn new(most: usize, adapts: bool) -> Self {
        let now = if adapts { most.min(4) } else { most };
        Self { now, most, adapts, pause: 0, next_pause: 1 }
    }

    /// How many to guess now; none during a pause.
    pub(crate) fn get(&self) -> usize {
        if self.pause > 0 { 0 } else { self.now }
    }

    /// A step went by without a guess.
    pub(crate) fn skipped(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// `agreed` of `guessed` tokens were right. All of them: guess twice as many. Some: one more than
    /// that. None: wait a while, each time longer.
    pub(crate) fn saw(&mut self, guessed: usize, agreed: usize) {
        // Nothing is learnt from no guess: there was no room for one.
        if !self.adapts || guessed == 0 {
            return;
        }
        if agreed == 0 {
            self.pause = self.next_pause;
            self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
        } else {
            self.next_pause = 1;
        }
        self.now = if agreed == guessed { 2 * guessed } else { agreed + 1 }.clamp(1, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_guesses_make_it_bolder_and_wrong_ones_careful() {
        let mut len = DraftLen::new(15, true);
        assert_eq!(len.get(), 4);
        len.saw(4, 4);
        assert_eq!(len.get(), 8);
        len.saw(8, 8);
        assert_eq!(len.get(), 15);
        len.saw(15, 2);
        assert_eq!(len.get(), 3);
    }

    #[test]
    fn pauses_grow_while_every_guess_is_wrong() {
        let mut len = DraftLen::new(8, true);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            len.saw(1, 0);
            let mut pause = 0;
            while len.get() == 0 {
                len.skipped();
                pause += 1;
            }
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        len.saw(1, 1);
        len.saw(2, 0);
        assert_eq!((len.get(), len.pause), (0, 1));
    }

    #[test]
    fn no_guess_teaches_nothing() {
        let mut len = DraftLen::new(8, true);
        len.saw(0, 0);
        assert_eq!(len.get(), 4);
    }

    #[test]
    fn a_fixed_length_stays() {
        let mut len = DraftLen::new(7, false);
        len.saw(7, 0);
        assert_eq!(len.get(), 7);
    }
}
