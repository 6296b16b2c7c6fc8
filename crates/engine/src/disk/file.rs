//! The file of a page: a header, then the bytes of the page.
//!
//! ```text
//! magic     8 bytes   "WFKVPAGE"
//! key      32 bytes   name of the page
//! length    8 bytes   of the page, little-endian
//! checksum  8 bytes   xxh3 of the page, little-endian
//! page
//! ```
//!
//! A file that was cut, damaged or renamed does not have the bytes that its header promises, and is a miss.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use wf_formats::checksum;

use super::key::PageKey;

const MAGIC: [u8; 8] = *b"WFKVPAGE";
const HEADER_LEN: usize = 56;

/// Returns the length of the file of a page of `page_len` bytes.
pub(super) fn file_len(page_len: usize) -> u64 {
    (HEADER_LEN + page_len) as u64
}

/// Writes the file of a page. What is there after a power failure is found out by its checksum.
pub(super) fn write(path: &Path, key: PageKey, page: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(&header(key, page))?;
    file.write_all(page)
}

/// Returns the page of a file; `None` if the file is not exactly that of a page of `page_len` bytes and this key.
pub(super) fn read(path: &Path, key: PageKey, page_len: usize) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != file_len(page_len) {
        return Ok(None);
    }
    let mut found = [0; HEADER_LEN];
    file.read_exact(&mut found)?;
    let mut page = vec![0; page_len];
    file.read_exact(&mut page)?;
    Ok((found == header(key, &page)).then_some(page))
}

fn header(key: PageKey, page: &[u8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let (len, sum) = ((page.len() as u64).to_le_bytes(), checksum(page).to_le_bytes());
    let parts = [&MAGIC[..], &key.0, &len, &sum].concat();
    header.copy_from_slice(&parts);
    header
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_flipped_byte_and_every_other_length_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let (key, page) = (PageKey([9; 32]), (0..200).collect::<Vec<u8>>());
        write(&path, key, &page).unwrap();
        assert!(write(&path, key, &page).is_err(), "another writer's file is not touched");
        assert_eq!(read(&path, key, page.len()).unwrap().as_deref(), Some(&page[..]));
        assert_eq!(read(&path, PageKey([8; 32]), page.len()).unwrap(), None, "another name");
        assert_eq!(read(&path, key, page.len() - 1).unwrap(), None, "another model");

        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, file_len(page.len()));
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            assert_eq!(read(&path, key, page.len()).unwrap(), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(&path, key, page.len()).unwrap(), None, "{at} bytes");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(read(&path, key, page.len()).unwrap(), None, "a byte more");
    }
}
