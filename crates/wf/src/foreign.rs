//! Flags of other programs that serve models, and the ones to use here.

use clap::Error;
use clap::error::{ContextKind, ContextValue};

use crate::output::UsageError;

/// Flags of bitnet.cpp and llama.cpp, SGLang and vLLM, each with advice.
const FLAGS: [(&str, &str); 24] = [
    ("--cache-reuse", "not needed: every prompt starts where a cached prefix ends; leave it out"),
    ("--cache-ram", "use --kv-memory SIZE: the K/V cache keeps the prefixes too"),
    ("--cont-batching", "not needed: requests always share steps; leave it out"),
    ("--ctx-size", "use --context TOKENS"),
    ("--max-model-len", "use --context TOKENS"),
    ("--context-length", "use --context TOKENS"),
    ("--n-predict", "use --max-tokens N"),
    ("--parallel", "use --max-running N"),
    ("--max-num-seqs", "use --max-running N"),
    ("--max-running-requests", "use --max-running N"),
    ("--batch-size", "use --chunk TOKENS"),
    ("--ubatch-size", "use --chunk TOKENS"),
    ("--chunked-prefill-size", "use --chunk TOKENS"),
    ("--max-num-batched-tokens", "use --chunk TOKENS"),
    ("--cache-type-k", "use --kv TYPE, for K and V"),
    ("--cache-type-v", "use --kv TYPE, for K and V"),
    ("--kv-cache-dtype", "use --kv TYPE"),
    ("--model-draft", "use --draft MODEL"),
    ("--hf-repo", "use hf:owner/repo as MODEL"),
    ("--n-gpu-layers", "not needed: everything runs on the CPU; leave it out"),
    ("--flash-attn", "not needed: attention never stores its scores; leave it out"),
    ("--mem-fraction-static", "use --kv-memory SIZE"),
    ("--gpu-memory-utilization", "use --kv-memory SIZE"),
    ("--enable-prefix-caching", "not needed: prefixes are always cached; leave it out"),
];

/// Returns an error with advice if `error` is about a flag of another program.
pub(crate) fn check(error: &Error) -> Result<(), UsageError> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return Ok(());
    };
    match FLAGS.iter().find(|(foreign, _)| foreign == flag) {
        Some((flag, advice)) => Err(UsageError::new(format!("{flag}: {advice}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::environment::command;

    fn flags(command: &Command) -> Vec<String> {
        let own = command.get_arguments().flat_map(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long().into_iter().chain(aliases).map(|long| format!("--{long}"))
        });
        own.chain(command.get_subcommands().flat_map(flags)).collect()
    }

    #[test]
    fn advice_names_flags_that_exist_for_flags_that_do_not() {
        let known = flags(&command());
        for (flag, advice) in FLAGS {
            assert!(!known.iter().any(|known| known == flag), "{flag} exists");
            if let Some(advised) = advice.split([' ', ',', ':']).find(|word| word.starts_with("--"))
            {
                assert!(known.iter().any(|known| known == advised), "{flag}: {advised}");
            }
        }
    }

    #[test]
    fn a_foreign_flag_is_answered_with_advice() {
        let error = |words: &[&str]| command().try_get_matches_from(words).unwrap_err();
        let advice = check(&error(&["wf", "serve", "--cache-reuse", "256"])).unwrap_err();
        assert!(advice.to_string().contains("leave it out"), "{advice}");
        assert!(check(&error(&["wf", "serve", "--ctx-size=4096"])).is_err());
        assert!(check(&error(&["wf", "serve", "--no-such-flag"])).is_ok());
    }
}
