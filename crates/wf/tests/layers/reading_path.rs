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

/// Returns the number of lines of a file that a row of the table names, and the row as it should be.
fn counted(crates: &Path, row: &str) -> Option<(usize, String)> {
    let (file, rest) = row.strip_prefix("| `")?.split_once("` | ")?;
    let (_, step) = rest.split_once(" | ")?;
    let source = fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let lines = lines_without_tests(&source);
    Some((lines, format!("| `{file}` | {lines} | {step}")))
}

/// Returns the number of lines of all files of the first table of a section, and the section as it should be.
fn with_counts(crates: &Path, section: &str) -> (usize, String) {
    let (intro, table) = section.split_once("\n| `").expect("a table of files");
    let (table, rest) = table.split_once("\n\n").expect("text after the table");
    let rows = format!("| `{table}");
    let rows: Vec<_> =
        rows.lines().map(|row| counted(crates, row).expect("a file with its lines")).collect();
    let sum: usize = rows.iter().map(|(lines, _)| lines).sum();
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();

    let (before, total) = intro.split_once("to a token: ").expect("the total");
    let (_, after) = total.split_once(" lines").expect("the total in lines");
    let total = format!("{},{:03}", sum / 1_000, sum % 1_000);
    (sum, format!("{before}to a token: {total} lines{after}\n{}\n\n{rest}", rows.join("\n")))
}

/// `WF_WRITE=1 cargo test -p wf --test all reading_path` writes the counts; without the variable, the test compares them.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "WF_WRITE is for whoever changes the files, not for users"
)]
fn the_reading_path_is_short_and_its_table_is_true() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let file = crates.join("../ARCHITECTURE.md");
    let page = fs::read_to_string(&file).expect("a page");
    let section = page.split("\n## ").find(|section| section.starts_with("The reading path"));
    let section = section.expect("a section on the reading path");

    let (sum, expected) = with_counts(crates, section);
    if std::env::var_os("WF_WRITE").is_some() {
        fs::write(&file, page.replace(section, &expected)).expect("the page can be written");
    } else {
        assert!(
            section == expected,
            "ARCHITECTURE.md has wrong counts: run WF_WRITE=1 cargo test -p wf --test all reading_path"
        );
    }
    assert!(sum < MAX_LINES, "the reading path has {sum} lines: move what is not part of it");
}

#[test]
fn tests_at_the_end_of_a_file_are_not_counted() {
    assert_eq!(lines_without_tests("//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 3);
    assert_eq!(lines_without_tests("//! A.\n\n#[cfg(test)]\nmod fake;\n\nfn a() {}\n"), 6);
}
