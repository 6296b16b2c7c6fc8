//! Opens a model and uses everything it offers. The fuzz targets do the same.

use std::path::Path;

use wf_formats::{
    Encoding, Error, ModelFile, OpenOptions, TensorInfo, TensorName, TokenizerSource,
};

/// Reads all there is of a model, and panics if something in it is not sound.
pub(crate) fn read_everything(path: &Path) -> Result<(), Error> {
    let model = ModelFile::open(path, &OpenOptions::default())?;
    let (network, info) = (model.network(), model.info());
    assert!(network.check().is_ok());
    assert!(TensorName::all(network).all(|name| model.tensor(name).is_some()));
    let ids = info.eos.iter().chain(&info.bos);
    assert!(ids.into_iter().all(|id| (*id as usize) < network.vocab_len));
    if let TokenizerSource::Gguf(vocabulary) = model.tokenizer() {
        assert!(vocabulary.tokens.len() <= network.vocab_len);
        assert!([0, vocabulary.tokens.len()].contains(&vocabulary.token_types.len()));
    }
    std::hint::black_box((model.chat_template(), model.special_token_texts(), model.format()));
    std::hint::black_box(model.extra_tensors());
    for tensor in model.tensors() {
        assert_eq!(model.bytes(tensor).len() as u64, tensor.size);
        assert_eq!(tensor.name.shape(network), Some((tensor.rows, tensor.cols)));
        match tensor.encoding {
            Encoding::Float(_) => read_floats(&model, tensor)?,
            _ => read_trits(&model, tensor)?,
        }
    }
    Ok(())
}

const ROWS_AT_ONCE: usize = 64;

fn read_floats(model: &ModelFile, tensor: &TensorInfo) -> Result<(), Error> {
    for start in (0..tensor.rows).step_by(ROWS_AT_ONCE) {
        let rows = start..(start + ROWS_AT_ONCE).min(tensor.rows);
        let mut values = vec![f32::NAN; rows.len() * tensor.cols];
        model.floats(tensor, rows, &mut values)?;
        assert!(values.iter().all(|value| value.is_finite()), "{}", tensor.source_name);
    }
    Ok(())
}

fn read_trits(model: &ModelFile, tensor: &TensorInfo) -> Result<(), Error> {
    let scales = model.scales(tensor)?;
    assert!(
        wf_formats::check_scales(&scales, tensor.rows, tensor.cols).is_ok(),
        "{}",
        tensor.source_name
    );
    for start in (0..tensor.rows).step_by(ROWS_AT_ONCE) {
        let rows = start..(start + ROWS_AT_ONCE).min(tensor.rows);
        let mut trits = vec![9; rows.len() * tensor.cols];
        model.trits(tensor, rows, &mut trits)?;
        assert!(trits.iter().all(|trit| (-1..=1).contains(trit)), "{}", tensor.source_name);
    }
    Ok(())
}
