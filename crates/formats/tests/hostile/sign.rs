//! A `.wf` file around any header, with a digest that fits it.

use sha2::{Digest, Sha256};

/// A file of this header and these data.
pub(crate) fn signed(header: &[u8], data: &[u8]) -> Vec<u8> {
    let data_start = (64 + header.len()).next_multiple_of(4096);
    let mut bytes = b"WFMODEL\n\x01\0\0\0\x01\0\0\0".to_vec();
    bytes.extend(((data_start + data.len()) as u64).to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&bytes).chain_update(header).finalize();
    bytes.extend(digest);
    bytes.extend(header);
    bytes.resize(data_start, 0);
    bytes.extend(data);
    bytes
}
