//! The C library: models in the process of the caller.
//!
//! `include/wrinklefree.h` has the contract of each function. This file converts pointers; `model` does the rest, through
//! [`wf::local`], so that options and messages are those of the command line. A panic becomes an error.

#![deny(unsafe_op_in_unsafe_fn)]

mod model;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;

use wf::local::{LocalModel, read_messages};
use wf_engine::PromptInput;

/// Takes a piece of an answer. A result other than zero cancels the rest.
type OnText = Option<unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int>;

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn wf_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Opens a model.
///
/// # Safety
///
/// `model` and `options` are null or strings, and `error` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_open(
    model: *const c_char,
    options: *const c_char,
    error: *mut *mut c_char,
) -> *mut LocalModel {
    let open = || {
        // SAFETY: the caller passes strings.
        let (model, options) = unsafe { (text(model, "model")?, text(options, "options")?) };
        let keywords = model::options(options)?;
        LocalModel::open(model.map(Path::new), &keywords).map(Box::new).map_err(model::message)
    };
    // SAFETY: the caller's `error` can be written to.
    unsafe { report(open, error) }.map_or(ptr::null_mut(), Box::into_raw)
}

/// Closes a model.
///
/// # Safety
///
/// `model` is null, or comes from [`wf_open`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_close(model: *mut LocalModel) {
    if !model.is_null() {
        // SAFETY: it was a box.
        drop(unsafe { Box::from_raw(model) });
    }
}

/// Continues a prompt.
///
/// # Safety
///
/// `model` comes from [`wf_open`], `prompt` is a string, `options` is null or a string, `error` is null or can be written
/// to, and `on_text` can be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_generate(
    model: *const LocalModel,
    prompt: *const c_char,
    options: *const c_char,
    on_text: OnText,
    context: *mut c_void,
    error: *mut *mut c_char,
) -> *mut c_char {
    let input = |prompt: &str| Ok(PromptInput::Text(prompt.to_owned()));
    // SAFETY: the caller keeps the same contract.
    unsafe { complete(model, (prompt, "prompt"), input, options, (on_text, context), error) }
}

/// Answers a conversation.
///
/// # Safety
///
/// As [`wf_generate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_chat(
    model: *const LocalModel,
    messages: *const c_char,
    options: *const c_char,
    on_text: OnText,
    context: *mut c_void,
    error: *mut *mut c_char,
) -> *mut c_char {
    let input =
        |messages: &str| read_messages(messages).map(PromptInput::Chat).map_err(model::message);
    // SAFETY: the caller keeps the same contract.
    unsafe { complete(model, (messages, "messages"), input, options, (on_text, context), error) }
}

/// Embeds a text.
///
/// # Safety
///
/// `model` comes from [`wf_open`], `text` is a string, `options` is null or a string, `error` is null or can be written to,
/// and `vector` has room for `capacity` floats, or may be null if that is zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_embed(
    model: *const LocalModel,
    text: *const c_char,
    options: *const c_char,
    vector: *mut f32,
    capacity: usize,
    error: *mut *mut c_char,
) -> usize {
    let embed = || {
        // SAFETY: the caller passes an open model and strings.
        let (model, options) = unsafe { (opened(model)?, self::text(options, "options")?) };
        // SAFETY: the caller passes a string.
        let text = unsafe { required(text, "text") }?;
        model::embed(model, text, options)
    };
    // SAFETY: the caller's `error` can be written to.
    let Some(computed) = (unsafe { report(embed, error) }) else { return 0 };
    if !vector.is_null() {
        let len = capacity.min(computed.len());
        // SAFETY: there is room for `capacity` floats.
        unsafe { ptr::copy_nonoverlapping(computed.as_ptr(), vector, len) };
    }
    computed.len()
}

/// Frees a string.
///
/// # Safety
///
/// `string` is null, or comes from another function of this library and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wf_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: it was a `CString`.
        drop(unsafe { CString::from_raw(string) });
    }
}

/// Completes what `input` makes of a string.
///
/// # Safety
///
/// As [`wf_generate`].
unsafe fn complete(
    model: *const LocalModel,
    (string, name): (*const c_char, &str),
    input: impl FnOnce(&str) -> Result<PromptInput, String>,
    options: *const c_char,
    (on_text, context): (OnText, *mut c_void),
    error: *mut *mut c_char,
) -> *mut c_char {
    let run = || {
        // SAFETY: the caller passes an open model and strings.
        let (model, options) = unsafe { (opened(model)?, text(options, "options")?) };
        // SAFETY: the caller passes a string.
        let input = input(unsafe { required(string, name) }?)?;
        let result = model::complete(model, input, options, |piece| {
            // SAFETY: the caller's function can be called with its context.
            on_text.is_none_or(|on_text| unsafe { on_text(c_string(piece).as_ptr(), context) } == 0)
        })?;
        Ok(c_string(&result))
    };
    // SAFETY: the caller's `error` can be written to.
    unsafe { report(run, error) }.map_or(ptr::null_mut(), CString::into_raw)
}

/// Runs `work`; an error or a panic becomes a message in `error`.
///
/// # Safety
///
/// `error` is null or can be written to.
unsafe fn report<T>(
    work: impl FnOnce() -> Result<T, String>,
    error: *mut *mut c_char,
) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    let message = match done.unwrap_or_else(|_| Err("internal error: a panic".to_owned())) {
        Ok(value) => return Some(value),
        Err(message) => message,
    };
    if !error.is_null() {
        // SAFETY: the caller guarantees it.
        unsafe { *error = c_string(&message).into_raw() };
    }
    None
}

/// Returns the model behind a pointer.
///
/// # Safety
///
/// It is null, or comes from [`wf_open`] and stays open.
unsafe fn opened<'a>(model: *const LocalModel) -> Result<&'a LocalModel, String> {
    // SAFETY: the caller guarantees it.
    unsafe { model.as_ref() }.ok_or_else(|| "model is NULL".to_owned())
}

/// Returns the text behind a pointer, or `None` if it is null.
///
/// # Safety
///
/// It is null or a string that stays unchanged.
unsafe fn text<'a>(string: *const c_char, name: &str) -> Result<Option<&'a str>, String> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(string) }.to_str();
    text.map(Some).map_err(|error| format!("{name} is not UTF-8: {error}"))
}

/// As [`text`], for strings that cannot be absent.
///
/// # Safety
///
/// As [`text`].
unsafe fn required<'a>(string: *const c_char, name: &str) -> Result<&'a str, String> {
    // SAFETY: the caller keeps the same contract.
    unsafe { text(string, name) }?.ok_or_else(|| format!("{name} is NULL"))
}

/// Returns a string for C. A NUL, which a model may generate, becomes U+FFFD.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}
