//! What is measured, and how long.

use std::time::Duration;

use super::stats::Repeats;

/// The cases of one run. Those that a model's context has no room for are left out.
#[derive(Debug)]
pub(super) struct Plan {
    /// Tokens before the one that is decoded.
    pub(super) contexts: Vec<usize>,
    /// Tokens of a prompt.
    pub(super) prompts: Vec<usize>,
    /// The longest prompt that is measured on one thread too.
    pub(super) longest_on_one_thread: usize,
    /// Sequences decoded together.
    pub(super) sequences: Vec<usize>,
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
            longest_on_one_thread: 128,
            sequences: vec![1, 2, 4, 8, 16, 32],
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
            longest_on_one_thread: 32,
            sequences: vec![1, 4, 16],
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
            longest_on_one_thread: 8,
            sequences: vec![1, 2],
            passes: once,
            kernels: once,
            largest_matrix_only: true,
            limits: once,
            stream_bytes: 1 << 20,
        }
    }

    /// Most positions one sequence needs.
    pub(super) fn positions(&self) -> usize {
        let decoded =
            self.contexts.iter().max().map_or(0, |context| context + self.passes.most + 1);
        let prompt = self.prompts.iter().max().copied().unwrap_or(0);
        decoded.max(prompt)
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
    fn a_plan_asks_for_room_for_all_of_its_cases() {
        for mut plan in [Plan::full(), Plan::quick(), Plan::smoke()] {
            let positions = plan.positions();
            assert_eq!(plan.trim(positions, plan.most_sequences()), Vec::<String>::new());
        }
    }
}
