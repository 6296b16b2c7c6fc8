//! Tests of text in one program.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod common;
mod golden;
mod hostile_templates;
mod injection;
mod linear;
mod oracle;
mod rejections;
mod templates;
mod tools;
