//! TL1 and TL2 as bitnet.cpp's own converter wrote them.

use super::super::*;

/// Files of `tools/golden/tiles.py`, and their shapes and tiles.
const FILES: [(&[u8], bool, [usize; 5]); 4] = [
    (
        include_bytes!("../../../../../tests/data/tiles/tl1-256x128-128x64x32.bin"),
        true,
        [256, 128, 128, 64, 32],
    ),
    (
        include_bytes!("../../../../../tests/data/tiles/tl1-128x128-128x64x64.bin"),
        true,
        [128, 128, 128, 64, 64],
    ),
    (
        include_bytes!("../../../../../tests/data/tiles/tl2-128x224-64x96x32.bin"),
        false,
        [128, 224, 64, 96, 32],
    ),
    (
        include_bytes!("../../../../../tests/data/tiles/tl2-64x192-32x192x32.bin"),
        false,
        [64, 192, 32, 192, 32],
    ),
];

fn encoding(is_tl1: bool, [bm, bk, bmm]: [usize; 3]) -> TernaryEncoding {
    let tiles = Tiles { rows: bm, cols: bk, strip: bmm };
    let encoding = if is_tl1 { TernaryEncoding::TL1 } else { TernaryEncoding::TL2 };
    encoding.with_tiles(tiles)
}

/// The same trits as in the script.
fn expected(count: usize) -> Vec<i8> {
    let mut state = 7_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 3) as i8 - 1
    };
    (0..count).map(|_| next()).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn decodes_files_of_the_bitnet_cpp_converter() {
    for (bytes, is_tl1, [rows, cols, bm, bk, bmm]) in FILES {
        let e = encoding(is_tl1, [bm, bk, bmm]);
        let size = usize::try_from(e.size(rows, cols).unwrap()).unwrap();
        // The converter pads TL2 at the end.
        assert!(size == bytes.len() || (!is_tl1 && size < bytes.len()), "{e}: {size}");
        let bytes = bytes.get(..size).unwrap();
        let expected = expected(rows * cols);
        let mut trits = vec![9; rows * cols];
        decode_trits(e, bytes, rows, cols, 0..rows, &mut trits).unwrap();
        assert!(trits == expected, "{e}");
        let mut some = vec![9; 3 * cols];
        decode_trits(e, bytes, rows, cols, 41..44, &mut some).unwrap();
        assert_eq!(Some(some.as_slice()), expected.get(41 * cols..44 * cols), "{e}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn rejects_invalid_tile_bytes() {
    for (bytes, is_tl1, [rows, cols, bm, bk, bmm]) in FILES {
        let e = encoding(is_tl1, [bm, bk, bmm]);
        let size = usize::try_from(e.size(rows, cols).unwrap()).unwrap();
        let mut bytes = bytes.get(..size).unwrap().to_vec();
        *bytes.get_mut(100).unwrap() = 0xff;
        let mut trits = vec![9; rows * cols];
        let error = decode_trits(e, &bytes, rows, cols, 0..rows, &mut trits).unwrap_err();
        assert!(
            matches!(
                error,
                EncodingError::Byte(BadByte {
                    offset: 100,
                    fault: Fault::Tile { byte: 0xff, .. },
                    ..
                })
            ),
            "{error}"
        );
        let error = encode_trits(
            e,
            &expected(rows * cols),
            rows,
            cols,
            &Scales::Tensor(1.0),
            Rounding::Exact,
        );
        assert!(error.unwrap_err().to_string().contains("cannot be written"));
    }
}

#[test]
fn rejects_tiles_that_do_not_divide_a_matrix() {
    let size = |is_tl1, tiles, rows, cols| encoding(is_tl1, tiles).size(rows, cols);
    for (is_tl1, tiles) in [
        (true, [128, 64, 0]),
        (true, [128, 64, 48]),
        (true, [0, 64, 32]),
        (true, [128, 4, 32]),
        (true, [128, 64, 512]),
        (false, [64, 96, 64]),
        (false, [64, 100, 32]),
        (false, [48, 96, 32]),
    ] {
        assert!(
            matches!(size(is_tl1, tiles, 384, 384), Err(EncodingError::Tiles { .. })),
            "{tiles:?}"
        );
    }
    assert!(matches!(size(true, [128, 64, 32], 100, 128), Err(EncodingError::Shape { .. })));
    assert!(matches!(size(true, [128, 64, 32], 128, 100), Err(EncodingError::Shape { .. })));
    assert!(matches!(size(false, [64, 96, 32], 64, 100), Err(EncodingError::Shape { .. })));
    assert!(size(false, [64, 96, 32], usize::MAX, 96).is_err());
}
