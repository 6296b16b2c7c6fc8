//! API keys of `wf serve`: from flags and a file, which is read again on SIGHUP.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use wf_server::{App, Key, Keys};

use crate::input;
use crate::serve::args::AccessArgs;

/// Origin of the keys: flags and a file.
#[derive(Clone)]
pub(crate) struct KeySource {
    given: Vec<String>,
    admin: Vec<String>,
    file: Option<PathBuf>,
    /// True if the server must not be open to everyone.
    is_required: bool,
}

impl KeySource {
    pub(crate) fn new(args: &AccessArgs, is_required: bool) -> Self {
        Self {
            given: args.api_key.clone(),
            admin: args.admin_key.clone(),
            file: args.api_key_file.clone(),
            is_required,
        }
    }

    /// Reads all keys.
    ///
    /// # Errors
    ///
    /// If the file is not readable or has an invalid line, or if a key is required and there is none.
    pub(crate) fn read(&self) -> Result<Keys> {
        let plain = |keys: &[String], make: fn(&str) -> Key| -> Vec<Key> {
            let keys = keys.iter().map(|key| key.trim()).filter(|key| !key.is_empty());
            keys.map(make).collect()
        };
        let mut keys = plain(&self.given, Key::new);
        keys.extend(self.read_file()?);
        ensure!(
            !keys.is_empty() || (self.given.is_empty() && self.file.is_none()),
            "--api-key and --api-key-file have no key"
        );
        let keys = Keys::from_keys(keys.into_iter().chain(plain(&self.admin, Key::admin)));
        ensure!(
            !self.is_required || !keys.is_open(),
            "this address is reachable from other machines: require an API key with --api-key-file, or \
             allow requests without one with --no-key"
        );
        Ok(keys)
    }

    fn read_file(&self) -> Result<Vec<Key>> {
        let Some(path) = &self.file else { return Ok(Vec::new()) };
        let text = input::read_text_file(path).context("--api-key-file")?;
        let lines = text.lines().map(str::trim).zip(1..);
        let keys = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let parse = |(line, number)| {
            Key::parse(line)
                .map_err(|what| anyhow!("--api-key-file {}: line {number}: {what}", path.display()))
        };
        keys.map(parse).collect()
    }

    /// Reads the keys again. If that fails, the old ones stay.
    pub(crate) fn reload(&self, app: &App) {
        match self.read() {
            Ok(keys) => {
                tracing::info!(?keys, "API keys read again");
                app.set_keys(&keys);
            }
            Err(error) => tracing::error!("API keys not read again, the old ones stay: {error:#}"),
        }
    }
}
