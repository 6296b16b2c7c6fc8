//! `/v1/files`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Description of a stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileObject {
    /// Name that requests use.
    pub id: String,
    /// `file`.
    pub object: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the upload in seconds since 1970.
    pub created_at: u64,
    /// Time when the file is deleted, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Name that its author gave it.
    pub filename: String,
    /// `batch` for requests, `batch_output` for results.
    pub purpose: String,
    /// `processed`.
    pub status: String,
}

/// A part of a list, newest entries first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// `list`.
    pub object: String,
    /// The files.
    pub data: Vec<FileObject>,
    /// Id of the first file of this part.
    pub first_id: Option<String>,
    /// Id of the last file of this part: `after` of the next request.
    pub last_id: Option<String>,
    /// True if the list goes on.
    pub has_more: bool,
}

/// A file that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedFile {
    /// Id of the file.
    pub id: String,
    /// `file`.
    pub object: String,
    /// True.
    pub deleted: bool,
}

/// An upload, as `multipart/form-data`.
#[derive(ToSchema)]
pub struct FileUpload {
    /// The file.
    pub file: String,
    /// `batch`.
    pub purpose: String,
}
