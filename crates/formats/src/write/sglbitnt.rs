//! Any model → SGLBITNT, with its tokenizer files beside it.

use std::io::Write;
use std::path::Path;

use super::config_json::config_json;
use super::file::write_whole;
use super::tokenizer::write_tokenizer_files;
use super::{float_pieces, projection, tensor};
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding, TritScales, encode_trits};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::sglbitnt::{write_header, write_record};
use crate::size;
use crate::tensor::Encoding;

/// Writes a model as one `.bin`, and its tokenizer files into the same directory.
pub fn write_sglbitnt(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let config = source.config();
    let io = |e| Error::io(out, e);
    let names: Vec<_> = config.tensor_names().collect();
    write_whole(out, |file| {
        write_header(file, &config_json(config), names.len()).map_err(io)?;
        for name in names {
            let info = tensor(source, name);
            let fault = |e| Error::tensor(source.name(), &info.source_name, info.offset, e);
            let hf_name = name.hugging_face();
            if name.is_linear() {
                let (trits, scales) = projection(source, info, RotaryPairs::Halves)?;
                let encoding = TernaryEncoding::SglPacked;
                let bytes =
                    encode_trits(encoding, &trits, info.rows, info.cols, &scales, Rounding::Exact)
                        .map_err(fault)?;
                let scale = one_scale(&scales);
                let dims = [info.rows, info.cols / 4];
                let len = size::widen(bytes.len());
                write_record(file, &hf_name, None, &dims, Some(scale), len).map_err(io)?;
                file.write_all(&bytes).map_err(io)?;
                continue;
            }
            let float = if name.is_norm() { FloatEncoding::F32 } else { head };
            let matrix = [info.rows, info.cols];
            let dims = if name.is_norm() { &matrix[1..] } else { &matrix[..] };
            let len = Encoding::Float(float).size(info.rows, info.cols).map_err(fault)?;
            write_record(file, &hf_name, Some(float), dims, None, len).map_err(io)?;
            float_pieces(source, info, float, |bytes| file.write_all(bytes).map_err(io))?;
        }
        Ok(())
    })?;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    write_tokenizer_files(source, parent.unwrap_or(Path::new(".")))
}

/// The scale of trits whose encoding has room for one; `encode_trits` has refused more. A tensor of
/// zeros may have any, and these formats want a positive one.
pub(super) fn one_scale(scales: &TritScales) -> f32 {
    scales.values().first().copied().filter(|&scale| scale > 0.0).unwrap_or(1.0)
}
