//! A reply beside the one that the same request got alone.

use serde::Serialize;

use super::reply::Reply;

/// The first thing in which two replies differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// `token_ids`, `logprobs`, `text`, `finish_reason` or `usage`.
    pub(crate) what: &'static str,
    /// The first token at which, if it is about tokens.
    pub(crate) at: Option<usize>,
    pub(crate) alone: String,
    pub(crate) under_load: String,
}

/// Where `found` differs from `alone`, if it does.
pub(crate) fn difference(alone: &Reply, found: &Reply) -> Option<Difference> {
    let differ = |what, at, alone: String, under_load: String| {
        Some(Difference { what, at, alone, under_load })
    };
    if alone.ids != found.ids {
        let at = first_difference(&alone.ids, &found.ids);
        return differ(
            "token_ids",
            Some(at),
            format!("{:?}", alone.ids),
            format!("{:?}", found.ids),
        );
    }
    if alone.logprobs != found.logprobs {
        let at = first_difference(&alone.logprobs, &found.logprobs);
        let show = |reply: &Reply| format!("{:x?}", reply.logprobs.get(at));
        return differ("logprobs", Some(at), show(alone), show(found));
    }
    let rest = |reply: &Reply| {
        [
            ("text", format!("{:?}", reply.text)),
            ("finish_reason", format!("{:?}", reply.finish_reason)),
            ("usage", format!("{:?}", reply.own_usage())),
        ]
    };
    let mut pairs = rest(alone).into_iter().zip(rest(found));
    let ((what, alone), (_, found)) = pairs.find(|(alone, found)| alone != found)?;
    differ(what, None, alone, found)
}

/// Where what came of a reply that was cut off is not the beginning of `alone`.
pub(crate) fn difference_of_beginning(alone: &Reply, found: &Reply) -> Option<Difference> {
    let begins = alone.ids.starts_with(&found.ids)
        && alone.logprobs.starts_with(&found.logprobs)
        && alone.text.starts_with(&found.text);
    let mut as_far = alone.clone();
    as_far.ids.truncate(found.ids.len());
    as_far.logprobs.truncate(found.logprobs.len());
    if begins { None } else { difference(&as_far, found) }
}

fn first_difference<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other);
    same.count()
}

#[cfg(test)]
mod tests {
    use wf_client::wire::{PromptTokensDetails, Usage};

    use super::super::reply::LogprobBits;
    use super::*;

    fn reply() -> Reply {
        Reply {
            ids: vec![1, 2, 3],
            logprobs: vec![LogprobBits { own: Some(7), top: vec![("a".to_owned(), 9)] }],
            text: "abc".to_owned(),
            finish_reason: Some("stop".to_owned()),
            usage: Some(Usage { completion_tokens: 3, ..Usage::default() }),
        }
    }

    #[test]
    fn every_part_counts() {
        assert_eq!(difference(&reply(), &reply()), None);
        type Change = fn(&mut Reply);
        let changes: [(&str, Change); 7] = [
            ("token_ids", |reply| reply.ids[1] = 9),
            ("token_ids", |reply| reply.ids.truncate(2)),
            ("logprobs", |reply| reply.logprobs[0].own = Some(8)),
            ("logprobs", |reply| reply.logprobs[0].top[0].1 = 8),
            ("text", |reply| reply.text.push('d')),
            ("finish_reason", |reply| reply.finish_reason = Some("length".to_owned())),
            ("usage", |reply| reply.usage = Some(Usage::default())),
        ];
        for (what, change) in changes {
            let mut other = reply();
            change(&mut other);
            assert_eq!(difference(&reply(), &other).map(|found| found.what), Some(what));
        }
    }

    #[test]
    fn what_the_cache_saved_does_not_count() {
        let mut other = reply();
        let details = PromptTokensDetails { cached_tokens: 96, cache_write_tokens: 4 };
        other.usage = other.usage.map(|u| Usage { prompt_tokens_details: Some(details), ..u });
        assert_eq!(difference(&reply(), &other), None);
        assert_eq!(other.cached_tokens(), 96);
    }

    #[test]
    fn what_was_cut_off_has_to_be_the_beginning() {
        let mut part = Reply { ids: vec![1, 2], text: "ab".to_owned(), ..Reply::default() };
        assert_eq!(difference_of_beginning(&reply(), &part), None);
        part.ids[1] = 7;
        let found = difference_of_beginning(&reply(), &part).unwrap();
        assert_eq!((found.what, found.at), ("token_ids", Some(1)));
        part.ids[1] = 2;
        part.text = "ax".to_owned();
        assert_eq!(difference_of_beginning(&reply(), &part).unwrap().what, "text");
    }
}
