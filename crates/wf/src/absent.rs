//! A model that is not where it was said to be: what may have been meant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::near;

/// How many names of models are told.
const TOLD: usize = 5;

/// Says that there is nothing at `path`, what there is instead, and what a model may be.
pub(crate) fn explain(path: &Path) -> String {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let shown = path.display();
    let instead = match models_in(&folder) {
        None => format!("there is no folder {}", folder.display()),
        Some(names) if names.is_empty() => format!("no models are in {}", place(&folder)),
        Some(names) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(meant) = near::closest(&name, names.iter().map(String::as_str)) {
                return format!(
                    "no model at {shown}: did you mean {}?",
                    folder.join(meant).display()
                );
            }
            let more = if names.len() > TOLD { ", …" } else { "" };
            let told = names[..names.len().min(TOLD)].join(", ");
            format!("{} has {told}{more}", place(&folder))
        }
    };
    let hub = match shown.to_string().split('/').collect::<Vec<_>>()[..] {
        [owner, _] if !owner.is_empty() && !owner.starts_with('.') && !has_model_name(path) => {
            format!("hf:{shown} would be a model on the Hugging Face Hub")
        }
        _ => "use a GGUF file, a folder from the Hugging Face Hub, or hf:owner/repo".to_owned(),
    };
    format!("no model at {shown}: {instead}; {hub}")
}

fn place(folder: &Path) -> String {
    if folder == Path::new(".") { "this folder".to_owned() } else { folder.display().to_string() }
}

fn has_model_name(path: &Path) -> bool {
    let is_one = |ext: &OsStr| ["gguf", "bin", "safetensors"].iter().any(|known| ext == *known);
    path.extension().is_some_and(is_one)
}

/// Names in a folder that look like models, in order; nothing if there is no such folder.
fn models_in(folder: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let path = entry.path();
            let is_model = match path.is_dir() {
                true => path.join("config.json").exists(),
                false => has_model_name(&path),
            };
            is_model.then(|| entry.file_name().to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_meant_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| explain(&folder.path().join(name));
        assert!(at("x.gguf").contains("no models are in"), "{}", at("x.gguf"));
        std::fs::write(folder.path().join("bitnet-2b.gguf"), "").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        std::fs::create_dir(folder.path().join("checkpoint")).unwrap();
        std::fs::write(folder.path().join("checkpoint/config.json"), "").unwrap();
        assert!(at("bitnet-2.gguf").contains("did you mean"), "{}", at("bitnet-2.gguf"));
        let message = at("another-name");
        assert!(message.contains("has bitnet-2b.gguf, checkpoint;"), "{message}");
        assert!(message.contains("hf:owner/repo"), "{message}");
        let message = explain(Path::new("microsoft/bitnet-b1.58-2B-4T"));
        assert!(message.contains("hf:microsoft/bitnet-b1.58-2B-4T would be"), "{message}");
        assert!(message.contains("no folder microsoft"), "{message}");
    }
}
