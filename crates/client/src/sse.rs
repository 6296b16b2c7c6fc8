//! Server-sent events: one event to bytes, bytes to events.

use serde::Serialize;

/// What ends a stream.
pub const DONE: &str = "[DONE]";

/// The bytes of an event that says `data`.
pub fn event(data: &str) -> String {
    let mut bytes = String::with_capacity(data.len() + 8);
    // A line break would begin a new field, so each line of the data is a field of its own.
    for line in data.split('\n') {
        bytes.push_str("data: ");
        bytes.push_str(line);
        bytes.push('\n');
    }
    bytes.push('\n');
    bytes
}

/// The bytes of an event that says `value` as JSON.
pub fn json_event(value: &impl Serialize) -> String {
    event(&serde_json::to_string(value).expect("wire types have string keys"))
}

/// The same, under a name.
pub fn named_event(name: &str, value: &impl Serialize) -> String {
    format!("event: {name}\n{}", json_event(value))
}

/// The bytes of a line that means nothing and shows that the connection is alive.
pub fn comment(text: &str) -> String {
    format!(": {text}\n\n")
}

/// Puts events together from bytes that come in any pieces.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a carriage return, so a line feed now would be part of the same break.
    after_return: bool,
}

impl EventReader {
    /// Takes in more bytes. Returns the data of the events that are complete with them.
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

    /// Whether bytes of an event are waiting for the rest of it.
    pub fn is_inside_event(&self) -> bool {
        !self.line.is_empty() || self.data.is_some()
    }

    /// Bytes of an event that wait for the rest of it.
    pub fn unfinished_bytes(&self) -> usize {
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
    fn what_is_written_is_read_however_it_is_cut() {
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
    fn other_fields_are_no_data() {
        let mut reader = EventReader::default();
        let events =
            reader.push(b"id: 7\nevent: x\ndata\nretry: 5\n\nid: 8\n\ndata:y\n\ndata: cut");
        assert_eq!(events, ["", "y"]);
        assert!(reader.is_inside_event());
    }
}
