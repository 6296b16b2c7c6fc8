//! Sequences that embed a text instead of completing one.

use super::{Sequence, Submission};
use crate::decode::SeqState;
use crate::pooling::Pooler;
use crate::prefix::Tree;
use crate::request::EmbeddingRequest;
use crate::schedule::Rank;
use crate::task::Task;

impl Sequence {
    pub(crate) fn embed(
        request: EmbeddingRequest,
        pooler: Pooler,
        context_len: usize,
        submission: Submission,
    ) -> Self {
        let (salt, visibility) = (request.cache_salt, pooler.visibility);
        let tree = Tree { salt, visibility, predicts: false };
        let state = SeqState::new(request.tokens, 0, context_len);
        let rank = Rank::new(request.priority, submission.arrival);
        let EmbeddingRequest { origin, deadline, max_kv_tokens, .. } = request;
        let task = Task::Embed(pooler);
        Self { deadline, max_kv_tokens, ..Self::new(rank, origin, state, tree, task, submission) }
    }
}
