//! Pages of K and V. Knows bytes and types; does not know who owns a page.
//!
//! A page holds [`PAGE_LEN`] tokens of every head of one layer, keys of a head before its values:
//!
//! ```text
//! layer 0: page 0: head 0: [32 keys × head_dim][32 values × head_dim]  head 1: …
//!          page 1: …
//! layer 1: …
//! ```
//!
//! Attention always reads K and V back from here, also for the tokens of the same step, so a
//! cached prefix equals a computed one whatever the type.

use std::fmt;
use std::str::FromStr;

use wf_formats::ModelConfig;
use wf_kernels::{FloatRows, KvPages, half, prefer_huge_pages};

/// The number of a page.
pub type PageId = u32;

/// Tokens in a page.
pub const PAGE_LEN: usize = 32;

/// How K and V are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvDtype {
    /// 32-bit floats: what was computed.
    F32,
    /// The upper half of a 32-bit float.
    Bf16,
    /// IEEE half precision; values beyond ±65504 become infinite.
    F16,
}

impl KvDtype {
    /// Every type, by falling size.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

impl fmt::Display for KvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// A name that is no K/V type.
#[derive(Debug, thiserror::Error)]
#[error("unknown K/V type {0:?}: use f32, bf16 or f16")]
pub struct UnknownKvDtype(String);

impl FromStr for KvDtype {
    type Err = UnknownKvDtype;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.to_string() == name);
        found.ok_or_else(|| UnknownKvDtype(name.to_owned()))
    }
}

enum Store {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    F16(Vec<u16>),
}

/// All pages of all layers, reserved at start.
pub struct KvPool {
    store: Store,
    pages: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl KvPool {
    /// Room for `pages` pages in each layer of `config`.
    pub fn new(config: &ModelConfig, dtype: KvDtype, pages: usize) -> Self {
        let (kv_heads, head_dim) = (config.kv_heads, config.head_dim);
        let len = config.layers * pages * page_stride(kv_heads, head_dim);
        let store = match dtype {
            KvDtype::F32 => Store::F32(reserve(len)),
            KvDtype::Bf16 => Store::Bf16(reserve(len)),
            KvDtype::F16 => Store::F16(reserve(len)),
        };
        Self { store, pages, kv_heads, head_dim }
    }

    /// Bytes that `pages` pages of `config` take.
    pub fn size_bytes(config: &ModelConfig, dtype: KvDtype, pages: usize) -> usize {
        config.layers * pages * page_stride(config.kv_heads, config.head_dim) * dtype.size()
    }

    /// How many pages each layer has.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Writes one token's keys and values (all heads, one after another) at `position` of the
    /// sequence whose pages these are.
    pub(crate) fn write(
        &mut self,
        layer: usize,
        pages: &[PageId],
        position: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let (page, slot) = (pages[position / PAGE_LEN] as usize, position % PAGE_LEN);
        let base = (layer * self.pages + page) * page_stride(self.kv_heads, self.head_dim);
        let rows = keys.chunks_exact(self.head_dim).zip(values.chunks_exact(self.head_dim));
        for (head, (key, value)) in rows.enumerate() {
            let key_at = base + (2 * head * PAGE_LEN + slot) * self.head_dim;
            self.store.put(key_at, key);
            self.store.put(key_at + PAGE_LEN * self.head_dim, value);
        }
    }

    /// One K/V head of a layer, seen through a sequence's pages.
    pub(crate) fn head<'a>(
        &'a self,
        layer: usize,
        head: usize,
        pages: &'a [PageId],
    ) -> KvPages<'a> {
        let page_stride = page_stride(self.kv_heads, self.head_dim);
        let layer_len = self.pages * page_stride;
        let key_offset = 2 * head * PAGE_LEN * self.head_dim;
        KvPages {
            data: self.store.rows(layer * layer_len, layer_len),
            pages,
            page_len: PAGE_LEN,
            page_stride,
            key_offset,
            value_offset: key_offset + PAGE_LEN * self.head_dim,
            head_dim: self.head_dim,
        }
    }
}

/// Zeros that take memory only once they are written, in large pages of the system.
fn reserve<T: Clone + Default>(len: usize) -> Vec<T> {
    let zeros = vec![T::default(); len];
    prefer_huge_pages(&zeros);
    zeros
}

/// Elements of one page of one layer.
fn page_stride(kv_heads: usize, head_dim: usize) -> usize {
    2 * kv_heads * PAGE_LEN * head_dim
}

impl Store {
    fn put(&mut self, at: usize, row: &[f32]) {
        match self {
            Self::F32(data) => data[at..][..row.len()].copy_from_slice(row),
            Self::Bf16(data) => half::encode_bf16(row, &mut data[at..][..row.len()]),
            Self::F16(data) => half::encode_f16(row, &mut data[at..][..row.len()]),
        }
    }

    fn rows(&self, at: usize, len: usize) -> FloatRows<'_> {
        match self {
            Self::F32(data) => FloatRows::F32(&data[at..][..len]),
            Self::Bf16(data) => FloatRows::Bf16(&data[at..][..len]),
            Self::F16(data) => FloatRows::F16(&data[at..][..len]),
        }
    }
}
