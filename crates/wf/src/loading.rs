//! How far a model is loaded, for those who wait long enough to wonder.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use wf_model::Loading;

use crate::convert::bar;

/// What takes less needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// A bar on standard error that comes only when loading takes a while. Where that is no terminal,
/// nothing is drawn.
pub(crate) struct Bar {
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), bar: None }
    }

    pub(crate) fn show(&mut self, loading: Loading) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar::bytes("loading", loading.total));
        bar.set_position(loading.done);
    }

    /// Leaves nothing on the screen.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_only_when_loading_takes_a_while() {
        let loading = Loading { done: 5, total: 10 };
        let mut quick = Bar { since: Instant::now() + PATIENCE, bar: None };
        quick.show(loading);
        assert!(quick.bar.is_none());
        let mut slow = Bar { since: Instant::now().checked_sub(2 * PATIENCE).unwrap(), bar: None };
        slow.show(loading);
        let bar = slow.bar.as_ref().unwrap();
        assert_eq!((bar.position(), bar.length()), (5, Some(10)));
        slow.finish();
    }
}
