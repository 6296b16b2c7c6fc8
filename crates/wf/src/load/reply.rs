//! A reply put together from its pieces: what equality is asked of, and what makes it unsound.

use std::fmt;

use wf_client::wire::{ChatChunk, ChatCompletion, ChatLogprobs, Completion, TokenId, Usage};

/// How likely tokens were, bit for bit: the token's own, and its rivals with their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogprobBits {
    pub(crate) own: Option<u32>,
    pub(crate) top: Vec<(String, u32)>,
}

/// A reply. Two are equal if everything is that a request alone decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) logprobs: Vec<LogprobBits>,
    pub(crate) text: String,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
}

/// A part of a reply, or all of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    /// Whether it says anything of the reply itself.
    pub(crate) has_choice: bool,
    pub(crate) ids: Vec<TokenId>,
    pub(crate) logprobs: Vec<LogprobBits>,
    pub(crate) text: String,
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Option<Usage>,
}

/// What no stream may do, whatever the reply is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsound(String);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reply {
    /// Takes in what came.
    pub(crate) fn absorb(&mut self, piece: Piece) -> Result<(), Unsound> {
        let unsound = |what: &str| Err(Unsound(what.to_owned()));
        if self.finish_reason.is_some() && piece.has_choice {
            return unsound("an event of the reply came after its finish_reason");
        }
        if self.usage.is_some() {
            return unsound("an event came after the usage");
        }
        if piece.usage.is_some() && self.finish_reason.is_none() && piece.finish_reason.is_none() {
            return unsound("the usage came before the finish_reason");
        }
        self.ids.extend(piece.ids);
        self.logprobs.extend(piece.logprobs);
        self.text.push_str(&piece.text);
        self.finish_reason = piece.finish_reason.or(self.finish_reason.take());
        self.usage = piece.usage;
        Ok(())
    }

    /// Whether nothing is missing of a reply that ended.
    pub(crate) fn check(&self, wants_logprobs: bool) -> Result<(), Unsound> {
        let missing = |what: &str| Unsound(format!("the reply ended without {what}"));
        self.finish_reason.as_ref().ok_or_else(|| missing("a finish_reason"))?;
        let usage = self.usage.ok_or_else(|| missing("its usage"))?;
        let (ids, counted) = (self.ids.len(), usage.completion_tokens as usize);
        if ids != counted {
            return Err(Unsound(format!("{ids} token_ids came, the usage says {counted}")));
        }
        if wants_logprobs && self.logprobs.len() != ids {
            let found = self.logprobs.len();
            return Err(Unsound(format!("{found} logprobs came for {ids} tokens")));
        }
        Ok(())
    }

    /// Tokens of the prompt that were in the cache. Other requests decide this too.
    pub(crate) fn cached_tokens(&self) -> u32 {
        let details = self.usage.and_then(|usage| usage.prompt_tokens_details);
        details.map_or(0, |details| details.cached_tokens)
    }

    /// Its usage, without what other requests have to do with.
    pub(crate) fn own_usage(&self) -> Option<Usage> {
        self.usage.map(|usage| Usage { prompt_tokens_details: None, ..usage })
    }
}

impl Piece {
    pub(crate) fn of_chat(answer: ChatCompletion) -> Self {
        let mut piece = Self { usage: Some(answer.usage), ..Self::default() };
        for choice in answer.choices {
            piece.has_choice = true;
            piece.text += choice.message.content.as_deref().unwrap_or_default();
            piece.ids.extend(choice.token_ids.unwrap_or_default());
            piece.logprobs.extend(of_chat_logprobs(choice.logprobs));
            piece.finish_reason = choice.finish_reason;
        }
        piece
    }

    pub(crate) fn of_chat_chunk(chunk: ChatChunk) -> Self {
        let mut piece = Self { usage: chunk.usage.flatten(), ..Self::default() };
        for choice in chunk.choices {
            piece.has_choice = true;
            piece.text += choice.delta.content.as_deref().unwrap_or_default();
            piece.ids.extend(choice.token_ids.unwrap_or_default());
            piece.logprobs.extend(of_chat_logprobs(choice.logprobs));
            piece.finish_reason = choice.finish_reason;
        }
        piece
    }

    /// Of a whole answer, and of a part in a stream: they have one type.
    pub(crate) fn of_completion(answer: Completion) -> Self {
        let mut piece = Self { usage: answer.usage.flatten(), ..Self::default() };
        for choice in answer.choices {
            piece.has_choice = true;
            piece.text += &choice.text;
            piece.ids.extend(choice.token_ids.unwrap_or_default());
            piece.finish_reason = choice.finish_reason;
            let Some(logprobs) = choice.logprobs else { continue };
            let tops = logprobs.top_logprobs.into_iter().map(Option::unwrap_or_default);
            for (own, top) in logprobs.token_logprobs.into_iter().zip(tops) {
                let own = own.map(f32::to_bits);
                let top = top.into_iter().map(|(name, value)| (name, value.to_bits())).collect();
                piece.logprobs.push(LogprobBits { own, top });
            }
        }
        piece
    }
}

fn of_chat_logprobs(logprobs: Option<ChatLogprobs>) -> impl Iterator<Item = LogprobBits> {
    let tokens = logprobs.map(|logprobs| logprobs.content).unwrap_or_default();
    tokens.into_iter().map(|token| {
        let top = token.top_logprobs.into_iter();
        let top = top.map(|rival| (rival.token, rival.logprob.to_bits())).collect();
        LogprobBits { own: Some(token.logprob.to_bits()), top }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(ids: &[TokenId], finish: Option<&str>, usage: Option<u32>) -> Piece {
        Piece {
            has_choice: usage.is_none(),
            ids: ids.to_vec(),
            finish_reason: finish.map(str::to_owned),
            usage: usage.map(|n| Usage { completion_tokens: n, ..Usage::default() }),
            ..Piece::default()
        }
    }

    fn told(pieces: Vec<Piece>) -> String {
        let mut reply = Reply::default();
        let absorbed = pieces.into_iter().try_for_each(|piece| reply.absorb(piece));
        absorbed
            .and_then(|()| reply.check(false))
            .map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn events_that_are_lost_or_come_twice_are_told() {
        let end = || piece(&[], Some("stop"), None);
        let usage = |n| piece(&[], None, Some(n));
        assert_eq!(told(vec![piece(&[1], None, None), end(), usage(1)]), "");
        for (pieces, word) in [
            (vec![piece(&[1], None, None), usage(1)], "before the finish_reason"),
            (vec![piece(&[1], None, None), end()], "without its usage"),
            (vec![piece(&[1], None, None)], "without a finish_reason"),
            (vec![end(), end()], "after its finish_reason"),
            (vec![end(), usage(0), usage(0)], "after the usage"),
            (vec![end(), usage(1)], "0 token_ids came, the usage says 1"),
            (vec![piece(&[1, 1], None, None), end(), usage(1)], "2 token_ids came"),
        ] {
            let message = told(pieces);
            assert!(message.contains(word), "{word}: {message}");
        }
    }

    #[test]
    fn each_token_wants_its_logprob() {
        let mut reply = Reply::default();
        reply.absorb(Piece { has_choice: true, ..piece(&[1], Some("stop"), Some(1)) }).unwrap();
        assert!(reply.check(true).unwrap_err().to_string().contains("0 logprobs"));
    }
}
