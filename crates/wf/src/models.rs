//! `wf models`: published models and the short names that commands know them by.
//!
//! The list is data: what model cards state, and `None` where they do not. Nothing is contacted unless a
//! command is given one of the names and no file has it.

use std::path::Path;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::output;

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  wf models                                 names, sizes and licences
  wf chat bonsai-1.7b                       download the model once, and chat with it")]
pub(crate) struct ModelsArgs {
    /// Print a JSON list
    #[arg(long)]
    pub(crate) json: bool,
}

/// A published model.
#[derive(Serialize)]
pub(crate) struct Published {
    name: &'static str,
    /// Reference on the Hugging Face Hub.
    pub(crate) reference: &'static str,
    /// Number of parameters, in billions.
    parameters: f32,
    /// Size of the download, in gigabytes.
    gigabytes: Option<f32>,
    context: Option<usize>,
    licence: Option<&'static str>,
}

const APACHE: Option<&str> = Some("Apache 2.0");
const MIT: Option<&str> = Some("MIT");
const FALCON: Option<&str> = Some("TII Falcon-LLM 2.0");

#[rustfmt::skip]
const PUBLISHED: &[Published] = &[
    model("bitnet-2b",        "hf:microsoft/bitnet-b1.58-2B-4T-gguf",                                 2.4,  None,       Some(4_096),  MIT),
    model("bitnet-700m",      "hf:1bitLLM/bitnet_b1_58-large",                                        0.7,  None,       Some(2_048),  MIT),
    model("bitnet-3b",        "hf:1bitLLM/bitnet_b1_58-3B",                                           3.3,  None,       Some(2_048),  MIT),
    model("llama3-8b",        "hf:HF1BitLLM/Llama3-8B-1.58-100B-tokens",                              8.0,  None,       Some(8_192),  None),
    model("falcon3-1b",       "hf:tiiuae/Falcon3-1B-Instruct-1.58bit",                                1.7,  None,       Some(8_192),  FALCON),
    model("falcon3-3b",       "hf:tiiuae/Falcon3-3B-Instruct-1.58bit",                                3.2,  None,       Some(32_768), FALCON),
    model("falcon3-7b",       "hf:tiiuae/Falcon3-7B-Instruct-1.58bit",                                7.5,  None,       Some(32_768), FALCON),
    model("falcon3-10b",      "hf:tiiuae/Falcon3-10B-Instruct-1.58bit",                               10.3, None,       Some(32_768), FALCON),
    model("bonsai-1.7b",      "hf:prism-ml/Ternary-Bonsai-1.7B-gguf:Ternary-Bonsai-1.7B-Q2_0.gguf",   1.7,  Some(0.46), Some(32_768), APACHE),
    model("bonsai-4b",        "hf:prism-ml/Ternary-Bonsai-4B-gguf:Ternary-Bonsai-4B-Q2_0.gguf",       4.0,  Some(1.07), Some(32_768), APACHE),
    model("bonsai-8b",        "hf:prism-ml/Ternary-Bonsai-8B-gguf:Ternary-Bonsai-8B-Q2_0.gguf",       8.2,  Some(2.18), Some(65_536), APACHE),
    model("bonsai-1bit-1.7b", "hf:prism-ml/Bonsai-1.7B-gguf:Bonsai-1.7B-Q1_0.gguf",                   1.7,  Some(0.24), Some(32_768), APACHE),
    model("bonsai-1bit-4b",   "hf:prism-ml/Bonsai-4B-gguf:Bonsai-4B-Q1_0.gguf",                       4.0,  Some(0.57), Some(32_768), APACHE),
    model("maple-20b",        "hf:deepgrove/maple-preview-GGUF:maple-preview-TQ2_0-head-Q4_K.gguf",   20.0, Some(5.5),  Some(131_072), MIT),
    model("bitcpm4-0.5b",     "hf:openbmb/BitCPM-CANN-0.5B-gguf:bitcpm4-0.5b-tq2_0.gguf",             0.5,  None,       None,   None),
    model("bitcpm4-1b",       "hf:openbmb/BitCPM-CANN-1B-gguf:bitcpm4-1b-tq2_0.gguf",                 1.0,  None,       None,   None),
    model("bitcpm4-3b",       "hf:openbmb/BitCPM-CANN-3B-gguf:bitcpm4-3b-tq2_0.gguf",                 3.0,  None,       None,   None),
    model("bitcpm4-8b",       "hf:openbmb/BitCPM-CANN-8B-gguf:bitcpm4-8b-tq2_0.gguf",                 8.0,  None,       None,   None),
    model("bonsai-1bit-8b",   "hf:prism-ml/Bonsai-8B-gguf:Bonsai-8B-Q1_0.gguf",                       8.2,  None,       Some(65_536), APACHE),
];

const fn model(
    name: &'static str,
    reference: &'static str,
    parameters: f32,
    gigabytes: Option<f32>,
    context: Option<usize>,
    licence: Option<&'static str>,
) -> Published {
    Published { name, reference, parameters, gigabytes, context, licence }
}

pub(crate) fn models(args: &ModelsArgs) -> Result<()> {
    if args.json {
        return output::json(&PUBLISHED);
    }
    let rows: Vec<_> = PUBLISHED.iter().map(|model| (model.name, model.describe())).collect();
    output::table(&rows)
}

/// Returns the published model of a short name, unless there is a file or directory of that name.
pub(crate) fn find(name: &Path) -> Option<&'static Published> {
    let found = PUBLISHED.iter().find(|model| name.to_str() == Some(model.name));
    found.filter(|_| !name.exists())
}

impl Published {
    fn describe(&self) -> String {
        let unknown = || "unknown".to_owned();
        format!(
            "{} billion parameters, download {}, memory {}, context {}, licence {}, {}",
            self.parameters,
            self.size(),
            self.memory().map_or_else(unknown, |size| format!("{size:.1} GB")),
            self.context.map_or_else(unknown, |tokens| format!("{tokens} tokens")),
            self.licence.unwrap_or("unknown"),
            self.reference
        )
    }

    /// Memory that the weights take: in GGUF, about the size of the file. Signs take twice as much.
    fn memory(&self) -> Option<f32> {
        let is_signs = self.reference.ends_with("Q1_0.gguf");
        self.gigabytes.map(|size| if is_signs { 2.0 * size } else { size })
    }

    fn size(&self) -> String {
        self.gigabytes.map_or("of unknown size".to_owned(), |size| format!("of {size} GB"))
    }

    /// Describes the download for a note.
    pub(crate) fn announce(&self) -> String {
        format!(
            "{} is {}: a download {}, unless it is cached",
            self.name,
            self.reference,
            self.size()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wf_hub::Reference;

    use super::*;

    #[test]
    fn names_are_unique_and_references_are_valid() {
        let names: HashSet<&str> = PUBLISHED.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), PUBLISHED.len());
        for model in PUBLISHED {
            let reference = Reference::parse(model.reference).expect(model.name);
            assert_eq!(reference.unwrap().to_string(), model.reference);
            assert!(!model.name.contains(['/', ':', '\\']), "{}", model.name);
        }
    }

    #[test]
    fn a_name_is_known_unless_a_file_has_it() {
        assert_eq!(find(Path::new("bonsai-1.7b")).map(|m| m.name), Some("bonsai-1.7b"));
        assert!(find(Path::new("bonsai-1.7")).is_none());
        assert!(find(Path::new("./bonsai-1.7b")).is_none());
        let described = find(Path::new("bonsai-8b")).unwrap().describe();
        for part in ["8.2 billion", "of 2.18 GB", "65536 tokens", "Apache 2.0", "prism-ml"] {
            assert!(described.contains(part), "{described}");
        }
    }
}
