//! The built-in model: the file the binary carries is the model it was packed from, bit for bit.

use wf_formats::{ModelFile, OpenOptions, TensorName, TokenizerSource};

use crate::support::{open, read_trits, shared};

static DEMO: &[u8] = include_bytes!("../../../wf/assets/demo.gguf");

pub(crate) fn demo() -> ModelFile {
    ModelFile::from_bytes("demo", DEMO, &OpenOptions::default()).unwrap()
}

#[test]
fn the_built_in_model_opens() {
    let demo = demo();
    let (network, info) = (demo.network(), demo.info());
    assert_eq!((network.layers.len(), network.hidden_len, network.vocab_len), (12, 512, 8192));
    assert_eq!((info.bos, info.eos.as_slice()), (Some(0), [1, 2].as_slice()));
    let block = info.block_diffusion.unwrap();
    assert_eq!((block.mask_token, block.block_len, block.sub_block_len), (3, 32, Some(8)));
    assert!(block.token_shift && block.causal_context);
    let TokenizerSource::Gguf(vocabulary) = demo.tokenizer() else { panic!("no vocabulary") };
    assert_eq!((vocabulary.tokens.len(), vocabulary.merges.len()), (8192, 7932));
    assert!(demo.extra_tensors().is_empty());
}

#[test]
fn the_built_in_model_equals_its_source() {
    let Some(path) = shared("models/demo") else { return };
    let (demo, source) = (demo(), open(&path));
    let mut expected = source.info().clone();
    expected.architecture = "bitnet-b1.58".to_owned();
    expected.name = Some("wf-demo".to_owned());
    assert_eq!((demo.network(), demo.info()), (source.network(), &expected));
    assert_eq!(demo.chat_template(), source.chat_template());
    assert_eq!(demo.special_token_texts(), source.special_token_texts());
    for info in source.tensors() {
        let packed = demo.tensor(info.name).unwrap();
        if info.name.is_linear() {
            assert!(
                read_trits(&demo, info.name) == read_trits(&source, info.name),
                "{}",
                info.name
            );
            assert_eq!(demo.scales(packed).unwrap(), source.scales(info).unwrap());
            continue;
        }
        let mut ours = vec![0.0; info.rows * info.cols];
        let mut theirs = ours.clone();
        demo.floats(packed, 0..info.rows, &mut ours).unwrap();
        source.floats(info, 0..info.rows, &mut theirs).unwrap();
        let same = ours.iter().zip(&theirs).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{}", info.name);
        if info.name == TensorName::Embedding {
            assert!(demo.bytes(packed) == source.bytes(info));
        }
    }
}
