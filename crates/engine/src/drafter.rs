//! The draft model: a smaller model that proposes the next tokens of each sequence.
//!
//! It reads every sequence and samples a few tokens more, with the sampling parameters and the random numbers
//! of the main model: two models that agree sample the same tokens at any temperature. All sequences are
//! processed together. Drafts change when tokens arrive but never which, so every failure here (no pages, a
//! shorter context, an unknown token) means fewer draft tokens and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use wf_model::{DrawQuery, Forward, Logits, LogitsRow, PAGE_LEN, Segment, TokenId};

use crate::clock;
use crate::prefix::Tree;
use crate::sample::Sampler;
use crate::schedule::Rank;
use crate::store::{Held, PageStore};

pub(crate) struct DraftRequest<'a> {
    pub(crate) rank: Rank,
    pub(crate) tree: Tree,
    pub(crate) tokens: &'a [TokenId],
    pub(crate) prompt_len: usize,
    /// Number of tokens to draft; 0 while another draft is verified or drafting does not pay.
    pub(crate) len: usize,
    pub(crate) sampler: &'a mut Sampler,
}

/// The draft model and its K/V cache.
pub(crate) struct Drafter {
    model: Box<dyn Forward>,
    pub(crate) store: PageStore,
    logits: Logits,
    readers: BTreeMap<Rank, Reader>,
    context_len: usize,
    /// Vocabulary of the main model.
    vocab_len: usize,
    /// Passes that drafted one more token for each sequence of the last call, and their time.
    pub(crate) passes: usize,
    pub(crate) time: Duration,
}

struct Reader {
    held: Held,
    /// Tokens whose K/V is in the pages. The last of them may be draft tokens.
    read: Vec<TokenId>,
}

/// A sequence and its draft so far.
pub(crate) struct Turn<'a> {
    pub(crate) request: DraftRequest<'a>,
    can_read: bool,
    pub(crate) draft: Vec<TokenId>,
}

/// Tokens of one turn in a pass.
struct TurnPlan {
    tokens: Vec<TokenId>,
    /// Index of the last token if its logits are needed.
    scored: Vec<usize>,
}

impl Drafter {
    pub(crate) fn new(model: Box<dyn Forward>, vocab_len: usize) -> Self {
        Self {
            store: PageStore::new(model.pages(), 0, model.attention().window()),
            logits: Logits::new(model.network().vocab_len),
            readers: BTreeMap::new(),
            context_len: match model.attention().window() {
                Some(_) => model.attention().max_len(model.info().context_len),
                None => model.info().context_len.min(model.pages() * PAGE_LEN),
            },
            vocab_len,
            passes: 0,
            time: Duration::ZERO,
            model,
        }
    }

    /// Drafts for the sequences of `requests`. The K/V of all other sequences is released.
    pub(crate) fn draft(
        &mut self,
        requests: Vec<DraftRequest<'_>>,
    ) -> BTreeMap<Rank, Vec<TokenId>> {
        self.release_all_but(&requests);
        let mut turns: Vec<_> = requests.into_iter().map(|request| self.begin(request)).collect();
        // A long text is read over several steps, so that it does not delay other sequences.
        self.pass(
            turns.iter_mut().filter(|turn| turn.request.len > 0 || self.lags(turn)).collect(),
        );
        let started = clock::now();
        self.passes = 0;
        loop {
            let open: Vec<_> = turns.iter_mut().filter(|turn| turn.continues()).collect();
            if open.is_empty() {
                break;
            }
            self.pass(open);
            self.passes += 1;
        }
        self.time = clock::now() - started;
        let drafted = turns.into_iter().filter(|turn| !turn.draft.is_empty());
        drafted.map(|turn| (turn.request.rank, turn.draft)).collect()
    }

    /// Discards all K/V after a step has panicked.
    pub(crate) fn reset(&mut self) {
        self.readers.clear();
        let window = self.model.attention().window();
        self.store = PageStore::new(self.model.pages(), 0, window);
    }

    fn release_all_but(&mut self, requests: &[DraftRequest<'_>]) {
        let is_gone = |rank: &Rank| requests.iter().all(|request| request.rank != *rank);
        for (_, reader) in self.readers.extract_if(.., |rank, _| is_gone(rank)) {
            self.store.release(reader.held);
        }
    }

    /// Drops rejected tokens from the reader, and limits the draft to the context.
    fn begin<'a>(&mut self, mut request: DraftRequest<'a>) -> Turn<'a> {
        // The last token has to run for its logits.
        let readable = &request.tokens[..request.tokens.len() - 1];
        let reader = self.readers.entry(request.rank).or_insert_with(|| {
            let held = self.store.find(request.tree, readable);
            let read = readable[..held.pages().len() * PAGE_LEN].to_vec();
            Reader { held, read }
        });
        let same = reader.read.iter().zip(readable).take_while(|(read, token)| read == token);
        let kept = same.count();
        reader.read.truncate(kept);
        let known = self.model.network().vocab_len;
        let knows_all = request.tokens[kept..].iter().all(|&token| (token as usize) < known);
        let can_read = knows_all && request.tokens.len() <= self.context_len;
        // The last draft token does not run.
        let room = (self.context_len + 1).saturating_sub(request.tokens.len());
        request.len = if can_read { request.len.min(room) } else { 0 };
        Turn { request, can_read, draft: Vec::new() }
    }

    /// Returns `true` if so much is unread that reading should begin before a draft is requested.
    fn lags(&self, turn: &Turn<'_>) -> bool {
        let unread = turn.request.tokens.len() - self.readers[&turn.request.rank].read.len();
        turn.can_read && unread > PAGE_LEN
    }

    /// Runs the unread tokens of each turn as far as a step allows, and drafts one token for those that
    /// have read everything.
    fn pass(&mut self, turns: Vec<&mut Turn<'_>>) {
        let known = self.model.network().vocab_len.min(self.vocab_len);
        let mut budget = self.model.max_batch_tokens();
        let mut plans = Vec::with_capacity(turns.len());
        for turn in &turns {
            let reader = self.readers.get_mut(&turn.request.rank).expect("the turn has begun");
            let mut tokens = turn.unread(reader.read.len()).to_vec();
            let reads_all = tokens.len() <= budget;
            tokens.truncate(budget);
            let pages = (reader.read.len() + tokens.len()).div_ceil(PAGE_LEN);
            let missing = pages.saturating_sub(reader.held.pages().len());
            if !self.store.grow(&mut reader.held, missing) {
                tokens.clear();
            }
            budget -= tokens.len();
            let samples = reads_all && turn.request.len > 0 && !tokens.is_empty();
            let scored = if samples { vec![tokens.len() - 1] } else { vec![] };
            plans.push(TurnPlan { tokens, scored });
        }
        let draws: Vec<_> = turns.iter().map(|turn| [turn.draw_query(known)]).collect();
        let mut batch = Vec::with_capacity(turns.len());
        for ((turn, TurnPlan { tokens, scored }), draws) in turns.iter().zip(&plans).zip(&draws) {
            let reader = &self.readers[&turn.request.rank];
            let segment = Segment::causal(tokens, reader.read.len(), reader.held.pages(), scored);
            let scoring = turn.request.sampler.plain_scoring();
            if !tokens.is_empty() {
                batch.push(Segment { scoring, draws: &draws[..scored.len()], ..segment });
            }
        }
        if !batch.is_empty() {
            self.model.forward(&batch, &mut self.logits);
        }

        let mut row = 0;
        for (turn, TurnPlan { tokens, scored }) in turns.into_iter().zip(plans) {
            let reader = self.readers.get_mut(&turn.request.rank).expect("the turn has begun");
            reader.read.extend(tokens);
            let confirmed = reader.read.len().min(turn.request.tokens.len());
            self.store.share(&mut reader.held, &turn.request.tokens[..confirmed]);
            // The last token may run again, after a draft that was rejected.
            let unchanged = reader.read.len().min(turn.request.tokens.len() - 1);
            self.store.slide(&mut reader.held, unchanged);
            if scored.is_empty() {
                // More is to be read first, or no page was free: no draft in this step.
                turn.request.len = 0;
                continue;
            }
            turn.sample(self.logits.row_mut(row), known);
            row += 1;
        }
    }
}

impl<'a> Turn<'a> {
    /// Creates the turn of a sequence that needs no reading.
    pub(crate) fn new(request: DraftRequest<'a>) -> Self {
        Self { request, can_read: true, draft: Vec::new() }
    }

    /// Returns the tokens to run next, after the first `read` ones.
    fn unread(&self, read: usize) -> &[TokenId] {
        match self.draft.last() {
            Some(token) => std::slice::from_ref(token),
            None => &self.request.tokens[read..],
        }
    }

    fn continues(&self) -> bool {
        !self.draft.is_empty() && self.is_open()
    }

    /// Returns `true` if one more token is to be drafted.
    pub(crate) fn is_open(&self) -> bool {
        let ends = self.draft.last().is_some_and(|&token| self.request.sampler.is_stop(token));
        self.draft.len() < self.request.len && !ends
    }

    /// Returns the draw of the next draft token, among the `known` tokens that both models have.
    pub(crate) fn draw_query(&self, known: usize) -> DrawQuery {
        let position = self.request.tokens.len() + self.draft.len();
        let index = position - self.request.prompt_len;
        let mut query = self.request.sampler.draw_query(position, index, &self.draft);
        query.adjustments.retain(|adjustment| (adjustment.token as usize) < known);
        query
    }

    /// Samples the next draft token. The draft model may have more tokens than the main model.
    pub(crate) fn sample(&mut self, row: LogitsRow<'_>, known: usize) {
        let query = self.draw_query(known);
        let row = match row {
            LogitsRow::All(logits) => LogitsRow::All(&mut logits[..known]),
            some @ LogitsRow::Some(_) => some,
        };
        let token = query.token(row, &mut Vec::new());
        match token.filter(|&token| (token as usize) < known) {
            Some(token) => self.draft.push(token),
            None => self.request.len = 0,
        }
    }
}
