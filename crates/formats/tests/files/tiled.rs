//! A whole model in TL1, with the tables that it needs beside it.

use std::fs;

use wf_formats::{Encoding, FloatEncoding, GgufWriter, TensorName};

use crate::support::{I2_S, Sample, open, open_error};

/// Tiles of every matrix of the sample: rows, columns, rows of a strip.
const TILES: [usize; 3] = [128, 64, 32];

/// TL1, byte after byte as the format lists them.
fn tl1(trits: &[i8], rows: usize, cols: usize) -> Vec<u8> {
    let [tile_rows, tile_cols, strip] = TILES;
    let by = 256 / strip;
    let mut bytes = Vec::new();
    for tile in (0..rows).step_by(tile_rows) {
        for col_tile in (0..cols).step_by(tile_cols) {
            for strip_at in (tile..tile + tile_rows).step_by(strip) {
                for strip_col in (col_tile..col_tile + tile_cols).step_by(by) {
                    for sixteen in (strip_at..strip_at + strip).step_by(16) {
                        for four in (strip_col..strip_col + by).step_by(4) {
                            for row in sixteen..sixteen + 16 {
                                let w = &trits[row * cols + four..][..4];
                                let pair = |a: i8, b: i8| (3 * a + b + 4) as u8;
                                bytes.push(pair(w[0], w[1]) << 4 | pair(w[2], w[3]));
                            }
                        }
                    }
                }
            }
        }
    }
    bytes
}

/// The sample as bitnet.cpp writes it: a scale after each projection, in a tensor of its own.
fn file(sample: &Sample, with_scales: bool) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    sample.metadata(&mut writer, &sample.info.architecture);
    let float = Encoding::Float(FloatEncoding::F32);
    for name in TensorName::all(&sample.network) {
        let (rows, cols) = name.shape(&sample.network).unwrap();
        let shape = if name.is_norm() { vec![cols] } else { vec![rows, cols] };
        // I2_S has as many bytes, and a tail; its number is changed below.
        writer.declare(&name.gguf(), &shape, if name.is_linear() { I2_S } else { float }).unwrap();
        if name.is_linear() && with_scales {
            writer.declare(&format!("{}_scale", name.gguf()), &[1], float).unwrap();
        }
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for name in TensorName::all(&sample.network) {
        let (rows, cols) = name.shape(&sample.network).unwrap();
        let Some(trits) = sample.trits.get(&name) else {
            body.append(&sample.tensor_bytes(name, float)).unwrap();
            continue;
        };
        body.append(&tl1(trits, rows, cols)).unwrap();
        body.append(&[0; 32]).unwrap();
        if with_scales {
            body.append(&sample.scales[&name].to_le_bytes()).unwrap();
        }
    }
    let mut bytes = body.finish().unwrap();
    for name in TensorName::all(&sample.network).filter(|name| name.is_linear()) {
        retype(&mut bytes, name);
    }
    bytes
}

/// Makes the type of a matrix TL1.
fn retype(bytes: &mut [u8], name: TensorName) {
    let name = name.gguf();
    let mut key = (name.len() as u64).to_le_bytes().to_vec();
    key.extend(name.as_bytes());
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let type_at = at + 4 + 2 * 8;
    bytes[type_at..type_at + 4].copy_from_slice(&38u32.to_le_bytes());
}

#[test]
fn reads_tl1_with_tile_sizes() {
    let sample = Sample::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, file(&sample, true)).unwrap();
    let message = open_error(&path);
    assert!(message.contains("no kernel_config.ini beside the file"), "{message}");
    assert!(message.contains("from I2_S or from its Hugging Face checkpoint"), "{message}");

    let [bm, bk, bmm] = TILES;
    let sections = [(256, 256), (128, 256), (512, 256), (256, 512)].map(|(m, k)| {
        format!("[Kernels_{m}_{k}]\nm = {m}\nk = {k}\nbm = {bm}\nbk = {bk}\nbmm = {bmm}\n\n")
    });
    let table = directory.path().join("kernel_config.ini");
    fs::write(&table, sections.concat()).unwrap();
    let model = open(&path);
    sample.assert_same(&model);
    let gate = model.tensor(TensorName::Layer(0, wf_formats::LayerTensor::Gate)).unwrap();
    assert_eq!(gate.encoding.name(), "TL1");
    let decisions = model.format().decisions.join("\n");
    assert!(decisions.contains("tiles of TL1 from kernel_config.ini"), "{decisions}");

    fs::write(&path, file(&sample, false)).unwrap();
    assert!(open_error(&path).contains("has no scale \"blk.0.attn_q.weight_scale\""));
    fs::write(&table, "[a]\nm = many\n").unwrap();
    assert!(open_error(&path).contains("kernel_config.ini: line 2"));
}
