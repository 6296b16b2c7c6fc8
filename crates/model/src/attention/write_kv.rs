//! Keys and values of a block whose output is not needed: of the prediction head, while a prompt runs.

use super::{AttentionBlock, norm_heads};
use crate::compute::Compute;
use crate::kv::KvPool;
use crate::scratch::Scratch;
use crate::segment::Segment;

impl AttentionBlock<'_> {
    /// Writes the keys and values of the rows in `s`, and computes nothing else: the input norms of a block whose
    /// output nobody needs are not supported.
    pub(crate) fn write_kv(
        &self,
        cx: &Compute,
        kv: &mut KvPool,
        batch: &[Segment<'_>],
        s: &mut Scratch,
    ) {
        let &Self { layer, recipe, weights: w, .. } = self;
        let (rows, kv_len) = (&s.rows[..], recipe.kv_len());
        let hidden = &s.hidden[..rows.len() * w.norm.weight.len()];
        let key = &mut s.key[..rows.len() * kv_len];
        let value = &mut s.value[..rows.len() * kv_len];
        s.attn_in.norm_and_quantize(cx, hidden, &w.norm);
        let products = [(&w.key, &mut *key), (&w.value, &mut *value)];
        s.products.multiply_each(cx, products, &s.attn_in);
        if let Some([_, of_keys]) = &w.qk_norms {
            norm_heads(cx, of_keys, key, &mut s.heads);
        }
        cx.pool.rows(key, kv_len, |row, key| {
            for head in key.chunks_exact_mut(recipe.head_dim) {
                self.rotate(cx, (row, rows[row].position), head);
            }
        });
        let slot = |row: usize| (batch[rows[row].segment].pages, rows[row].position);
        kv.write(cx, layer, (key, value), slot);
        kv.summarize(cx, layer, batch.iter().flat_map(Segment::filled_pages).copied());
    }
}
