//! Drafts by the prediction head of the model: one token more for each sequence in a pass of the head alone.
//!
//! Tokens are sampled as a draft model samples them, with the parameters and random numbers of the sequence. Drafts change when
//! tokens arrive but never which: without pages, rows or room there are fewer of them, and nothing else.

use wf_model::{Forward, PageId, Segment};

use super::Engine;
use crate::drafter::Turn;
use crate::prefix::StateId;

/// A turn with the pages and the state of its sequence.
type Prediction<'a> = (Turn<'a>, &'a [PageId], StateId);

impl<F: Forward> Engine<F> {
    /// Runs the prediction head for the sequences that use it.
    pub(super) fn predict(&mut self, shares: &[usize]) {
        if self.model.network().mtp.is_none() {
            return;
        }
        let mut left = self.model.max_drafts();
        let mut turns: Vec<Prediction<'_>> = Vec::new();
        for (sequence, &share) in self.running.iter_mut().zip(shares) {
            let request = sequence.prediction_request(share, left, &mut self.store);
            if let Some((request, pages, state)) = request {
                left -= request.len;
                turns.push((Turn::new(request), pages, state));
            }
        }
        loop {
            let open: Vec<_> = turns.iter_mut().filter(|(turn, ..)| turn.is_open()).collect();
            if open.is_empty() {
                break;
            }
            Self::predict_next(&mut self.model, &mut self.predictions, open);
        }
        let drafts: Vec<_> =
            turns.into_iter().map(|(turn, ..)| (turn.request.rank, turn.draft)).collect();
        for (rank, draft) in drafts {
            let sequence = self.running.iter_mut().find(|sequence| sequence.rank == rank);
            sequence.into_iter().for_each(|sequence| sequence.state.draft.clone_from(&draft));
        }
    }

    /// Drafts one token more for each turn.
    fn predict_next(model: &mut F, logits: &mut wf_model::Logits, turns: Vec<&mut Prediction<'_>>) {
        let known = model.network().vocab_len;
        let draws: Vec<_> = turns.iter().map(|(turn, ..)| [turn.draw_query(known)]).collect();
        let last = turns.iter().map(|(turn, ..)| {
            let last = turn.draft.last().or(turn.request.tokens.last());
            [*last.expect("a sequence has tokens")]
        });
        let last: Vec<_> = last.collect();
        let segments = turns.iter().zip(&last).zip(&draws);
        let batch: Vec<_> = segments
            .map(|(((turn, pages, state), last), draws)| {
                let at = turn.request.tokens.len() + turn.draft.len() - 1;
                let scoring = turn.request.sampler.plain_scoring();
                let segment = Segment::causal(last, at, pages, &[0]);
                Segment { state: *state, scoring, draws, ..segment }
            })
            .collect();
        model.predict(&batch, logits);
        drop(batch);
        for (row, (turn, ..)) in turns.into_iter().enumerate() {
            turn.sample(logits.row_mut(row), known);
        }
    }
}
