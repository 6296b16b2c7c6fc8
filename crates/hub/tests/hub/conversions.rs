//! Conversions are created once and atomically.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use wf_hub::{ConversionCache, HubError};

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
fn concurrent_callers_create_an_entry_once() {
    let root = tempfile::tempdir().unwrap();
    let kept = ConversionCache::new(root.path().join("models"), "1");
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let path = kept.get_or_create("src", "d", "gguf", "m.gguf", make(&made, "model"));
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
    assert!(entry.is_current && kept.is_intact(entry));
    fs::write(&entry.path, "mudel").unwrap();
    assert!(!kept.is_intact(entry), "a changed byte is seen");
}

#[test]
fn content_target_and_version_are_part_of_the_key() {
    let root = tempfile::tempdir().unwrap();
    let kept = |version| ConversionCache::new(root.path().to_owned(), version);
    let made = AtomicUsize::new(0);
    for (version, digest, target) in
        [("1", "d", "a"), ("1", "d", "b"), ("1", "e", "a"), ("2", "d", "a")]
    {
        kept(version).get_or_create("s", digest, target, "m.gguf", make(&made, target)).unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed), 4);
    kept("2").get_or_create("s", "d", "a", "m.gguf", make(&made, "never")).unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 4);
    // Entries of other versions are removed.
    let pruned = kept("2").prune(false).unwrap();
    assert_eq!((pruned.entries, kept("2").list().len()), (3, 1));
    assert_eq!(kept("2").prune(true).unwrap().entries, 1);
    assert!(kept("2").list().is_empty());
}

#[test]
fn recreates_failed_and_incomplete_entries() {
    let root = tempfile::tempdir().unwrap();
    let kept = ConversionCache::new(root.path().to_owned(), "1");
    let made = AtomicUsize::new(0);
    let broken = |path: &Path| {
        fs::write(path, "half").unwrap();
        Err(HubError::new("r", "stop"))
    };
    kept.get_or_create("s", "d", "t", "m.gguf", broken).unwrap_err();
    assert!(kept.list().is_empty());
    let path = kept.get_or_create("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    // Leftovers of a killed process, and a truncated file.
    fs::rename(path.parent().unwrap(), path.parent().unwrap().with_extension("partial")).unwrap();
    let path = kept.get_or_create("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    fs::write(&path, "who").unwrap();
    let path = kept.get_or_create("s", "d", "t", "m.gguf", make(&made, "whole")).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "whole");
    assert_eq!(made.load(Ordering::Relaxed), 3);
    assert_eq!(kept.list().len(), 1);
}
