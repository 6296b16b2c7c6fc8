//! The fields of a JSON object before their values are built. Those that nothing reads never are.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Use that a server makes of a field.
pub(crate) enum FieldUse {
    /// Reads its value.
    Read,
    /// Accepts it and ignores its value.
    Skip,
    /// Reads those fields of an object for which this is true. Another value is an error.
    ReadFields(fn(&str) -> bool),
    /// The same, but ignores another value.
    FindFields(fn(&str) -> bool),
}

/// Names and values of the fields of an object, in their order.
#[derive(Debug)]
pub(crate) struct RawFields<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl<'a> RawFields<'a> {
    /// Parses an object. Of fields with the same name, the last one counts.
    pub(crate) fn parse(json: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json).map(Self::without_duplicates)
    }

    fn without_duplicates(mut self) -> Self {
        let names: HashSet<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() == self.0.len() {
            return self;
        }
        let mut seen = HashSet::new();
        let mut kept: Vec<_> = Vec::with_capacity(names.len());
        while let Some((name, value)) = self.0.pop() {
            if seen.insert(name.clone()) {
                kept.push((name, value));
            }
        }
        kept.reverse();
        Self(kept)
    }

    /// Returns the value of a field, if it is there and has this type.
    pub(crate) fn value<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        serde_json::from_str(value.get()).ok()
    }

    /// Removes what nothing reads. Returns the names of all fields, also of those inside of [`FieldUse::ReadFields`].
    pub(crate) fn skip_unread(&mut self, use_of: fn(&str) -> FieldUse) -> Vec<String> {
        let mut names = Vec::new();
        let mut kept = Vec::with_capacity(self.0.len());
        for (name, value) in self.0.drain(..) {
            names.push(name.clone());
            match use_of(&name) {
                FieldUse::Read => kept.push((name, value)),
                FieldUse::Skip => {}
                FieldUse::ReadFields(is_read) => {
                    let read = read_part(&value, is_read, &mut names);
                    kept.push((name, read.map_or(value, Cow::Owned)));
                }
                FieldUse::FindFields(is_read) => {
                    let read = read_part(&value, is_read, &mut names);
                    kept.extend(read.map(|read| (name, Cow::Owned(read))));
                }
            }
        }
        self.0 = kept;
        names
    }

    /// Builds a value of which these are the fields.
    pub(crate) fn build<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(self.deserializer())
    }

    /// Builds the same value. An error has the path of the part at fault.
    pub(crate) fn build_with_path<T: DeserializeOwned>(
        &self,
    ) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
        serde_path_to_error::deserialize(self.deserializer())
    }

    fn deserializer(&self) -> impl Deserializer<'_, Error = serde_json::Error> {
        MapDeserializer::new(self.iter())
    }

    /// Returns names and texts of all fields.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Returns an object with one field.
    pub(crate) fn one(name: &str, value: &'a RawValue) -> Self {
        Self(vec![(name.to_owned(), Cow::Borrowed(value))])
    }

    /// Returns each field as an object that has no other.
    pub(crate) fn alone(&self) -> impl Iterator<Item = (&str, RawFields<'_>)> {
        self.iter().map(|(name, value)| (name, RawFields::one(name, value)))
    }

    /// Removes from the objects in a field all fields whose name comes again. Returns the name of a field whose
    /// value cannot be built, and the reason.
    pub(crate) fn deduplicate(
        &mut self,
        is_included: impl Fn(&str) -> bool,
    ) -> Result<(), (String, serde_json::Error)> {
        for (name, value) in self.0.iter_mut().filter(|(name, _)| is_included(name)) {
            let built: serde_json::Result<Value> = serde_json::from_str(value.get());
            let written = built.and_then(|built| serde_json::value::to_raw_value(&built));
            *value = Cow::Owned(written.map_err(|error| (name.clone(), error))?);
        }
        Ok(())
    }

    /// Returns the object of these fields.
    pub(crate) fn to_raw(&self) -> Option<Box<RawValue>> {
        let fields = self.0.iter().map(|(name, value)| {
            serde_json::to_string(name).map(|name| format!("{name}:{}", value.get()))
        });
        let fields = fields.collect::<Result<Vec<_>, _>>().ok()?;
        RawValue::from_string(format!("{{{}}}", fields.join(","))).ok()
    }
}

/// Returns an object with those fields that are read, and adds the names of all. Returns `None` for another value.
fn read_part(
    value: &RawValue,
    is_read: fn(&str) -> bool,
    names: &mut Vec<String>,
) -> Option<Box<RawValue>> {
    let mut fields = RawFields::parse(value.get().as_bytes()).ok()?;
    names.extend(fields.0.iter().map(|(name, _)| name.clone()));
    fields.0.retain(|(name, _)| is_read(name));
    fields.to_raw()
}

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((name, Cow::Borrowed(value)));
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_nothing_reads_are_dropped() {
        let json = br#"{"a": [1], "skip": {"deep": [[]]}, "part": {"in": 1, "out": 2, "in": 3}, "a": "last"}"#;
        let mut fields = RawFields::parse(json).unwrap();
        let names = fields.skip_unread(|name| match name {
            "skip" => FieldUse::Skip,
            "part" => FieldUse::ReadFields(|name| name == "in"),
            _ => FieldUse::Read,
        });
        assert_eq!(names, ["skip", "part", "out", "in", "a"]);
        let built: Value = fields.build().unwrap();
        assert_eq!(built, json!({"part": {"in": 3}, "a": "last"}));
        fields.deduplicate(|_| true).unwrap();
        assert_eq!(fields.build::<Value>().unwrap(), built);
    }

    #[test]
    fn of_inner_fields_with_the_same_name_the_last_one_is_kept() {
        let mut fields =
            RawFields::parse(br#"{"a": [{"x": 1, "x": 2}], "b": {"x": 1, "x": 2}}"#).unwrap();
        fields.deduplicate(|name| name == "a").unwrap();
        let texts: Vec<_> = fields.iter().map(|(_, value)| value.get()).collect();
        assert_eq!(texts, [r#"[{"x":2}]"#, r#"{"x": 1, "x": 2}"#]);
        let mut fields = RawFields::parse(br#"{"a": 1, "b": 1e999}"#).unwrap();
        assert_eq!(fields.deduplicate(|_| true).unwrap_err().0, "b");
    }

    #[test]
    fn a_value_of_another_type_is_kept_for_its_error() {
        let kept = |use_of: fn(&str) -> FieldUse| {
            let mut fields = RawFields::parse(br#"{"part": [1]}"#).unwrap();
            fields.skip_unread(use_of);
            fields.build::<Value>().unwrap()
        };
        assert_eq!(kept(|_| FieldUse::ReadFields(|_| false)), json!({"part": [1]}));
        assert_eq!(kept(|_| FieldUse::FindFields(|_| false)), json!({}));
    }

    #[test]
    fn only_objects_have_fields() {
        for json in ["", "{", "[]", "7", "null", "{} x", "\u{feff}{}", "{'a':1}"] {
            assert!(RawFields::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
