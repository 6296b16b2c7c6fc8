//! How far it is: a bar with speed and time left, where someone watches.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over bytes on standard error. Where that is no terminal, nothing is drawn.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    let form = "{msg} [{bar:30}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(form).expect("the form is one of indicatif's");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(what)
}
