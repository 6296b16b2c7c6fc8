//! Thinking before an answer: templates that declare it, and the text between its tags.
//!
//! A model thinks between [`OPEN_TAG`] and [`CLOSE_TAG`]. Its template may write the opening tag itself, or leave
//! that to the model. [`ThoughtSplitter`] labels the text of a completion; nothing else looks for the tags.

/// Tag before thinking.
pub const OPEN_TAG: &str = "<think>";

/// Tag after thinking.
pub const CLOSE_TAG: &str = "</think>";

/// Place of the end of a prompt relative to thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingStart {
    /// The prompt has opened the thinking.
    Open,
    /// The completion may open the thinking with its first text.
    MayOpen,
    /// The prompt is past all thinking.
    Answer,
}

/// A piece of a completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thought {
    /// New text of the thinking.
    pub reasoning: String,
    /// New text of the answer, which follows the thinking.
    pub answer: String,
}

/// Separates thinking from the answer in a growing text.
///
/// White space around the tags is part of neither. Text that may still become a tag, and white space that may
/// precede one, is held back.
#[derive(Clone, Debug)]
pub struct ThoughtSplitter {
    place: Place,
    /// White space after the last reasoning, or before a tag that may open it.
    spaces: String,
    /// Beginning of a tag.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a tag that may open the thinking.
    Start,
    /// After the opening tag, before any reasoning.
    Opened,
    Reasoning,
    /// After the closing tag, before any answer.
    Closed,
    Answer,
}

impl ThoughtSplitter {
    /// Creates a splitter for a completion that begins here.
    pub fn new(start: ThinkingStart) -> Self {
        let place = match start {
            ThinkingStart::Open => Place::Opened,
            ThinkingStart::MayOpen => Place::Start,
            ThinkingStart::Answer => Place::Answer,
        };
        Self { place, spaces: String::new(), held: String::new() }
    }

    /// Returns `true` while the text may still turn out to be an opening tag.
    pub fn is_undecided(&self) -> bool {
        self.place == Place::Start
    }

    /// Returns `true` between the opening tag and the first text of the answer.
    pub fn is_thinking(&self) -> bool {
        matches!(self.place, Place::Opened | Place::Reasoning | Place::Closed)
    }

    /// Appends a piece of text and returns what became final.
    pub fn push(&mut self, piece: &str) -> Thought {
        let mut thought = Thought::default();
        self.add(piece, &mut thought);
        thought
    }

    /// Ends the text and returns what was held back.
    pub fn finish(self) -> Thought {
        let mut thought = Thought::default();
        match self.place {
            Place::Start | Place::Answer => thought.answer = self.spaces + &self.held,
            // Part of a tag is text after all.
            Place::Opened | Place::Reasoning if !self.held.is_empty() => {
                thought.reasoning = self.spaces + &self.held;
            }
            Place::Opened | Place::Reasoning | Place::Closed => {}
        }
        thought
    }

    fn add(&mut self, piece: &str, thought: &mut Thought) {
        match self.place {
            Place::Start => self.find_open(piece, thought),
            Place::Opened | Place::Reasoning => self.find_close(piece, thought),
            Place::Closed => {
                let answer = piece.trim_start();
                if !answer.is_empty() {
                    self.place = Place::Answer;
                    thought.answer.push_str(answer);
                }
            }
            Place::Answer => thought.answer.push_str(piece),
        }
    }

    fn find_open(&mut self, piece: &str, thought: &mut Thought) {
        let text = std::mem::take(&mut self.held) + piece;
        let words = text.trim_start();
        self.spaces.push_str(&text[..text.len() - words.len()]);
        if let Some(rest) = words.strip_prefix(OPEN_TAG) {
            self.spaces.clear();
            self.place = Place::Opened;
            self.add(rest, thought);
        } else if OPEN_TAG.starts_with(words) {
            words.clone_into(&mut self.held);
        } else {
            self.place = Place::Answer;
            thought.answer.push_str(&std::mem::take(&mut self.spaces));
            thought.answer.push_str(words);
        }
    }

    fn find_close(&mut self, piece: &str, thought: &mut Thought) {
        let text = std::mem::take(&mut self.held) + piece;
        if let Some((reasoning, rest)) = text.split_once(CLOSE_TAG) {
            self.emit(reasoning, thought);
            self.spaces.clear();
            self.place = Place::Closed;
            return self.add(rest, thought);
        }
        let held_len = partial_suffix_len(&text, CLOSE_TAG);
        let (reasoning, held) = text.split_at(text.len() - held_len);
        self.emit(reasoning, thought);
        held.clone_into(&mut self.held);
    }

    /// Emits reasoning, but no white space at its beginning and none that may be its end.
    fn emit(&mut self, text: &str, thought: &mut Thought) {
        let text = if self.place == Place::Opened { text.trim_start() } else { text };
        let words = text.trim_end();
        if !words.is_empty() {
            self.place = Place::Reasoning;
            thought.reasoning.push_str(&std::mem::take(&mut self.spaces));
            thought.reasoning.push_str(words);
        }
        self.spaces.push_str(&text[words.len()..]);
    }
}

/// Returns the length of the longest proper prefix of `tag` that `text` ends with.
fn partial_suffix_len(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&len| text.ends_with(&tag[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ThinkingStart::{Answer, MayOpen, Open};
    use super::*;

    fn split(start: ThinkingStart, pieces: &[&str]) -> (String, String) {
        let mut splitter = ThoughtSplitter::new(start);
        let mut whole = Thought::default();
        let mut add = |piece: Thought| {
            assert!(piece.reasoning.is_empty() || whole.answer.is_empty(), "thinking comes first");
            whole.reasoning.push_str(&piece.reasoning);
            whole.answer.push_str(&piece.answer);
        };
        pieces.iter().for_each(|piece| add(splitter.push(piece)));
        add(splitter.finish());
        (whole.reasoning, whole.answer)
    }

    fn assert_split(start: ThinkingStart, text: &str, reasoning: &str, answer: &str) {
        assert_eq!(split(start, &[text]), (reasoning.into(), answer.into()), "{start:?} {text:?}");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(split(start, &letters), split(start, &[text]), "{start:?} {text:?}");
    }

    #[test]
    fn thinking_is_separated_from_the_answer() {
        assert_split(
            Open,
            "\nLet me see.\n\nYes.\n</think>\n\nIt is.\n",
            "Let me see.\n\nYes.",
            "It is.\n",
        );
        assert_split(MayOpen, "<think>\nSo\n</think>\n\nYes", "So", "Yes");
        assert_split(MayOpen, "\n <think></think>Yes", "", "Yes");
        assert_split(MayOpen, "Yes, <think>no</think>", "", "Yes, <think>no</think>");
        assert_split(MayOpen, "\n Yes", "", "\n Yes");
        assert_split(Answer, "<think>x</think> y", "", "<think>x</think> y");
    }

    #[test]
    fn text_that_only_begins_like_a_tag_is_kept() {
        assert_split(Open, "a </thin b </", "a </thin b </", "");
        assert_split(MayOpen, "<thin", "", "<thin");
        assert_split(MayOpen, " <b>", "", " <b>");
        assert_split(Open, "a <</think> b", "a <", "b");
    }

    #[test]
    fn thinking_that_does_not_end_has_no_answer() {
        assert_split(Open, " a\n\n", "a", "");
        assert_split(Open, "", "", "");
        assert_split(MayOpen, "<think>\n", "", "");
    }

    #[test]
    fn only_the_first_tags_count() {
        assert_split(Open, "a</think>b</think><think>c", "a", "b</think><think>c");
        assert_split(Open, "<think>a</think>b", "<think>a", "b");
    }

    #[test]
    fn text_is_emitted_as_soon_as_it_is_final() {
        let mut splitter = ThoughtSplitter::new(Open);
        assert_eq!(splitter.push("\nfirst ").reasoning, "first");
        assert_eq!(splitter.push("second</").reasoning, " second");
        assert!(splitter.is_thinking());
        assert_eq!(splitter.push("think>\n"), Thought::default());
        assert!(splitter.is_thinking());
        assert_eq!(splitter.push("\nthird ").answer, "third ");
        assert!(!splitter.is_thinking());
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_as_the_whole(
            start in prop::sample::select(vec![Open, MayOpen, Answer]),
            pieces in prop::collection::vec("(<think>|</think>|</th|<t|ink>|[a \n<é]){0,3}", 0..8),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(split(start, &pieces), split(start, &[&pieces.concat()]));
        }
    }
}
