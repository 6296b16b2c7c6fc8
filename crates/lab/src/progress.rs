//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar over `total` items on standard error. It is drawn on terminals only.
pub(crate) fn bar(total: usize, label: &'static str) -> ProgressBar {
    let template = "{msg:7} {wide_bar} {pos}/{len}  {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    ProgressBar::new(total as u64).with_message(label).with_style(style)
}
