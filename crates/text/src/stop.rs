//! Stop strings in a growing text.

/// Finds the first stop string that is completed in a growing text.
///
/// Text before it is emitted incrementally; a possible prefix of a stop string is held back. Of stop strings
/// completed by the same character, the longest counts.
#[derive(Clone, Debug)]
pub struct StopFinder {
    stops: Vec<Stop>,
    /// Longest suffix of the text that is a prefix of a stop string.
    held: String,
    stopped: Option<usize>,
}

/// Result of appending a piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text that is not part of a stop string.
    pub emit: String,
    /// Index of the stop string that ended the text.
    pub stopped: Option<usize>,
}

/// A stop string with its Knuth–Morris–Pratt table, so that the search takes linear time.
#[derive(Clone, Debug)]
struct Stop {
    index: usize,
    bytes: Box<[u8]>,
    /// Length of the longest proper border of each prefix of `bytes`.
    fallback: Box<[usize]>,
    /// Length of the prefix of `bytes` that the text ends with.
    matched: usize,
}

impl StopFinder {
    /// Creates a finder for `stops`. Empty strings are never found.
    pub fn new(stops: Vec<String>) -> Self {
        let stops = stops.into_iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        let stops = stops.map(|(index, stop)| Stop::new(index, stop.into_bytes())).collect();
        StopFinder { stops, held: String::new(), stopped: None }
    }

    /// Appends a piece of text. After a stop string is found, nothing more is emitted.
    pub fn push(&mut self, piece: &str) -> StopOutcome {
        if self.stopped.is_some() {
            return StopOutcome { emit: String::new(), stopped: self.stopped };
        }
        let seen_len = self.held.len();
        self.held.push_str(piece);
        for (at, &byte) in piece.as_bytes().iter().enumerate() {
            for stop in &mut self.stops {
                stop.advance(byte);
            }
            let complete = self.stops.iter().filter(|stop| stop.is_complete());
            // `max_by_key` returns the last of equals, but the first one of the list counts.
            if let Some(stop) = complete.rev().max_by_key(|stop| stop.bytes.len()) {
                self.stopped = Some(stop.index);
                let end = seen_len + at + 1;
                self.held.truncate(end - stop.bytes.len());
                return StopOutcome { emit: std::mem::take(&mut self.held), stopped: self.stopped };
            }
        }
        let keep = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        // The held-back suffix begins like a stop string, hence at a character boundary.
        let kept = self.held.split_off(self.held.len() - keep);
        StopOutcome { emit: std::mem::replace(&mut self.held, kept), stopped: None }
    }

    /// Ends the text and returns what was held back.
    pub fn finish(self) -> String {
        self.held
    }
}

impl Stop {
    fn new(index: usize, bytes: Vec<u8>) -> Self {
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = fallback[matched - 1];
            }
            matched += usize::from(bytes[at] == bytes[matched]);
            fallback[at] = matched;
        }
        Stop { index, bytes: bytes.into(), fallback: fallback.into(), matched: 0 }
    }

    fn is_complete(&self) -> bool {
        self.matched == self.bytes.len()
    }

    /// Advances by one byte. Not called on a complete match.
    fn advance(&mut self, byte: u8) {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fallback[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference: the stop string with the smallest end, the longest of those, the first of those.
    fn naive(stops: &[String], text: &str) -> (String, Option<usize>) {
        let mut found: Option<(usize, usize, usize)> = None;
        for (index, stop) in stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty()) {
            if let Some(start) = text.find(stop.as_str()) {
                let candidate = (start + stop.len(), start, index);
                found = Some(found.map_or(candidate, |best| best.min(candidate)));
            }
        }
        match found {
            Some((_, start, index)) => (text[..start].to_owned(), Some(index)),
            None => (text.to_owned(), None),
        }
    }

    fn in_pieces(stops: &[String], pieces: &[String]) -> (String, Option<usize>) {
        let mut finder = StopFinder::new(stops.to_vec());
        let mut text = String::new();
        for piece in pieces {
            let outcome = finder.push(piece);
            text.push_str(&outcome.emit);
            if outcome.stopped.is_some() {
                return (text, outcome.stopped);
            }
        }
        (text + &finder.finish(), None)
    }

    #[test]
    fn a_partial_match_is_held_back_and_released() {
        let mut finder = StopFinder::new(vec!["\nUser:".into()]);
        assert_eq!(finder.push("hello\nUs"), StopOutcome { emit: "hello".into(), stopped: None });
        assert_eq!(finder.push("eful"), StopOutcome { emit: "\nUseful".into(), stopped: None });
        assert_eq!(finder.push("\nUser"), StopOutcome::default());
        assert_eq!(finder.push(": x"), StopOutcome { emit: String::new(), stopped: Some(0) });
        assert_eq!(finder.push("more"), StopOutcome { emit: String::new(), stopped: Some(0) });
        assert_eq!(finder.finish(), "");
    }

    proptest! {
        #[test]
        fn any_split_equals_a_search_of_the_whole(
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            pieces in prop::collection::vec("[abé€]{0,4}", 0..8),
        ) {
            prop_assert_eq!(in_pieces(&stops, &pieces), naive(&stops, &pieces.concat()));
        }
    }
}
