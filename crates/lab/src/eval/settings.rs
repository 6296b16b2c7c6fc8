//! Settings as text, such as `kv=int8,head=int8`: what two runs of a comparison differ in, and what a recording
//! was made with.
//!
//! A setting is a line of [`SETTINGS`]. Decoding modes and draft models are none: they change the number of
//! passes, not the logits of a pass.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use wf_core::ActivationCodes;
use wf_engine::RunOptions;
use wf_model::{HeadMode, Layout};

/// Maximum number of threads, as for `--threads`.
const MAX_THREADS: usize = 1024;

/// One option of running a model, as text.
struct Setting {
    name: &'static str,
    /// True if logits depend on it.
    changes_logits: bool,
    set: fn(&mut RunOptions, &str) -> Result<(), String>,
    get: fn(&RunOptions) -> String,
}

impl Setting {
    fn is_equal(&self, a: &RunOptions, b: &RunOptions) -> bool {
        (self.get)(a) == (self.get)(b)
    }
}

/// All settings, those that change logits first.
const SETTINGS: &[Setting] = &[
    setting("kv", true, |o, v| put(&mut o.kv, v), |o| o.kv.to_string()),
    setting("attention", true, |o, v| put(&mut o.attention, v), |o| o.attention.to_string()),
    setting("activations", true, set_activations, |o| or_auto(o.activations)),
    setting(
        "activation-sparsity",
        true,
        |o, v| put(&mut o.activation_sparsity, v),
        |o| o.activation_sparsity.to_string(),
    ),
    setting("head", true, set_head, |o| o.head.to_string()),
    setting("sparse", false, |o, v| put(&mut o.sparse, v), |o| o.sparse.to_string()),
    setting("isa", false, |o, v| put_or_auto(&mut o.isa, v), |o| or_auto(o.isa)),
    setting("layout", false, set_layout, |o| or_auto(o.layout.map(Layout::name))),
    setting("threads", false, set_threads, |o| o.threads.to_string()),
];

const fn setting(
    name: &'static str,
    changes_logits: bool,
    set: fn(&mut RunOptions, &str) -> Result<(), String>,
    get: fn(&RunOptions) -> String,
) -> Setting {
    Setting { name, changes_logits, set, get }
}

/// Changes to the options of a model. The empty text changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Names and values.
    changes: Vec<(&'static str, String)>,
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes: Vec<(&'static str, String)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} has no value: write {part}=VALUE"))?;
            let setting = find(name)?;
            // The value is checked here, so that an error names it before a model is loaded.
            (setting.set)(&mut RunOptions::default(), value)
                .map_err(|reason| format!("{name}={value}: {reason}"))?;
            if changes.iter().any(|(other, _)| *other == setting.name) {
                return Err(format!("{name} is there twice"));
            }
            changes.push((setting.name, value.to_owned()));
        }
        Ok(Self { changes })
    }
}

impl Settings {
    /// Returns `options` with these changes.
    ///
    /// # Errors
    ///
    /// Returns the reason if a file that a value names is no longer there.
    pub fn apply(&self, options: &RunOptions) -> Result<RunOptions> {
        let mut options = options.clone();
        for (name, value) in &self.changes {
            let set = find(name).and_then(|setting| (setting.set)(&mut options, value));
            set.map_err(|reason| anyhow!("{name}={value}: {reason}"))?;
        }
        Ok(options)
    }

    /// Returns the settings as text; `default` if there are none.
    pub fn text(&self) -> String {
        match &self.changes[..] {
            [] => "default".to_owned(),
            changes => join(changes.iter().map(|(name, value)| (*name, value.clone()))),
        }
    }
}

/// Returns all settings of `options` that logits depend on, as text that [`Settings`] parses.
pub(super) fn of_logits(options: &RunOptions) -> String {
    let relevant = SETTINGS.iter().filter(|setting| setting.changes_logits);
    join(relevant.map(|setting| (setting.name, (setting.get)(options))))
}

/// Returns `true` if at most the K/V types differ.
pub(super) fn differ_in_kv_only(a: &RunOptions, b: &RunOptions) -> bool {
    SETTINGS.iter().filter(|setting| setting.name != "kv").all(|setting| setting.is_equal(a, b))
}

/// Returns `true` if both run on the same kernels, layout of weights and number of threads.
pub(super) fn compute_alike(a: &RunOptions, b: &RunOptions) -> bool {
    let of_compute = ["isa", "layout", "threads"];
    SETTINGS.iter().filter(|s| of_compute.contains(&s.name)).all(|setting| setting.is_equal(a, b))
}

fn find(name: &str) -> Result<&'static Setting, String> {
    SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| match name {
        "decode" | "draft" => format!(
            "{name} does not change logits: `wf bench --decode` measures decoding modes and drafts"
        ),
        _ => {
            let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
            format!("unknown setting {name:?}: must be one of {}", names.join(", "))
        }
    })
}

fn join(settings: impl Iterator<Item = (&'static str, String)>) -> String {
    settings.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

fn put<T: FromStr<Err: ToString>>(option: &mut T, value: &str) -> Result<(), String> {
    *option = value.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

fn put_or_auto<T: FromStr<Err: ToString>>(
    option: &mut Option<T>,
    value: &str,
) -> Result<(), String> {
    *option = match value {
        "auto" => None,
        _ => Some(value.parse().map_err(|error: T::Err| error.to_string())?),
    };
    Ok(())
}

fn or_auto(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "auto".to_owned(), |value| value.to_string())
}

fn set_activations(options: &mut RunOptions, value: &str) -> Result<(), String> {
    options.activations = match value {
        "auto" => None,
        _ => Some(ActivationCodes::from_key(value).ok_or_else(|| {
            format!("must be auto, {}", ActivationCodes::ALL.map(ActivationCodes::key).join(", "))
        })?),
    };
    Ok(())
}

fn set_head(options: &mut RunOptions, value: &str) -> Result<(), String> {
    options.head = match value.parse() {
        Ok(mode @ (HeadMode::Full | HeadMode::Int8)) => mode,
        _ => return Err("must be full or int8, the modes that compute all logits".to_owned()),
    };
    Ok(())
}

fn set_layout(options: &mut RunOptions, value: &str) -> Result<(), String> {
    let found = Layout::ALL.into_iter().find(|layout| layout.name() == value);
    if found.is_none() && value != "auto" {
        return Err(format!("must be auto, {}", Layout::ALL.map(Layout::name).join(", ")));
    }
    options.layout = found;
    Ok(())
}

fn set_threads(options: &mut RunOptions, value: &str) -> Result<(), String> {
    let range = 1..=MAX_THREADS;
    let threads = value.parse().ok().filter(|threads| range.contains(threads));
    options.threads = threads.ok_or_else(|| format!("must be 1 to {}", range.end()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use wf_model::KvDtype;

    use super::*;

    #[test]
    fn every_setting_is_read_back_as_it_was_written() {
        let options = RunOptions { head: HeadMode::Int8, threads: 3, ..RunOptions::default() };
        let all = join(SETTINGS.iter().map(|setting| (setting.name, (setting.get)(&options))));
        let again = all.parse::<Settings>().unwrap().apply(&RunOptions::default()).unwrap();
        assert_eq!(join(SETTINGS.iter().map(|s| (s.name, (s.get)(&again)))), all);
        assert_eq!(
            of_logits(&options),
            "kv=bf16,attention=dense,activations=auto,activation-sparsity=off,head=int8"
        );
    }

    #[test]
    fn settings_change_what_they_name_only() {
        let base = RunOptions { threads: 2, ..RunOptions::default() };
        let settings: Settings = "kv=int8, activations=int16".parse().unwrap();
        let changed = settings.apply(&base).unwrap();
        assert_eq!(
            (changed.kv, changed.activations),
            (KvDtype::Int8, Some(ActivationCodes::Int16))
        );
        assert_eq!((changed.threads, changed.head), (2, base.head));
        assert_eq!(settings.text(), "kv=int8,activations=int16");
        assert!(!differ_in_kv_only(&base, &changed));
        let f32s: Settings = "kv=f32".parse().unwrap();
        assert!(differ_in_kv_only(&base, &f32s.apply(&base).unwrap()));
        let none: Settings = "".parse().unwrap();
        assert_eq!((none.text().as_str(), none.apply(&base).unwrap().kv), ("default", base.kv));
    }

    #[test]
    fn errors_name_the_setting_and_what_is_allowed() {
        for (text, words) in [
            ("kv", "kv=VALUE"),
            ("kv=int9", "fp8-e4m3"),
            ("head=scan", "head=scan: must be full or int8"),
            ("activations=int4", "int8-group"),
            ("layout=rows", "quad-lines"),
            ("threads=0", "1 to"),
            ("activation-sparsity=topk=2", "0.05 to 1"),
            ("activation-sparsity=adaptive=none.json", "none.json"),
            ("sparse=maybe", "auto, on or off"),
            ("isa=mmx", "avx2"),
            ("colour=blue", "must be one of kv, attention, activations"),
            ("decode=greedy", "does not change logits"),
            ("kv=f32,kv=f16", "kv is there twice"),
        ] {
            let error = text.parse::<Settings>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
