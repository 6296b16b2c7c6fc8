//! Speculative decoding with drafts of the model's own multi-token prediction head.
//!
//! The head runs before each plan (`run/predict.rs`), for all sequences together. Its drafts are verified as all others are
//! (`drafted.rs`), so the tokens are those of `Autoregressive`.

use serde_json::Value;

use super::Decoder;
use super::DraftParams;
use super::drafted::{SETTINGS, by_mtp};
use super::mode::{Capabilities, Mode, ModeInfo, UnsupportedMode};

/// Number of draft tokens of the prediction head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtpParams {
    /// Maximum number of draft tokens per verification.
    pub max_tokens: usize,
    /// Drafts fewer tokens after rejections.
    pub adaptive: bool,
}

impl MtpParams {
    /// The parameters of requests that set none.
    pub const DEFAULT: Self =
        Self { max_tokens: DraftParams::MODEL.max_tokens, adaptive: DraftParams::MODEL.adaptive };

    fn drafts(self) -> DraftParams {
        let Self { max_tokens, adaptive } = self;
        DraftParams { max_tokens, adaptive, ..DraftParams::MODEL }
    }
}

impl Mode for MtpParams {
    fn info(&self) -> ModeInfo {
        let summary = "the same tokens, sooner: drafted by the model's own prediction head";
        ModeInfo { name: "mtp", summary, settings: &SETTINGS, ..ModeInfo::DEFAULT }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), UnsupportedMode> {
        let mut drafts = self.drafts();
        drafts.set(name, value)?;
        (self.max_tokens, self.adaptive) = (drafts.max_tokens, drafts.adaptive);
        Ok(())
    }

    fn decoder(&self, model: Capabilities) -> Result<Box<dyn Decoder>, UnsupportedMode> {
        if !model.mtp {
            return Err(UnsupportedMode(
                "decode is mtp, but the model has no multi-token prediction head that can run: `wf inspect` \
                 says whether its file has one (autoregressive and lookup work with every model)"
                    .to_owned(),
            ));
        }
        model.require_next_token("mtp")?;
        self.drafts().check_tokens()?;
        Ok(by_mtp(self.drafts()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::DecodeMode;
    use super::*;

    #[test]
    fn a_model_without_a_head_is_rejected_and_so_are_no_tokens() {
        let model = |mtp| Capabilities {
            blocks: None,
            draft_model: true,
            mtp,
            max_batch_tokens: 8,
            recurrent: true,
            window: None,
        };
        let mode = |max_tokens| DecodeMode::Mtp(MtpParams { max_tokens, ..MtpParams::DEFAULT });
        let error = |tokens, mtp| mode(tokens).decoder(model(mtp)).err().map(|error| error.0);
        assert_eq!(error(3, true), None);
        assert!(
            error(3, false).is_some_and(|error| error.contains("no multi-token prediction head"))
        );
        let none = "draft tokens is 0: must be between 1 and 64";
        assert_eq!(error(0, true).as_deref(), Some(none));
    }
}
