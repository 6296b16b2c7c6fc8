//! `wf models`: published models and the short names that commands know them by.
//!
//! The list is data: what model cards and announcements state, sizes computed from shapes where they do not, and
//! "unknown" where neither is known. Nothing is contacted unless a
//! command is given one of the names and no file has it.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde::Serialize;
use serde_json::{Value, json};

use crate::output;
use Files::{Halves, Packed, Signs, Trits, Unknown};

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
pub(crate) struct Published {
    name: &'static str,
    /// Reference on the Hugging Face Hub.
    pub(crate) reference: &'static str,
    /// Number of parameters, in billions.
    parameters: f64,
    /// Files of the download.
    files: Files,
    /// Sizes that determine bytes where no card states them.
    shape: Option<Shape>,
    context: Option<usize>,
    licence: Option<&'static str>,
}

/// The weights in the files of a download.
#[derive(Clone, Copy)]
enum Files {
    /// A file of so many gigabytes by its card, in which trits have two bits.
    Trits(f64),
    /// A file of so many gigabytes by its card, in which signs have one bit, which take two in memory.
    Signs(f64),
    /// Trits in two bits, tables in sixteen.
    Packed,
    /// Sixteen bits for every weight.
    Halves,
    /// Unknown.
    Unknown,
}

/// Sizes of a network with dense layers.
struct Shape {
    vocab: usize,
    hidden: usize,
    ffn: usize,
    layers: usize,
    /// Lengths of all query heads and of all key heads of a token.
    query: usize,
    kv: usize,
    /// Number of tables: the embedding, and the output head if it has one of its own.
    tables: usize,
}

impl Shape {
    /// Returns the size of trits in two bits and tables in sixteen, in gigabytes.
    fn gigabytes(&self) -> f64 {
        let &Self { vocab, hidden, ffn, layers, query, kv, tables } = self;
        let trits = layers * hidden * (2 * (query + kv) + 3 * ffn);
        (trits / 4 + 2 * tables * vocab * hidden) as f64 / 1e9
    }
}

/// A size in gigabytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Size {
    gigabytes: f64,
    /// True if it is computed from shapes, false if the card of the model states it.
    computed: bool,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.computed { "~" } else { "" };
        // Two digits after the point, or fewer if they are zero.
        write!(f, "{about}{} GB", (self.gigabytes * 100.0).round() / 100.0)
    }
}

const APACHE: Option<&str> = Some("Apache 2.0");
const MIT: Option<&str> = Some("MIT");
const FALCON: Option<&str> = Some("TII Falcon-LLM 2.0");
const FALCON_E: Option<&str> = Some("Falcon-LLM");

/// Models by family, small ones first.
#[rustfmt::skip]
const PUBLISHED: &[Published] = &[
    model("bitnet-700m",      "hf:1bitLLM/bitnet_b1_58-large",                                        0.7,  Unknown,      shape([ 32_002, 1_536,  4_096, 24, 1_536, 1_536, 1]), Some(2_048),   MIT),
    model("bitnet-2b",        "hf:microsoft/bitnet-b1.58-2B-4T-gguf",                                 2.4,  Packed,       shape([128_256, 2_560,  6_912, 30, 2_560,   640, 1]), Some(4_096),   MIT),
    model("bitnet-3b",        "hf:1bitLLM/bitnet_b1_58-3B",                                           3.3,  Unknown,      shape([ 32_002, 3_200,  8_640, 26, 3_200, 3_200, 1]), Some(2_048),   MIT),
    model("llama3-8b",        "hf:HF1BitLLM/Llama3-8B-1.58-100B-tokens",                              8.0,  Packed,       shape([128_256, 4_096, 14_336, 32, 4_096, 1_024, 2]), Some(8_192),   None),
    model("falcon3-1b",       "hf:tiiuae/Falcon3-1B-Instruct-1.58bit",                                1.7,  Packed,       shape([131_072, 2_048,  8_192, 18, 2_048, 1_024, 2]), Some(8_192),   FALCON),
    model("falcon3-3b",       "hf:tiiuae/Falcon3-3B-Instruct-1.58bit",                                3.2,  Packed,       shape([131_072, 3_072,  9_216, 22, 3_072, 1_024, 2]), Some(32_768),  FALCON),
    model("falcon3-7b",       "hf:tiiuae/Falcon3-7B-Instruct-1.58bit",                                7.5,  Packed,       shape([131_072, 3_072, 23_040, 28, 3_072, 1_024, 2]), Some(32_768),  FALCON),
    model("falcon3-10b",      "hf:tiiuae/Falcon3-10B-Instruct-1.58bit",                               10.3, Packed,       shape([131_072, 3_072, 23_040, 40, 3_072, 1_024, 2]), Some(32_768),  FALCON),
    model("falcon-e-1b",      "hf:tiiuae/Falcon-E-1B-Instruct",                                       1.8,  Trits(0.665), None, None,          FALCON_E),
    model("falcon-e-3b",      "hf:tiiuae/Falcon-E-3B-Instruct",                                       3.0,  Trits(0.999), None, None,          FALCON_E),
    model("trilm-560m",       "hf:SpectraSuite/TriLM_560M_Unpacked",                                  0.56, Halves,       None, None,          None),
    model("trilm-1.1b",       "hf:SpectraSuite/TriLM_1.1B_Unpacked",                                  1.1,  Halves,       None, None,          None),
    model("trilm-3.9b",       "hf:SpectraSuite/TriLM_3.9B_Unpacked",                                  3.99, Halves,       shape([ 50_688, 3_072,  9_216, 30, 3_072, 3_072, 2]), None,          None),
    model("bonsai-1bit-1.7b", "hf:prism-ml/Bonsai-1.7B-gguf:Bonsai-1.7B-Q1_0.gguf",                   1.7,  Signs(0.24),  None, Some(32_768),  APACHE),
    model("bonsai-1bit-4b",   "hf:prism-ml/Bonsai-4B-gguf:Bonsai-4B-Q1_0.gguf",                       4.0,  Signs(0.57),  None, Some(32_768),  APACHE),
    model("bonsai-1bit-8b",   "hf:prism-ml/Bonsai-8B-gguf:Bonsai-8B-Q1_0.gguf",                       8.2,  Signs(1.15),  None, Some(65_536),  APACHE),
    model("bonsai-1.7b",      "hf:prism-ml/Ternary-Bonsai-1.7B-gguf:Ternary-Bonsai-1.7B-Q2_0.gguf",   1.7,  Trits(0.46),  None, Some(32_768),  APACHE),
    model("bonsai-4b",        "hf:prism-ml/Ternary-Bonsai-4B-gguf:Ternary-Bonsai-4B-Q2_0.gguf",       4.0,  Trits(1.07),  None, Some(32_768),  APACHE),
    model("bonsai-8b",        "hf:prism-ml/Ternary-Bonsai-8B-gguf:Ternary-Bonsai-8B-Q2_0.gguf",       8.2,  Trits(2.18),  None, Some(65_536),  APACHE),
    model("bonsai-27b",       "hf:prism-ml/Ternary-Bonsai-27B-gguf:Ternary-Bonsai-27B-Q2_0.gguf",     27.0, Trits(7.17),  None, Some(262_144), APACHE),
    model("bitcpm4-0.5b",     "hf:openbmb/BitCPM-CANN-0.5B-gguf:bitcpm4-0.5b-tq2_0.gguf",             0.5,  Unknown,      None, None,          APACHE),
    model("bitcpm4-1b",       "hf:openbmb/BitCPM-CANN-1B-gguf:bitcpm4-1b-tq2_0.gguf",                 1.0,  Unknown,      None, None,          APACHE),
    model("bitcpm4-3b",       "hf:openbmb/BitCPM-CANN-3B-gguf:bitcpm4-3b-tq2_0.gguf",                 3.0,  Unknown,      None, None,          APACHE),
    model("bitcpm4-8b",       "hf:openbmb/BitCPM-CANN-8B-gguf:bitcpm4-8b-tq2_0.gguf",                 8.0,  Unknown,      None, None,          APACHE),
    model("maple-20b",        "hf:deepgrove/maple-preview-GGUF:maple-preview-TQ2_0-head-Q4_K.gguf",   20.0, Trits(5.5),   None, Some(131_072), MIT),
];

const fn model(
    name: &'static str,
    reference: &'static str,
    parameters: f64,
    files: Files,
    shape: Option<Shape>,
    context: Option<usize>,
    licence: Option<&'static str>,
) -> Published {
    Published { name, reference, parameters, files, shape, context, licence }
}

const fn shape([vocab, hidden, ffn, layers, query, kv, tables]: [usize; 7]) -> Option<Shape> {
    Some(Shape { vocab, hidden, ffn, layers, query, kv, tables })
}

pub(crate) fn models(args: &ModelsArgs) -> Result<()> {
    if args.json {
        let list: Vec<Value> = PUBLISHED.iter().map(Published::json).collect();
        return output::json(&list);
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
            self.memory().map_or_else(unknown, |size| size.to_string()),
            self.context.map_or_else(unknown, |tokens| format!("{tokens} tokens")),
            self.licence.unwrap_or("unknown"),
            self.reference
        )
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "reference": self.reference,
            "parameters": self.parameters,
            "download": self.download(),
            "memory": self.memory(),
            "context": self.context,
            "licence": self.licence,
        })
    }

    fn computed(&self) -> Option<Size> {
        self.shape.as_ref().map(|shape| Size { gigabytes: shape.gigabytes(), computed: true })
    }

    fn download(&self) -> Option<Size> {
        match self.files {
            Trits(gigabytes) | Signs(gigabytes) => Some(Size { gigabytes, computed: false }),
            Packed => self.computed(),
            Halves => Some(Size { gigabytes: 2.0 * self.parameters, computed: true }),
            Unknown => None,
        }
    }

    /// Memory that the weights take: in GGUF, about the size of the file.
    fn memory(&self) -> Option<Size> {
        match self.files {
            Trits(gigabytes) => Some(Size { gigabytes, computed: true }),
            Signs(gigabytes) => Some(Size { gigabytes: 2.0 * gigabytes, computed: true }),
            Packed | Halves | Unknown => self.computed(),
        }
    }

    fn size(&self) -> String {
        self.download().map_or("of unknown size".to_owned(), |size| format!("of {size}"))
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

    #[test]
    fn sizes_that_no_card_states_are_computed_and_marked() {
        let describe = |name: &str| find(Path::new(name)).unwrap().describe();
        // The announcement of Falcon-E gives 1.18 GB for it.
        assert!(describe("bitnet-2b").contains("of ~1.18 GB, memory ~1.18 GB"));
        assert!(describe("trilm-3.9b").contains("of ~7.98 GB, memory ~1.54 GB"));
        assert!(describe("bonsai-1bit-8b").contains("of 1.15 GB, memory ~2.3 GB"));
        let unknown = describe("bitcpm4-1b");
        assert!(unknown.contains("of unknown size, memory unknown, context unknown"), "{unknown}");
        let json = find(Path::new("falcon3-1b")).unwrap().json();
        assert_eq!(json["download"]["computed"], true);
    }

    #[test]
    fn the_models_of_a_family_are_listed_together_by_size() {
        let family = |model: &Published| {
            model.name.rsplit_once('-').map_or(model.name, |(family, _)| family)
        };
        let groups: Vec<&[Published]> = PUBLISHED.chunk_by(|a, b| family(a) == family(b)).collect();
        let families: HashSet<&str> = groups.iter().map(|group| family(&group[0])).collect();
        assert_eq!(families.len(), groups.len());
        for group in groups {
            assert!(group.is_sorted_by(|a, b| a.parameters < b.parameters), "{}", group[0].name);
        }
    }
}
