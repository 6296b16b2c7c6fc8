//! The contents of requests: prompts from a file, or generated stories of many lengths.

use wf_api::wire::Prompt;

use super::args::{ApiChoice, WorkloadArgs};
use super::request::{Input, RequestSpec};
use crate::random::Random;

/// Streams of random numbers, one per purpose, so that a change of one leaves the others alone.
const SPECS: u64 = 0x61736b;
const STORIES: u64 = 0x73746f;

/// Number of shared prefixes of generated prompts.
const PREFIXES: u64 = 4;

/// Maximum number of words of a generated prompt.
const MAX_WORDS: usize = 256;
/// Number of words of a shared prefix.
const PREFIX_WORDS: usize = 64;

/// Maximum number of tokens of a generated word.
const TOKENS_PER_WORD: usize = 3;

/// Returns the distinct requests. `prompts` are used instead of generated ones; `context_len` is the
/// server's limit on prompt and completion together.
pub(super) fn specs(
    args: &WorkloadArgs,
    prompts: Option<&[String]>,
    context_len: usize,
) -> Vec<RequestSpec> {
    let Some(prompts) = prompts else { return generated(args, context_len) };
    let spec =
        |(i, prompt): (usize, &String)| spec(args, i as u64, prompt.clone(), args.max_tokens);
    prompts.iter().enumerate().map(spec).collect()
}

fn generated(args: &WorkloadArgs, context_len: usize) -> Vec<RequestSpec> {
    let free = context_len.saturating_sub(args.max_tokens as usize) / TOKENS_PER_WORD;
    let max = free.clamp(4, MAX_WORDS);
    (0..args.distinct as u64)
        .map(|number| {
            let mut random = Random::new(args.seed ^ STORIES, number);
            // Lengths are uniform on a logarithmic scale.
            let octaves = u64::from(max.ilog2() - 1);
            let words = 4usize << (random.next() % octaves);
            let words = words + (random.next() % words as u64) as usize;
            let mut text = String::new();
            if random.next().is_multiple_of(2) && max > 2 * PREFIX_WORDS {
                let prefix = number % PREFIXES;
                text = story(&mut Random::new(args.seed, prefix), PREFIX_WORDS) + " ";
            }
            text += &story(&mut random, words.min(max - text.split(' ').count().min(max / 2)));
            let min = args.max_tokens.div_ceil(4);
            let span = u64::from(args.max_tokens - min + 1);
            let max_tokens = min + (random.next() % span) as u32;
            spec(args, number, text, max_tokens)
        })
        .collect()
}

/// Returns request `number` about `text`, with randomly chosen settings.
fn spec(args: &WorkloadArgs, number: u64, text: String, max_tokens: u32) -> RequestSpec {
    let mut random = Random::new(args.seed ^ SPECS, number);
    let is_chat = match args.api {
        ApiChoice::Chat => true,
        ApiChoice::Completions => false,
        ApiChoice::Mixed => random.next().is_multiple_of(2),
    };
    let input = match is_chat {
        true => Input::Chat(text),
        false => Input::Completion(Prompt::Text(text)),
    };
    let is_seeded = uniform(&mut random) < args.share_seeded;
    // Seeds of 53 bits survive servers that keep every number as a double.
    let seed = is_seeded.then(|| (random.next() >> 11) as i64);
    RequestSpec { input, max_tokens, seed, logprobs: args.logprobs, cache_salt: None }
}

/// Returns a random number from 0 to 1, excluding 1.
pub(super) fn uniform(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a story with the given number of words.
pub(crate) fn story(random: &mut Random, words: usize) -> String {
    const PARTS: [&[&str]; 5] = [
        &["Once", "Then", "Later", "Soon", "Today", "Again"],
        &["Lily", "the dog", "Tom", "a bird", "the old man", "Anna", "a small dragon", "Ben"],
        &["saw", "found", "liked", "lost", "painted", "carried", "looked for"],
        &["a red ball", "the big tree", "a box", "the moon", "some cake", "two boats", "a secret"],
        &["near the river.", "in the garden.", "with a friend.", "at home.", "and smiled."],
    ];
    let mut story: Vec<&str> = Vec::with_capacity(words);
    while story.len() < words {
        for part in PARTS {
            story.extend(part[(random.next() % part.len() as u64) as usize].split(' '));
        }
    }
    story.truncate(words);
    story.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn args() -> WorkloadArgs {
        WorkloadArgs {
            file: None,
            distinct: 200,
            api: ApiChoice::Mixed,
            max_tokens: 32,
            share_streamed: 0.5,
            share_seeded: 0.5,
            logprobs: false,
            seed: 0,
        }
    }

    fn text(spec: &RequestSpec) -> &str {
        match &spec.input {
            Input::Chat(text) | Input::Completion(Prompt::Text(text)) => text,
            Input::Completion(_) => panic!("a text"),
        }
    }

    #[test]
    fn generated_prompts_vary() {
        let specs = specs(&args(), None, 2048);
        let texts: HashSet<&str> = specs.iter().map(text).collect();
        assert!(texts.len() > 190, "{} different texts", texts.len());
        let words: Vec<usize> = specs.iter().map(|spec| text(spec).split(' ').count()).collect();
        assert!(words.iter().any(|&n| n < 8) && words.iter().any(|&n| n > 200), "{words:?}");
        assert!(words.iter().all(|&n| n <= MAX_WORDS));
        let prefixes: HashSet<String> = specs
            .iter()
            .map(|spec| text(spec).split(' ').take(PREFIX_WORDS).collect::<Vec<_>>().join(" "))
            .collect();
        assert!(prefixes.len() < 150, "{} prefixes", prefixes.len());
        let chats = specs.iter().filter(|spec| matches!(spec.input, Input::Chat(_))).count();
        let seeded = specs.iter().filter(|spec| spec.seed.is_some()).count();
        assert!((60..140).contains(&chats) && (60..140).contains(&seeded), "{chats} {seeded}");
        assert!(specs.iter().all(|spec| (8..=32).contains(&spec.max_tokens)));
    }

    #[test]
    fn requests_depend_on_the_seed_alone() {
        let of = |seed| specs(&WorkloadArgs { seed, ..args() }, None, 2048);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn prompts_fit_a_small_context() {
        let specs = specs(&args(), None, 128);
        assert!(specs.iter().all(|spec| text(spec).split(' ').count() <= 32));
    }
}
