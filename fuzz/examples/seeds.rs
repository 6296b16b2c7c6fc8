//! Writes the start of each target's corpus: small sound models of every format and encoding.

#![expect(dead_code, reason = "the marks and some of the models are for the tests")]

#[path = "../../crates/formats/tests/hostile/gguf.rs"]
mod gguf;
#[path = "../../crates/formats/tests/hostile/hugging_face.rs"]
mod hugging_face;
#[path = "../../crates/formats/tests/hostile/sample.rs"]
mod sample;
#[path = "../../crates/formats/tests/hostile/sglbitnt.rs"]
mod sglbitnt;

use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(corpus.join(target))?;
        fs::write(corpus.join(target).join(name), bytes)
    };
    for (at, (encoding, type_id)) in gguf::ENCODINGS.into_iter().enumerate() {
        let model = gguf::model(encoding, type_id, &gguf::Twist::default());
        write("gguf", &format!("{at}"), &model.files[0].bytes)?;
    }
    write("sglbitnt", "0", &sglbitnt::model().files[0].bytes)?;

    let checkpoint = hugging_face::single();
    let file = |name: &str| {
        let found = checkpoint.files.iter().find(|file| file.name == name);
        found.map(|file| file.bytes.as_slice()).unwrap_or_default()
    };
    let config = file("config.json");
    let len = u16::try_from(config.len()).map_err(io::Error::other)?;
    let bytes = [&len.to_le_bytes(), config, file("model.safetensors")].concat();
    write("safetensors", "0", &bytes)?;

    for which in 0..18 {
        // An encoding, four rows, 256 columns, and bytes that are trits in all of them.
        let mut bytes = vec![which, 4, 16];
        bytes.resize(3 + 4 * 256, 0);
        write("encodings", &which.to_string(), &bytes)?;
    }
    Ok(())
}
