//! The cases of a benchmark, and their time limits.

use std::time::Duration;

use super::args::BenchArgs;
use crate::stats::Repeats;

/// Length of the prompt that is compared with another program.
pub(super) const COMPARED_PROMPT: usize = 128;

/// Numbers of threads to measure.
#[derive(Clone, Copy, Debug)]
pub(super) enum ThreadCounts {
    /// The maximum alone.
    All,
    OneAndAll,
    /// Powers of two below the maximum, and the maximum.
    PowersOfTwo,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) contexts: Vec<usize>,
    pub(super) prompts: Vec<usize>,
    /// Maximum prompt length measured on fewer threads too.
    pub(super) max_prompt_on_fewer_threads: usize,
    pub(super) sequences: Vec<usize>,
    /// Number of sequences measured on fewer threads too.
    pub(super) sequences_on_fewer_threads: usize,
    pub(super) thread_counts: ThreadCounts,
    /// Restricts the run to whole passes: no parts, kernels and sampling.
    pub(super) passes_only: bool,
    /// Number of turns of a comparison with another program, or of ways to sample.
    pub(super) turns: usize,
    /// Number of tokens of a turn of sampling.
    pub(super) sampled_tokens: usize,
    pub(super) min_positions: usize,
    /// True if random weights are run at positions that their shape does not allow.
    pub(super) beyond_context: bool,
    /// Repeats of passes of the network.
    pub(super) passes: Repeats,
    /// Repeats of single kernels.
    pub(super) kernels: Repeats,
    /// Restricts kernels to the largest matrix.
    pub(super) largest_matrix_only: bool,
    /// Repeats of the limits of the machine.
    pub(super) limits: Repeats,
    /// Minimum size of the buffer that bandwidth is measured on.
    pub(super) stream_bytes: usize,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> Self {
        let mut plan = match args {
            BenchArgs { smoke: true, .. } => Self::smoke(),
            BenchArgs { quick: true, .. } => Self::quick(),
            _ => Self::full(),
        };
        plan.narrow(args);
        plan
    }

    /// Returns the cases of a run that takes a few minutes.
    fn full() -> Self {
        Self {
            contexts: vec![0, 512, 4096],
            prompts: vec![32, 128, 512, 2048],
            max_prompt_on_fewer_threads: 512,
            sequences: vec![1, 2, 4, 8, 16, 32],
            sequences_on_fewer_threads: 16,
            thread_counts: ThreadCounts::PowersOfTwo,
            passes_only: false,
            turns: 5,
            sampled_tokens: 24,
            min_positions: 0,
            beyond_context: false,
            passes: Repeats { max: 25, budget: Duration::from_secs(4) },
            kernels: Repeats { max: 200, budget: Duration::from_millis(250) },
            largest_matrix_only: false,
            limits: Repeats { max: 50, budget: Duration::from_secs(1) },
            stream_bytes: 256 << 20,
        }
    }

    /// Returns the cases of a run that takes less than a minute.
    fn quick() -> Self {
        Self {
            contexts: vec![0, 512],
            prompts: vec![32, 128],
            max_prompt_on_fewer_threads: 32,
            sequences: vec![1, 4, 16],
            thread_counts: ThreadCounts::OneAndAll,
            turns: 3,
            sampled_tokens: 12,
            passes: Repeats { max: 9, budget: Duration::from_millis(1500) },
            kernels: Repeats { max: 50, budget: Duration::from_millis(100) },
            largest_matrix_only: true,
            limits: Repeats { max: 20, budget: Duration::from_millis(500) },
            ..Self::full()
        }
    }

    /// Returns the smallest cases, to test that everything runs.
    fn smoke() -> Self {
        let once = Repeats { max: 2, budget: Duration::from_millis(20) };
        Self {
            contexts: vec![0, 40],
            prompts: vec![8, 48],
            max_prompt_on_fewer_threads: 8,
            sequences: vec![1, 2],
            sequences_on_fewer_threads: 2,
            turns: 1,
            sampled_tokens: 2,
            passes: once,
            kernels: once,
            largest_matrix_only: true,
            limits: once,
            stream_bytes: 1 << 20,
            ..Self::full()
        }
    }

    fn narrow(&mut self, args: &BenchArgs) {
        if args.brief {
            (self.thread_counts, self.passes_only) = (ThreadCounts::All, true);
        }
        if args.compare.is_some() {
            self.min_positions = COMPARED_PROMPT + 1;
        }
        if let Some(contexts) = &args.contexts {
            self.contexts.clone_from(contexts);
        }
        if let Some(prompts) = &args.prompts {
            self.prompts.clone_from(prompts);
            self.max_prompt_on_fewer_threads = usize::MAX;
        }
        if let Some(sequences) = &args.sequences {
            self.sequences.clone_from(sequences);
            self.sequences_on_fewer_threads = sequences.iter().copied().max().unwrap_or(0);
        }
    }

    /// Restricts the plan to decoding at `contexts`, also beyond the context of a synthetic shape.
    pub(super) fn measure_contexts(&mut self, contexts: &[usize]) {
        self.contexts = contexts.to_vec();
        self.beyond_context = true;
        (self.prompts, self.sequences) = (Vec::new(), Vec::new());
    }

    /// Returns the numbers of threads to measure, the last of which is `max`.
    pub(super) fn thread_counts(&self, max: usize) -> Vec<usize> {
        let powers = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < max);
        let count = match self.thread_counts {
            ThreadCounts::All => 0,
            ThreadCounts::OneAndAll => 1,
            ThreadCounts::PowersOfTwo => usize::MAX,
        };
        powers.take(count).chain([max]).collect()
    }

    /// Returns the maximum number of positions of a sequence.
    pub(super) fn positions(&self) -> usize {
        let decoded = self.contexts.iter().max().map_or(0, |context| context + self.passes.max + 1);
        let prompt = self.prompts.iter().max().copied().unwrap_or(0);
        decoded.max(prompt).max(self.min_positions)
    }

    pub(super) fn max_sequences(&self) -> usize {
        self.sequences.iter().max().copied().unwrap_or(1)
    }

    /// Removes the cases that do not fit into `positions` positions and `pages` pages. Returns their
    /// descriptions.
    pub(super) fn trim(&mut self, positions: usize, pages: usize) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut keep = |cases: &mut Vec<usize>, what: &str, fits: &dyn Fn(usize) -> bool| {
            let removed = cases.extract_if(.., |case| !fits(*case));
            left_out.extend(removed.map(|case| format!("{what} {case}")));
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
    fn thread_counts_double_and_end_with_all() {
        assert_eq!(Plan::full().thread_counts(1), [1]);
        assert_eq!(Plan::full().thread_counts(2), [1, 2]);
        assert_eq!(Plan::full().thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(Plan::full().thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn a_short_context_removes_long_cases() {
        let mut plan = Plan::full();
        let left_out = plan.trim(512, 16);
        assert_eq!(plan.contexts, [0]);
        assert_eq!(plan.prompts, [32, 128, 512]);
        assert_eq!(plan.sequences, [1, 2, 4, 8, 16]);
        assert_eq!(left_out.len(), 4, "{left_out:?}");
        assert!(left_out.contains(&"prefill of 2048".to_owned()), "{left_out:?}");
    }

    #[test]
    fn a_quick_run_measures_one_thread_and_all() {
        assert_eq!(Plan::full().thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(Plan::quick().thread_counts(6), [1, 6]);
        assert_eq!(Plan::quick().thread_counts(1), [1]);
    }

    #[test]
    fn a_brief_run_measures_all_threads_only() {
        let plan = Plan { thread_counts: ThreadCounts::All, ..Plan::full() };
        assert_eq!(plan.thread_counts(6), [6]);
    }

    #[test]
    fn positions_cover_all_cases() {
        for mut plan in [Plan::full(), Plan::quick(), Plan::smoke()] {
            let positions = plan.positions();
            assert_eq!(plan.trim(positions, plan.max_sequences()), Vec::<String>::new());
        }
    }
}
