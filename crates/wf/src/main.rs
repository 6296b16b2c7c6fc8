//! The program `wf`. Its code is in the library of the same name.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wf::main()
}
