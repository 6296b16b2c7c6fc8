//! Conversions are made once, and are whole or not there.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use wf_hub::{Conversions, HubError};

fn make<'a>(
    made: &'a AtomicUsize,
    text: &'a str,
) -> impl FnOnce(&Path) -> Result<(), HubError> + 'a {
    move |path| {
        made.fetch_add(1, Ordering::Relaxed);
        fs::write(path, text).unwrap();
        Ok(())
    }
}

#[test]
fn four_at_once_make_it_once() {
    let root = tempfile::tempdir().unwrap();
    let kept = Conversions::new(root.path().join("models"), "1");
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let path = kept.get_or_make("src", "d", "gguf", "m.gguf", make(&made, "model"));
                assert_eq!(fs::read_to_string(path.unwrap()).unwrap(), "model");
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 1);
    let [entry] = &kept.list()[..] else { panic!("one entry") };
    assert_eq!(
        (entry.source.as_str(), entry.target.as_str(), entry.size_bytes),
        ("src", "gguf", 5)
    );
    assert!(entry.is_current && kept.is_sound(entry));
    fs::write(&entry.path, "mudel").unwrap();
    assert!(!kept.is_sound(entry), "a changed byte is seen");
}

#[test]
fn content_target_and_version_each_make_another() {
    let root = tempfile::tempdir().unwrap();
    let kept = |version| Conversions::new(root.path().to_owned(), version);
    let made = AtomicUsize::new(0);
    for (version, digest, target) in
        [("1", "d", "a"), ("1", "d", "b"), ("1", "e", "a"), ("2", "d", "a")]
    {
        kept(version).get_or_make("s", digest, target, "m.gguf", make(&made, target)).unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 4);
    kept("2").get_or_make("s", "d", "a", "m.gguf", make(&made, "never")).unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 4);
    // Only what this version made is worth keeping.
    let pruned = kept("2").prune(false).unwrap();
    assert_eq!((pruned.entries, kept("2").list().len()), (3, 1));
    assert_eq!(kept("2").prune(true).unwrap().entries, 1);
    assert!(kept("2").list().is_empty());
}

#[test]
fn what_failed_or_was_killed_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let kept = Conversions::new(root.path().to_owned(), "1");
    let made = AtomicUsize::new(0);
    let broken = |path: &Path| {
        fs::write(path, "half").unwrap();
        let what = "stop".to_owned();
        Err(HubError::Repo { repo: "r".to_owned(), what })
    };
    kept.get_or_make("s", "d", "t", "m.gguf", broken).unwrap_err();
    assert!(kept.list().is_empty());
    let path = kept.get_or_make("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    // As a killed process would leave it, and a disk that lost the end of a file.
    fs::rename(path.parent().unwrap(), path.parent().unwrap().with_extension("partial")).unwrap();
    let path = kept.get_or_make("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    fs::write(&path, "who").unwrap();
    let path = kept.get_or_make("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "whole");
    assert_eq!(made.load(Ordering::Relaxed), 3);
    assert_eq!(kept.list().len(), 1);
}
