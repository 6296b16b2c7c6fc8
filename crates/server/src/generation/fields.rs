//! Fields of requests that have no type: accepted and ignored, accepted with harmless values, or rejected by name.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::Value;
use wf_api::wire::JsonObject;

use super::constraint::{self, Constraint, ConstraintField};
use super::decoding::{FORWARDED, is_setting};
use super::unknown_fields::UnknownFields;
use crate::error::ApiError;
use crate::http::raw_fields::FieldUse;

/// Untyped fields of a dialect.
pub(crate) struct FieldRules {
    /// Labels and hints that do not change the output: names separated by spaces.
    pub(crate) ignored: &'static str,
    /// Fields that would change the output, each with the JSON values that would not.
    pub(crate) unsupported: &'static [(&'static str, &'static [&'static str])],
    /// Fields that constrain the output.
    pub(crate) constraints: &'static [ConstraintField],
}

impl FieldRules {
    /// Returns what is done with a field.
    pub(crate) fn use_of(&self, field: &str) -> FieldUse {
        match self.ignores(field) {
            true if FORWARDED.contains(&field) => FieldUse::FindFields(is_setting),
            true => FieldUse::Skip,
            false => FieldUse::Read,
        }
    }

    /// True for a field that is accepted and does not change the output.
    pub(crate) fn ignores(&self, field: &str) -> bool {
        self.ignored.split_whitespace().any(|ignored| ignored == field)
    }

    /// Takes the constraint out of the fields that a request type does not declare, and checks the others.
    pub(crate) fn read(
        &self,
        extra: &mut JsonObject,
        unknown: &UnknownFields,
    ) -> Result<Option<Constraint>, ApiError> {
        let constraint = constraint::take(self.constraints, extra)?;
        self.check(extra, unknown)?;
        Ok(constraint)
    }

    /// Checks all fields that a request type does not declare.
    pub(crate) fn check(
        &self,
        extra: &JsonObject,
        unknown: &UnknownFields,
    ) -> Result<(), ApiError> {
        for (name, value) in extra {
            if value.is_null() || self.ignores(name) {
                continue;
            }
            let Some((_, harmless)) = self.unsupported.iter().find(|(field, _)| field == name)
            else {
                unknown.found(name)?;
                continue;
            };
            let is_harmless =
                |text: &&str| serde_json::from_str(text).is_ok_and(|same: Value| same == *value);
            if !harmless.iter().any(is_harmless) {
                let message = match harmless {
                    [] => format!("{name} is not supported"),
                    harmless => format!("{name} is only supported as {}", harmless.join(" or ")),
                };
                return Err(ApiError::unsupported(name, message));
            }
        }
        Ok(())
    }
}

pub(crate) fn check_range<T: PartialOrd + Display + Copy>(
    param: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ApiError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    Err(ApiError::field(param, format!("{param} is {value}: must be between {min} and {max}")))
}

pub(crate) fn check_count(param: &str, count: usize, max: usize) -> Result<(), ApiError> {
    if count <= max {
        return Ok(());
    }
    Err(ApiError::field(param, format!("{param} has {count} entries: must have at most {max}")))
}
