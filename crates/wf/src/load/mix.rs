//! What is asked: prompts from a file, or stories of many lengths made up on the spot.

use anyhow::{Context, Result};

use super::args::{ApiChoice, MixArgs};
use super::ask::{Ask, Input};
use crate::bench::random::Random;
use crate::report::UsageError;

/// Streams of random numbers, one for each purpose, so that a change of one changes no other.
const ASKS: u64 = 0x61736b;
const STORIES: u64 = 0x73746f;

/// How many beginnings the made-up prompts have in common.
const BEGINNINGS: u64 = 4;

/// Words that a prompt has at most, and a beginning always.
const MOST_WORDS: usize = 256;
const BEGINNING_WORDS: usize = 64;

/// The most tokens a made-up word becomes.
const TOKENS_PER_WORD: usize = 3;

/// The different requests. `context` is what the server has room for, prompt and reply together.
pub(super) fn asks(args: &MixArgs, context: usize) -> Result<Vec<Ask>> {
    let Some(path) = &args.file else { return Ok(made_up(args, context)) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading prompts from {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let asks: Vec<Ask> = lines
        .enumerate()
        .map(|(i, line)| ask(args, i as u64, line.to_owned(), args.max_tokens))
        .collect();
    if asks.is_empty() {
        return Err(UsageError::new(format!("{}: no prompt in it", path.display())).into());
    }
    Ok(asks)
}

fn made_up(args: &MixArgs, context: usize) -> Vec<Ask> {
    let room = context.saturating_sub(args.max_tokens as usize) / TOKENS_PER_WORD;
    let most = room.clamp(4, MOST_WORDS);
    (0..args.distinct as u64)
        .map(|number| {
            let mut random = Random::new(args.seed ^ STORIES, number);
            // As many from 4 to 8 words as from 8 to 16, and so on.
            let octaves = u64::from(most.ilog2() - 1);
            let words = 4usize << (random.next() % octaves);
            let words = words + (random.next() % words as u64) as usize;
            let mut text = String::new();
            if random.next().is_multiple_of(2) && most > 2 * BEGINNING_WORDS {
                let beginning = number % BEGINNINGS;
                text = story(&mut Random::new(args.seed, beginning), BEGINNING_WORDS) + " ";
            }
            text += &story(&mut random, words.min(most - text.split(' ').count().min(most / 2)));
            let least = args.max_tokens.div_ceil(4);
            let span = u64::from(args.max_tokens - least + 1);
            let max_tokens = least + (random.next() % span) as u32;
            ask(args, number, text, max_tokens)
        })
        .collect()
}

/// The request about `text`, by what chance decides for its number.
fn ask(args: &MixArgs, number: u64, text: String, max_tokens: u32) -> Ask {
    let mut random = Random::new(args.seed ^ ASKS, number);
    let is_chat = match args.api {
        ApiChoice::Chat => true,
        ApiChoice::Completions => false,
        ApiChoice::Mixed => random.next().is_multiple_of(2),
    };
    let input = if is_chat { Input::Chat(text) } else { Input::Text(text) };
    let is_seeded = share(&mut random) < args.share_seeded;
    // Seeds of 53 bits survive programs that keep every number as a double.
    let seed = is_seeded.then(|| (random.next() >> 11) as i64);
    Ask { input, max_tokens, seed, logprobs: args.logprobs, cache_salt: None }
}

/// A number from 0 to 1, without 1.
pub(super) fn share(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// A story of that many words.
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

    fn args() -> MixArgs {
        MixArgs {
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

    fn text(ask: &Ask) -> &str {
        match &ask.input {
            Input::Chat(text) | Input::Text(text) => text,
            Input::Ids(_) => panic!("a text"),
        }
    }

    #[test]
    fn made_up_prompts_differ_in_everything() {
        let asks = asks(&args(), 2048).unwrap();
        let texts: HashSet<&str> = asks.iter().map(text).collect();
        assert!(texts.len() > 190, "{} different texts", texts.len());
        let words: Vec<usize> = asks.iter().map(|ask| text(ask).split(' ').count()).collect();
        assert!(words.iter().any(|&n| n < 8) && words.iter().any(|&n| n > 200), "{words:?}");
        assert!(words.iter().all(|&n| n <= MOST_WORDS));
        let beginnings: HashSet<String> = asks
            .iter()
            .map(|ask| text(ask).split(' ').take(BEGINNING_WORDS).collect::<Vec<_>>().join(" "))
            .collect();
        assert!(beginnings.len() < 150, "{} beginnings", beginnings.len());
        let chats = asks.iter().filter(|ask| matches!(ask.input, Input::Chat(_))).count();
        let seeded = asks.iter().filter(|ask| ask.seed.is_some()).count();
        assert!((60..140).contains(&chats) && (60..140).contains(&seeded), "{chats} {seeded}");
        assert!(asks.iter().all(|ask| (8..=32).contains(&ask.max_tokens)));
    }

    #[test]
    fn the_seed_alone_decides() {
        let of = |seed| asks(&MixArgs { seed, ..args() }, 2048).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn prompts_fit_a_small_context() {
        let asks = asks(&args(), 128).unwrap();
        assert!(asks.iter().all(|ask| text(ask).split(' ').count() <= 32));
    }
}
