//! A `.wf` model, and mutations of its header with a correct digest.

use wf_formats::{Container, FloatEncoding, IfExists, ModelFile, OpenOptions, Rounding, Target};

use crate::mutate::{Change, Class};
use crate::sample::{Random, Sample, SampleFile};
use crate::sign::signed;
use crate::{gguf, json};

/// The sample network, with a vocabulary and a chat template where GGUF has them.
pub(crate) fn model() -> Sample {
    let directory = tempfile::tempdir().unwrap();
    let (encoding, type_id) = gguf::encodings()[0];
    let source = gguf::model(encoding, type_id, &gguf::Twist::default());
    let from = crate::probe::write(&source, directory.path());
    let target = Target {
        container: Container::Wf,
        head: FloatEncoding::F32.into(),
        rounding: Rounding::Exact,
        name: None,
        if_exists: IfExists::Fail,
        threads: 1,
    };
    let out = directory.path().join("model.wf");
    target.write(&ModelFile::open(&from, &OpenOptions::default()).unwrap(), &out).unwrap();
    let bytes = std::fs::read(out).unwrap();
    let header_len = header_end(&bytes);
    let file = SampleFile { bytes, header_len, ..SampleFile::new("model.wf") };
    Sample { files: vec![file], open: Some("model.wf") }
}

fn header_end(bytes: &[u8]) -> usize {
    64 + u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize
}

/// Mutates the header and adds a correct digest, for two of three mutants.
pub(crate) fn signed_again(
    sample: &Sample,
    round: usize,
    class: Class,
    random: &mut Random,
) -> Option<(Sample, Change)> {
    if round.is_multiple_of(3) {
        return None;
    }
    let mut sample = sample.clone();
    let file = &mut sample.files[0];
    let end = header_end(&file.bytes);
    let header = file.bytes[64..end].to_vec();
    let data = file.bytes.split_off(end.next_multiple_of(4096));
    let mut document =
        SampleFile { header_len: header.len(), bytes: header, ..SampleFile::new("header.json") };
    let mut change = json::spoil_document(&mut document, class, random)?;
    change.must_reject = false;
    file.bytes = signed(file.bytes[8], &document.bytes, &data);
    Some((sample, change))
}

/// The sample of version 1 in the repository.
pub(crate) fn model_of_version_1() -> Sample {
    let bytes = include_bytes!("../../../../tests/data/wf/version-1.wf").to_vec();
    let header_len = header_end(&bytes);
    let file = SampleFile { bytes, header_len, ..SampleFile::new("model.wf") };
    Sample { files: vec![file], open: Some("model.wf") }
}

/// Offsets and sizes of a header whose digest is correct: each change must be rejected.
#[test]
fn a_signed_header_cannot_lie_about_offsets() {
    check_signed_header(&model());
    check_signed_header(&model_of_version_1());
}

fn check_signed_header(sample: &Sample) {
    let bytes = &sample.files[0].bytes;
    let end = header_end(bytes);
    let header: serde_json::Value = serde_json::from_slice(&bytes[64..end]).unwrap();
    let data = &bytes[end.next_multiple_of(4096)..];
    let directory = tempfile::tempdir().unwrap();
    let rejected = |what: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut header = header.clone();
        change(&mut header);
        let bytes = signed(bytes[8], header.to_string().as_bytes(), data);
        let file = SampleFile { bytes, ..SampleFile::new("model.wf") };
        let sample = Sample { files: vec![file], open: Some("model.wf") };
        crate::probe::probe(&sample, directory.path(), what)
    };
    rejected("nothing", &|_| {}).unwrap();
    let tensors = header["tensors"].as_array().unwrap().len();
    for at in 0..tensors {
        let place = |what: &str, key: &str, value: u64| {
            let message = rejected(what, &|h| h["tensors"][at]["place"][key] = value.into());
            message.expect_err(&format!("{what} of tensor {at}"))
        };
        place("a place past the file", "offset", 1 << 40);
        place("a place past all files", "offset", u64::MAX - 4095);
        place("an uneven place", "offset", 64);
        place("a size of nothing", "size", 0);
        place("a size past all files", "size", u64::MAX);
        if at > 0 {
            assert!(place("the place of another", "offset", 0).contains("ends at byte"));
        }
        for key in ["rows", "cols"] {
            for value in [0, 1, u64::from(u32::MAX), u64::MAX] {
                let message = rejected(key, &|h| h["tensors"][at][key] = value.into());
                // A norm has one row.
                let is_same = header["tensors"][at][key] == value;
                assert_eq!(message.is_ok(), is_same, "{key} {value} of tensor {at}");
            }
        }
        for encoding in ["QUAD_LINES_64", "Q4_0", "quad_lines", "", "\u{1b}[2J"] {
            let change = |h: &mut serde_json::Value| h["tensors"][at]["encoding"] = encoding.into();
            assert!(rejected(encoding, &change).is_err(), "{encoding:?} of tensor {at}");
        }
    }
    let twice = |h: &mut serde_json::Value| {
        let record = h["tensors"][1].clone();
        h["tensors"].as_array_mut().unwrap().insert(2, record);
    };
    assert!(rejected("a tensor twice", &twice).is_err());
    assert!(
        rejected("a missing tensor", &|h| drop(h["tensors"].as_array_mut().unwrap().pop()))
            .is_err()
    );
    assert!(rejected("an unknown key", &|h| h["later"] = 1.into()).is_err());
    if header["documents"][0].is_object() {
        let unknown = |h: &mut serde_json::Value| h["documents"][0]["name"] = "x".into();
        assert!(rejected("an unknown document", &unknown).is_err());
    }
}
