//! How tokens are found: the flags that every command that writes a reply shares.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wf_engine::{DecodeMode, DecodeSettings, Drafting, Frontend, Unsupported};

use super::numbers::{parse_count, parse_number};

/// How tokens are found.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Decoding (docs/decoding.md)")]
pub(crate) struct DecodingArgs {
    /// How tokens are found; see --help
    ///
    /// autoregressive  one pass for each token
    /// diffusion       a block of tokens in a few passes; for models trained to fill masks
    /// drafted         the tokens of autoregressive, sooner: such a model, or that of --draft, guesses
    /// lookup          the same for every model: guesses are what followed the same words before
    /// drafted+lookup  both kinds of guesses
    ///
    /// Unless given, autoregressive; drafted with --draft; diffusion for models that can do nothing else.
    #[arg(long, env = "WF_DECODE", value_name = "MODE", verbatim_doc_comment)]
    pub(crate) decode: Option<String>,

    /// Drafts: a smaller model with the same tokenizer, which guesses what the first will say
    #[arg(long, env = "WF_DRAFT", value_name = "MODEL")]
    pub(crate) draft: Option<PathBuf>,

    /// Diffusion: tokens of a block [default: the model's own]
    #[arg(long, env = "WF_BLOCK_SIZE", value_name = "N", value_parser = parse_count)]
    pub(crate) block_size: Option<usize>,

    /// Diffusion: tokens of the parts a block is filled in, one after another [default: the model's own]
    #[arg(long, env = "WF_SUB_BLOCK_SIZE", value_name = "N", value_parser = parse_count)]
    pub(crate) sub_block_size: Option<usize>,

    /// Diffusion: which guesses of a pass stay: threshold, factor, static, dynamic, entropy, adaptive,
    /// single, edit or prefix [default: threshold]
    #[arg(long, env = "WF_RULE", value_name = "RULE")]
    pub(crate) rule: Option<String>,

    /// Diffusion: how sure a guess must be to stay; what the number means depends on the rule
    /// [default: 0.9 for the rule threshold]
    #[arg(long, env = "WF_THRESHOLD", value_name = "X", value_parser = parse_number)]
    pub(crate) threshold: Option<f32>,

    /// Diffusion: the most passes on each part of a block [default: as many as it takes]
    #[arg(long, env = "WF_STEPS", value_name = "N", value_parser = parse_count)]
    pub(crate) steps: Option<usize>,

    /// Drafts: the most tokens to guess at once [default: 15]
    #[arg(long, env = "WF_DRAFT_TOKENS", value_name = "N", value_parser = parse_count)]
    pub(crate) draft_tokens: Option<usize>,
}

impl DecodingArgs {
    /// Whether none of the flags was given.
    pub(crate) fn is_silent(&self) -> bool {
        self.settings() == DecodeSettings::default() && self.draft.is_none()
    }

    /// The mode that the flags ask of a model.
    pub(crate) fn mode(&self, frontend: &Frontend) -> Result<DecodeMode, Unsupported> {
        let mode = self.settings().mode(DecodeMode::natural(frontend.engine().abilities()))?;
        let uses_draft = matches!(mode, DecodeMode::Drafted(Drafting { model: true, .. }));
        if self.draft.is_some() && !uses_draft {
            let what = "--draft is for --decode drafted and drafted+lookup";
            return Err(Unsupported(format!("decode is {}: {what}", mode.name())));
        }
        // Said now, not with the first reply.
        frontend.engine().check_mode(mode)?;
        Ok(mode)
    }

    fn settings(&self) -> DecodeSettings {
        DecodeSettings {
            mode: self.decode.clone(),
            block_len: self.block_size,
            sub_block_len: self.sub_block_size,
            rule: self.rule.clone(),
            threshold: self.threshold,
            steps: self.steps,
            draft_tokens: self.draft_tokens,
            ..DecodeSettings::default()
        }
    }
}
