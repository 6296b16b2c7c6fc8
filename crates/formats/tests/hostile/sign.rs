//! A `.wf` file with any header and a correct digest.

use sha2::{Digest, Sha256};

/// Returns a file of this version with this header and these data.
pub(crate) fn signed(version: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let data_start = (64 + header.len()).next_multiple_of(4096);
    let mut bytes = b"WFMODEL\n".to_vec();
    bytes.extend([version, 0, 0, 0, 1, 0, 0, 0]);
    bytes.extend(((data_start + data.len()) as u64).to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&bytes).chain_update(header).finalize();
    bytes.extend(digest);
    bytes.extend(header);
    bytes.resize(data_start, 0);
    bytes.extend(data);
    bytes
}
