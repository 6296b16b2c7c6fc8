//! Options of commands that may use a server instead of a local model.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use wf_api::http::Client;

use crate::{env, input};

#[derive(ClapArgs)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteArgs {
    /// Use the server at http://host:port, https://host:port or unix:/path/to/socket; its defaults
    /// apply to options that are not set
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// API key, if the server requires one [default: OPENAI_API_KEY]. Other users of this machine can
    /// see flags: prefer the variable or --api-key-file
    #[arg(long, value_name = "KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// File with the API key on its first line
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// File with certificates in PEM, to accept servers that they have signed
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
}

impl RemoteArgs {
    /// Returns a client of the server at `url`.
    pub(crate) fn client(&self, url: &str) -> Result<Client> {
        // Other programs expect the URL to include the version of the API.
        let client = Client::new(url.trim_end_matches('/').trim_end_matches("/v1"))?
            .trusting(self.ca_cert.as_deref())?;
        match self.key()? {
            Some(key) => Ok(client.with_api_key(&key)?),
            None => Ok(client),
        }
    }

    /// Returns the API key: that of the flag or its variable, of the file, or of OPENAI_API_KEY.
    fn key(&self) -> Result<Option<String>> {
        if self.api_key.is_some() {
            return Ok(self.api_key.clone());
        }
        if let Some(path) = &self.api_key_file {
            let key = input::read_keys(path)?.into_iter().next();
            let no_key = || format!("--api-key-file: {} has no key", path.display());
            return key.with_context(no_key).map(Some);
        }
        env::text("OPENAI_API_KEY")
    }
}
