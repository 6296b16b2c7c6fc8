//! The output of a step: a row of logits for each scored token.

mod whole_rows;

use std::cmp::Ordering;

use wf_core::TokenId;

use crate::adjustment::Adjustment;

/// If more than one in this many tokens is needed, the logits of all are computed: reading the head in order
/// is as fast as reading every eighth row.
pub(crate) const MAX_SHARE: usize = 8;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogit {
    /// The token.
    pub token: TokenId,
    /// Its logit.
    pub logit: f32,
}

impl TokenLogit {
    /// Orders by logit, descending; equal ones by token id.
    pub fn rank(&self, other: &Self) -> Ordering {
        let by_logit = other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal);
        by_logit.then(self.token.cmp(&other.token))
    }
}

/// Logits of a scored token.
#[derive(Debug)]
pub enum LogitsRow<'a> {
    /// Of every token.
    All(&'a mut [f32]),
    /// Of some tokens, by ascending id; the others were not needed.
    Some(&'a mut Vec<TokenLogit>),
}

impl LogitsRow<'_> {
    /// Returns the token of the highest finite logit, the lowest id among equals.
    pub fn best(&self) -> Option<TokenId> {
        match self {
            Self::All(logits) => best(logits),
            Self::Some(logits) => {
                let finite = logits.iter().filter(|row| row.logit.is_finite());
                finite.min_by(|a, b| a.rank(b)).map(|row| row.token)
            }
        }
    }

    /// Applies adjustments to the tokens that have a logit.
    pub(crate) fn adjust(&mut self, adjustments: &[Adjustment]) {
        for adjustment in adjustments {
            let token = adjustment.token;
            let logit = match self {
                Self::All(logits) => logits.get_mut(token as usize),
                Self::Some(logits) => {
                    let at = logits.binary_search_by_key(&token, |row| row.token);
                    at.ok().map(|at| &mut logits[at].logit)
                }
            };
            if let Some(logit) = logit {
                *logit = adjustment.apply(*logit);
            }
        }
    }
}

/// Rows of logits, one for each scored token in batch order.
#[derive(Debug)]
pub struct Logits {
    vocab_len: usize,
    rows: Vec<Row>,
    /// Rows of all tokens, one after another, of which the first `all_rows` are in use.
    all: Vec<f32>,
    all_rows: usize,
    /// Rows of some tokens; as many as `rows` or more.
    some: Vec<Vec<TokenLogit>>,
}

#[derive(Clone, Copy, Debug)]
enum Row {
    /// Number of the row in `all`.
    All(usize),
    Some,
}

impl Logits {
    /// Creates an empty buffer for the logits of `vocab_len` tokens.
    pub fn new(vocab_len: usize) -> Self {
        Self { vocab_len, rows: Vec::new(), all: Vec::new(), all_rows: 0, some: Vec::new() }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sets the number of rows and empties them. Memory is kept from step to step.
    pub fn resize(&mut self, rows: usize) {
        self.all_rows = 0;
        self.rows.clear();
        self.rows.resize(rows, Row::Some);
        if self.some.len() < rows {
            // Room for the largest search, so that later steps do not allocate.
            self.some.resize_with(rows, || Vec::with_capacity(self.vocab_len / MAX_SHARE));
        }
        self.some.iter_mut().for_each(Vec::clear);
    }

    /// Returns the logits of one row.
    pub fn row_mut(&mut self, row: usize) -> LogitsRow<'_> {
        match self.rows[row] {
            Row::All(at) => LogitsRow::All(&mut self.all[at * self.vocab_len..][..self.vocab_len]),
            Row::Some => LogitsRow::Some(&mut self.some[row]),
        }
    }

    /// Makes the rows `first .. first + rows` rows of all tokens, and returns their logits to be written,
    /// one row after another.
    pub fn rows_mut(&mut self, first: usize, rows: usize) -> &mut [f32] {
        let before = self.all_rows;
        for (at, row) in self.rows[first..first + rows].iter_mut().enumerate() {
            *row = Row::All(before + at);
        }
        self.all_rows += rows;
        let len = self.all_rows * self.vocab_len;
        if self.all.len() < len {
            self.all.resize(len, 0.0);
        }
        &mut self.all[before * self.vocab_len..len]
    }

    /// Returns the rows `first .. first + rows`, which are empty, to be written as rows of some tokens.
    pub fn some_mut(&mut self, first: usize, rows: usize) -> &mut [Vec<TokenLogit>] {
        &mut self.some[first..first + rows]
    }
}

/// Returns the token of the highest finite logit, the lowest id among equals.
pub fn best(logits: &[f32]) -> Option<TokenId> {
    // Two loops without an early exit become vector code, which is far faster than one loop with it.
    let finite = |logit: f32| if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, tail) = logits.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            let logit = finite(logit);
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    let max = lanes.into_iter().chain(tail.iter().map(|&l| finite(l))).fold(f32::MIN, f32::max);
    logits.iter().position(|&logit| logit == max).map(|token| token as TokenId)
}
