//! Error messages for model paths that do not exist.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::suggest;

const MAX_LISTED: usize = 5;

/// Explains that there is no model at `path`, with the models next to it and the names a model can
/// have.
pub(crate) fn explain(path: &Path) -> String {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_owned(),
        _ => PathBuf::from("."),
    };
    let shown = path.display();
    let found = match models_in(&directory) {
        None => format!("directory {} does not exist", directory.display()),
        Some(names) if names.is_empty() => format!("no models in {}", describe(&directory)),
        Some(names) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(meant) = suggest::closest(&name, names.iter().map(String::as_str)) {
                let meant = directory.join(meant);
                return format!("no model at {shown}; did you mean {}?", meant.display());
            }
            let more = if names.len() > MAX_LISTED { ", …" } else { "" };
            let listed = names[..names.len().min(MAX_LISTED)].join(", ");
            format!("{} has {listed}{more}", describe(&directory))
        }
    };
    let hint = match shown.to_string().split('/').collect::<Vec<_>>()[..] {
        [owner, _] if !owner.is_empty() && !owner.starts_with('.') && !has_model_name(path) => {
            format!("for a model on the Hugging Face Hub, use hf:{shown}")
        }
        _ => "use a GGUF file, a Hugging Face directory, hf:owner/repo, or a name of wf models"
            .to_owned(),
    };
    format!("no model at {shown}: {found}; {hint}")
}

fn describe(directory: &Path) -> String {
    match directory == Path::new(".") {
        true => "the current directory".to_owned(),
        false => directory.display().to_string(),
    }
}

fn has_model_name(path: &Path) -> bool {
    let is_known = |ext: &OsStr| ["gguf", "bin", "safetensors"].iter().any(|known| ext == *known);
    path.extension().is_some_and(is_known)
}

/// Returns the sorted names of models in a directory; `None` if it cannot be read.
fn models_in(directory: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(directory).ok()?;
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
    fn suggests_models() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| explain(&directory.path().join(name));
        assert!(at("x.gguf").contains("no models in"), "{}", at("x.gguf"));
        std::fs::write(directory.path().join("bitnet-2b.gguf"), "").unwrap();
        std::fs::write(directory.path().join("notes.txt"), "").unwrap();
        std::fs::create_dir(directory.path().join("checkpoint")).unwrap();
        std::fs::write(directory.path().join("checkpoint/config.json"), "").unwrap();
        assert!(at("bitnet-2.gguf").contains("did you mean"), "{}", at("bitnet-2.gguf"));
        let message = at("another-name");
        assert!(message.contains("has bitnet-2b.gguf, checkpoint;"), "{message}");
        assert!(message.contains("hf:owner/repo"), "{message}");
        let message = explain(Path::new("microsoft/bitnet-b1.58-2B-4T"));
        assert!(message.contains("use hf:microsoft/bitnet-b1.58-2B-4T"), "{message}");
        assert!(message.contains("directory microsoft does not exist"), "{message}");
    }
}
