//! Any model → SGLBITNT, with its tokenizer files beside it.

use std::io::Write;
use std::path::Path;

use super::config_json::config_json;
use super::file::write_whole;
use super::tokenizer::write_tokenizer_files;
use super::{Target, dims, one_scale, tensor};
use crate::companions::directory_of;
use crate::config::RotaryPairs;
use crate::encoding::{FloatEncoding, Rounding, TernaryEncoding};
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::sglbitnt::{write_header, write_record};
use crate::tensor::Encoding;

/// Writes a model as one `.bin`, and its tokenizer files into the same directory.
pub fn write_sglbitnt(source: &ModelFile, head: FloatEncoding, out: &Path) -> Result<(), Error> {
    let config = source.config();
    let io = |e| Error::io(out, e);
    let names: Vec<_> = config.tensor_names().collect();
    let trits = TernaryEncoding::SglPacked;
    let target = Target { trits, rounding: Rounding::Exact, pairs: RotaryPairs::Halves };
    write_whole(out, |file| {
        write_header(file, &config_json(config), names.len()).map_err(io)?;
        for name in names {
            let info = tensor(source, name);
            let float = if name.is_norm() { FloatEncoding::F32 } else { head };
            let (dtype, encoding, dims, scale) = if name.is_linear() {
                let packed = vec![info.rows, info.cols / 4];
                (None, Encoding::Ternary(trits), packed, Some(one_scale(source, info)?))
            } else {
                (Some(float), Encoding::Float(float), dims(info), None)
            };
            let size = encoding.size(info.rows, info.cols).map_err(|e| source.fault(info, e))?;
            write_record(file, &name.hugging_face(), dtype, &dims, scale, size).map_err(io)?;
            target.copy(source, info, float, |bytes| file.write_all(bytes).map_err(io))?;
        }
        Ok(())
    })?;
    write_tokenizer_files(source, directory_of(out))
}
