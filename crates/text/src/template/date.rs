//! The date of a template. It is an argument, never the clock, so that prompts are reproducible.

use jiff::civil;
use jiff::fmt::strtime;

use crate::TextError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date(civil::Date);

impl Date {
    /// Parses `YYYY-MM-DD`.
    pub(super) fn parse(text: &str) -> Result<Self, TextError> {
        // Other notations of ISO 8601 are not accepted.
        let is_plain = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let date = text.parse().ok().filter(|_| is_plain);
        let invalid = || format!("date is {text:?}: must be a valid date in the form YYYY-MM-DD");
        date.map(Self).ok_or_else(|| TextError::Chat(invalid()))
    }

    /// Formats the date with a `strftime` format. The time of day is midnight.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let midnight = self.0.at(0, 0, 0, 0);
        strtime::format(format, midnight)
            .map_err(|error| format!("strftime_now: format {format:?} is not supported: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(date: &str, format: &str) -> String {
        Date::parse(date).unwrap().format(format).unwrap()
    }

    #[test]
    fn dates_are_formatted_as_in_python() {
        assert_eq!(formatted("2024-07-26", "%d %b %Y"), "26 Jul 2024");
        assert_eq!(
            formatted("2024-02-29", "%A, %B %-d, %Y (%j) %%"),
            "Thursday, February 29, 2024 (060) %"
        );
        assert_eq!(formatted("2000-01-01", "%a %y-%m-%d %e"), "Sat 00-01-01  1");
        assert_eq!(formatted("2026-11-08", "%A %F"), "Sunday 2026-11-08");
        assert_eq!(formatted("0001-01-01", "%A"), "Monday");
        assert_eq!(
            formatted("2026-11-08", "%H:%M:%S %I %p %h %-e|%-j|%-m"),
            "00:00:00 12 AM Nov 8|312|11"
        );
        assert_eq!(formatted("0007-01-02", "%Y"), "0007");
    }

    #[test]
    fn rejects_impossible_dates_and_formats() {
        for text in
            ["2023-02-29", "2024-13-01", "2024-1-01", "24-01-01", "2024-01-00", "", "2024-01-01x"]
        {
            assert!(Date::parse(text).is_err(), "{text}");
        }
        let error = Date::parse("2024-01-01").unwrap().format("%Q").unwrap_err();
        assert!(error.contains("%Q"), "{error}");
    }
}
