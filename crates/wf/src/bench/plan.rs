//! What is measured, and how long.

use std::time::Duration;

use super::args::BenchArgs;
use super::compare;
use super::limits;
use super::stats::Repeats;

/// The cases of one run. Those that a model's context has no room for are left out.
#[derive(Debug)]
pub(super) struct Plan {
    /// Tokens before the one that is decoded.
    pub(super) contexts: Vec<usize>,
    /// Tokens of a prompt.
    pub(super) prompts: Vec<usize>,
    /// The longest prompt that is measured on fewer threads too.
    pub(super) longest_on_fewer_threads: usize,
    /// Sequences decoded together.
    pub(super) sequences: Vec<usize>,
    /// Those of them that are measured on fewer threads too.
    pub(super) sequences_on_fewer_threads: usize,
    /// Whether numbers of threads between one and all are looked at.
    pub(super) every_thread_count: bool,
    /// Turns of a comparison with another program.
    pub(super) turns: usize,
    /// Positions to have room for, whatever the cases need.
    pub(super) least_positions: usize,
    /// For passes of the network.
    pub(super) passes: Repeats,
    /// For kernels on their own.
    pub(super) kernels: Repeats,
    /// Whether kernels are measured on the largest matrix only.
    pub(super) largest_matrix_only: bool,
    /// For the machine's own limits.
    pub(super) limits: Repeats,
    /// The least memory the bandwidth is measured on.
    pub(super) stream_bytes: usize,
}

impl Plan {
    /// What a user with a few minutes wants to know.
    pub(super) fn full() -> Self {
        Self {
            contexts: vec![0, 512, 2048],
            prompts: vec![32, 128, 512, 2048],
            longest_on_fewer_threads: 128,
            sequences: vec![1, 2, 4, 8, 16, 32],
            sequences_on_fewer_threads: 16,
            every_thread_count: true,
            turns: 5,
            least_positions: 0,
            passes: Repeats { most: 25, budget: Duration::from_secs(4) },
            kernels: Repeats { most: 200, budget: Duration::from_millis(250) },
            largest_matrix_only: false,
            limits: Repeats { most: 50, budget: Duration::from_secs(1) },
            stream_bytes: 256 << 20,
        }
    }

    /// The same in under a minute.
    pub(super) fn quick() -> Self {
        Self {
            contexts: vec![0, 512],
            prompts: vec![32, 128],
            longest_on_fewer_threads: 32,
            sequences: vec![1, 4, 16],
            every_thread_count: false,
            turns: 3,
            passes: Repeats { most: 9, budget: Duration::from_millis(1500) },
            kernels: Repeats { most: 50, budget: Duration::from_millis(100) },
            largest_matrix_only: true,
            limits: Repeats { most: 20, budget: Duration::from_millis(500) },
            ..Self::full()
        }
    }

    /// Everything once, as small as it gets: numbers without meaning.
    pub(super) fn smoke() -> Self {
        let once = Repeats { most: 2, budget: Duration::from_millis(20) };
        Self {
            contexts: vec![0, 40],
            prompts: vec![8, 48],
            longest_on_fewer_threads: 8,
            sequences: vec![1, 2],
            sequences_on_fewer_threads: 2,
            every_thread_count: true,
            turns: 1,
            least_positions: 0,
            passes: once,
            kernels: once,
            largest_matrix_only: true,
            limits: once,
            stream_bytes: 1 << 20,
        }
    }

    /// The cases that `args` name, where they name any, on every number of threads.
    pub(super) fn narrow(&mut self, args: &BenchArgs) {
        if args.compare.is_some() {
            self.least_positions = compare::POSITIONS;
        }
        if let Some(contexts) = &args.contexts {
            self.contexts.clone_from(contexts);
        }
        if let Some(prompts) = &args.prompts {
            self.prompts.clone_from(prompts);
            self.longest_on_fewer_threads = usize::MAX;
        }
        if let Some(sequences) = &args.sequences {
            self.sequences.clone_from(sequences);
            self.sequences_on_fewer_threads = sequences.iter().copied().max().unwrap_or(0);
        }
    }

    /// The numbers of threads to look at, of which the last is `most`.
    pub(super) fn thread_counts(&self, most: usize) -> Vec<usize> {
        let counts = limits::thread_counts(most);
        if self.every_thread_count || most == 1 { counts } else { vec![1, most] }
    }

    /// Most positions one sequence needs.
    pub(super) fn positions(&self) -> usize {
        let decoded =
            self.contexts.iter().max().map_or(0, |context| context + self.passes.most + 1);
        let prompt = self.prompts.iter().max().copied().unwrap_or(0);
        decoded.max(prompt).max(self.least_positions)
    }

    /// Most sequences at once.
    pub(super) fn most_sequences(&self) -> usize {
        self.sequences.iter().max().copied().unwrap_or(1)
    }

    /// Leaves out what does not fit into `positions` positions and `pages` pages, and says what.
    pub(super) fn trim(&mut self, positions: usize, pages: usize) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut keep = |cases: &mut Vec<usize>, what: &str, fits: &dyn Fn(usize) -> bool| {
            let gone = cases.extract_if(.., |case| !fits(*case));
            left_out.extend(gone.map(|case| format!("{what} {case}")));
        };
        keep(&mut self.contexts, "decode at context", &|context| context + 1 < positions);
        keep(&mut self.prompts, "prefill of", &|prompt| prompt <= positions);
        keep(&mut self.sequences, "sequences:", &|sequences| sequences <= pages);
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_context_leaves_out_long_cases_and_says_so() {
        let mut plan = Plan::full();
        let left_out = plan.trim(512, 16);
        assert_eq!(plan.contexts, [0]);
        assert_eq!(plan.prompts, [32, 128, 512]);
        assert_eq!(plan.sequences, [1, 2, 4, 8, 16]);
        assert_eq!(left_out.len(), 4, "{left_out:?}");
        assert!(left_out.contains(&"prefill of 2048".to_owned()), "{left_out:?}");
    }

    #[test]
    fn a_quick_run_looks_at_one_thread_and_at_all() {
        assert_eq!(Plan::full().thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(Plan::quick().thread_counts(6), [1, 6]);
        assert_eq!(Plan::quick().thread_counts(1), [1]);
    }

    #[test]
    fn a_plan_asks_for_room_for_all_of_its_cases() {
        for mut plan in [Plan::full(), Plan::quick(), Plan::smoke()] {
            let positions = plan.positions();
            assert_eq!(plan.trim(positions, plan.most_sequences()), Vec::<String>::new());
        }
    }
}
