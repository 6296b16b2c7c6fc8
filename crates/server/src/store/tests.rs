//! Tests of what stays on disk.

use super::*;
use crate::access::{Caller, Peer};

fn owner() -> Owner {
    Owner::of(&Caller::new(None, Peer::default()))
}

fn new_file(expires_at: Option<u64>) -> NewFile {
    NewFile { filename: "in.jsonl".into(), purpose: "batch", created_at: 10, expires_at }
}

fn store_file(store: &FileStore, text: &str, expires_at: Option<u64>) -> FileObject {
    let mut upload = store.upload(&owner(), 0).unwrap();
    upload.write(text.as_bytes()).unwrap();
    upload.finish(new_file(expires_at)).unwrap()
}

fn record(id: &str, input: &str, created_at: u64) -> BatchRecord {
    let batch = serde_json::from_value(serde_json::json!({
        "id": id, "object": "batch", "endpoint": "/v1/completions", "input_file_id": input,
        "completion_window": "24h", "status": "validating", "created_at": created_at,
        "expires_at": 100, "request_counts": {"total": 0, "completed": 0, "failed": 0},
    }));
    BatchRecord { batch: batch.unwrap(), output_lifetime: None }
}

#[test]
fn files_stay_and_unfinished_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FileStore::open(folder.path(), StoreLimits::default());
    let store = open().unwrap();
    let file = store_file(&store, "hello", None);
    assert!(open().unwrap_err().to_string().contains("another server"));
    let mut unfinished = store.upload(&owner(), 0).unwrap();
    unfinished.write(b"half").unwrap();
    // As if the process had been killed.
    std::mem::forget(unfinished);
    fs::write(folder.path().join("files/file-x.data"), "no record").unwrap();
    drop(store);
    // The forgotten upload keeps the store of this process, and its lock.
    let copy = tempfile::tempdir().unwrap();
    for name in ["files", "batches"] {
        fs::create_dir(copy.path().join(name)).unwrap();
    }
    for (_, _, path) in entries(&folder.path().join("files")).unwrap() {
        fs::copy(&path, copy.path().join("files").join(path.file_name().unwrap())).unwrap();
    }
    let store = FileStore::open(copy.path(), StoreLimits::default()).unwrap();
    assert_eq!(store.files(&owner(), 0), std::slice::from_ref(&file));
    assert_eq!(fs::read(store.content(&file.id)).unwrap(), b"hello");
    assert_eq!(store.state().stored_len, 5);
    assert_eq!(entries(&copy.path().join("files")).unwrap().len(), 2);
}

#[test]
fn limits_hold_and_a_rejected_file_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let limits = StoreLimits { file_len: 8, stored_len: 12, files: 2, ..StoreLimits::default() };
    let store = FileStore::open(folder.path(), limits).unwrap();
    let mut large = store.upload(&owner(), 0).unwrap();
    large.write(b"12345678").unwrap();
    assert!(matches!(large.write(b"9"), Err(StoreError::TooLarge { max: 8 })));
    drop(large);
    assert_eq!(store.state().stored_len, 0);
    store_file(&store, "12345678", None);
    let mut second = store.upload(&owner(), 0).unwrap();
    assert!(matches!(second.write(b"12345"), Err(StoreError::Full { max: 12 })));
    drop(second);
    store_file(&store, "1234", None);
    assert!(matches!(store.upload(&owner(), 0), Err(StoreError::TooMany { max: 2, .. })));
    assert_eq!(entries(&folder.path().join("files")).unwrap().len(), 4);
}

#[test]
fn a_file_in_use_stays_and_one_whose_time_is_over_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), StoreLimits::default()).unwrap();
    let file = store_file(&store, "x", Some(50));
    store.create(&owner(), record("batch_1", &file.id, 1)).unwrap();
    let in_use = store.delete(&owner(), &file.id, 0).unwrap_err().to_string();
    assert!(in_use.contains("batch_1"), "{in_use}");
    assert!(matches!(store.file(&owner(), &file.id, 50), Err(StoreError::NotFound)));
    store.purge(50);
    assert!(store.content(&file.id).exists());
    store.update("batch_1", |batch| batch.status = BatchStatus::Completed).unwrap();
    store.purge(49);
    assert!(store.content(&file.id).exists());
    store.purge(50);
    assert!(!store.content(&file.id).exists());
    assert_eq!(store.state().stored_len, 0);
}

#[test]
fn batches_that_are_over_do_not_change_and_the_oldest_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let limits = StoreLimits { open_batches: 2, kept_batches: 2, ..StoreLimits::default() };
    let store = FileStore::open(folder.path(), limits).unwrap();
    let create = |id: &str, at| store.create(&owner(), record(id, "file-1", at));
    create("batch_1", 1).unwrap();
    create("batch_2", 2).unwrap();
    assert!(matches!(create("batch_3", 3), Err(StoreError::TooMany { max: 2, .. })));
    store.update("batch_2", |batch| batch.status = BatchStatus::Completed).unwrap();
    let cancelled = store.cancel(&owner(), "batch_2", 5).unwrap();
    assert_eq!((cancelled.status, cancelled.cancelling_at), (BatchStatus::Completed, None));
    create("batch_3", 3).unwrap();
    drop(store);
    let store = FileStore::open(folder.path(), limits).unwrap();
    let ids: Vec<_> = store.batches(&owner()).into_iter().map(|batch| batch.id).collect();
    assert_eq!(ids, ["batch_3", "batch_1"]);
}

#[test]
fn cancelling_returns_what_it_did_however_soon_the_batch_ends() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), StoreLimits::default()).unwrap();
    let ids: Vec<_> = (0..50).map(|at| format!("batch_{at}")).collect();
    let wait_until = |id: &str, status: BatchStatus| {
        while store.find_batch(id).is_none_or(|batch| batch.item.batch.status != status) {
            std::thread::yield_now();
        }
    };
    let cancelled = std::thread::scope(|scope| {
        // Ends each batch as soon as it is being cancelled.
        scope.spawn(|| {
            for id in &ids {
                wait_until(id, BatchStatus::Cancelling);
                store.update(id, |batch| batch.status = BatchStatus::Cancelled).unwrap();
            }
        });
        let cancel = |id: &String| {
            store.create(&owner(), record(id, "file-1", 1)).unwrap();
            let cancelled = store.cancel(&owner(), id, 5).unwrap();
            wait_until(id, BatchStatus::Cancelled);
            cancelled.status
        };
        ids.iter().map(cancel).collect::<Vec<_>>()
    });
    assert_eq!(cancelled, [BatchStatus::Cancelling; 50]);
}
