//! Spoiling JSON: documents, and the header of a safetensors file.

use serde_json::{Value, json};

use crate::mutate::{Change, Class};
use crate::sample::{Random, SampleFile, VOCAB};

/// Stands in a document for text that no JSON value can be, until it is written.
const PLACEHOLDER: &str = "\"@placeholder@\"";

/// Spoils a document. Other programs read `tokenizer.json`, so there everything may pass.
pub(crate) fn spoil_document(
    file: &mut SampleFile,
    class: Class,
    random: &mut Random,
) -> Option<Change> {
    if matches!(class, Class::BitFlip | Class::BadCode) {
        return None;
    }
    if class == Class::Truncate {
        let len = random.below(file.bytes.len());
        file.bytes.truncate(len);
        return Some(Change::harmful(format!("cut to {len} bytes")));
    }
    let mut value: Value = serde_json::from_slice(&file.bytes).unwrap();
    let (change, text) = spoil_value(&mut value, class, random)?;
    file.bytes = text;
    file.header_len = file.bytes.len();
    let is_config = file.name == "config.json";
    Some(Change { must_reject: change.must_reject && is_config, ..change })
}

/// Spoils the header of a safetensors file and puts it back before the data.
pub(crate) fn spoil_header(
    file: &mut SampleFile,
    class: Class,
    random: &mut Random,
) -> Option<Change> {
    let by_bytes =
        [Class::BitFlip, Class::Truncate, Class::Length, Class::BadFloat, Class::BadCode];
    if by_bytes.contains(&class) {
        return None;
    }
    let data = file.bytes.split_off(file.header_len);
    let mut header: Value = serde_json::from_slice(&file.bytes[8..]).unwrap();
    let spoiled = match class {
        Class::OffsetOverlap | Class::OffsetOutside | Class::OffsetUnaligned => {
            spoil_offsets(&mut header, class, random)
        }
        Class::DimProduct => spoil_shape(&mut header, random),
        _ => spoil_value(&mut header, class, random),
    };
    let text = match &spoiled {
        Some((_, text)) => text.clone(),
        None => file.bytes[8..].to_vec(),
    };
    file.bytes = (text.len() as u64).to_le_bytes().to_vec();
    file.bytes.extend(text);
    file.header_len = file.bytes.len();
    file.bytes.extend(data);
    file.marks.clear();
    let (change, _) = spoiled?;
    // A name that appears twice is fatal here, but not in a document, where the last one counts.
    let must_reject = change.must_reject || class == Class::DuplicateName;
    Some(Change { must_reject, ..change })
}

/// One of the header's tensors.
fn pick_tensor<'a>(header: &'a mut Value, random: &mut Random) -> (String, &'a mut Value) {
    let object = header.as_object_mut().unwrap();
    let at = 1 + random.below(object.len() - 1);
    let (name, tensor) = object.iter_mut().nth(at).unwrap();
    (name.clone(), tensor)
}

fn spoil_offsets(
    header: &mut Value,
    class: Class,
    random: &mut Random,
) -> Option<(Change, Vec<u8>)> {
    let (_, other) = pick_tensor(header, random);
    let other = other["data_offsets"].clone();
    let (name, tensor) = pick_tensor(header, random);
    let offsets = tensor["data_offsets"].clone();
    let number = |at: usize| offsets[at].as_u64().unwrap();
    let spoiled = match class {
        Class::OffsetOverlap => other,
        Class::OffsetUnaligned => json!([number(0) + 1, number(1) + 1]),
        _ => random
            .pick(&[
                (number(0), u64::MAX),
                (u64::MAX, u64::MAX),
                (u64::MAX - 1, 1),
                (1 << 63, (1 << 63) + 16),
                (number(1), number(0)),
            ])
            .into_json(),
    };
    let changed = spoiled != offsets;
    tensor["data_offsets"] = spoiled;
    let what = format!("{name}: data_offsets {}", tensor["data_offsets"]);
    let text = header.to_string().into_bytes();
    Some((Change { what, must_reject: changed }, text))
}

trait IntoJson {
    fn into_json(self) -> Value;
}

impl IntoJson for (u64, u64) {
    fn into_json(self) -> Value {
        json!([self.0, self.1])
    }
}

fn spoil_shape(header: &mut Value, random: &mut Random) -> Option<(Change, Vec<u8>)> {
    let (name, tensor) = pick_tensor(header, random);
    let huge = random.pick(&[0, 1 << 16, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX]);
    let shape = match random.below(3) {
        0 => json!([huge, huge]),
        1 => json!([huge, huge, huge, huge]),
        _ => json!([1, huge]),
    };
    let what = format!("{name}: shape {shape}");
    tensor["shape"] = shape;
    Some((Change::fatal(what), header.to_string().into_bytes()))
}

/// Spoils any JSON, and returns it as text.
fn spoil_value(value: &mut Value, class: Class, random: &mut Random) -> Option<(Change, Vec<u8>)> {
    let mut paths = Vec::new();
    collect_paths(value, &mut String::new(), &mut paths);
    let mut change = Change::harmful(String::new());
    let mut placed = String::new();
    let path = match class {
        Class::VocabMismatch => {
            let ids = ["/bos_token_id", "/eos_token_id/0", "/block_diffusion/mask_token_id"];
            let known: Vec<&str> =
                ids.into_iter().filter(|path| value.pointer(path).is_some()).collect();
            if known.is_empty() {
                return None;
            }
            change.must_reject = true;
            random.pick(&known).to_owned()
        }
        _ => paths[random.below(paths.len())].clone(),
    };
    let target = value.pointer_mut(&path).unwrap();
    match class {
        Class::DuplicateName => return duplicate_key(value, random),
        Class::BadUtf8 => {
            let mut text = value.to_string().into_bytes();
            let at = random.below(text.len());
            text[at] = random.pick(&[0xff, 0xc0, 0x80]);
            return Some((Change::fatal(format!("byte {at} is no UTF-8")), text));
        }
        Class::VocabMismatch => {
            *target = json!(random.pick(&[VOCAB as u64, (1 << 32) - 1, 1 << 32, u64::MAX]));
        }
        Class::NestedArrays => {
            let depth = random.pick(&[4, 127, 129, 1000, 200_000]);
            placed = "[".repeat(depth) + &"]".repeat(depth);
            *target = json!("@placeholder@");
        }
        Class::BadFloat => {
            placed = random.pick(&["NaN", "Infinity", "1e400", "-1e400", "1e-400"]).to_owned();
            *target = json!("@placeholder@");
        }
        Class::TypeConfusion | Class::DimCount => *target = other_type(random),
        _ => *target = hostile_number(random),
    }
    let text = value.to_string();
    let shown = if placed.len() > 40 { "nested arrays" } else { &placed };
    change.what = format!("{path} is {shown} {}", value.pointer(&path).unwrap_or(&Value::Null));
    change.what.truncate(change.what.floor_char_boundary(200));
    Some((change, text.replacen(PLACEHOLDER, &placed, 1).into_bytes()))
}

fn collect_paths(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    let len = path.len();
    if len > 0 {
        paths.push(path.clone());
    }
    let mut visit = |key: &str, value: &Value| {
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        collect_paths(value, path, paths);
        path.truncate(len);
    };
    match value {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| visit(&at.to_string(), value));
        }
        Value::Object(values) => values.iter().for_each(|(key, value)| visit(key, value)),
        _ => {}
    }
}

fn hostile_number(random: &mut Random) -> Value {
    match random.below(4) {
        0 => json!(-1),
        1 => json!(random.pick(&[0.5, -0.0, 1e308, 1e-308])),
        _ => json!(random.pick(&[0, 1, 3, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, u64::MAX])),
    }
}

fn other_type(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!("text"),
        3 => json!([]),
        4 => json!({}),
        5 => json!(vec![1_u64; 100_000]),
        6 => json!("../../etc/model.safetensors"),
        _ => json!("x".repeat(100_000)),
    }
}

/// Writes a key of the outermost object twice, which a `Value` cannot do.
fn duplicate_key(value: &Value, random: &mut Random) -> Option<(Change, Vec<u8>)> {
    let object = value.as_object()?;
    let (key, twin) = object
        .iter()
        .filter(|(key, _)| *key != "__metadata__")
        .nth(random.below(object.len() - 1))?;
    let text = value.to_string();
    let doubled = format!("{{{}:{twin},{}", json!(key), text.strip_prefix('{')?);
    Some((Change::harmful(format!("{key} appears twice")), doubled.into_bytes()))
}
