//! Downloads.

use std::fs;
use std::path::Path;

use wf_hub::{FetchedModel, Hub, HubConfig, Reference};

use crate::server::{COMMIT, Server, Shop, sha256};

const WEIGHTS: usize = 300_000;

fn weights() -> Vec<u8> {
    (0..WEIGHTS).map(|at| (at * 7 % 251) as u8).collect()
}

/// A checkpoint with one large file, and a file that no model needs.
fn checkpoint() -> Shop {
    let small = |text: &str| (text.as_bytes().to_vec(), false);
    let files = [
        ("config.json", small("{}")),
        ("tokenizer.json", small("{\"model\":{}}")),
        ("README.md", small("read me")),
        ("model.safetensors", (weights(), true)),
    ];
    let files = files.map(|(name, file)| (name.to_owned(), file)).into();
    Shop { files, has_ranges: true, ..Shop::default() }
}

fn hub(server: &Server, cache: &Path, token: Option<&str>, offline: bool) -> Hub {
    let (endpoint, token) = (server.endpoint.clone(), token.map(str::to_owned));
    Hub::new(HubConfig { endpoint, cache: cache.to_owned(), token, offline })
}

fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap().unwrap()
}

fn fetch(hub: &Hub, text: &str) -> Result<FetchedModel, String> {
    hub.fetch(&reference(text), &mut |_| {}).map_err(|e| e.to_string())
}

#[test]
fn a_checkpoint_is_downloaded_once_into_the_cache_of_python() {
    let server = Server::start(checkpoint());
    let cache = tempfile::tempdir().unwrap();
    let hub_here = hub(&server, cache.path(), Some("secret"), false);
    let mut told = Vec::new();
    let fetched = hub_here
        .fetch(&reference("hf:maker/model"), &mut |p| {
            told.push((p.file.to_owned(), p.done, p.total))
        })
        .unwrap();
    let root = cache.path().join("models--maker--model");
    assert_eq!(fetched.path, root.join("snapshots").join(COMMIT));
    assert_eq!(fs::read(fetched.path.join("model.safetensors")).unwrap(), weights());
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(fs::read(root.join("blobs").join(sha256(&weights()))).unwrap(), weights());
    assert!(!fetched.path.join("README.md").exists());
    assert!(told.contains(&("model.safetensors".to_owned(), WEIGHTS as u64, WEIGHTS as u64)));
    let files =
        |server: &Server| server.seen().iter().filter(|s| !s.path.starts_with("/api")).count();
    let before = files(&server);
    let again = fetch(&hub_here, "hf:maker/model").unwrap();
    assert_eq!(again, fetched);
    assert_eq!(files(&server), before, "nothing was fetched twice");
    // The token is not sent to hosts that the hub redirects to.
    for seen in server.seen() {
        assert_eq!(seen.has_token, !seen.path.starts_with("/store/"), "{seen:?}");
    }
    let offline = fetch(&hub(&server, cache.path(), None, true), "hf:maker/model").unwrap();
    assert_eq!(offline, fetched, "the same, and known by the same digest");
}

#[test]
fn resumes_interrupted_downloads() {
    let shop = Shop { cuts: vec![usize::MAX, usize::MAX, 1000, 0, 100_000], ..checkpoint() };
    let server = Server::start(shop);
    let cache = tempfile::tempdir().unwrap();
    let fetched = fetch(&hub(&server, cache.path(), None, false), "hf:maker/model").unwrap();
    assert_eq!(fs::read(fetched.path.join("model.safetensors")).unwrap(), weights());
    let starts: Vec<usize> = server
        .seen()
        .iter()
        .filter(|seen| seen.path.starts_with("/store/"))
        .map(|seen| seen.start)
        .collect();
    assert_eq!(starts, [0, 1000, 1000, 101_000]);
}

#[test]
fn restarts_downloads_without_range_support() {
    let shop = Shop { cuts: vec![usize::MAX, usize::MAX, 1000], has_ranges: false, ..checkpoint() };
    let server = Server::start(shop);
    let cache = tempfile::tempdir().unwrap();
    let fetched = fetch(&hub(&server, cache.path(), None, false), "hf:maker/model").unwrap();
    assert_eq!(fs::read(fetched.path.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn discards_downloads_with_another_digest() {
    for liar in ["model.safetensors", "config.json"] {
        let server = Server::start(Shop { liar: Some(liar), ..checkpoint() });
        let cache = tempfile::tempdir().unwrap();
        let error = fetch(&hub(&server, cache.path(), None, false), "hf:maker/model").unwrap_err();
        assert!(error.contains(liar) && error.contains("digest"), "{error}");
        let snapshot = cache.path().join("models--maker--model/snapshots").join(COMMIT);
        assert!(!snapshot.join(liar).exists());
        server.shop.lock().unwrap().liar = None;
        fetch(&hub(&server, cache.path(), None, false), "hf:maker/model").unwrap();
    }
}

#[test]
fn errors_state_what_to_do() {
    let server = Server::start(Shop { token: Some("secret"), ..checkpoint() });
    let cache = tempfile::tempdir().unwrap();
    let here = |token, offline| hub(&server, cache.path(), token, offline);
    let error = fetch(&here(None, false), "hf:maker/model").unwrap_err();
    assert!(error.contains("HF_TOKEN"), "{error}");
    fetch(&here(Some("secret"), false), "hf:maker/model").unwrap();
    let error = fetch(&here(Some("secret"), false), "hf:maker/other").unwrap_err();
    assert!(error.contains("model or revision does not exist"), "{error}");
    let error = fetch(&here(Some("secret"), false), "hf:maker/model:x.gguf").unwrap_err();
    assert!(
        error.contains("file \"x.gguf\" does not exist; the repository has model.safetensors"),
        "{error}"
    );
    let error = fetch(&here(None, true), "hf:maker/other").unwrap_err();
    assert!(error.contains("HF_HUB_OFFLINE"), "{error}");
}

#[test]
fn a_single_gguf_is_the_model_and_several_are_ambiguous() {
    let mut shop = Shop { has_ranges: true, ..Shop::default() };
    shop.files.insert("a.gguf".to_owned(), (b"first".to_vec(), true));
    let server = Server::start(shop);
    let cache = tempfile::tempdir().unwrap();
    let here = hub(&server, cache.path(), None, false);
    let fetched = fetch(&here, "hf:maker/model").unwrap();
    assert!(fetched.path.ends_with("a.gguf"));
    let offline = fetch(&hub(&server, cache.path(), None, true), "hf:maker/model").unwrap();
    assert_eq!(offline.path, fetched.path);
    server.shop.lock().unwrap().files.insert("sub/b.gguf".to_owned(), (b"second".to_vec(), true));
    let error = fetch(&here, "hf:maker/model").unwrap_err();
    assert!(error.contains("a.gguf") && error.contains("sub/b.gguf"), "{error}");
    let fetched = fetch(&here, "hf:maker/model:sub/b.gguf").unwrap();
    assert_eq!(fs::read(fetched.path).unwrap(), b"second");
}

#[test]
fn concurrent_processes_download_a_file_once() {
    let server = Server::start(checkpoint());
    let cache = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let fetched = fetch(&hub(&server, cache.path(), None, false), "hf:maker/model");
                let path = fetched.unwrap().path.join("model.safetensors");
                assert_eq!(fs::read(path).unwrap(), weights());
            });
        }
    });
    let large = server.seen().iter().filter(|seen| seen.path.starts_with("/store/")).count();
    assert_eq!(large, 1);
}
