//! The multi-token prediction head: it follows the forward pass and continues it by drafts.
//!
//! A token's place in the head's cache holds the keys and values of its embedding and of the state before it. Those of
//! known tokens are written behind the forward pass, which has the states; of known text nothing else is
//! computed. The state before the next token is kept with the recurrent states of its sequence ([`Ends`]), so it is
//! copied, and moved on by kept drafts, as they are.

mod ends;
mod scratch;

use wf_core::Network;
use wf_kernels::{Upcoming, Zeroing};

pub(crate) use self::ends::Ends;
pub(crate) use self::scratch::MtpScratch;
use crate::attention::AttentionBlock;
use crate::codes::norm_rows;
use crate::logits::Logits;
use crate::mlp::MlpBlock;
use crate::model::Model;
use crate::rotary::Rotary;
use crate::segment::Segment;
use crate::weights::{Ffn, Mixer, Mtp};

/// Returns the attention block of the head, whose keys and values are behind those of the layers.
fn attention<'a>(network: &'a Network, weights: &'a Mtp, rotary: &'a Rotary) -> AttentionBlock<'a> {
    let recipe = network.mtp.as_ref().and_then(|mtp| mtp.layer.attention());
    let (Some(recipe), Mixer::Attention(weights)) = (recipe, &weights.layer.mixer) else {
        unreachable!("the layer of a prediction head has attention");
    };
    AttentionBlock {
        layer: network.attentions().count(),
        recipe,
        weights,
        rotary: rotary.of_layer(network.layers.len()),
        columns: [&[]; 2],
        next: Upcoming::Unknown,
        residual_scale: network.residual_scale,
    }
}

impl Model {
    /// Writes the keys and values of the head for the rows of a forward pass, and keeps their last states.
    ///
    /// Rows of sequences that it does not follow are written to pages in which it never reads.
    pub(crate) fn follow(&mut self, batch: &[Segment<'_>]) {
        let (Some(mtp), Some(weights)) = (&mut self.mtp, &self.weights.mtp) else { return };
        let (cx, len, rows) = (&self.compute, self.network.hidden_len, self.scratch.rows.len());
        let states = &mut self.scratch.normed[..rows * len];
        norm_rows(cx, &self.scratch.hidden[..rows * len], &self.weights.output_norm, states);
        let (ends, mut first, mut drafts) = (&mut self.states.ends, 0, 0);
        for segment in batch.iter().filter(|segment| !segment.tokens.is_empty()) {
            let (slot, end) = (segment.state * len, first + segment.tokens.len());
            let before = (segment.start > 0).then(|| &ends.hidden[slot..][..len]);
            mtp.set_state(cx, weights, first, before);
            for row in first + 1..end {
                mtp.set_state(cx, weights, row, Some(&states[(row - 1) * len..][..len]));
            }
            let certain = end - segment.drafts;
            if certain > first {
                ends.hidden[slot..][..len].copy_from_slice(&states[(certain - 1) * len..][..len]);
            }
            for row in certain..end {
                let draft = &mut ends.of_drafts[drafts * len..][..len];
                draft.copy_from_slice(&states[row * len..][..len]);
                drafts += 1;
            }
            first = end;
        }
        // Callers may still read the hidden states of the pass.
        std::mem::swap(&mut mtp.hidden, &mut self.scratch.hidden);
        self.enter_mtp();
        if let (Some(mtp), Some(weights)) = (&mut self.mtp, &self.weights.mtp) {
            let block = attention(&self.network, weights, &self.rotary);
            block.write_kv(&self.compute, &mut self.kv, batch, &mut self.scratch);
            std::mem::swap(&mut mtp.hidden, &mut self.scratch.hidden);
        }
    }

    /// Sets the rows of `scratch.hidden` to the inputs of the head's layer, of which the states are set.
    fn enter_mtp(&mut self) {
        self.embed();
        let s = &mut self.scratch;
        for codes in [&mut s.attn_in, &mut s.attn_out, &mut s.ffn_in, &mut s.ffn_mid] {
            codes.set_zeroing(Zeroing::None);
        }
        let (Some(mtp), Some(weights)) = (&mut self.mtp, &self.weights.mtp) else { return };
        let hidden = &mut s.hidden[..s.rows.len() * self.network.hidden_len];
        mtp.set_embeddings(&self.compute, weights, hidden);
        mtp.project(&self.compute, &weights.input, s.rows.len(), hidden);
    }

    /// Runs the head on one token of each segment: see [`Forward::predict`](crate::Forward::predict).
    pub(crate) fn run_mtp(&mut self, batch: &[Segment<'_>], logits: &mut Logits) {
        self.scratch.place(batch);
        self.rotary.place(&self.scratch.rows);
        let (Some(mtp), Some(weights)) = (&mut self.mtp, &self.weights.mtp) else { return };
        for (row, &Segment { state, start, .. }) in batch.iter().enumerate() {
            let end = self.states.len(state);
            let before = (start > 0).then(|| self.states.ends.before(state, start, end));
            mtp.set_state(&self.compute, weights, row, before);
        }
        self.enter_mtp();
        self.run_mtp_layer(batch);
        let (Some(weights), len) = (&self.weights.mtp, self.network.hidden_len) else { return };
        let s = &mut self.scratch;
        let states = &mut s.normed[..batch.len() * len];
        norm_rows(&self.compute, &s.hidden[..batch.len() * len], &weights.norm, states);
        for (segment, state) in batch.iter().zip(states.chunks_exact(len)) {
            self.states.ends.set_drafted(segment.state, segment.start, state);
        }
        self.score(batch, logits, true);
    }

    fn run_mtp_layer(&mut self, batch: &[Segment<'_>]) {
        let (Some(mtp), Some(weights)) = (&mut self.mtp, &self.weights.mtp) else { return };
        let block = attention(&self.network, weights, &self.rotary);
        block.run(&self.compute, &mut self.kv, batch, &mut self.scratch);
        let recipe = self.network.mtp.as_ref().and_then(|mtp| mtp.layer.ffn.dense());
        let (Some(recipe), Ffn::Dense(weights)) = (recipe, &weights.layer.ffn) else {
            unreachable!("the layer of a prediction head is dense");
        };
        let block = MlpBlock {
            recipe,
            weights,
            sparse: &mut mtp.sparse,
            step: &mut self.sparse.step,
            columns: [&[]; 2],
            next: Upcoming::Unknown,
            residual_scale: self.network.residual_scale,
        };
        block.run(&self.compute, &mut self.scratch);
    }
}
