//! What somebody said about how to decode, part by part, and the mode that makes.

use super::accept::Rule;
use super::mode::{DecodeMode, Diffusion, Drafting, Unsupported};

/// What was said. Whatever was not is left as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodeSettings {
    /// The name of a mode.
    pub mode: Option<String>,
    /// Tokens of a block.
    pub block_len: Option<usize>,
    /// Tokens of the parts of a block.
    pub sub_block_len: Option<usize>,
    /// The name of a rule.
    pub rule: Option<String>,
    /// The number that steers the rule.
    pub threshold: Option<f32>,
    /// The other number of the rule that edits.
    pub edit_threshold: Option<f32>,
    /// The most passes on a part.
    pub steps: Option<usize>,
    /// Whether blocks are filled to the end.
    pub whole_blocks: Option<bool>,
    /// Whether K/V of other parts is used again.
    pub reuse: Option<bool>,
    /// Whether to tell after each pass how the block stands.
    pub preview: Option<bool>,
    /// The most tokens to guess at once.
    pub draft_tokens: Option<usize>,
    /// Whether fewer are guessed when guesses are wrong.
    pub draft_adapts: Option<bool>,
}

impl DecodeSettings {
    fn speaks_of_blocks(&self) -> bool {
        self.block_len.is_some()
            || self.sub_block_len.is_some()
            || self.rule.is_some()
            || self.threshold.is_some()
            || self.edit_threshold.is_some()
            || self.steps.is_some()
            || self.whole_blocks.is_some()
            || self.reuse.is_some()
            || self.preview.is_some()
    }

    fn speaks_of_drafts(&self) -> bool {
        self.draft_tokens.is_some() || self.draft_adapts.is_some()
    }

    /// The mode to decode by, where `usual` is what is done if nothing is said.
    ///
    /// # Errors
    ///
    /// A name that is not known, or settings of another mode.
    pub fn mode(&self, usual: DecodeMode) -> Result<DecodeMode, Unsupported> {
        let mode = match &self.mode {
            None if self.speaks_of_blocks() && !matches!(usual, DecodeMode::Diffusion(_)) => {
                DecodeMode::Diffusion(Diffusion::default())
            }
            None => usual,
            Some(name) if name == usual.name() => usual,
            Some(name) => DecodeMode::named(name).ok_or_else(|| {
                let allowed = DecodeMode::NAMES.join(", ");
                Unsupported(format!("decode is {name:?}: one of {allowed} is allowed"))
            })?,
        };
        let strange = |what: &str, whose: &str| {
            Err(Unsupported(format!(
                "{what} are settings of decode {whose}, not of {}",
                mode.name()
            )))
        };
        match mode {
            DecodeMode::Diffusion(_) if self.speaks_of_drafts() => {
                strange("draft tokens", "drafted and lookup")
            }
            DecodeMode::Diffusion(usual) => Ok(DecodeMode::Diffusion(self.diffusion(usual)?)),
            _ if self.speaks_of_blocks() => strange("blocks, rules and steps", "diffusion"),
            DecodeMode::Drafted(usual) => Ok(DecodeMode::Drafted(Drafting {
                most: self.draft_tokens.unwrap_or(usual.most),
                adapts: self.draft_adapts.unwrap_or(usual.adapts),
                ..usual
            })),
            DecodeMode::Autoregressive if self.speaks_of_drafts() => {
                strange("draft tokens", "drafted and lookup")
            }
            DecodeMode::Autoregressive => Ok(mode),
        }
    }

    fn diffusion(&self, usual: Diffusion) -> Result<Diffusion, Unsupported> {
        let same = self.rule.as_deref().is_none_or(|name| name == usual.rule.name());
        let name = self.rule.as_deref().unwrap_or(usual.rule.name());
        let (number, edit) = match (same, usual.rule) {
            (true, Rule::Edit { mask, edit }) => (Some(mask), Some(edit)),
            (true, rule) => (rule.number(), None),
            (false, _) => (None, None),
        };
        let rule = Rule::named(name, self.threshold.or(number), self.edit_threshold.or(edit));
        let unknown = || {
            Unsupported(format!("rule is {name:?}: one of {} is allowed", Rule::NAMES.join(", ")))
        };
        Ok(Diffusion {
            block_len: self.block_len.or(usual.block_len),
            sub_block_len: self.sub_block_len.or(usual.sub_block_len),
            rule: rule.ok_or_else(unknown)?,
            steps: self.steps.or(usual.steps),
            whole_blocks: self.whole_blocks.unwrap_or(usual.whole_blocks),
            reuse: self.reuse.unwrap_or(usual.reuse),
            preview: self.preview.unwrap_or(usual.preview),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_changes_what_is_usual() {
        let nothing = DecodeSettings::default();
        assert_eq!(nothing.mode(DecodeMode::Autoregressive), Ok(DecodeMode::Autoregressive));
        let threshold = DecodeSettings { threshold: Some(0.5), ..nothing.clone() };
        let DecodeMode::Diffusion(half) = threshold.mode(DecodeMode::Autoregressive).unwrap()
        else {
            panic!("a threshold speaks of blocks");
        };
        assert_eq!(half.rule, Rule::Threshold(0.5));
        let factor = DecodeSettings { rule: Some("factor".into()), ..nothing.clone() };
        let DecodeMode::Diffusion(d) = factor.mode(DecodeMode::Diffusion(half)).unwrap() else {
            panic!("it was usual");
        };
        assert_eq!(d.rule, Rule::Factor(1.0), "a number of another rule does not count");
        let steps = DecodeSettings { steps: Some(3), ..nothing.clone() };
        let kept = steps.mode(DecodeMode::Diffusion(half)).unwrap();
        assert_eq!(kept, DecodeMode::Diffusion(Diffusion { steps: Some(3), ..half }));
        let drafts =
            DecodeSettings { mode: Some("lookup".into()), draft_tokens: Some(3), ..nothing };
        let DecodeMode::Drafted(d) = drafts.mode(DecodeMode::Diffusion(half)).unwrap() else {
            panic!("named");
        };
        assert_eq!((d.model, d.lookup, d.most), (false, true, 3));
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let fault = |settings: DecodeSettings| {
            settings.mode(DecodeMode::Autoregressive).unwrap_err().to_string()
        };
        let nothing = DecodeSettings::default();
        let mode = |name: &str| Some(name.to_owned());
        let other = fault(DecodeSettings { mode: mode("fast"), ..nothing.clone() });
        assert_eq!(
            other,
            "decode is \"fast\": one of autoregressive, diffusion, drafted, lookup, drafted+lookup is allowed"
        );
        let rule = DecodeSettings { rule: mode("best"), ..nothing.clone() };
        assert!(fault(rule).starts_with("rule is \"best\": one of threshold, "));
        let mixed =
            DecodeSettings { mode: mode("drafted"), threshold: Some(0.5), ..nothing.clone() };
        assert!(fault(mixed).contains("settings of decode diffusion, not of drafted"));
        let drafts = DecodeSettings { draft_tokens: Some(2), ..nothing };
        assert!(fault(drafts).contains("drafted and lookup, not of autoregressive"));
    }
}
