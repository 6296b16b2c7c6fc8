//! The date a template may write. It is an argument, never the clock, so that prompts can be made again.

use crate::TextError;

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Date {
    /// Reads `YYYY-MM-DD`.
    pub(super) fn parse(text: &str) -> Result<Self, TextError> {
        let refuse = || TextError::Date(text.to_owned());
        let digits = |field: &str, len: usize| {
            let well_formed = field.len() == len && field.bytes().all(|b| b.is_ascii_digit());
            well_formed.then(|| field.parse().ok()).flatten().ok_or_else(refuse)
        };
        let mut fields = text.splitn(3, '-');
        let mut field = |len| digits(fields.next().unwrap_or(""), len);
        let date = Date { year: field(4)?, month: field(2)?, day: field(2)? };
        let valid =
            (1..=12).contains(&date.month) && (1..=date.days_in_month()).contains(&date.day);
        if valid { Ok(date) } else { Err(refuse()) }
    }

    /// Writes the date by a `strftime` format. The time of day is midnight; what is not about a date
    /// is an error that names it.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next();
            // `%-d` is `%d` without its leading zero.
            let unpadded = directive == Some('-');
            if unpadded {
                directive = chars.next();
            }
            let field = directive.and_then(|directive| self.field(directive)).ok_or_else(|| {
                let name = directive.map(String::from).unwrap_or_default();
                format!("strftime_now: %{name} is not supported in {format:?}")
            })?;
            out.push_str(if unpadded { trim_zeros(&field) } else { &field });
        }
        Ok(out)
    }

    fn field(self, directive: char) -> Option<String> {
        let Date { year, month, day } = self;
        let month_name = MONTHS[month as usize - 1];
        let weekday = WEEKDAYS[self.weekday() as usize];
        Some(match directive {
            'Y' => format!("{year:04}"),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => weekday.to_owned(),
            'a' => weekday[..3].to_owned(),
            'j' => format!("{:03}", self.day_of_year()),
            'F' => format!("{year:04}-{month:02}-{day:02}"),
            'H' | 'M' | 'S' => "00".to_owned(),
            'I' => "12".to_owned(),
            'p' => "AM".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }

    fn is_leap(self) -> bool {
        self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_in_month(self) -> u32 {
        match self.month {
            2 => 28 + u32::from(self.is_leap()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(self) -> u32 {
        let months_before = (1..self.month).map(|month| Date { month, ..self }.days_in_month());
        months_before.sum::<u32>() + self.day
    }

    /// Days since a Sunday, from the count of days since year 0.
    fn weekday(self) -> u32 {
        let years = self.year.wrapping_sub(1);
        let leap_days = if self.year == 0 { 0 } else { years / 4 - years / 100 + years / 400 + 1 };
        // 1 January of year 0 was a Saturday in the proleptic calendar.
        (6 + 365 * self.year + leap_days + self.day_of_year() - 1) % 7
    }
}

fn trim_zeros(field: &str) -> &str {
    let trimmed = field.trim_start_matches(['0', ' ']);
    if trimmed.is_empty() { "0" } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(date: &str, format: &str) -> String {
        Date::parse(date).unwrap().format(format).unwrap()
    }

    #[test]
    fn dates_are_written_as_python_writes_them() {
        assert_eq!(formatted("2024-07-26", "%d %b %Y"), "26 Jul 2024");
        assert_eq!(
            formatted("2024-02-29", "%A, %B %-d, %Y (%j) %%"),
            "Thursday, February 29, 2024 (060) %"
        );
        assert_eq!(formatted("2000-01-01", "%a %y-%m-%d %e"), "Sat 00-01-01  1");
        assert_eq!(formatted("2026-11-08", "%A %F"), "Sunday 2026-11-08");
        assert_eq!(formatted("0001-01-01", "%A"), "Monday");
    }

    #[test]
    fn impossible_dates_and_formats_are_refused() {
        for text in
            ["2023-02-29", "2024-13-01", "2024-1-01", "24-01-01", "2024-01-00", "", "2024-01-01x"]
        {
            assert!(Date::parse(text).is_err(), "{text}");
        }
        let error = Date::parse("2024-01-01").unwrap().format("%Q").unwrap_err();
        assert!(error.contains("%Q"), "{error}");
    }
}
