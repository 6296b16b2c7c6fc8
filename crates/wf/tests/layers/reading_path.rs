//! Checks the table of ARCHITECTURE.md that lists the files from a prompt to a token, with their lines.

use std::fs;
use std::path::Path;

/// Number of lines that one can read to understand the whole path.
const MAX_LINES: usize = 3_000;

/// Returns the number of lines without the module of tests, which is the last item of a file.
fn lines_without_tests(source: &str) -> usize {
    let tests = source.find("\n#[cfg(test)]\nmod tests");
    source[..tests.unwrap_or(source.len())].trim_end().lines().count()
}

/// Returns the files of the first table with the lines that it says they have.
fn listed(section: &str) -> Vec<(String, usize)> {
    let table = section.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = table.map_while(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let lines = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{cell:?} is not a count"));
    cells.map(|row| (row[0].trim_end_matches('`').to_owned(), lines(row[1]))).collect()
}

#[test]
fn the_reading_path_is_short_and_its_table_is_true() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let page = include_str!("../../../../ARCHITECTURE.md");
    let section = page.split("\n## ").find(|section| section.starts_with("The reading path"));
    let section = section.expect("a section on the reading path");

    let listed = listed(section);
    assert!(!listed.is_empty(), "a table of files");
    let count = |(file, _): &(String, usize)| {
        let source =
            fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        (file.clone(), lines_without_tests(&source))
    };
    let counted: Vec<_> = listed.iter().map(count).collect();
    assert_eq!(listed, counted, "the table in ARCHITECTURE.md (left) has wrong counts");

    let sum: usize = counted.iter().map(|(_, lines)| lines).sum();
    let total = format!(": {},{:03} lines without test modules", sum / 1_000, sum % 1_000);
    assert!(section.contains(&total), "ARCHITECTURE.md should say \"{total}\"");
    assert!(sum < MAX_LINES, "the reading path has {sum} lines: move what is not part of it");
}

#[test]
fn tests_at_the_end_of_a_file_are_not_counted() {
    assert_eq!(lines_without_tests("//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 3);
    assert_eq!(lines_without_tests("//! A.\n\n#[cfg(test)]\nmod fake;\n\nfn a() {}\n"), 6);
}
