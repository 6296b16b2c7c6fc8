//! Sixteen ways to spoil a model file.

use crate::json;
use crate::sample::{Kind, Mark, Random, Sample, SampleFile, VOCAB};

/// One way to spoil a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    BitFlip,
    Truncate,
    Length,
    DimCount,
    DimProduct,
    OffsetOverlap,
    OffsetOutside,
    OffsetUnaligned,
    Alignment,
    TypeConfusion,
    DuplicateName,
    NestedArrays,
    BadUtf8,
    VocabMismatch,
    BadFloat,
    BadCode,
}

pub(crate) const CLASSES: [Class; 16] = [
    Class::BitFlip,
    Class::Truncate,
    Class::Length,
    Class::DimCount,
    Class::DimProduct,
    Class::OffsetOverlap,
    Class::OffsetOutside,
    Class::OffsetUnaligned,
    Class::Alignment,
    Class::TypeConfusion,
    Class::DuplicateName,
    Class::NestedArrays,
    Class::BadUtf8,
    Class::VocabMismatch,
    Class::BadFloat,
    Class::BadCode,
];

/// A mutation, and whether a reader that accepts its result is wrong.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) what: String,
    pub(crate) must_reject: bool,
}

impl Change {
    pub(crate) fn fatal(what: String) -> Self {
        Self { what, must_reject: true }
    }

    pub(crate) fn harmful(what: String) -> Self {
        Self { what, must_reject: false }
    }
}

/// Lengths and counts that arithmetic goes wrong on.
const HOSTILE: [u64; 8] =
    [0, 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, u64::MAX, 1 << 32, u64::MAX - 31];

/// Spoils one file of a model. A class that the file has no part for becomes a bit flip.
pub(crate) fn spoil(sample: &mut Sample, class: Class, random: &mut Random) -> Change {
    let at = random.below(sample.files.len());
    let file = &mut sample.files[at];
    let change = if file.name.ends_with(".json") {
        json::spoil_document(file, class, random)
    } else if file.name.ends_with(".safetensors") {
        json::spoil_header(file, class, random).or_else(|| spoil_bytes(file, class, random))
    } else {
        spoil_bytes(file, class, random)
    };
    let mut change = change.unwrap_or_else(|| flip_bits(file, random));
    change.what = format!("{class:?}: {}: {}", file.name, change.what);
    change
}

fn spoil_bytes(file: &mut SampleFile, class: Class, random: &mut Random) -> Option<Change> {
    match class {
        Class::BitFlip => Some(flip_bits(file, random)),
        Class::Truncate => truncate(file, random),
        Class::Length => {
            let kinds = [Kind::Length, Kind::Count];
            let mark = pick(file, random, |mark| kinds.contains(&mark.kind))?;
            let value = random.pick(&HOSTILE);
            Some(Change::harmful(set(file, mark, value)))
        }
        Class::DimCount => {
            let mark = pick(file, random, |mark| mark.kind == Kind::DimCount)?;
            let value = random.pick(&[0, 5, 6, 255, 1 << 16, (1 << 31) - 1, (1 << 32) - 1]);
            Some(Change::fatal(set(file, mark, value)))
        }
        Class::DimProduct => {
            let mark = pick(file, random, |mark| mark.kind == Kind::Dim)?;
            let huge: &[u64] = if mark.len == 4 {
                &[0, 1 << 31, (1 << 32) - 1, 1 << 16]
            } else {
                &[0, 1 << 16, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX]
            };
            let mut what = String::new();
            // The whole shape, so that products wrap to small numbers: 2^32 x 2^32 is 0.
            let value = random.pick(huge);
            let near = |other: &Mark| other.kind == Kind::Dim && other.at.abs_diff(mark.at) <= 8;
            for dim in file.marks.clone().into_iter().filter(near) {
                what = set(file, dim, value);
            }
            Some(Change::fatal(what))
        }
        Class::OffsetOverlap | Class::OffsetOutside | Class::OffsetUnaligned => {
            spoil_offset(file, class, random)
        }
        Class::Alignment => {
            let mark = pick(file, random, |mark| mark.kind == Kind::Alignment)?;
            let value = random.pick(&[0, 3, 48, 1 << 13, 1 << 31, (1 << 32) - 1]);
            Some(Change::fatal(set(file, mark, value)))
        }
        Class::TypeConfusion => {
            let mark = pick(file, random, |mark| mark.kind == Kind::Type)?;
            let value = match random.below(4) {
                0 => random.next(),
                1 => 128 + random.below(300) as u64,
                _ => random.below(45) as u64,
            };
            Some(Change::harmful(set(file, mark, value)))
        }
        Class::DuplicateName => duplicate_name(file, random),
        Class::NestedArrays => None,
        Class::BadUtf8 => {
            let texts = [Kind::Key, Kind::Name, Kind::Text];
            let mark = pick(file, random, |mark| texts.contains(&mark.kind) && mark.len > 0)?;
            let at = mark.at + random.below(mark.len);
            file.bytes[at] = random.pick(&[0xff, 0xc0, 0x80, 0xf8, 0xed]);
            let what = format!("byte {at} is {:#04x}", file.bytes[at]);
            Some(Change { what, must_reject: mark.kind != Kind::Text })
        }
        Class::VocabMismatch => {
            let mark = pick(file, random, |mark| mark.kind == Kind::Token)?;
            let value = random.pick(&[VOCAB as u64, 1 << 16, (1 << 31) - 1, (1 << 32) - 1]);
            Some(Change::fatal(set(file, mark, value)))
        }
        Class::BadFloat => {
            let mark = pick(file, random, |mark| mark.kind == Kind::Float)?;
            let (top, next) =
                random.pick(&[(0x7f, 0x80), (0x7f, 0xff), (0xff, 0x80), (0xff, 0xc0)]);
            file.bytes[mark.at] = next;
            file.bytes[mark.at + 1] = top;
            let what = format!("the float with top bytes at {} is not finite", mark.at);
            Some(Change::fatal(what))
        }
        Class::BadCode => {
            let codes = [Kind::Codes, Kind::Base3];
            let mark = pick(file, random, |mark| codes.contains(&mark.kind))?;
            let byte = &mut file.bytes[mark.at];
            // 1 is no base-3 number of any length, 3 in a field is no code.
            *byte = if mark.kind == Kind::Base3 { 1 } else { *byte | 3 << (2 * random.below(4)) };
            Some(Change::fatal(format!("the code at byte {} is {byte:#04x}", mark.at)))
        }
    }
}

fn pick(file: &SampleFile, random: &mut Random, wanted: impl Fn(&Mark) -> bool) -> Option<Mark> {
    let marks: Vec<Mark> = file.marks.iter().copied().filter(|mark| wanted(mark)).collect();
    (!marks.is_empty()).then(|| random.pick(&marks))
}

/// Writes a number into a field of four or eight bytes.
fn set(file: &mut SampleFile, mark: Mark, value: u64) -> String {
    let bytes = value.to_le_bytes();
    file.bytes[mark.at..mark.at + mark.len].copy_from_slice(&bytes[..mark.len]);
    format!("{:?} at byte {} is {value:#x}", mark.kind, mark.at)
}

/// Flips one to four bits, most often in the header.
fn flip_bits(file: &mut SampleFile, random: &mut Random) -> Change {
    let mut what = "bits flipped:".to_owned();
    for _ in 0..=random.below(4) {
        let in_header = random.below(4) != 0;
        let limit = if in_header { file.header_len } else { file.bytes.len() };
        let (at, bit) = (random.below(limit), random.below(8));
        file.bytes[at] ^= 1 << bit;
        what += &format!(" {at}.{bit}");
    }
    Change::harmful(what)
}

/// Cuts the file at the edge of a field, or one byte to either side.
fn truncate(file: &mut SampleFile, random: &mut Random) -> Option<Change> {
    let in_header = random.below(3) != 0;
    let header_len = file.header_len;
    let mark = pick(file, random, |mark| !in_header || mark.at < header_len)?;
    let edge = if random.below(2) == 0 { mark.at } else { mark.at + mark.len };
    let len = (edge + random.below(3)).saturating_sub(1);
    // What follows the last mark is padding, which nobody misses.
    let content_len = file.marks.iter().map(|mark| mark.at + mark.len).max()?;
    file.bytes.truncate(len);
    let what = format!("cut to {len} bytes");
    Some(Change { what, must_reject: len < content_len })
}

fn spoil_offset(file: &mut SampleFile, class: Class, random: &mut Random) -> Option<Change> {
    let mark = pick(file, random, |mark| mark.kind == Kind::Offset)?;
    let own = read_u64(file, mark);
    let value = match class {
        Class::OffsetOverlap => {
            let another = |other: &Mark| other.kind == Kind::Offset && other.at != mark.at;
            let other = pick(file, random, another)?;
            // At the other tensor's start, or inside it.
            read_u64(file, other) + random.pick(&[0, 32])
        }
        Class::OffsetUnaligned => own + random.pick(&[1, 2, 4, 8, 16, 31]),
        _ => {
            let past_end = (file.bytes.len() as u64).next_multiple_of(32);
            random.pick(&[past_end, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 31, u64::MAX])
        }
    };
    // 32 bytes into the neighbour before may be our own start again.
    let must_reject = value != own;
    Some(Change { what: set(file, mark, value), must_reject })
}

fn read_u64(file: &SampleFile, mark: Mark) -> u64 {
    u64::from_le_bytes(file.bytes[mark.at..mark.at + 8].try_into().unwrap())
}

/// Gives a key or tensor the name of another of the same length.
fn duplicate_name(file: &mut SampleFile, random: &mut Random) -> Option<Change> {
    let kind = random.pick(&[Kind::Key, Kind::Name]);
    let mark = pick(file, random, |mark| mark.kind == kind)?;
    let is_twin = |other: &Mark| other.kind == kind && other.len == mark.len && other.at != mark.at;
    let twin = pick(file, random, is_twin)?;
    let name = file.bytes[twin.at..twin.at + twin.len].to_vec();
    file.bytes[mark.at..mark.at + mark.len].copy_from_slice(&name);
    let what = format!("{} at bytes {} and {}", String::from_utf8_lossy(&name), twin.at, mark.at);
    Some(Change::fatal(what))
}
