//! A server for the part of the hub's API that downloads use.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Content and behaviour of the server.
#[derive(Default)]
pub(crate) struct Shop {
    /// Content by name; `true` for files in Git LFS, which another address serves.
    pub(crate) files: HashMap<String, (Vec<u8>, bool)>,
    /// The required token.
    pub(crate) token: Option<&'static str>,
    /// Numbers of bytes after which the next connections are closed.
    pub(crate) cuts: Vec<usize>,
    /// Supports ranges.
    pub(crate) has_ranges: bool,
    /// Names that are listed with a wrong digest.
    pub(crate) liar: Option<&'static str>,
    /// All requests: first line, range, and `true` if there was a token.
    pub(crate) seen: Vec<Seen>,
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) start: usize,
    pub(crate) has_token: bool,
}

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

pub(crate) struct Server {
    pub(crate) endpoint: String,
    pub(crate) shop: Arc<Mutex<Shop>>,
}

impl Server {
    pub(crate) fn start(shop: Shop) -> Self {
        // Two listeners: the hub, and the host that it redirects to.
        let (hub, store) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let endpoint = format!("http://localhost:{}", hub.local_addr().unwrap().port());
        let elsewhere = format!("http://127.0.0.1:{}", store.local_addr().unwrap().port());
        let shop = Arc::new(Mutex::new(shop));
        for listener in [hub, store] {
            let (shop, elsewhere) = (Arc::clone(&shop), elsewhere.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (shop, elsewhere) = (Arc::clone(&shop), elsewhere.clone());
                    thread::spawn(move || serve(&stream, &shop, &elsewhere));
                }
            });
        }
        Self { endpoint, shop }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shop.lock().unwrap().seen.clone()
    }
}

fn serve(stream: &TcpStream, shop: &Mutex<Shop>, elsewhere: &str) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let (mut token, mut start) = (None, 0);
    for line in lines {
        let line = line.ok()?;
        let (name, value) = match line.split_once(": ") {
            Some((name, value)) => (name.to_lowercase(), value.to_owned()),
            None => break,
        };
        match name.as_str() {
            "authorization" => token = value.strip_prefix("Bearer ").map(str::to_owned),
            "range" => start = value.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()?,
            _ => {}
        }
    }
    let mut shop = shop.lock().unwrap();
    shop.seen.push(Seen { path: path.clone(), start, has_token: token.is_some() });
    let answer = |status: &str, headers: &str, body: &[u8], len: usize| {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n{headers}\r\n"
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok()
    };
    if path.starts_with("/store/") || path.contains("/resolve/") {
        let name =
            path.rsplit_once("/resolve/").map_or(path.strip_prefix("/store/"), |(_, rest)| {
                rest.strip_prefix(COMMIT)?.strip_prefix('/')
            })?;
        let Some((content, is_lfs)) = shop.files.get(name).cloned() else {
            return answer("404 Not Found", "", b"", 0);
        };
        if is_lfs && !path.starts_with("/store/") {
            return answer("302 Found", &format!("Location: {elsewhere}/store/{name}\r\n"), b"", 0);
        }
        let (status, content) = match start {
            0 => ("200 OK", &content[..]),
            start if shop.has_ranges => {
                ("206 Partial Content", &content[start.min(content.len())..])
            }
            _ => ("200 OK", &content[..]),
        };
        let most = if shop.cuts.is_empty() { content.len() } else { shop.cuts.remove(0) };
        let sent = &content[..most.min(content.len())];
        return answer(status, "", sent, content.len());
    }
    if shop.token.is_some() && token.as_deref() != shop.token {
        return answer("401 Unauthorized", "", b"{}", 2);
    }
    if !path.starts_with("/api/models/maker/model/revision/main?") {
        return answer("404 Not Found", "", b"{}", 2);
    }
    let body = listing(&shop);
    answer("200 OK", "Content-Type: application/json\r\n", body.as_bytes(), body.len())
}

fn listing(shop: &Shop) -> String {
    let siblings: Vec<String> = shop
        .files
        .iter()
        .map(|(name, (content, is_lfs))| {
            let mut digest = if *is_lfs { sha256(content) } else { git(content) };
            if shop.liar == Some(name) {
                digest = digest.replace(|c: char| c.is_ascii_digit(), "0");
            }
            let len = content.len();
            if *is_lfs {
                let blob = git(b"a pointer");
                format!(
                    r#"{{"rfilename":"{name}","size":{len},"blobId":"{blob}","lfs":{{"sha256":"{digest}","size":{len},"pointerSize":130}}}}"#
                )
            } else {
                format!(r#"{{"rfilename":"{name}","size":{len},"blobId":"{digest}"}}"#)
            }
        })
        .collect();
    format!(r#"{{"id":"maker/model","sha":"{COMMIT}","siblings":[{}]}}"#, siblings.join(","))
}

pub(crate) fn sha256(content: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git(content: &[u8]) -> String {
    use sha1::Digest;
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", content.len()));
    hasher.update(content);
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
