//! A second, smaller model that guesses what the first will say.
//!
//! It reads what every sequence has come to, then writes a few tokens more, with the settings and the
//! random numbers of the first model's own picks: two models that agree draw the same tokens at any
//! temperature. All sequences are read and guessed for together. Guesses change when tokens come, never
//! which, so whatever goes wrong here (no pages, a longer context than this model has, a token it does
//! not know) ends in fewer guesses and in nothing else.

use std::collections::BTreeMap;

use wf_model::{Forward, Logits, PAGE_LEN, Segment, TokenId};

use crate::prefix::Tree;
use crate::sample::Sampler;
use crate::sequence::Rank;
use crate::store::{Held, PageStore};

/// One sequence that is to be guessed for.
pub(crate) struct Ask<'a> {
    pub(crate) rank: Rank,
    /// With whom it shares what was read.
    pub(crate) tree: Tree,
    /// Prompt and reply so far.
    pub(crate) tokens: &'a [TokenId],
    /// How many of the tokens are the prompt.
    pub(crate) prompt_len: usize,
    /// How many tokens to guess; none while others are checked, or guessing does not pay.
    pub(crate) len: usize,
    pub(crate) sampler: &'a mut Sampler,
}

/// The draft model, and what it has read.
pub(crate) struct Drafter {
    model: Box<dyn Forward>,
    store: PageStore,
    logits: Logits,
    readers: BTreeMap<Rank, Reader>,
    context_len: usize,
    /// Tokens that the first model knows.
    vocab_len: usize,
}

/// What was read of one sequence.
struct Reader {
    held: Held,
    /// The tokens whose K/V lies in the pages. The last of them may be guesses.
    read: Vec<TokenId>,
}

/// What becomes of an ask.
struct Turn<'a> {
    ask: Ask<'a>,
    can_read: bool,
    guesses: Vec<TokenId>,
}

impl Drafter {
    /// Guesses for a model that knows `vocab_len` tokens.
    pub(crate) fn new(model: Box<dyn Forward>, vocab_len: usize) -> Self {
        Self {
            store: PageStore::new(model.pages()),
            logits: Logits::new(model.config().vocab_len),
            readers: BTreeMap::new(),
            context_len: model.config().context_len.min(model.pages() * PAGE_LEN),
            vocab_len,
            model,
        }
    }

    /// What may come next in each of the sequences. Any other sequence is forgotten.
    pub(crate) fn guess(&mut self, asks: Vec<Ask<'_>>) -> BTreeMap<Rank, Vec<TokenId>> {
        self.forget_all_but(&asks);
        let mut turns: Vec<_> = asks.into_iter().map(|ask| self.begin(ask)).collect();
        // A long text is read over several steps, so that it does not hold others up.
        self.pass(turns.iter_mut().filter(|turn| turn.ask.len > 0 || self.lags(turn)).collect());
        loop {
            let going: Vec<_> = turns.iter_mut().filter(|turn| turn.goes_on()).collect();
            if going.is_empty() {
                break;
            }
            self.pass(going);
        }
        let guessed = turns.into_iter().filter(|turn| !turn.guesses.is_empty());
        guessed.map(|turn| (turn.ask.rank, turn.guesses)).collect()
    }

    /// Forgets what was read and nobody holds.
    pub(crate) fn flush(&mut self) {
        self.store.flush();
    }

    /// Nobody knows what the pages hold.
    pub(crate) fn reset(&mut self) {
        self.readers.clear();
        self.store = PageStore::new(self.model.pages());
    }

    fn forget_all_but(&mut self, asks: &[Ask<'_>]) {
        let gone = |rank: &Rank| asks.iter().all(|ask| ask.rank != *rank);
        for (_, reader) in self.readers.extract_if(.., |rank, _| gone(rank)) {
            self.store.release(reader.held);
        }
    }

    /// Goes back to what is true of what was read, and to as many guesses as there is room for.
    fn begin<'a>(&mut self, mut ask: Ask<'a>) -> Turn<'a> {
        // The last token has to run for its scores.
        let readable = &ask.tokens[..ask.tokens.len() - 1];
        let reader = self.readers.entry(ask.rank).or_insert_with(|| {
            let held = self.store.find(ask.tree, readable);
            let read = readable[..held.pages().len() * PAGE_LEN].to_vec();
            Reader { held, read }
        });
        let same = reader.read.iter().zip(readable).take_while(|(read, token)| read == token);
        let kept = same.count();
        reader.read.truncate(kept);
        let known = self.model.config().vocab_len;
        let knows_all = ask.tokens[kept..].iter().all(|&token| (token as usize) < known);
        let can_read = knows_all && ask.tokens.len() <= self.context_len;
        // The last guess is not run.
        let room = (self.context_len + 1).saturating_sub(ask.tokens.len());
        ask.len = if can_read { ask.len.min(room) } else { 0 };
        Turn { ask, can_read, guesses: Vec::new() }
    }

    /// Whether so much is to be read that it had better begin before guesses are wanted.
    fn lags(&self, turn: &Turn<'_>) -> bool {
        let unread = turn.ask.tokens.len() - self.readers[&turn.ask.rank].read.len();
        turn.can_read && unread > PAGE_LEN
    }

    /// Runs what each has not read, as far as a step goes, and guesses one token for those who have
    /// read everything.
    fn pass(&mut self, turns: Vec<&mut Turn<'_>>) {
        let mut budget = self.model.max_batch_tokens();
        let mut plans = Vec::with_capacity(turns.len());
        for turn in &turns {
            let reader = self.readers.get_mut(&turn.ask.rank).expect("it was begun");
            let mut tokens = turn.unread(reader.read.len()).to_vec();
            let reads_all = tokens.len() <= budget;
            tokens.truncate(budget);
            let pages = (reader.read.len() + tokens.len()).div_ceil(PAGE_LEN);
            let lacking = pages.saturating_sub(reader.held.pages().len());
            if !self.store.grow(&mut reader.held, lacking) {
                tokens.clear();
            }
            budget -= tokens.len();
            let wants = reads_all && turn.ask.len > 0 && !tokens.is_empty();
            plans.push((if wants { vec![tokens.len() - 1] } else { vec![] }, tokens));
        }
        let mut batch = Vec::with_capacity(turns.len());
        for (turn, (want, tokens)) in turns.iter().zip(&plans) {
            let reader = &self.readers[&turn.ask.rank];
            let segment = Segment::causal(tokens, reader.read.len(), reader.held.pages(), want);
            if !tokens.is_empty() {
                batch.push(Segment { scoring: turn.ask.sampler.scoring_to_foresee(), ..segment });
            }
        }
        if !batch.is_empty() {
            self.model.forward(&batch, &mut self.logits);
        }

        let mut row = 0;
        for (turn, (want, tokens)) in turns.into_iter().zip(plans) {
            let reader = self.readers.get_mut(&turn.ask.rank).expect("it was begun");
            reader.read.extend(tokens);
            let is_true = reader.read.len().min(turn.ask.tokens.len());
            self.store.share(&mut reader.held, &turn.ask.tokens[..is_true]);
            if want.is_empty() {
                // There is more to read first, or no page was to be had: no guess in this step.
                turn.ask.len = 0;
                continue;
            }
            turn.guess(self.logits.row(row), self.vocab_len);
            row += 1;
        }
    }
}

impl Turn<'_> {
    /// What to run next, after as many tokens as were read.
    fn unread(&self, read: usize) -> &[TokenId] {
        match self.guesses.last() {
            Some(guess) => std::slice::from_ref(guess),
            None => &self.ask.tokens[read..],
        }
    }

    fn goes_on(&self) -> bool {
        let ends = self.guesses.last().is_some_and(|&token| self.ask.sampler.is_stop(token));
        !self.guesses.is_empty() && self.guesses.len() < self.ask.len && !ends
    }

    /// Guesses from scores, of which there may be more or fewer than the first model has tokens.
    fn guess(&mut self, scores: &[f32], vocab_len: usize) {
        let mut scores = scores.to_vec();
        scores.resize(vocab_len, f32::NEG_INFINITY);
        let position = self.ask.tokens.len() + self.guesses.len();
        match self.ask.sampler.foresee(&mut scores, position, position - self.ask.prompt_len) {
            Some(token) => self.guesses.push(token),
            None => self.ask.len = 0,
        }
    }
}
