//! The files of a batch: requests, and results that survive an interruption.
//!
//! A result is appended as one line. Whatever ends the process leaves complete lines, or one incomplete line at the
//! end, which is cut off at the next start. So a request has a result, or it runs again.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::line::{BatchLine, BatchResult, ResultSummary};

/// A file of a batch that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BatchFileError {
    /// The system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the problem.
        message: String,
    },
    /// The file as a whole is wrong.
    #[error("{}: {message}", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        message: &'static str,
    },
}

type Result<T> = std::result::Result<T, BatchFileError>;

/// Limits on a file of requests.
#[derive(Clone, Copy, Debug)]
pub struct InputLimits {
    /// Maximum length of a line in bytes.
    pub line_len: usize,
    /// Maximum number of requests.
    pub requests: usize,
}

impl InputLimits {
    /// No limits: the file is that of the user.
    pub const NONE: Self = Self { line_len: usize::MAX, requests: usize::MAX };
}

/// A file of requests, all of which can be told apart.
pub struct BatchInput {
    path: PathBuf,
    limits: InputLimits,
    /// Ids of results by `custom_id`.
    ids: HashMap<String, String>,
}

impl BatchInput {
    /// Reads the file once and checks that every request has a `custom_id` of its own.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is larger than the limits, or has a line that is no request.
    pub fn check(path: &Path, limits: InputLimits) -> Result<Self> {
        let mut ids = HashMap::new();
        let at = |line, message| BatchFileError::Line { path: path.to_owned(), line, message };
        for line in Lines::open(path, limits)? {
            let (number, line) = line?;
            let (id, custom_id) = line.id();
            if ids.len() == limits.requests {
                let message = format!("more requests than the limit of {}", limits.requests);
                return Err(at(number, message));
            }
            if ids.insert(custom_id.clone(), id).is_some() {
                return Err(at(number, format!("custom_id {custom_id:?} is not unique")));
            }
        }
        if ids.is_empty() {
            let path = path.to_owned();
            return Err(BatchFileError::Whole { path, message: "no requests" });
        }
        Ok(Self { path: path.to_owned(), limits, ids })
    }

    /// Returns the number of requests.
    #[expect(clippy::len_without_is_empty, reason = "an empty file is an error")]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the requests that have no result yet. They are read one by one, because a batch may be larger
    /// than memory.
    ///
    /// # Errors
    ///
    /// If the file cannot be read any longer.
    pub fn pending(
        &self,
        done: HashSet<String>,
    ) -> Result<impl Iterator<Item = Result<BatchLine>> + use<>> {
        let lines = Lines::open(&self.path, self.limits)?.map(|line| line.map(|(_, line)| line));
        Ok(lines.filter(move |line| match line {
            Ok(line) => !done.contains(&line.id().1),
            Err(_) => true,
        }))
    }
}

/// The requests of a file with the numbers of their lines.
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    limits: InputLimits,
    number: usize,
}

impl Lines {
    fn open(path: &Path, limits: InputLimits) -> Result<Self> {
        let path = path.to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, reader: BufReader::new(file), limits, number: 0 }),
            Err(source) => Err(BatchFileError::Io { path, source }),
        }
    }

    /// Returns the next line, without its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let max = self.limits.line_len as u64;
        let read =
            io::Read::take(&mut self.reader, max.saturating_add(1)).read_until(b'\n', &mut line);
        match read {
            Err(source) => Err(BatchFileError::Io { path: self.path.clone(), source }),
            Ok(0) => Ok(None),
            Ok(_) if line.len() as u64 > max => {
                Err(self.at(format!("longer than the limit of {max} bytes")))
            }
            Ok(_) => Ok(Some(line)),
        }
    }

    fn at(&self, message: String) -> BatchFileError {
        BatchFileError::Line { path: self.path.clone(), line: self.number, message }
    }
}

impl Iterator for Lines {
    type Item = Result<(usize, BatchLine)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let line = match self.next_line().transpose()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            let Ok(text) = str::from_utf8(&line) else {
                return Some(Err(self.at("is not valid UTF-8".to_owned())));
            };
            if !text.trim().is_empty() {
                let line = BatchLine::parse(text).map_err(|message| self.at(message));
                return Some(line.map(|line| (self.number, line)));
            }
        }
    }
}

/// A file of results, locked by this process.
pub struct BatchResults {
    path: PathBuf,
    file: File,
    done: HashSet<String>,
    succeeded: usize,
}

impl BatchResults {
    /// Opens or creates the file, reads the results in it, and cuts off an incomplete line.
    ///
    /// # Errors
    ///
    /// If the file cannot be written to, or has results of another batch.
    pub fn open(path: &Path, input: &BatchInput) -> Result<Self> {
        let io = |source| BatchFileError::Io { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let (path, message) = (path.to_owned(), "another process writes to it");
                return Err(BatchFileError::Whole { path, message });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut results = Self { path: path.to_owned(), file, done: HashSet::new(), succeeded: 0 };
        let len = results.read(input)?;
        results.file.set_len(len).map_err(io)?;
        results.file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok(results)
    }

    /// Reads the results in the file. Returns the length of its complete lines.
    fn read(&mut self, input: &BatchInput) -> Result<u64> {
        let mut len = 0;
        let mut reader = BufReader::new(&self.file);
        for number in 1.. {
            let mut line = Vec::new();
            reader.read_until(b'\n', &mut line).map_err(|source| self.io(source))?;
            if line.last() != Some(&b'\n') {
                break;
            }
            len += line.len() as u64;
            let reject = |what: &str| {
                let message = format!("{what}: use another file for the results of this batch");
                Err(BatchFileError::Line { path: self.path.clone(), line: number, message })
            };
            let Ok(result) = ResultSummary::of_line(&String::from_utf8_lossy(&line)) else {
                return reject("is not a result");
            };
            let ResultSummary { id, custom_id, is_success } = result;
            if input.ids.get(&custom_id) != Some(&id) {
                return reject(&format!(
                    "custom_id {custom_id:?} is the result of another request"
                ));
            }
            self.succeeded += usize::from(is_success);
            self.done.insert(custom_id);
        }
        Ok(len)
    }

    fn io(&self, source: io::Error) -> BatchFileError {
        BatchFileError::Io { path: self.path.clone(), source }
    }

    /// Returns the `custom_id`s of the results that were in the file, and the number of those that succeeded.
    pub fn take_done(&mut self) -> (HashSet<String>, usize) {
        (std::mem::take(&mut self.done), self.succeeded)
    }

    /// Appends a result. Returns the number of bytes that it takes.
    ///
    /// # Errors
    ///
    /// If the system fails.
    pub fn append(&mut self, result: &BatchResult) -> Result<usize> {
        let line = result.to_line() + "\n";
        self.file.write_all(line.as_bytes()).map_err(|source| self.io(source))?;
        Ok(line.len())
    }

    /// Waits until all results are on disk.
    ///
    /// # Errors
    ///
    /// If the system fails.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|source| self.io(source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::batch::BatchError;

    use super::*;

    fn input(folder: &Path, text: &str) -> Result<BatchInput> {
        let path = folder.join("in.jsonl");
        fs::write(&path, text).unwrap();
        BatchInput::check(&path, InputLimits::NONE)
    }

    fn result(input: &BatchInput, custom_id: &str) -> BatchResult {
        let error = BatchError { code: "x", message: String::new() };
        let (id, custom_id) = (input.ids[custom_id].clone(), custom_id.to_owned());
        BatchResult { id, custom_id, outcome: Err(error) }
    }

    #[test]
    fn requests_that_cannot_be_told_apart_are_errors_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        for (text, message) in [
            (
                "{\"custom_id\": \"a\"}\n\n{\"custom_id\": \"a\"}\n",
                "in.jsonl:3: custom_id \"a\" is not unique",
            ),
            ("{\"custom_id\": \"a\"}\n{}\n", "in.jsonl:2: custom_id is missing"),
            ("\n", "no requests"),
        ] {
            let error = input(folder.path(), text).err().unwrap();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn an_incomplete_result_is_cut_off_and_a_complete_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let input =
            input(folder.path(), "{\"custom_id\": \"a\"}\n{\"custom_id\": \"b\"}\n").unwrap();
        let path = folder.path().join("out.jsonl");
        let mut results = BatchResults::open(&path, &input).unwrap();
        let busy = BatchResults::open(&path, &input).err().unwrap();
        assert!(busy.to_string().contains("another process"), "{busy}");
        results.append(&result(&input, "a")).unwrap();
        drop(results);
        let complete = fs::read(&path).unwrap();
        let other = result(&input, "b").to_line();
        for cut in 0..other.len() {
            fs::write(&path, [&complete, &other.as_bytes()[..cut]].concat()).unwrap();
            let mut results = BatchResults::open(&path, &input).unwrap();
            assert_eq!(results.take_done(), (HashSet::from(["a".to_owned()]), 0));
            results.append(&result(&input, "b")).unwrap();
            drop(results);
            let lines = fs::read_to_string(&path).unwrap();
            assert_eq!(lines.lines().count(), 2, "{cut}: {lines}");
            assert_eq!(BatchResults::open(&path, &input).unwrap().take_done().0.len(), 2);
        }
    }

    #[test]
    fn results_of_another_batch_are_never_mixed_with_these() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let first = input(folder.path(), "{\"custom_id\": \"a\", \"body\": 1}\n").unwrap();
        BatchResults::open(&path, &first).unwrap().append(&result(&first, "a")).unwrap();
        let second = input(folder.path(), "{\"custom_id\": \"a\", \"body\": 2}\n").unwrap();
        let error = BatchResults::open(&path, &second).err().unwrap().to_string();
        assert!(error.contains("out.jsonl:1: custom_id \"a\" is the result of another"), "{error}");
        fs::write(&path, "notes\n").unwrap();
        let error = BatchResults::open(&path, &second).err().unwrap().to_string();
        assert!(error.contains("is not a result"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"notes\n");
    }

    #[test]
    fn lines_and_their_number_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.jsonl");
        let check = |text: &str, line_len, requests| {
            fs::write(&path, text).unwrap();
            let checked = BatchInput::check(&path, InputLimits { line_len, requests });
            checked.map(|input| input.len()).map_err(|error| error.to_string())
        };
        let two = "{\"custom_id\": \"a\"}\n{\"custom_id\": \"b\"}";
        assert_eq!(check(two, 19, 2), Ok(2));
        assert!(
            check(two, 18, 2)
                .unwrap_err()
                .contains("in.jsonl:1: longer than the limit of 18 bytes")
        );
        assert!(
            check(two, 19, 1)
                .unwrap_err()
                .contains("in.jsonl:2: more requests than the limit of 1")
        );
        fs::write(&path, b"\xff\n").unwrap();
        let error = BatchInput::check(&path, InputLimits::NONE).err().unwrap().to_string();
        assert!(error.contains("in.jsonl:1: is not valid UTF-8"), "{error}");
    }
}
