//! The registry of decoding modes: how one sequence turns logits into tokens.
//!
//! A mode is one file in this folder and its lines here: a `mod`, a variant of [`DecodeMode`], an entry of
//! [`MODES`] and two match arms. Names, help texts, settings, command-line flags, API fields and checks derive from
//! them.

mod auto;
mod autoregressive;
mod block;
mod decoder;
mod diffusion;
mod draft_costs;
mod draft_len;
mod drafted;
mod lookup;
mod mode;
mod mtp;
mod unmask;

pub use autoregressive::Autoregressive;
pub use decoder::{Decoder, Outcome, Pass, Plan, Rows, SeqState, TokenDemand};
pub use diffusion::DiffusionParams;
pub use draft_costs::DraftCosts;
pub use drafted::DraftParams;
pub use mode::{Capabilities, DecodeSettings, ModeInfo, Setting, SettingKind, UnsupportedMode};
pub use mtp::MtpParams;
pub use unmask::{Confidence, UnmaskRule};

use mode::Mode;

/// A decoding mode and its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum DecodeMode {
    /// One token per pass.
    #[default]
    Autoregressive,
    /// Blocks of masks, each filled in a few passes.
    Diffusion(DiffusionParams),
    /// The tokens of `Autoregressive`, sooner: drafted, then verified together.
    Drafted(DraftParams),
    /// The same, drafted by the prediction head of the model.
    Mtp(MtpParams),
}

/// All modes with their default parameters.
pub const MODES: [DecodeMode; 7] = [
    DecodeMode::Autoregressive,
    DecodeMode::Diffusion(DiffusionParams::DEFAULT),
    DecodeMode::Drafted(DraftParams::MODEL),
    DecodeMode::Drafted(DraftParams::LOOKUP),
    DecodeMode::Drafted(DraftParams::MODEL_AND_LOOKUP),
    DecodeMode::Drafted(DraftParams::AUTO),
    DecodeMode::Mtp(MtpParams::DEFAULT),
];

impl DecodeMode {
    fn as_mode(&self) -> &dyn Mode {
        match self {
            Self::Autoregressive => &Autoregressive,
            Self::Diffusion(params) => params,
            Self::Drafted(params) => params,
            Self::Mtp(params) => params,
        }
    }

    fn as_mode_mut(&mut self) -> Option<&mut dyn Mode> {
        match self {
            Self::Autoregressive => None,
            Self::Diffusion(params) => Some(params),
            Self::Drafted(params) => Some(params),
            Self::Mtp(params) => Some(params),
        }
    }

    /// Describes the mode.
    pub fn info(&self) -> ModeInfo {
        self.as_mode().info()
    }

    /// Returns the name used in requests and on the command line.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// Returns the mode of that name with its default parameters.
    pub fn from_name(name: &str) -> Option<Self> {
        MODES.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the names of all modes.
    pub fn names() -> [&'static str; MODES.len()] {
        MODES.map(|mode| mode.name())
    }

    /// Returns the settings of all modes, each once.
    pub fn all_settings() -> Vec<&'static Setting> {
        let mut all: Vec<&Setting> = Vec::new();
        for setting in MODES.iter().flat_map(|mode| mode.info().settings) {
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
        all
    }

    /// Returns the names of the objects that hold settings in a request, each once.
    pub fn setting_objects() -> Vec<&'static str> {
        let mut objects: Vec<_> =
            Self::all_settings().iter().map(|setting| setting.object).collect();
        objects.dedup();
        objects
    }

    /// Returns the mode that a model uses unless another is requested.
    pub fn default_for(model: Capabilities) -> Self {
        MODES.into_iter().find(|mode| mode.as_mode().is_default(model)).unwrap_or_default()
    }

    /// Returns `true` if tokens are sampled from left to right.
    pub fn is_left_to_right(&self) -> bool {
        self.info().is_left_to_right
    }

    /// Returns a decoder for a model with these capabilities.
    ///
    /// # Errors
    ///
    /// If the model does not support the mode or one of its parameters.
    pub fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode> {
        self.as_mode().decoder(model)
    }

    fn has_object(&self, object: &str) -> bool {
        self.info().settings.iter().any(|setting| setting.object == object)
    }

    fn apply(&mut self, settings: &DecodeSettings) -> Result<(), UnsupportedMode> {
        let Some(mode) = self.as_mode_mut() else { return Ok(()) };
        for setting in mode.info().settings {
            let value = settings.objects.get(setting.object).and_then(|o| o.get(setting.name));
            let Some(value) = value.filter(|value| !value.is_null()) else { continue };
            if let Some(expected) = setting.kind.mismatch(value) {
                let Setting { object, name, .. } = setting;
                let message = format!("{object}.{name} is {value}: must be {expected}");
                return Err(UnsupportedMode(message));
            }
            mode.set(setting.name, value)?;
        }
        Ok(())
    }
}

impl DecodeSettings {
    /// Returns the mode that the settings select, where `default` applies if they name none.
    ///
    /// An object that is named like a mode implies that mode.
    ///
    /// # Errors
    ///
    /// If a name is unknown, or a setting belongs to another mode.
    pub fn resolve(&self, default: DecodeMode) -> Result<DecodeMode, UnsupportedMode> {
        let objects: Vec<&str> = self.objects.keys().map(String::as_str).collect();
        let implied =
            || objects.iter().copied().find(|object| DecodeMode::from_name(object).is_some());
        let mut mode = match self.mode.as_deref().or_else(implied) {
            None => default,
            Some(name) if name == default.name() => default,
            Some(name) => DecodeMode::from_name(name).ok_or_else(|| {
                let names = DecodeMode::names().join(", ");
                UnsupportedMode(format!("decode is {name:?}: must be one of {names}"))
            })?,
        };
        if let Some(other) = objects.into_iter().find(|object| !mode.has_object(object)) {
            let owners = MODES.iter().filter(|mode| mode.has_object(other)).map(DecodeMode::name);
            let owners = owners.collect::<Vec<_>>().join(", ");
            return Err(UnsupportedMode(format!(
                "{other} settings apply to decode {owners}, not to {}",
                mode.name()
            )));
        }
        mode.apply(self)?;
        Ok(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(settings: &DecodeSettings, default: DecodeMode) -> Result<DecodeMode, String> {
        settings.resolve(default).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_change_the_default_mode() {
        let none = DecodeSettings::default();
        assert_eq!(resolve(&none, DecodeMode::Autoregressive), Ok(DecodeMode::Autoregressive));
        let threshold = none.clone().with("diffusion", "threshold", 0.5);
        let DecodeMode::Diffusion(half) = resolve(&threshold, DecodeMode::Autoregressive).unwrap()
        else {
            panic!("a diffusion setting implies diffusion");
        };
        assert_eq!(half.rule, UnmaskRule::Threshold(0.5));
        let factor = none.clone().with("diffusion", "rule", "factor");
        let DecodeMode::Diffusion(d) = resolve(&factor, DecodeMode::Diffusion(half)).unwrap()
        else {
            panic!("diffusion was the default");
        };
        assert_eq!(d.rule, UnmaskRule::Factor(1.0), "the number of another rule does not apply");
        let steps = none.with("diffusion", "steps", 3);
        let kept = resolve(&steps, DecodeMode::Diffusion(half)).unwrap();
        assert_eq!(kept, DecodeMode::Diffusion(DiffusionParams { steps: Some(3), ..half }));
        let drafts = DecodeSettings::of_mode("lookup").with("draft", "tokens", 3);
        let DecodeMode::Drafted(d) = resolve(&drafts, DecodeMode::Diffusion(half)).unwrap() else {
            panic!("lookup drafts");
        };
        assert_eq!((d.model, d.lookup, d.max_tokens), (false, true, 3));
    }

    #[test]
    fn settings_that_do_not_fit_are_named() {
        let fault =
            |settings: &DecodeSettings| resolve(settings, DecodeMode::Autoregressive).unwrap_err();
        assert_eq!(
            fault(&DecodeSettings::of_mode("fast")),
            "decode is \"fast\": must be one of autoregressive, diffusion, drafted, lookup, \
             drafted+lookup, auto, mtp"
        );
        let rule = DecodeSettings::default().with("diffusion", "rule", "best");
        assert!(fault(&rule).starts_with("rule is \"best\": must be one of threshold, "));
        let kind = DecodeSettings::default().with("diffusion", "steps", "many");
        assert_eq!(fault(&kind), "diffusion.steps is \"many\": must be a whole number");
        let mixed = DecodeSettings::of_mode("drafted").with("diffusion", "threshold", 0.5);
        assert!(fault(&mixed).contains("apply to decode diffusion, not to drafted"));
        let fixed = DecodeSettings::of_mode("auto").with("draft", "adapt", false);
        assert_eq!(fault(&fixed), "draft.adapt is false: must be true with decode auto");
        let drafts = DecodeSettings::default().with("draft", "tokens", 2);
        let message =
            "apply to decode drafted, lookup, drafted+lookup, auto, mtp, not to autoregressive";
        assert!(fault(&drafts).contains(message));
    }

    #[test]
    fn every_mode_is_found_by_its_name() {
        for mode in MODES {
            assert_eq!(DecodeMode::from_name(mode.name()), Some(mode));
            assert!(!mode.info().summary.is_empty());
        }
    }
}
