//! Writing of a conversion.

use std::path::Path;

use wf_formats::{ModelFile, Staged, Target};

use crate::progress;

/// Writes a conversion to a temporary file, with a progress bar.
pub(crate) fn stage(
    source: &ModelFile,
    target: &Target,
    out: &Path,
) -> Result<Staged, wf_formats::Error> {
    let bar = progress::bytes("converting", source.tensors().iter().map(|t| t.size).sum());
    let staged = target.stage(source, out, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    staged
}
