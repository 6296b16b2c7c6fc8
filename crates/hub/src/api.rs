//! The HTTP API of the hub.

use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;
use ureq::Body;
use ureq::http::Response;

use crate::digest::Digest;
use crate::error::HubError;
use crate::reference::{Reference, is_file};

/// Maximum size of a list of files. That of a repository with a thousand shards has 300 KB.
const MAX_LISTING: u64 = 16 << 20;
/// Timeout of a connection, and of the start of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The hub, or a mirror of it.
pub(crate) struct Api {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// The commit and the files of a revision.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) commit: String,
    pub(crate) files: Vec<RemoteFile>,
}

/// A file of a repository.
#[derive(Debug, Clone)]
pub(crate) struct RemoteFile {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

#[derive(Deserialize)]
struct RawListing {
    sha: String,
    #[serde(default)]
    siblings: Vec<RawFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFile {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<RawLfs>,
}

#[derive(Deserialize)]
struct RawLfs {
    sha256: String,
    size: u64,
}

impl Api {
    pub(crate) fn new(endpoint: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            // The status decides about the message.
            .http_status_as_error(false)
            .user_agent(concat!("wrinklefree/", env!("CARGO_PKG_VERSION")))
            .build();
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Self { agent: config.into(), endpoint, token: token.map(str::to_owned) }
    }

    /// Lists the files of a revision, with their digests.
    pub(crate) fn list(&self, reference: &Reference) -> Result<Listing, HubError> {
        let Reference { repo, revision, .. } = reference;
        let revision = revision.replace('/', "%2F");
        let url = format!("{}/api/models/{repo}/revision/{revision}?blobs=true", self.endpoint);
        let mut response = self.get(&url, 0)?;
        let problem = match response.status().as_u16() {
            200 => None,
            401 | 403 => Some(
                "access denied: the model does not exist, or requires a token (HF_TOKEN) with \
                 access to it",
            ),
            404 => Some("model or revision does not exist"),
            other => return Err(unexpected(&url, other)),
        };
        if let Some(problem) = problem {
            return Err(HubError::new(url, problem));
        }
        let body = response.body_mut().with_config().limit(MAX_LISTING).read_to_vec();
        let body = body.map_err(|e| HubError::new(&url, e))?;
        let raw: RawListing = serde_json::from_slice(&body).map_err(|e| HubError::new(&url, e))?;
        raw.listing().map_err(|what| HubError::new(&url, what))
    }

    /// Requests a file of a commit, from byte `start` on.
    pub(crate) fn file(
        &self,
        repo: &str,
        commit: &str,
        name: &str,
        start: u64,
    ) -> Result<Response<Body>, HubError> {
        let url = format!("{}/{repo}/resolve/{commit}/{name}", self.endpoint);
        let response = self.get(&url, start)?;
        match response.status().as_u16() {
            200 | 206 | 416 => Ok(response),
            other => Err(unexpected(&url, other)),
        }
    }

    fn get(&self, url: &str, start: u64) -> Result<Response<Body>, HubError> {
        let mut request = self.agent.get(url);
        // The agent does not send the token to hosts that it is redirected to.
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        request.call().map_err(|e| {
            let what = match e {
                ureq::Error::TlsRequired => "this program was built without TLS".to_owned(),
                other => other.to_string(),
            };
            HubError::new(url, what)
        })
    }
}

fn unexpected(url: &str, status: u16) -> HubError {
    HubError::new(url, format!("the server responded with status {status}"))
}

impl RawListing {
    /// Keeps files that have a digest and a name that is a valid path.
    fn listing(self) -> Result<Listing, String> {
        if !is_hex(&self.sha, 40) {
            return Err(format!("invalid commit {:?}", self.sha));
        }
        let files = self.siblings.into_iter().filter(|file| is_file(&file.rfilename));
        let files = files.filter_map(|file| {
            let (digest, size) = match (file.lfs, file.blob_id) {
                (Some(lfs), _) if is_hex(&lfs.sha256, 64) => (Digest::Sha256(lfs.sha256), lfs.size),
                (None, Some(id)) if is_hex(&id, 40) => (Digest::GitBlob(id), file.size?),
                _ => return None,
            };
            Some(RemoteFile { name: file.rfilename, size, digest })
        });
        Ok(Listing { commit: self.sha, files: files.collect() })
    }
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
