//! Which request goes when, streamed or not, and with what trouble: decided before the first is sent.

use std::time::Duration;

use wf_client::http::{Mishap, Pace};
use wf_kernels::math;

use super::args::{LoadArgs, TroubleArgs};
use super::ask::Ask;
use super::mix::share;
use crate::bench::random::Random;

/// The stream of random numbers for plans.
const JOBS: u64 = 0x6a6f62;

/// About how many bytes an answer has: its head, and what each token adds.
const HEAD_BYTES: u64 = 400;
const STREAMED_BYTES_PER_TOKEN: u64 = 350;
const WHOLE_BYTES_PER_TOKEN: u64 = 20;

/// Who hangs up by the clock does so within this.
const LONGEST_PATIENCE_MS: u64 = 500;

/// One request of the load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    /// Its place among the different requests.
    pub(super) ask: usize,
    pub(super) streamed: bool,
    pub(super) trouble: Trouble,
    /// When it is sent, after the start, if its rate decides that.
    pub(super) at: Duration,
}

/// What a client does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// It hangs up after this long.
    HangUpAfter(Duration),
    /// It hangs up at this byte of the answer.
    HangUpAt(u64),
    /// It reads slowly, or not for a while.
    SlowReader(Pace),
    /// It sends slowly.
    SlowSender(Pace),
}

impl Trouble {
    /// How the connection has to behave for it.
    pub(super) fn pace(self) -> Pace {
        match self {
            Self::HangUpAt(byte) => Pace { mishap: Some((byte, Mishap::Drop)), send_pause: None },
            Self::SlowReader(pace) | Self::SlowSender(pace) => pace,
            Self::None | Self::HangUpAfter(_) => Pace::default(),
        }
    }

    pub(super) fn hangs_up(self) -> bool {
        matches!(self, Self::HangUpAfter(_) | Self::HangUpAt(_))
    }

    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::SlowReader(_) | Self::SlowSender(_))
    }
}

/// The requests of the load, in the order they are sent.
pub(super) fn jobs(args: &LoadArgs, asks: &[Ask]) -> Vec<Job> {
    let mut at = Duration::ZERO;
    let count = args.hold.unwrap_or(args.requests);
    (0..count)
        .map(|number| {
            let mut random = Random::new(args.mix.seed ^ JOBS, number as u64);
            let ask = number % asks.len();
            let streamed = share(&mut random) < args.mix.share_streamed || args.hold.is_some();
            let trouble = trouble(&args.trouble, &mut random, &asks[ask], streamed);
            if let Some(rate) = args.rate {
                // Arrivals that know nothing of each other: the gaps between them are exponential.
                let gap = -math::ln(1.0 - share(&mut random)) / rate;
                at += Duration::from_secs_f64(gap);
            }
            Job { ask, streamed, trouble, at }
        })
        .collect()
}

fn trouble(args: &TroubleArgs, random: &mut Random, ask: &Ask, streamed: bool) -> Trouble {
    let per_token = if streamed { STREAMED_BYTES_PER_TOKEN } else { WHOLE_BYTES_PER_TOKEN };
    let byte = random.next() % (HEAD_BYTES + per_token * u64::from(ask.max_tokens));
    let after = Duration::from_millis(random.next() % LONGEST_PATIENCE_MS);
    let by_clock = random.next().is_multiple_of(2);
    let pause = Duration::from_secs_f64(1.0 / args.dribble_rate);
    let slow =
        |mishap| Trouble::SlowReader(Pace { mishap: Some((byte, mishap)), send_pause: None });
    let mut left = share(random);
    for (part, trouble) in [
        (args.cancel, if by_clock { Trouble::HangUpAfter(after) } else { Trouble::HangUpAt(byte) }),
        (args.stall, slow(Mishap::Stall(Duration::from_secs_f64(args.stall_for)))),
        (args.dribble, slow(Mishap::Dribble(pause))),
        (args.slow_send, Trouble::SlowSender(Pace { mishap: None, send_pause: Some(pause) })),
    ] {
        if left < part {
            return trouble;
        }
        left -= part;
    }
    Trouble::None
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    fn plan(flags: &[&str]) -> Vec<Job> {
        let words = ["load", "--requests", "1000"].iter().chain(flags);
        let args = Line::try_parse_from(words).unwrap_or_else(|e| panic!("{e}")).args;
        jobs(&args, &[Ask::ids(vec![1], 32), Ask::ids(vec![2], 16)])
    }

    fn count(jobs: &[Job], of: impl Fn(&Job) -> bool) -> usize {
        jobs.iter().filter(|job| of(job)).count()
    }

    #[test]
    fn shares_are_kept() {
        let jobs = plan(&["--cancel", "0.5", "--stall", "0.2", "--share-streamed", "0.3"]);
        assert!((450..550).contains(&count(&jobs, |job| job.trouble.hangs_up())));
        assert!((160..240).contains(&count(&jobs, |job| job.trouble.is_slow())));
        assert!((250..350).contains(&count(&jobs, |job| job.streamed)));
        assert_eq!(count(&jobs, |job| job.ask == 0), 500);
        let by_clock = count(&jobs, |job| matches!(job.trouble, Trouble::HangUpAfter(_)));
        assert!((200..300).contains(&by_clock), "{by_clock}");
    }

    #[test]
    fn without_flags_there_is_no_trouble_and_no_waiting() {
        let jobs = plan(&[]);
        assert_eq!(count(&jobs, |job| job.trouble != Trouble::None || !job.at.is_zero()), 0);
    }

    #[test]
    fn a_rate_is_kept_on_average() {
        let jobs = plan(&["--rate", "50"]);
        let last = jobs.last().unwrap().at.as_secs_f64();
        assert!((18.0..22.0).contains(&last), "{last}");
        assert!(jobs.is_sorted_by_key(|job| job.at));
    }

    #[test]
    fn a_plan_is_the_same_again() {
        let flags = ["--cancel", "0.3", "--dribble", "0.3", "--slow-send", "0.3", "--rate", "9"];
        assert_eq!(plan(&flags), plan(&flags));
    }

    #[test]
    fn all_held_streams_are_streams() {
        let jobs = plan(&["--hold", "77", "--share-streamed", "0"]);
        assert_eq!((jobs.len(), count(&jobs, |job| job.streamed)), (77, 77));
    }
}
