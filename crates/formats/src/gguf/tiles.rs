//! The tile sizes of TL1 and TL2, which files do not store.

use std::path::Path;

use crate::companions::{directory_of, read_limited};
use crate::encoding::Tiles;
use crate::error::Error;

/// The file that bitnet.cpp's kernel generator writes and its converter reads.
const CONFIG_NAME: &str = "kernel_config.ini";
const MAX_CONFIG_LEN: u64 = 64 * 1024;

/// One kernel: the shape of its matrices, and its tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kernel {
    rows: usize,
    cols: usize,
    tiles: Tiles,
}

const fn kernel(rows: usize, cols: usize, bm: usize, bk: usize, bmm: usize) -> Kernel {
    Kernel { rows, cols, tiles: Tiles { rows: bm, cols: bk, strip: bmm } }
}

/// The kernels that bitnet.cpp ships for TL1: bitnet_b1_58-large, bitnet_b1_58-3B, Llama3-8B.
const TL1: [Kernel; 10] = [
    kernel(1536, 4096, 256, 128, 32),
    kernel(1536, 1536, 128, 64, 64),
    kernel(4096, 1536, 256, 128, 32),
    kernel(3200, 8640, 160, 64, 32),
    kernel(3200, 3200, 320, 128, 64),
    kernel(8640, 3200, 320, 64, 32),
    kernel(14336, 4096, 256, 128, 64),
    kernel(4096, 14336, 256, 128, 32),
    kernel(1024, 4096, 128, 64, 64),
    kernel(4096, 4096, 128, 64, 32),
];

/// The kernels for TL2. bitnet.cpp has a strip of 64 for 4096 x 1536, which its converter cannot write.
const TL2: [Kernel; 10] = [
    kernel(1536, 4096, 256, 96, 32),
    kernel(1536, 1536, 128, 192, 32),
    kernel(4096, 1536, 256, 96, 32),
    kernel(3200, 8640, 160, 96, 32),
    kernel(3200, 3200, 320, 96, 32),
    kernel(8640, 3200, 320, 96, 32),
    kernel(14336, 4096, 256, 96, 32),
    kernel(4096, 14336, 128, 96, 32),
    kernel(1024, 4096, 256, 96, 32),
    kernel(4096, 4096, 128, 96, 32),
];

/// Tiles by shape: from a file beside the model, and of the kernels that bitnet.cpp ships.
#[derive(Debug, Default)]
pub(super) struct TileTable {
    beside: Vec<Kernel>,
}

impl TileTable {
    /// Reads the file beside a model, if there is one.
    pub(super) fn beside(model: &str) -> Result<Self, Error> {
        let path = directory_of(Path::new(model)).join(CONFIG_NAME);
        let Some(bytes) = read_limited(&path, MAX_CONFIG_LEN)? else { return Ok(Self::default()) };
        let beside = parse(&String::from_utf8_lossy(&bytes))
            .map_err(|what| Error::unsupported(path.display(), what))?;
        Ok(Self { beside })
    }

    /// Returns the tiles of a matrix, and their origin.
    pub(super) fn find(
        &self,
        is_tl1: bool,
        rows: usize,
        cols: usize,
    ) -> Result<(Tiles, &'static str), String> {
        let fits = |kernel: &&Kernel| (kernel.rows, kernel.cols) == (rows, cols);
        if let Some(kernel) = self.beside.iter().find(fits) {
            return Ok((kernel.tiles, CONFIG_NAME));
        }
        let built_in = if is_tl1 { &TL1 } else { &TL2 };
        if let Some(kernel) = built_in.iter().find(fits) {
            return Ok((kernel.tiles, "the kernels that bitnet.cpp ships"));
        }
        let name = if is_tl1 { "TL1" } else { "TL2" };
        Err(format!(
            "{name} requires tile sizes, which the file does not contain: none are built in for {rows} x {cols}, \
             and no {CONFIG_NAME} beside the file has this shape; convert the model from I2_S or \
             from its Hugging Face checkpoint instead"
        ))
    }
}

/// Parses sections with the keys m, k, bm, bk and bmm.
fn parse(text: &str) -> Result<Vec<Kernel>, String> {
    let mut kernels: Vec<[Option<usize>; 5]> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            kernels.push([None; 5]);
            continue;
        }
        let setting = line.split_once(['=', ':']).and_then(|(key, value)| {
            let at = ["m", "k", "bm", "bk", "bmm"].iter().position(|known| *known == key.trim())?;
            Some((at, value.trim().parse::<usize>().ok().filter(|&value| value > 0)?))
        });
        let entry = kernels.last_mut().zip(setting);
        let Some((kernel, (at, value))) = entry else {
            let line_number = number.saturating_add(1);
            return Err(format!(
                "line {line_number}: expected m, k, bm, bk or bmm and a positive number"
            ));
        };
        if let Some(slot) = kernel.get_mut(at) {
            *slot = Some(value);
        }
    }
    let kernels = kernels.into_iter().map(|keys| match keys {
        [Some(m), Some(k), Some(bm), Some(bk), Some(bmm)] => Ok(kernel(m, k, bm, bk, bmm)),
        _ => Err("a section requires m, k, bm, bk and bmm".to_owned()),
    });
    kernels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_model_overrides_the_built_in_table() {
        let text = "# tuned\n[Kernels_0]\nm = 1536\nk = 1536\nbm = 128\nbk = 128\nbmm = 32\n";
        let table = TileTable { beside: parse(text).unwrap() };
        let tiles = |bk, bmm| Tiles { rows: 128, cols: bk, strip: bmm };
        assert_eq!(table.find(true, 1536, 1536).unwrap(), (tiles(128, 32), CONFIG_NAME));
        assert_eq!(TileTable::default().find(true, 1536, 1536).unwrap().0, tiles(64, 64));
        let refusal = table.find(false, 2560, 2560).unwrap_err();
        assert!(
            refusal.contains("kernel_config.ini") && refusal.contains("2560 x 2560"),
            "{refusal}"
        );
    }

    #[test]
    fn rejects_incomplete_tables() {
        for text in ["m = 1", "[a]\nm = 1", "[a]\nm = x", "[a]\nm = 0", "[a]\nz = 1", "[a]\nm"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("").unwrap(), []);
    }
}
