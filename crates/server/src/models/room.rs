//! The choice of models that leave memory for another one: a pure function, tested by examples.

/// A model in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    /// Index of the model.
    pub(super) at: usize,
    pub(super) memory_bytes: usize,
    /// True if no request uses it.
    pub(super) is_idle: bool,
    /// Later uses have larger numbers.
    pub(super) last_use: u64,
}

/// The next step to make room for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is room.
    Load,
    /// This idle model leaves now.
    Evict(usize),
    /// No model is idle: this one takes no new requests, and leaves after its last one.
    AwaitIdle(usize),
}

/// Returns the next step to load a model of `needed` bytes beside those in memory.
///
/// Idle models leave before any is waited for. A model that is larger than the limit is loaded alone.
pub(super) fn next_step(residents: &[Resident], needed: usize, max: Option<usize>) -> Step {
    let used = residents.iter().fold(0, |sum: usize, one| sum.saturating_add(one.memory_bytes));
    if residents.is_empty() || max.is_none_or(|max| used.saturating_add(needed) <= max) {
        return Step::Load;
    }
    let oldest = |idle: bool| {
        let some = residents.iter().filter(|one| one.is_idle == idle);
        some.min_by_key(|one| one.last_use).map(|one| one.at)
    };
    match (oldest(true), oldest(false)) {
        (Some(at), _) => Step::Evict(at),
        (None, Some(at)) => Step::AwaitIdle(at),
        (None, None) => Step::Load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(at: usize, memory_bytes: usize, is_idle: bool, last_use: u64) -> Resident {
        Resident { at, memory_bytes, is_idle, last_use }
    }

    #[test]
    fn a_model_that_fits_needs_no_room() {
        let others = [resident(0, 60, true, 1)];
        assert_eq!(next_step(&others, 40, Some(100)), Step::Load);
        assert_eq!(next_step(&others, 41, Some(100)), Step::Evict(0));
        assert_eq!(next_step(&others, usize::MAX, None), Step::Load);
    }

    #[test]
    fn the_least_recently_used_idle_model_leaves() {
        let others =
            [resident(0, 30, true, 5), resident(1, 30, false, 1), resident(2, 30, true, 3)];
        assert_eq!(next_step(&others, 50, Some(100)), Step::Evict(2));
    }

    #[test]
    fn models_in_use_are_waited_for_in_the_order_of_their_last_use() {
        let others = [resident(0, 50, false, 9), resident(1, 50, false, 4)];
        assert_eq!(next_step(&others, 10, Some(100)), Step::AwaitIdle(1));
    }

    #[test]
    fn a_model_larger_than_the_limit_is_loaded_alone() {
        assert_eq!(next_step(&[], 200, Some(100)), Step::Load);
        assert_eq!(next_step(&[resident(3, 1, true, 0)], 200, Some(100)), Step::Evict(3));
    }
}
