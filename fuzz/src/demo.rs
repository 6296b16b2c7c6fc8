//! The demo model, for targets that need a vocabulary or a server.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use wf_engine::{DecodeMode, KvCapacity, ModelSource, RunOptions, open_model, read_text};
use wf_formats::{ModelFile, OpenOptions};
use wf_server::{
    App, Description, Hosts, Keys, Limits, Listing, SaltKey, ServedModel, ServerOptions,
    default_sampling,
};
use wf_text::Tokenizer;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/wf/assets/demo.gguf");

/// Returns the tokenizer of the demo model.
pub fn demo_tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        let file = ModelFile::open(Path::new(DEMO), &OpenOptions::default()).expect("a model");
        read_text(&file).expect("a tokenizer").tokenizer
    })
}

/// Returns a server with the demo model, which never runs.
pub fn demo_app() -> &'static App {
    static APP: OnceLock<App> = OnceLock::new();
    APP.get_or_init(|| {
        let kv_capacity = KvCapacity::Contexts { count: 1, max_bytes: None };
        let options = RunOptions { threads: 1, kv_capacity, ..RunOptions::default() };
        let source = ModelSource::Path(DEMO.into());
        let frontend = open_model(&source, &options, &mut |_| {}).expect("a model").frontend;
        let app = App::new(ServerOptions {
            keys: Keys::default(),
            salt_key: SaltKey::default(),
            hosts: Hosts::default(),
            proxies: Vec::new(),
            limits: Limits::default(),
            drain: Duration::ZERO,
            metrics: false,
            metrics_prefix: "wf".into(),
            page: false,
            mcp_servers: Vec::new(),
            files: None,
            tls: None,
        });
        let listing = Listing {
            names: vec!["demo".into()],
            aliases: Vec::new(),
            path: "demo.gguf".into(),
            format: "gguf".into(),
            size_bytes: 0,
            architecture: "bitnet-b1.58".into(),
            ..Listing::default()
        };
        let description = Description {
            listing,
            digest: String::new(),
            isa: String::new(),
            threads: 1,
            kv: "bf16".into(),
            max_running: 1,
            memory_bytes: 0,
            decode: DecodeMode::Autoregressive,
            defaults: default_sampling(),
        };
        app.set_model(ServedModel::new(frontend, description));
        app
    })
}
