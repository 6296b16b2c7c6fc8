//! Local checkpoints with master weights are rounded once, as models on the Hub are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Map, Value, json};

use crate::program::command;

const HIDDEN: usize = 512;
/// Large enough for three matrices of 16 bits to be worth a file.
const FEED_FORWARD: usize = 23_040;
const VOCABULARY: usize = 64;

/// A checkpoint with one layer of master weights in bf16.
struct Checkpoint(tempfile::TempDir);

impl Checkpoint {
    fn new() -> Self {
        let checkpoint = Self(tempfile::tempdir().unwrap());
        fs::create_dir(checkpoint.path()).unwrap();
        let config = json!({
            "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2",
            "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": 1,
            "quantization_config": {
                "quant_method": "bitnet", "quantization_mode": "online", "linear_class": "autobitlinear"
            }
        });
        fs::write(checkpoint.path().join("config.json"), config.to_string()).unwrap();
        checkpoint.write_weights(1);
        checkpoint
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("checkpoint")
    }

    fn cache(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn write_weights(&self, seed: u32) {
        let mut shapes = vec![("embed_tokens".to_owned(), vec![VOCABULARY, HIDDEN])];
        for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            shapes.push((format!("layers.0.self_attn.{name}"), vec![HIDDEN, HIDDEN]));
        }
        for (name, shape) in [
            ("self_attn.attn_sub_norm", vec![HIDDEN]),
            ("mlp.gate_proj", vec![FEED_FORWARD, HIDDEN]),
            ("mlp.up_proj", vec![FEED_FORWARD, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, FEED_FORWARD]),
            ("mlp.ffn_sub_norm", vec![FEED_FORWARD]),
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
        ] {
            shapes.push((format!("layers.0.{name}"), shape));
        }
        shapes.push(("norm".to_owned(), vec![HIDDEN]));
        let (mut header, mut end) = (Map::new(), 0);
        for (name, shape) in shapes {
            let start = end;
            end += 2 * shape.iter().product::<usize>();
            let entry = json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]});
            header.insert(format!("model.{name}.weight"), entry);
        }
        let header = Value::Object(header).to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        let mut state = seed;
        bytes.extend((0..end / 2).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Values between 2⁻⁷ and 2 of either sign.
            let value = (state >> 16) as u16 & 0x83ff | 0x3c00;
            value.to_le_bytes()
        }));
        fs::write(self.path().join("model.safetensors"), bytes).unwrap();
    }

    fn wf(&self, args: &[&str]) -> Output {
        command(args).env("XDG_CACHE_HOME", self.cache()).output().unwrap()
    }

    /// Returns logits, and whether the model was converted.
    fn logits(&self, model: &Path) -> (Value, bool) {
        let model = model.to_str().unwrap();
        let output = self.wf(&["eval", "logits", model, "--ids", "1,5,9", "--all", "--json"]);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        (serde_json::from_slice(&output.stdout).unwrap(), messages.contains("converting"))
    }

    fn cached(&self) -> Vec<Value> {
        let listed = self.wf(&["cache", "list", "--check", "--json"]);
        let mut listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let Value::Array(models) = listed["models"].take() else { panic!("{listed}") };
        models
    }
}

#[test]
fn a_local_checkpoint_is_rounded_once() {
    let checkpoint = Checkpoint::new();
    let model = checkpoint.path();
    let (first, converted) = checkpoint.logits(&model);
    assert!(converted);
    let (second, converted) = checkpoint.logits(&model);
    assert_eq!((&second, converted), (&first, false));
    // The file alone is the same model, without a cache.
    let gguf = checkpoint.0.path().join("model.gguf");
    let flags = ["convert", model.to_str().unwrap(), gguf.to_str().unwrap(), "--no-verify"];
    assert!(checkpoint.wf(&flags).status.success());
    assert_eq!(checkpoint.logits(&gguf), (first.clone(), false));
    let [kept] = &checkpoint.cached()[..] else { panic!("one entry") };
    assert_eq!((&kept["sound"], &kept["current"]), (&Value::Bool(true), &Value::Bool(true)));
    assert!(kept["source"].as_str().unwrap().ends_with("checkpoint"), "{kept}");

    checkpoint.write_weights(2);
    let (other, converted) = checkpoint.logits(&model);
    assert!(converted && other != first, "other weights are another model");
    assert_eq!(checkpoint.cached().len(), 1, "the old conversion is removed");

    // Without a place for the conversion, the checkpoint itself runs.
    fs::remove_dir_all(checkpoint.cache()).unwrap();
    fs::write(checkpoint.cache(), "").unwrap();
    assert_eq!(checkpoint.logits(&model), (other, false));
}
