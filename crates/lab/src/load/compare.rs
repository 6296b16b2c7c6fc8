//! Compares a response with that of the same request sent alone.

use serde::Serialize;

use super::response::Response;

/// The first difference between two responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `token_ids`, `logprobs`, `text`, `finish_reason` or `usage`.
    pub(crate) what: &'static str,
    /// Index of the first token that differs.
    pub(crate) at: Option<usize>,
    pub(crate) alone: String,
    pub(crate) under_load: String,
}

/// Returns the first difference between `alone` and `found`.
pub(crate) fn difference(alone: &Response, found: &Response) -> Option<Difference> {
    let ids_at = first_difference(&alone.ids, &found.ids);
    let logprobs_at = first_difference(&alone.logprobs, &found.logprobs);
    let fields = |response: &Response| {
        [
            ("token_ids", Some(ids_at), format!("{:?}", response.ids)),
            ("logprobs", Some(logprobs_at), format!("{:x?}", response.logprobs.get(logprobs_at))),
            ("text", None, format!("{:?}", response.text)),
            ("finish_reason", None, format!("{:?}", response.finish_reason)),
            ("usage", None, format!("{:?}", response.own_usage())),
        ]
    };
    let mut pairs = fields(alone).into_iter().zip(fields(found));
    let ((what, at, alone), (_, _, under_load)) = pairs.find(|(alone, found)| alone != found)?;
    Some(Difference { what, at, alone, under_load })
}

/// Returns the first difference between an incomplete response and the start of `alone`.
pub(crate) fn difference_of_prefix(alone: &Response, found: &Response) -> Option<Difference> {
    let is_prefix = alone.ids.starts_with(&found.ids)
        && alone.logprobs.starts_with(&found.logprobs)
        && alone.text.starts_with(&found.text);
    let mut as_far = alone.clone();
    as_far.ids.truncate(found.ids.len());
    as_far.logprobs.truncate(found.logprobs.len());
    if is_prefix { None } else { difference(&as_far, found) }
}

fn first_difference<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other);
    same.count()
}

#[cfg(test)]
mod tests {
    use wf_api::wire::{PromptTokensDetails, Usage};

    use super::super::response::LogprobBits;
    use super::*;

    fn response() -> Response {
        Response {
            ids: vec![1, 2, 3],
            logprobs: vec![LogprobBits { own: Some(7), top: vec![("a".to_owned(), 9)] }],
            text: "abc".to_owned(),
            finish_reason: Some("stop".to_owned()),
            usage: Some(Usage { completion_tokens: 3, ..Usage::default() }),
        }
    }

    #[test]
    fn every_field_is_compared() {
        assert_eq!(difference(&response(), &response()), None);
        type Change = fn(&mut Response);
        let changes: [(&str, Change); 7] = [
            ("token_ids", |response| response.ids[1] = 9),
            ("token_ids", |response| response.ids.truncate(2)),
            ("logprobs", |response| response.logprobs[0].own = Some(8)),
            ("logprobs", |response| response.logprobs[0].top[0].1 = 8),
            ("text", |response| response.text.push('d')),
            ("finish_reason", |response| response.finish_reason = Some("length".to_owned())),
            ("usage", |response| response.usage = Some(Usage::default())),
        ];
        for (what, change) in changes {
            let mut other = response();
            change(&mut other);
            assert_eq!(difference(&response(), &other).map(|found| found.what), Some(what));
        }
    }

    #[test]
    fn cached_tokens_are_not_compared() {
        let mut other = response();
        let details = PromptTokensDetails { cached_tokens: 96 };
        other.usage = other.usage.map(|u| Usage { prompt_tokens_details: Some(details), ..u });
        assert_eq!(difference(&response(), &other), None);
        assert_eq!(other.cached_tokens(), 96);
    }

    #[test]
    fn an_incomplete_response_must_be_a_prefix() {
        let mut part = Response { ids: vec![1, 2], text: "ab".to_owned(), ..Response::default() };
        assert_eq!(difference_of_prefix(&response(), &part), None);
        part.ids[1] = 7;
        let found = difference_of_prefix(&response(), &part).unwrap();
        assert_eq!((found.what, found.at), ("token_ids", Some(1)));
        part.ids[1] = 2;
        part.text = "ax".to_owned();
        assert_eq!(difference_of_prefix(&response(), &part).unwrap().what, "text");
    }
}
