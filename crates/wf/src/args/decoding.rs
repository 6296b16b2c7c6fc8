//! Decoding flags, shared by every command that generates text. They derive from the engine's registry of modes.

use std::path::PathBuf;

use clap::builder::{BoolValueParser, StringValueParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args as ClapArgs, Command, FromArgMatches};
use serde_json::Value;
use wf_engine::{
    DecodeMode, DecodeSettings, Frontend, MODES, Setting, SettingKind, UnsupportedMode,
};

use super::numbers::{parse_count, parse_number};

/// Decoding flags.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Decoding (docs/decoding.md)")]
pub(crate) struct DecodingArgs {
    /// Decoding mode; see --help
    #[arg(long, value_name = "MODE", long_help = decode_help())]
    pub(crate) decode: Option<String>,

    /// Drafts: a smaller model with the same tokenizer, which drafts for the model
    #[arg(long, value_name = "MODEL")]
    pub(crate) draft: Option<PathBuf>,

    #[command(flatten)]
    settings: SettingArgs,
}

/// Help text of `--decode`: all modes with their summaries.
fn decode_help() -> String {
    let width = MODES.iter().map(|mode| mode.name().len()).max().unwrap_or(0);
    let mode = |mode: &DecodeMode| format!("{:width$}  {}\n", mode.name(), mode.info().summary);
    let modes: String = MODES.iter().map(mode).collect();
    format!(
        "Decoding mode\n\n{modes}\nDefault: autoregressive; drafted with --draft; diffusion for models that \
         support nothing else."
    )
}

/// Values of the flags that the settings of modes declare.
#[derive(Clone, Debug, Default, PartialEq)]
struct SettingArgs(DecodeSettings);

impl ClapArgs for SettingArgs {
    fn augment_args(command: Command) -> Command {
        DecodeMode::all_settings().into_iter().filter_map(arg).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(setting: &'static Setting) -> Option<Arg> {
    let long = setting.flag?;
    let arg = Arg::new(long).long(long).help(setting.help);
    Some(match setting.kind {
        SettingKind::Count => {
            arg.value_name("N").value_parser(|text: &str| parse_count(text).map(Value::from))
        }
        SettingKind::Number => {
            arg.value_name("X").value_parser(|text: &str| parse_number(text).map(Value::from))
        }
        SettingKind::Bool => {
            arg.value_name("BOOL").value_parser(BoolValueParser::new().map(Value::from))
        }
        SettingKind::Name => {
            arg.value_name("NAME").value_parser(StringValueParser::new().map(Value::from))
        }
    })
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in DecodeMode::all_settings() {
            let value = setting.flag.and_then(|long| matches.get_one::<Value>(long));
            if let Some(value) = value {
                let settings = std::mem::take(&mut self.0);
                self.0 = settings.with(setting.object, setting.name, value.clone());
            }
        }
        Ok(())
    }
}

impl DecodingArgs {
    /// Returns `true` if none of the flags is set.
    pub(crate) fn is_default(&self) -> bool {
        self.decode.is_none() && self.settings == SettingArgs::default() && self.draft.is_none()
    }

    /// Returns the mode that the flags select for a model.
    pub(crate) fn mode(&self, frontend: &Frontend) -> Result<DecodeMode, UnsupportedMode> {
        let default = DecodeMode::default_for(frontend.engine().capabilities());
        let settings = DecodeSettings { mode: self.decode.clone(), ..self.settings.0.clone() };
        let mode = settings.resolve(default)?;
        if self.draft.is_some() && !mode.info().uses_draft_model {
            let users =
                MODES.iter().filter(|mode| mode.info().uses_draft_model).map(DecodeMode::name);
            let users = users.collect::<Vec<_>>().join(", ");
            let message = format!("decode is {}: --draft is for --decode {users}", mode.name());
            return Err(UnsupportedMode(message));
        }
        // Reported now, not with the first request.
        frontend.engine().check_mode(mode)?;
        Ok(mode)
    }
}
