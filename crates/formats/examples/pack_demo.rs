//! Packs a model directory into the GGUF file that is built into the binary.
//!
//! ```sh
//! cargo run -p wf-formats --example pack_demo -- SOURCE_DIRECTORY crates/wf/assets/demo.gguf
//! ```

use std::error::Error;
use std::path::PathBuf;

use wf_formats::{Container, FloatEncoding, ModelFile, OpenOptions, Target, TernaryEncoding};

#[expect(clippy::print_stdout, reason = "a command reports its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [source, out] = arguments.as_slice() else {
        return Err("usage: pack_demo SOURCE_DIRECTORY OUT.gguf".into());
    };
    let model = ModelFile::open(source, &OpenOptions::default())?;
    let target = Target {
        name: Some("wf-demo".to_owned()),
        ..Target::new(Container::Gguf(TernaryEncoding::I2_S), FloatEncoding::BF16)
    };
    if let Some(parent) = out.parent() {
        std::fs::create_dir_all(parent)?;
    }
    target.write(&model, out)?;
    println!("{}: {} bytes", out.display(), std::fs::metadata(out)?.len());
    Ok(())
}
