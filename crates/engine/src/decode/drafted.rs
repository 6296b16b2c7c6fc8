//! Speculative decoding: draft tokens are verified in one pass, and those the sampler agrees with are kept.
//!
//! Verification runs the last token and the draft as ordinary text. Row by row, the sampler samples as it
//! would without a draft, from the same logits and with the same random number; the first sampled token that
//! differs from the draft ends the verification. Every sampled token is therefore kept, and drafts change
//! when tokens arrive but never which: at any temperature, with any setting.

use serde_json::Value;
use wf_model::{Scoring, TokenId, Visibility};

use super::auto::{Auto, Source};
use super::draft_costs::MAX_DRAFT;
use super::draft_len::DraftLen;
use super::lookup::Lookup;
use super::mode::{Capabilities, Mode, ModeInfo, Setting, SettingKind, UnsupportedMode, count};
use super::{Autoregressive, Decoder, Outcome, Pass, Plan, SeqState, TokenDemand};
use crate::logits::best_two;

/// Sources of draft tokens, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftParams {
    /// Drafts by a model: the draft model if one is loaded, else this model in a pass over masks.
    pub model: bool,
    /// Drafts the tokens that followed the same tokens earlier.
    pub lookup: bool,
    /// Maximum number of draft tokens per verification.
    pub max_tokens: usize,
    /// Drafts fewer tokens after rejections.
    pub adaptive: bool,
    /// Drafts only where that is faster on this machine, from the sources that the model supports.
    pub auto: bool,
}

pub(super) const SETTINGS: [Setting; 2] = [
    Setting {
        object: "draft",
        name: "tokens",
        kind: SettingKind::Count,
        help: "Drafts: maximum number of tokens to draft at once [default: 15]",
        flag: Some("draft-tokens"),
    },
    Setting {
        object: "draft",
        name: "adapt",
        kind: SettingKind::Bool,
        help: "Drafts fewer tokens when drafts are rejected [default: true]",
        flag: None,
    },
];

impl DraftParams {
    /// Maximum of `max_tokens`.
    pub const LIMIT: usize = MAX_DRAFT;

    /// Drafts by a model.
    pub const MODEL: Self = Self::from_sources(true, false);

    /// Drafts by lookup.
    pub const LOOKUP: Self = Self::from_sources(false, true);

    /// Drafts by lookup where it finds something, else by a model.
    pub const MODEL_AND_LOOKUP: Self = Self::from_sources(true, true);

    /// Drafts from any source where that is faster.
    pub const AUTO: Self = Self { auto: true, ..Self::MODEL_AND_LOOKUP };

    /// Rejects numbers of tokens that no verification has.
    pub(super) fn check_tokens(&self) -> Result<(), UnsupportedMode> {
        let (tokens, limit) = (self.max_tokens, Self::LIMIT);
        if (1..=limit).contains(&tokens) {
            return Ok(());
        }
        Err(UnsupportedMode(format!("draft tokens is {tokens}: must be between 1 and {limit}")))
    }

    /// Returns the default parameters for these sources.
    pub const fn from_sources(model: bool, lookup: bool) -> Self {
        Self { model, lookup, max_tokens: 15, adaptive: true, auto: false }
    }
}

impl Mode for DraftParams {
    fn info(&self) -> ModeInfo {
        let (name, summary) = match (self.model, self.lookup) {
            _ if self.auto => ("auto", "the same tokens, sooner where drafts pay on this machine"),
            (true, false) => {
                ("drafted", "the same tokens, sooner: drafted by the draft model, or from masks")
            }
            (true, true) => {
                ("drafted+lookup", "the same tokens, sooner: drafted from both sources")
            }
            (false, _) => (
                "lookup",
                "the same tokens, sooner: drafts are what followed the same tokens before",
            ),
        };
        let uses_draft_model = self.model;
        ModeInfo { name, summary, settings: &SETTINGS, uses_draft_model, ..ModeInfo::DEFAULT }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), UnsupportedMode> {
        match name {
            "tokens" => self.max_tokens = count(value),
            "adapt" if self.auto && *value == false => {
                let message = "draft.adapt is false: must be true with decode auto";
                return Err(UnsupportedMode(message.to_owned()));
            }
            "adapt" => self.adaptive = *value == true,
            _ => {}
        }
        Ok(())
    }

    fn is_default(&self, model: Capabilities) -> bool {
        *self == Self::MODEL && model.draft_model && model.predicts_next_token()
    }

    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode> {
        let name = self.info().name;
        model.require_next_token(name)?;
        self.check_tokens()?;
        let drafter = match (self.model, model.blocks) {
            (false, _) => Drafter::None,
            (true, _) if model.draft_model => Drafter::DraftModel,
            (true, Some(blocks)) => Drafter::Masks(blocks.mask_token),
            (true, None) if self.auto => Drafter::None,
            (true, None) => {
                let mut error = UnsupportedMode::no_masks(name);
                error.0.push_str("; with a draft model, drafted works too");
                return Err(error);
            }
        };
        Ok(Box::new(Drafted::new(*self, drafter)))
    }
}

#[derive(Debug)]
struct Drafted {
    drafter: Drafter,
    lookup: Option<Lookup>,
    lengths: Lengths,
    draft: Option<Draft>,
    /// The next token as lookup would draft it.
    guess: Option<TokenId>,
}

/// Numbers of tokens to draft.
#[derive(Debug)]
enum Lengths {
    ByAcceptance { model: DraftLen, lookup: DraftLen },
    Auto(Auto),
}

/// Returns a decoder whose drafts the prediction head makes.
pub(super) fn by_mtp(params: DraftParams) -> Box<dyn Decoder> {
    Box::new(Drafted::new(params, Drafter::Mtp))
}

/// Model that drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drafter {
    None,
    /// The model itself, over masks of this token.
    Masks(TokenId),
    /// A draft model, which runs before each plan.
    DraftModel,
    /// The prediction head of the model, which runs before each plan.
    Mtp,
}

/// Draft tokens that follow the first `after` tokens of the sequence.
#[derive(Debug)]
struct Draft {
    after: usize,
    tokens: Vec<TokenId>,
    source: Source,
}

impl Drafter {
    /// Returns the length below which a draft is worth nothing. The first token that masks draft is the one
    /// that a pass without a draft samples.
    fn min_len(self) -> usize {
        match self {
            Self::Masks(_) => 2,
            Self::DraftModel | Self::Mtp | Self::None => 1,
        }
    }

    /// Returns `true` if drafts are there before a plan.
    fn runs_before_plans(self) -> bool {
        matches!(self, Self::DraftModel | Self::Mtp)
    }

    fn source(self) -> Source {
        match self {
            Self::DraftModel | Self::Mtp => Source::DraftModel,
            Self::Masks(_) | Self::None => Source::Masks,
        }
    }
}

impl Drafted {
    fn new(params: DraftParams, drafter: Drafter) -> Self {
        let len = |min| DraftLen::new((min, params.max_tokens), params.adaptive);
        let lengths = match params.auto {
            true => Lengths::Auto(Auto::new(params.max_tokens)),
            false => Lengths::ByAcceptance { model: len(drafter.min_len()), lookup: len(1) },
        };
        let lookup = params.lookup.then(Lookup::default);
        Self { drafter, lookup, lengths, draft: None, guess: None }
    }

    /// Returns the tokens to verify, if any were drafted for this very position.
    fn draft<'a>(&'a self, seq: &'a SeqState) -> Option<&'a [TokenId]> {
        let own = self.draft.as_ref().filter(|draft| draft.after == seq.tokens.len());
        let own = own.map(|draft| &draft.tokens[..]);
        own.or_else(|| Some(&seq.draft[..]).filter(|draft| !draft.is_empty()))
    }

    /// Returns how many draft tokens could still be part of the completion: the verification itself adds
    /// one token. There may be room for none, if only prompt logprobs are requested.
    fn room(seq: &SeqState) -> usize {
        seq.max_len.saturating_sub(seq.tokens.len() + 1)
    }

    /// Drafts what followed the same tokens earlier, if there is no draft yet.
    fn look_up(&mut self, seq: &SeqState) {
        if self.draft(seq).is_some() {
            return;
        }
        (self.draft, self.guess) = (None, None);
        let len = self.lookup_len(seq);
        let Some(lookup) = &mut self.lookup else { return };
        lookup.follow(&seq.tokens);
        let mut tokens = lookup.draft(len.max(1));
        self.guess = tokens.first().copied();
        tokens.truncate(len);
        if !tokens.is_empty() {
            self.draft = Some(Draft { after: seq.tokens.len(), tokens, source: Source::Lookup });
        } else if let Lengths::ByAcceptance { lookup, .. } = &mut self.lengths {
            lookup.skipped();
        }
    }

    fn lookup_len(&self, seq: &SeqState) -> usize {
        let len = match &self.lengths {
            Lengths::ByAcceptance { lookup, .. } => lookup.get(),
            Lengths::Auto(auto) => auto.len(Source::Lookup, &seq.costs),
        };
        len.min(Self::room(seq))
    }

    fn model_len(&self, seq: &SeqState) -> usize {
        let len = match &self.lengths {
            _ if self.drafter == Drafter::None => 0,
            Lengths::ByAcceptance { model, .. } => model.get(),
            Lengths::Auto(auto) => auto.len(self.drafter.source(), &seq.costs),
        };
        len.min(Self::room(seq))
    }

    fn verify(&mut self, pass: Pass<'_>) -> Option<Outcome> {
        let Pass { seq, plan, mut rows, sampler } = pass;
        let draft = &plan.tokens[1..];
        let mut outcome = Outcome { drafted: draft.len(), ..Outcome::default() };
        for index in 0.. {
            let Some(row) = rows.next_row() else { break };
            let Some(sampled) = sampler.sample(row, seq.tokens.len() + index) else { break };
            let agrees = draft.get(index) == Some(&sampled.token);
            let continues = sampler.continues(sampled.token);
            outcome.commit.push(sampled);
            outcome.accepted += usize::from(agrees);
            if !agrees || !continues {
                break;
            }
        }
        // Tokens sampled before the logits broke are part of the completion, as they are without a draft.
        if outcome.commit.is_empty() {
            return None;
        }
        // The last token, and the accepted draft tokens.
        outcome.keep = outcome.commit.len();
        self.record(seq, &outcome);
        Some(outcome)
    }

    /// Records the acceptance of a verification.
    fn record(&mut self, seq: &SeqState, outcome: &Outcome) {
        let own = self.draft.take().map(|draft| draft.source);
        let source = own.or((!seq.draft.is_empty()).then_some(Source::DraftModel));
        let guess = self.guess.take().filter(|_| source != Some(Source::Lookup));
        let Outcome { drafted, accepted, ref commit, .. } = *outcome;
        match (&mut self.lengths, source) {
            (Lengths::ByAcceptance { lookup, .. }, Some(Source::Lookup)) => {
                lookup.verified(drafted, accepted);
            }
            (Lengths::ByAcceptance { model, .. }, Some(_)) => model.verified(drafted, accepted),
            (Lengths::ByAcceptance { model, .. }, None) => model.skipped(),
            (Lengths::Auto(auto), source) => {
                auto.settle(source, drafted, commit.len(), &seq.costs);
                auto.verified(source, drafted, accepted);
                if let Some(guess) = guess {
                    auto.looked_up(guess == commit[0].token);
                }
            }
        }
    }
}

impl Decoder for Drafted {
    fn demand(&self, seq: &SeqState) -> TokenDemand {
        if seq.pending().len() > 1 {
            return Autoregressive.demand(seq);
        }
        let draft_len = match self.draft(seq) {
            Some(draft) => draft.len(),
            None => self.model_len(seq).max(self.lookup_len(seq)),
        };
        let tokens = 1 + draft_len.min(Self::room(seq));
        TokenDemand { tokens, min_tokens: 1, is_prefill: false }
    }

    fn plan(&mut self, seq: &SeqState, budget: usize) -> Plan {
        if seq.pending().len() > 1 || budget == 1 {
            return Autoregressive.plan(seq, budget);
        }
        // Otherwise `draft_len` has looked up already.
        if !self.drafter.runs_before_plans() {
            self.look_up(seq);
        }
        let last = seq.pending();
        let masks = self.model_len(seq).min(budget);
        match (self.draft(seq), self.drafter) {
            // The logits of a token predict the next, so the last token drafts the first one.
            (None, Drafter::Masks(mask)) if masks >= self.drafter.min_len() => {
                let mut tokens = last.to_vec();
                tokens.resize(masks, mask);
                let visibility = Visibility::Until(seq.kv_len + tokens.len());
                // The best token that is not a mask.
                let scoring = Some(Scoring::Top(2));
                let plan = Plan::causal(seq.kv_len, tokens, (0..masks).collect());
                Plan { visibility, scoring, ..plan }
            }
            (draft, _) => {
                let draft = draft.unwrap_or_default();
                let draft = &draft[..draft.len().min(budget - 1)];
                let scored = (0..1 + draft.len()).collect();
                Plan::causal(seq.kv_len, [last, draft].concat(), scored)
            }
        }
    }

    fn absorb(&mut self, pass: Pass<'_>) -> Option<Outcome> {
        let after = pass.seq.tokens.len();
        match (pass.plan.visibility, self.drafter) {
            _ if pass.seq.pending().len() > 1 => Autoregressive.absorb(pass),
            (Visibility::Until(_), Drafter::Masks(mask)) => {
                let Pass { seq, plan, mut rows, .. } = pass;
                if let Lengths::Auto(auto) = &mut self.lengths {
                    auto.settle(None, plan.tokens.len() - 1, 0, &seq.costs);
                }
                let tokens = std::iter::from_fn(|| {
                    let best = best_two(&rows.next_row()?);
                    best.into_iter().flatten().find(|&token| token != mask)
                });
                let tokens = tokens.collect();
                self.draft = Some(Draft { after, tokens, source: Source::Masks });
                Some(Outcome::default())
            }
            _ => self.verify(pass),
        }
    }

    fn draft_len(&mut self, seq: &SeqState) -> Option<usize> {
        if !self.drafter.runs_before_plans() {
            return None;
        }
        let samples = seq.pending().len() == 1;
        if samples {
            self.look_up(seq);
        }
        let len = self.model_len(seq);
        // Without a draft in sight, the draft model does not even read along.
        if len == 0 && self.weighs_drafts() {
            return None;
        }
        Some(if samples && self.draft(seq).is_none() { len } else { 0 })
    }

    fn predicts(&self) -> bool {
        self.drafter == Drafter::Mtp
    }

    fn weighs_drafts(&self) -> bool {
        matches!(self.lengths, Lengths::Auto(_))
    }
}
