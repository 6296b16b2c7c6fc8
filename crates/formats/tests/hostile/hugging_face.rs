//! A Hugging Face checkpoint, as one file or in shards.

use serde_json::{Map, Value, json};
use wf_formats::TensorName;
use wf_formats::encoding::TernaryEncoding;

use crate::sample::{self, Kind, Sample, SampleFile, TensorBytes, VOCAB};
use crate::sglbitnt;

/// One checkpoint in one file, opened by that file's name.
pub(crate) fn single() -> Sample {
    let mut files = vec![weights("model.safetensors", |_| true)];
    files.extend(companions());
    Sample { files, open: Some("model.safetensors") }
}

/// The same in two files and an index, opened by its directory.
pub(crate) fn sharded() -> Sample {
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let is_first = |name: TensorName| name.hugging_face().contains("self_attn");
    let mut files = vec![weights(names[0], is_first), weights(names[1], |name| !is_first(name))];
    let mut map = Map::new();
    for (name, _, _) in sample::network() {
        let shard = names[usize::from(!is_first(name))];
        map.insert(name.hugging_face(), json!(shard));
        if name.is_linear() {
            map.insert(format!("{}_scale", name.hugging_face()), json!(shard));
        }
    }
    let index = json!({ "metadata": { "total_size": 1 }, "weight_map": map });
    files.push(document("model.safetensors.index.json", &index));
    files.extend(companions());
    Sample { files, open: None }
}

fn companions() -> Vec<SampleFile> {
    let vocabulary: Map<String, Value> =
        (0..VOCAB).map(|token| (format!("t{token}"), json!(token))).collect();
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [{ "id": 3, "content": "|<MASK>|", "special": true }],
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    });
    let mut config = sglbitnt::config();
    config["block_diffusion"] = json!({
        "mask_token_id": 3, "block_size": 32, "sub_block_size": 8, "token_shift": true, "context": "causal",
    });
    vec![
        document("config.json", &config),
        document("generation_config.json", &json!({ "eos_token_id": 2, "bos_token_id": 0 })),
        document("tokenizer.json", &tokenizer),
        document(
            "tokenizer_config.json",
            &json!({ "bos_token": "t0", "eos_token": { "content": "t1" }, "chat_template": "{{ messages }}" }),
        ),
    ]
}

fn document(name: &str, value: &Value) -> SampleFile {
    let bytes = serde_json::to_vec_pretty(value).unwrap();
    SampleFile { header_len: bytes.len(), bytes, ..SampleFile::new(name) }
}

/// A safetensors file of the tensors that `belongs` picks.
fn weights(file_name: &str, belongs: impl Fn(TensorName) -> bool) -> SampleFile {
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut data: Vec<TensorBytes> = Vec::new();
    let mut end = 0;
    let mut add = |name: String, dtype: &str, shape: Vec<usize>, bytes: TensorBytes| {
        let start = end;
        end += bytes.bytes.len();
        header
            .insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
        data.push(bytes);
    };
    for (name, rows, cols) in sample::network().into_iter().filter(|(name, _, _)| belongs(*name)) {
        let hf_name = name.hugging_face();
        if name.is_linear() {
            let bytes = sample::ternary(TernaryEncoding::HF_PACKED, rows, cols);
            add(hf_name.clone(), "U8", vec![rows / 4, cols], bytes);
            let mark = sample::Mark { kind: Kind::Float, at: 0, len: 2 };
            let scale = TensorBytes { bytes: vec![0xc0, 0x3f], marks: vec![mark] };
            add(format!("{hf_name}_scale"), "BF16", vec![1], scale);
        } else if rows == 1 {
            add(hf_name, "F32", vec![cols], sample::floats(cols));
        } else {
            add(hf_name, "F32", vec![rows, cols], sample::floats(rows * cols));
        }
    }
    let mut file = SampleFile::new(file_name);
    let header = Value::Object(header).to_string();
    file.put(Kind::Length, &(header.len() as u64).to_le_bytes());
    file.bytes.extend(header.as_bytes());
    file.header_len = file.bytes.len();
    data.iter().for_each(|bytes| file.put_data(bytes));
    file
}
