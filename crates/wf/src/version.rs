//! The version, the commit it was built from, and the instruction set in use.

use std::sync::OnceLock;

/// Returns the version as shown by `wf --version`: `0.1.0 (commit 4d2bebf0c1d2, avx512vnni)`.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let isa = wf_kernels::best().isa();
        format!("{} ({}, {isa})", env!("CARGO_PKG_VERSION"), env!("WF_BUILD"))
    })
}
