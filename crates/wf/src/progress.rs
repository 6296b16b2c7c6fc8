//! Progress bars on standard error. Where that is not a terminal, nothing is drawn.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use wf_formats::{ModelFile, Staged, Target};
use wf_model::LoadProgress;

/// Loading that takes less time shows no bar.
const DELAY: Duration = Duration::from_millis(500);

/// Returns a bar over `total` bytes, with speed and remaining time.
pub(crate) fn bytes(label: &'static str, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:30}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(label)
}

/// Returns a bar over requests, of which some are done, with speed and remaining time.
pub(crate) fn requests(total: usize, done: usize) -> ProgressBar {
    let template = "requests [{bar:30}] {pos}/{len}  {per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let bar = ProgressBar::new(total as u64).with_style(style.progress_chars("=> "));
    bar.with_position(done as u64)
}

/// Writes a conversion to a temporary file, with a progress bar.
pub(crate) fn stage(
    source: &ModelFile,
    target: &Target,
    out: &Path,
) -> Result<Staged, wf_formats::Error> {
    let bar = bytes("converting", source.tensors().iter().map(|t| t.size).sum());
    let staged = target.stage(source, out, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    staged
}

/// A bar for the loading of a model, shown if it takes a while.
pub(crate) struct LoadingBar {
    since: Instant,
    bar: Option<ProgressBar>,
}

impl LoadingBar {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), bar: None }
    }

    pub(crate) fn update(&mut self, loading: LoadProgress) {
        if self.since.elapsed() < DELAY {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bytes("loading", loading.total));
        bar.set_position(loading.done);
    }

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
    fn the_loading_bar_is_shown_after_a_delay() {
        let loading = LoadProgress { done: 5, total: 10 };
        let mut fast = LoadingBar { since: Instant::now() + DELAY, bar: None };
        fast.update(loading);
        assert!(fast.bar.is_none());
        let since = Instant::now().checked_sub(2 * DELAY).unwrap();
        let mut slow = LoadingBar { since, bar: None };
        slow.update(loading);
        let bar = slow.bar.as_ref().unwrap();
        assert_eq!((bar.position(), bar.length()), (5, Some(10)));
        slow.finish();
    }
}
