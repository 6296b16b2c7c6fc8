//! Encoder and decoder of server-sent events.

use serde::Serialize;

/// Data of the event that ends a stream.
pub const DONE: &str = "[DONE]";

/// Encodes an event.
pub fn event(data: &str) -> String {
    let mut bytes = String::with_capacity(data.len() + 8);
    // A line break begins a new field, so each line of the data is a field of its own.
    for line in data.split('\n') {
        bytes.push_str("data: ");
        bytes.push_str(line);
        bytes.push('\n');
    }
    bytes.push('\n');
    bytes
}

/// Encodes an event whose data is `value` as JSON.
pub fn json_event(value: &impl Serialize) -> String {
    event(&serde_json::to_string(value).expect("wire types have string keys"))
}

/// Encodes a named event whose data is `value` as JSON.
pub fn named_event(name: &str, value: &impl Serialize) -> String {
    format!("event: {name}\n{}", json_event(value))
}

/// Encodes a comment, which carries no data and keeps the connection open.
pub fn comment(text: &str) -> String {
    format!(": {text}\n\n")
}

/// Decodes events from bytes that arrive in chunks of any size.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    data: Option<String>,
    /// True if the last byte was a carriage return: a line feed now belongs to the same line break.
    after_return: bool,
}

impl EventReader {
    /// Adds bytes, and returns the data of the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for &byte in bytes {
            let continues_break = std::mem::take(&mut self.after_return) && byte == b'\n';
            match byte {
                b'\n' if continues_break => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    events.extend(self.end_line());
                }
                byte => self.line.push(byte),
            }
        }
        events
    }

    /// Returns `true` if an event has begun and not ended.
    pub fn is_inside_event(&self) -> bool {
        !self.line.is_empty() || self.data.is_some()
    }

    /// Returns the number of bytes buffered for an event that has not ended.
    pub fn pending_len(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_chunking() {
        let texts = ["a", "", "zwei\nZeilen", "\n", "emoji 🦀, 中文", "{\"a\":\"b: c\"}", DONE];
        let mut bytes = String::new();
        for text in texts {
            bytes.push_str(&event(text));
            bytes.push_str(&comment("still here"));
        }
        for ending in ["\n", "\r\n", "\r"] {
            let bytes = bytes.replace('\n', ending).into_bytes();
            for size in 1..40 {
                let mut reader = EventReader::default();
                let found: Vec<_> = bytes.chunks(size).flat_map(|part| reader.push(part)).collect();
                assert_eq!(found, texts, "cut into {size}, ending {ending:?}");
                assert!(!reader.is_inside_event());
            }
        }
    }

    #[test]
    fn fields_other_than_data_are_ignored() {
        let mut reader = EventReader::default();
        let events =
            reader.push(b"id: 7\nevent: x\ndata\nretry: 5\n\nid: 8\n\ndata:y\n\ndata: cut");
        assert_eq!(events, ["", "y"]);
        assert!(reader.is_inside_event());
    }
}
