//! The schedule of a load test: when each request is sent, whether it is streamed, and its fault.

use std::time::Duration;

use wf_api::http::{Faults, ReadFault};
use wf_kernels::math;

use super::args::{FaultArgs, LoadArgs};
use super::request::RequestSpec;
use super::workload::uniform;
use crate::random::Random;

/// Stream of random numbers for plans.
const JOBS: u64 = 0x6a6f62;

/// Approximate size of a response: its head, and each token.
const HEAD_BYTES: u64 = 400;
const STREAMED_BYTES_PER_TOKEN: u64 = 350;
const WHOLE_BYTES_PER_TOKEN: u64 = 20;

/// Clients that disconnect at a random time do so within this.
const MAX_PATIENCE_MS: u64 = 500;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    /// Index among the distinct requests.
    pub(super) spec: usize,
    pub(super) streamed: bool,
    pub(super) fault: Fault,
    /// Time after the start at which it is sent, with a fixed rate.
    pub(super) at: Duration,
}

/// A misbehaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// The client disconnects after this long.
    DisconnectAfter(Duration),
    /// The client disconnects at this byte of the response.
    DisconnectAt(u64),
    /// The client reads slowly, or pauses.
    SlowReader(Faults),
    /// The client sends slowly.
    SlowSender(Faults),
}

impl Fault {
    /// Returns the faults of the connection.
    pub(super) fn faults(self) -> Faults {
        match self {
            Self::DisconnectAt(byte) => {
                Faults { read_fault: Some((byte, ReadFault::Drop)), send_pause: None }
            }
            Self::SlowReader(faults) | Self::SlowSender(faults) => faults,
            Self::None | Self::DisconnectAfter(_) => Faults::default(),
        }
    }

    pub(super) fn disconnects(self) -> bool {
        matches!(self, Self::DisconnectAfter(_) | Self::DisconnectAt(_))
    }

    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::SlowReader(_) | Self::SlowSender(_))
    }
}

/// Returns the requests in the order they are sent.
pub(super) fn jobs(args: &LoadArgs, specs: &[RequestSpec]) -> Vec<Job> {
    let mut at = Duration::ZERO;
    let count = args.hold.unwrap_or(args.requests);
    (0..count)
        .map(|number| {
            let mut random = Random::new(args.workload.seed ^ JOBS, number as u64);
            let spec = number % specs.len();
            let streamed =
                uniform(&mut random) < args.workload.share_streamed || args.hold.is_some();
            let fault = fault(&args.faults, &mut random, &specs[spec], streamed);
            if let Some(rate) = args.rate {
                // Independent arrivals have exponentially distributed gaps.
                let gap = -math::ln(1.0 - uniform(&mut random)) / rate;
                at += Duration::from_secs_f64(gap);
            }
            Job { spec, streamed, fault, at }
        })
        .collect()
}

fn fault(args: &FaultArgs, random: &mut Random, spec: &RequestSpec, streamed: bool) -> Fault {
    let per_token = if streamed { STREAMED_BYTES_PER_TOKEN } else { WHOLE_BYTES_PER_TOKEN };
    let byte = random.next() % (HEAD_BYTES + per_token * u64::from(spec.max_tokens));
    let after = Duration::from_millis(random.next() % MAX_PATIENCE_MS);
    let by_clock = random.next().is_multiple_of(2);
    let pause = Duration::from_secs_f64(1.0 / args.dribble_rate);
    let slow = |read_fault| {
        Fault::SlowReader(Faults { read_fault: Some((byte, read_fault)), send_pause: None })
    };
    let mut left = uniform(random);
    for (part, fault) in [
        (
            args.cancel,
            if by_clock { Fault::DisconnectAfter(after) } else { Fault::DisconnectAt(byte) },
        ),
        (args.stall, slow(ReadFault::Stall(Duration::from_secs_f64(args.stall_for)))),
        (args.dribble, slow(ReadFault::Dribble(pause))),
        (args.slow_send, Fault::SlowSender(Faults { read_fault: None, send_pause: Some(pause) })),
    ] {
        if left < part {
            return fault;
        }
        left -= part;
    }
    Fault::None
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
        jobs(&args, &[RequestSpec::ids(vec![1], 32), RequestSpec::ids(vec![2], 16)])
    }

    fn count(jobs: &[Job], of: impl Fn(&Job) -> bool) -> usize {
        jobs.iter().filter(|job| of(job)).count()
    }

    #[test]
    fn fractions_are_respected() {
        let jobs = plan(&["--cancel", "0.5", "--stall", "0.2", "--share-streamed", "0.3"]);
        assert!((450..550).contains(&count(&jobs, |job| job.fault.disconnects())));
        assert!((160..240).contains(&count(&jobs, |job| job.fault.is_slow())));
        assert!((250..350).contains(&count(&jobs, |job| job.streamed)));
        assert_eq!(count(&jobs, |job| job.spec == 0), 500);
        let by_clock = count(&jobs, |job| matches!(job.fault, Fault::DisconnectAfter(_)));
        assert!((200..300).contains(&by_clock), "{by_clock}");
    }

    #[test]
    fn without_flags_there_are_no_faults_and_no_delays() {
        let jobs = plan(&[]);
        assert_eq!(count(&jobs, |job| job.fault != Fault::None || !job.at.is_zero()), 0);
    }

    #[test]
    fn the_rate_is_met_on_average() {
        let jobs = plan(&["--rate", "50"]);
        let last = jobs.last().unwrap().at.as_secs_f64();
        assert!((18.0..22.0).contains(&last), "{last}");
        assert!(jobs.is_sorted_by_key(|job| job.at));
    }

    #[test]
    fn plans_are_reproducible() {
        let flags = ["--cancel", "0.3", "--dribble", "0.3", "--slow-send", "0.3", "--rate", "9"];
        assert_eq!(plan(&flags), plan(&flags));
    }

    #[test]
    fn all_held_streams_are_streams() {
        let jobs = plan(&["--hold", "77", "--share-streamed", "0"]);
        assert_eq!((jobs.len(), count(&jobs, |job| job.streamed)), (77, 77));
    }
}
