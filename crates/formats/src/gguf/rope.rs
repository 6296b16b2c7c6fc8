//! Divisors of rotary frequencies, which GGUF files store as tensors outside the layers.

use wf_core::RopeDivisors;

use super::read::Record;
use crate::error::Error;
use crate::size;

/// Divisors in contexts up to the original length.
pub(crate) const SHORT: &str = "rope_factors_short.weight";
/// Divisors in longer contexts.
pub(crate) const LONG: &str = "rope_factors_long.weight";
/// Divisors in all contexts.
pub(crate) const ALL: &str = "rope_freqs.weight";

/// Returns `true` for the name of a tensor of divisors.
pub(super) fn is_divisor(name: &str) -> bool {
    [SHORT, LONG, ALL].contains(&name)
}

/// Reads the divisors, if the file has any.
pub(super) fn divisors(
    file: &str,
    bytes: &[u8],
    tensors: &[Record],
) -> Result<Option<RopeDivisors>, Error> {
    let read = |name: &str| {
        let found = tensors.iter().find(|record| record.name == name);
        found.map(|record| floats(file, bytes, record)).transpose()
    };
    let all = read(ALL)?;
    let (short, long) = (read(SHORT)?.or_else(|| all.clone()), read(LONG)?.or(all));
    Ok(match (short, long) {
        (None, None) => None,
        (Some(short), Some(long)) => Some(RopeDivisors { short, long }),
        (Some(one), None) | (None, Some(one)) => {
            Some(RopeDivisors { short: one.clone(), long: one })
        }
    })
}

fn floats(file: &str, bytes: &[u8], record: &Record) -> Result<Vec<f32>, Error> {
    let len = size::product(&[size::widen(record.cols), 4]).filter(|_| record.rows == 1);
    let len = len.filter(|&len| record.type_id == 0 && len <= record.space.bytes);
    let Some(floats) = len.and_then(|len| size::slice(bytes, record.offset, len)) else {
        let what = "must be a vector of F32: it divides the rotary frequencies";
        return Err(Error::tensor(file, &record.name, record.offset, what));
    };
    Ok(floats.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
