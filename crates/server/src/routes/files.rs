//! `/v1/files`.

use std::fs::File;
use std::io::Read;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{Request, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::task::spawn_blocking;
use wf_api::wire::{DeletedFile, FileList, FileObject};

use super::owned::{Owned, Page};
use crate::app::now;
use crate::error::ApiError;
use crate::http::form::{Form, Part};
use crate::store::{NewFile, StoreError, Upload};

/// The only purpose of uploaded files.
pub(super) const PURPOSE: &str = "batch";
/// Bytes that are written or read at once.
const CHUNK_LEN: usize = 256 << 10;
/// Maximum length of the name of a file.
const MAX_NAME_LEN: usize = 255;
/// Lifetime of a file that has one, in seconds: an hour to thirty days.
const LIFETIMES: std::ops::RangeInclusive<u64> = 3600..=30 * 24 * 3600;

/// The path parameter of a route.
pub(super) type Id = Result<Path<String>, PathRejection>;

pub(super) fn id(id: Id) -> Result<String, ApiError> {
    id.map(|Path(id)| id).map_err(|_| StoreError::NotFound.into())
}

pub(super) async fn upload(
    own: Owned,
    request: Request<Body>,
) -> Result<Json<FileObject>, ApiError> {
    let (limits, max_len) = (own.app.options.limits, own.store.limits().file_len);
    let mut form = Form::new(request, &limits, max_len)?;
    let (mut file, mut purpose, mut lifetime) = (None, None, None);
    while let Some(part) = form.next().await? {
        match part.name() {
            "file" => file = Some(store(&own, part).await?),
            "purpose" => purpose = Some(part.text().await?),
            "expires_after[anchor]" => check_anchor(&part.text().await?)?,
            "expires_after[seconds]" => lifetime = Some(part.text().await?),
            name => {
                let error = ApiError::field(name, format!("unknown field {name:?}"));
                return Err(ApiError { code: "unknown_parameter", ..error });
            }
        }
    }
    match purpose.as_deref() {
        Some(PURPOSE) => {}
        Some(other) => {
            return Err(ApiError::at("purpose", &format!("is {other:?}: must be {PURPOSE}")));
        }
        None => return Err(ApiError::required("purpose")),
    }
    let (file, filename) = file.ok_or_else(|| ApiError::required("file"))?;
    if file.is_empty() {
        return Err(ApiError::at("file", "must not be empty"));
    }
    let lifetime = lifetime.map(|seconds| seconds.parse().unwrap_or(0));
    let (created_at, lifetime) = (now(), lifetime.map(check_lifetime).transpose()?);
    let expires_at = lifetime.map(|seconds| created_at + seconds);
    let new = NewFile { filename, purpose: PURPOSE, created_at, expires_at };
    own.blocking(|_, _| file.finish(new)).await.map(Json)
}

fn check_anchor(anchor: &str) -> Result<(), ApiError> {
    if anchor == "created_at" {
        Ok(())
    } else {
        Err(ApiError::at("expires_after.anchor", "must be created_at"))
    }
}

/// Rejects lifetimes that are too short or too long.
pub(super) fn check_lifetime(seconds: u64) -> Result<u64, ApiError> {
    if LIFETIMES.contains(&seconds) {
        return Ok(seconds);
    }
    let (min, max) = (LIFETIMES.start(), LIFETIMES.end());
    Err(ApiError::at("expires_after.seconds", &format!("must be between {min} and {max}")))
}

/// Stores the content of a part. Returns its file and its name.
async fn store(own: &Owned, mut part: Part) -> Result<(Upload, String), ApiError> {
    let name = part.file_name().unwrap_or("file").to_owned();
    if name.len() > MAX_NAME_LEN {
        return Err(ApiError::at("file", &format!("its name is longer than {MAX_NAME_LEN} bytes")));
    }
    let mut upload = own.blocking(|store, owner| store.upload(owner, now())).await?;
    let mut bytes = Vec::new();
    loop {
        let chunk = part.chunk().await?;
        let is_end = chunk.is_none();
        bytes.extend_from_slice(&chunk.unwrap_or_default());
        if is_end || bytes.len() >= CHUNK_LEN {
            let full = std::mem::take(&mut bytes);
            upload = own.blocking(move |_, _| upload.write(&full).map(|()| upload)).await?;
        }
        if is_end {
            return Ok((upload, name));
        }
    }
}

pub(super) async fn list(own: Owned) -> Result<Json<FileList>, ApiError> {
    let mut files = own.store.files(&own.owner, now());
    if let Some(purpose) = own.param("purpose") {
        files.retain(|file| file.purpose == purpose);
    }
    let Page { items, first_id, last_id, has_more } = own.page(files, |file| &file.id)?;
    Ok(Json(FileList { object: "list".into(), data: items, first_id, last_id, has_more }))
}

pub(super) async fn retrieve(own: Owned, file: Id) -> Result<Json<FileObject>, ApiError> {
    Ok(Json(own.store.file(&own.owner, &id(file)?, now())?))
}

pub(super) async fn delete(own: Owned, file: Id) -> Result<Json<DeletedFile>, ApiError> {
    let id = id(file)?;
    let deleted = id.clone();
    own.blocking(move |store, owner| store.delete(owner, &deleted, now())).await?;
    Ok(Json(DeletedFile { id, object: "file".into(), deleted: true }))
}

/// Sends the content of a file, which is read as the client takes it.
pub(super) async fn content(own: Owned, file: Id) -> Result<Response, ApiError> {
    let object = own.store.file(&own.owner, &id(file)?, now())?;
    let path = own.store.content(&object.id);
    let file = own.blocking(move |_, _| Ok(File::open(path)?)).await?;
    let chunks = stream::try_unfold(file, |mut file| async move {
        let read = spawn_blocking(move || {
            let mut chunk = Vec::new();
            Read::by_ref(&mut file).take(CHUNK_LEN as u64).read_to_end(&mut chunk)?;
            Ok::<_, std::io::Error>((!chunk.is_empty()).then(|| (Bytes::from(chunk), file)))
        });
        read.await.map_err(std::io::Error::other)?
    });
    let head = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, object.bytes.to_string()),
    ];
    Ok((head, Body::from_stream(chunks)).into_response())
}
