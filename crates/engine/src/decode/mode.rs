//! The ways to decode that can be asked for, and which of them a model can do.

use wf_model::BlockDiffusion;

use super::accept::Rule;
use super::block::BlockShape;
use super::drafted::Guesser;
use super::{Autoregressive, BlockFiller, Decoder, Drafted};

/// How tokens are found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum DecodeMode {
    /// One token a step.
    #[default]
    Autoregressive,
    /// A block of masks, filled in a few passes.
    Diffusion(Diffusion),
    /// The tokens of `Autoregressive`, found sooner: guessed, then checked together.
    Drafted(Drafting),
}

/// How blocks are filled. What is not set is the model's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Diffusion {
    /// Tokens of a block.
    pub block_len: Option<usize>,
    /// Tokens of the parts it is filled in, from left to right.
    pub sub_block_len: Option<usize>,
    /// Which guesses are kept.
    pub rule: Rule,
    /// The most passes that may be spent on a part; the last of them keeps every guess.
    pub steps: Option<usize>,
    /// Whether a block is filled to its end even when the reply has ended in it.
    pub whole_blocks: bool,
    /// Whether passes over a part take the K/V of the block's other parts from an earlier pass: fewer
    /// rows, other answers.
    pub reuse: bool,
    /// Whether to tell after each pass how the block stands.
    pub preview: bool,
}

/// Where guesses come from, and how many are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drafting {
    /// From a model: the draft model if there is one, or else this one, in a pass over masks.
    pub model: bool,
    /// From what followed the same tokens earlier.
    pub lookup: bool,
    /// The most tokens to guess at once.
    pub most: usize,
    /// Whether fewer are guessed when guesses turn out wrong.
    pub adapts: bool,
}

impl Drafting {
    /// As many guesses as are worth making by default.
    pub const MOST: usize = 15;

    /// More at once are refused.
    pub const LIMIT: usize = 64;

    /// Guesses from the given sources, as many as pay.
    pub fn from_sources(model: bool, lookup: bool) -> Self {
        Self { model, lookup, most: Self::MOST, adapts: true }
    }
}

/// What can be asked of a model.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// How it fills blocks, if it can.
    pub blocks: Option<BlockDiffusion>,
    /// Whether a draft model guesses for it.
    pub draft_model: bool,
    /// The most tokens of a step.
    pub max_batch_tokens: usize,
}

/// A way to decode that this model cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

impl DecodeMode {
    /// Its name, as it is asked for.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Autoregressive => "autoregressive",
            Self::Diffusion(_) => "diffusion",
            Self::Drafted(Drafting { model: true, lookup: false, .. }) => "drafted",
            Self::Drafted(Drafting { model: true, lookup: true, .. }) => "drafted+lookup",
            Self::Drafted(_) => "lookup",
        }
    }

    /// The names of all modes.
    pub const NAMES: [&str; 5] =
        ["autoregressive", "diffusion", "drafted", "lookup", "drafted+lookup"];

    /// The mode of a name, as it is by default.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "autoregressive" => Self::Autoregressive,
            "diffusion" => Self::Diffusion(Diffusion::default()),
            "drafted" => Self::Drafted(Drafting::from_sources(true, false)),
            "lookup" => Self::Drafted(Drafting::from_sources(false, true)),
            "drafted+lookup" => Self::Drafted(Drafting::from_sources(true, true)),
            _ => return None,
        })
    }

    /// What a model decodes by unless told otherwise: autoregressively wherever that has a meaning, with
    /// guesses where somebody went to the trouble of giving it a draft model.
    pub fn natural(can: Abilities) -> Self {
        match can.blocks {
            Some(block) if !block.token_shift => Self::Diffusion(Diffusion::default()),
            _ if can.draft_model => Self::Drafted(Drafting::from_sources(true, false)),
            _ => Self::Autoregressive,
        }
    }

    /// A decoder for a model that can do so much.
    pub fn decoder(&self, can: Abilities) -> Result<Box<dyn Decoder>, Unsupported> {
        let model = can.blocks;
        let unsupported = |what: String| Err(Unsupported(what));
        if let (
            Self::Autoregressive | Self::Drafted(_),
            Some(BlockDiffusion { token_shift: false, .. }),
        ) = (self, model)
        {
            return unsupported(format!(
                "decode is {}, but each row of this model scores its own token, not the next: use diffusion",
                self.name()
            ));
        }
        match self {
            Self::Autoregressive => Ok(Box::new(Autoregressive)),
            Self::Drafted(drafting) => {
                let (most, limit) = (drafting.most, Drafting::LIMIT);
                if most == 0 || most > limit {
                    return unsupported(format!(
                        "draft tokens are {most}: 1 to {limit} are allowed"
                    ));
                }
                let guesser = match (drafting.model, model) {
                    (false, _) => Guesser::Nobody,
                    (true, _) if can.draft_model => Guesser::DraftModel,
                    (true, Some(block)) => Guesser::Masks(block.mask_token),
                    (true, None) => {
                        let draft = "; with a draft model drafted works too";
                        return unsupported(no_masks(self.name()) + draft);
                    }
                };
                Ok(Box::new(Drafted::new(*drafting, guesser)))
            }
            Self::Diffusion(diffusion) => {
                let Some(model) = model else { return unsupported(no_masks(self.name())) };
                let shape = diffusion.shape(model, can.max_batch_tokens)?;
                match shape {
                    // Every token is a block of its own, scored by the row before it.
                    BlockShape { len: 1, shift: true, .. } => Ok(Box::new(Autoregressive)),
                    shape => Ok(Box::new(BlockFiller::new(*diffusion, shape))),
                }
            }
        }
    }
}

fn no_masks(name: &str) -> String {
    format!(
        "decode is {name}, but the model was not trained to fill masks: its file has no block_diffusion, bd_size, \
         block_size or mask token (autoregressive and lookup work with every model)"
    )
}

impl Diffusion {
    fn shape(
        &self,
        model: BlockDiffusion,
        max_batch_tokens: usize,
    ) -> Result<BlockShape, Unsupported> {
        let len = self.block_len.unwrap_or(model.block_len);
        let most = max_batch_tokens.min(1024);
        if len == 0 || len > most {
            return Err(Unsupported(format!("block_size is {len}: 1 to {most} is allowed")));
        }
        let own_part = model.sub_block_len.filter(|part| len.is_multiple_of(*part));
        let part_len = self.sub_block_len.or(own_part).unwrap_or(len);
        if part_len == 0 || !len.is_multiple_of(part_len) {
            return Err(Unsupported(format!(
                "sub_block_size is {part_len}: it must divide the block size, {len}"
            )));
        }
        self.check_numbers()?;
        Ok(BlockShape {
            mask: model.mask_token,
            len,
            part_len,
            shift: model.token_shift,
            causal: model.causal_context,
        })
    }

    fn check_numbers(&self) -> Result<(), Unsupported> {
        let number = |name: &str, value: f32, most: f32| match value {
            v if v >= 0.0 && v <= most => Ok(()),
            v => Err(Unsupported(format!("{name} is {v}: 0 to {most} is allowed"))),
        };
        match self.rule {
            Rule::Factor(f) => number("threshold (of the rule factor)", f, 1000.0)?,
            Rule::Entropy(bound) => number("threshold (of the rule entropy)", bound, 1000.0)?,
            Rule::Edit { mask, edit } => {
                number("threshold", mask, 1.0)?;
                number("edit_threshold", edit, 1.0)?;
            }
            rule => number("threshold", rule.number().unwrap_or(0.0), 1.0)?,
        }
        match self.steps {
            Some(0) => Err(Unsupported("steps is 0: at least 1 is needed".into())),
            _ => Ok(()),
        }
    }
}
