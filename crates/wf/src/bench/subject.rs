//! What is measured: a model file, the demo, or random weights.

use anyhow::{Result, ensure};
use wf_engine::{ModelSource, RunOptions, compute, load_model};
use wf_model::{KvPool, Model, ModelConfig, ModelOptions, PAGE_LEN, pool_on};

use super::args::BenchArgs;
use super::dead_gates::Gates;
use super::plan::Plan;
use super::shapes::Shape;
use super::synthetic;
use crate::{demo, memory, open};

/// With less memory than this, random weights in the shape of a real model are too many.
const MEMORY_FOR_2B: usize = 4_000_000_000;

#[derive(Debug)]
pub(super) enum Subject {
    File(ModelSource),
    Synthetic(Shape, Gates),
}

impl Subject {
    /// What the arguments name. With no word from them, the shape people ask about, or the demo
    /// where `available_bytes` of memory are too few for it.
    pub(super) fn choose(args: &BenchArgs, available_bytes: Option<usize>) -> Result<Self> {
        Ok(match (&args.model, args.synthetic, args.demo) {
            (Some(model), ..) => Self::File(open::source(Some(model))?),
            (None, Some(shape), _) => Self::Synthetic(shape, args.synthetic_sparsity),
            (None, None, true) => Self::File(demo::SOURCE),
            (None, None, false) => match available_bytes {
                Some(bytes) if bytes < MEMORY_FOR_2B => Self::File(demo::SOURCE),
                _ => Self::Synthetic(Shape::Bitnet2b, args.synthetic_sparsity),
            },
        })
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::File(ModelSource::Path(path)) => path.display().to_string(),
            Self::File(ModelSource::Embedded { name, .. }) => (*name).to_owned(),
            Self::Synthetic(shape, Gates::Random) => format!("{}, random weights", shape.name()),
            Self::Synthetic(shape, Gates::Demo) => {
                format!("{}, random weights, gates shut as in the demo model", shape.name())
            }
        }
    }

    /// The network, with room for every case of `plan` that its context allows.
    pub(super) fn load(&self, options: &RunOptions, plan: &Plan) -> Result<Model> {
        let mut options = options.clone();
        options.max_batch_tokens = options.max_batch_tokens.max(plan.most_sequences());
        let wanted = plan.positions().max(plan.most_sequences() * PAGE_LEN);
        let wanted = options.context_len.map_or(wanted, |most| most.min(wanted));
        match self {
            Self::File(source) => {
                let file = source.open(&options.open)?;
                options.context_len = Some(wanted.min(file.config().context_len));
                Ok(load_model(&file, &options, &mut |_| {})?)
            }
            Self::Synthetic(shape, gates) => {
                let config = shape.config();
                let pages = wanted.min(config.context_len).div_ceil(PAGE_LEN);
                random_model(config, *gates, &options, pages)
            }
        }
    }
}

fn random_model(
    config: ModelConfig,
    gates: Gates,
    options: &RunOptions,
    pages: usize,
) -> Result<Model> {
    let needed = needed_bytes(&config) + KvPool::size_bytes(&config, options.kv, pages);
    if let Some(available) = memory::free() {
        let gigabytes = |bytes: usize| bytes as f64 / 1e9;
        ensure!(
            needed <= available,
            "this shape needs {:.1} GB of memory, {:.1} GB are available: use a smaller one or --demo",
            gigabytes(needed),
            gigabytes(available)
        );
    }
    let compute = compute(options, options.threads)?;
    let pool = pool_on(options.cpus.as_ref(), options.threads);
    let layout = compute.layout_for(trits(&config));
    let weights = synthetic::weights(&config, gates, &pool, layout);
    let model_options = ModelOptions {
        kv: options.kv,
        pages,
        max_batch_tokens: options.max_batch_tokens,
        head: options.head,
        sparse: options.sparse,
    };
    Ok(Model::from_weights(config, weights, compute, model_options))
}

/// Trits of all layers.
fn trits(config: &ModelConfig) -> usize {
    let (query, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    config.layers * config.hidden_len * (2 * query + 2 * kv + 3 * config.ffn_len)
}

/// Bytes to make random weights: two bits a trit, and a table in 16 bits, a copy of it while it is
/// made, and one of half its size to scan.
fn needed_bytes(config: &ModelConfig) -> usize {
    let tables = if config.tied_head { 1 } else { 2 };
    let table = config.vocab_len * config.hidden_len * 2;
    trits(config) / 4 + table * tables + table + table / 2
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn chosen(words: &[&str], available_bytes: Option<usize>) -> String {
        let words = ["wf", "bench"].iter().chain(words);
        let Command::Bench(args) = Args::parse_from(words).command else { panic!("not bench") };
        Subject::choose(&args, available_bytes).unwrap().name()
    }

    #[test]
    fn left_to_itself_it_takes_a_real_shape_if_there_is_memory_for_it() {
        assert_eq!(chosen(&[], Some(8_000_000_000)), "bitnet-2b, random weights");
        assert_eq!(chosen(&[], None), "bitnet-2b, random weights");
        assert_eq!(chosen(&[], Some(2_000_000_000)), demo::NAME);
    }

    #[test]
    fn what_is_named_is_taken() {
        assert_eq!(chosen(&["--demo"], None), demo::NAME);
        assert_eq!(chosen(&["--synthetic", "llama3-8b"], Some(0)), "llama3-8b, random weights");
        assert_eq!(chosen(&["my.gguf"], None), "my.gguf");
    }

    #[test]
    fn a_2b_shape_needs_less_than_what_it_is_taken_for() {
        assert!(needed_bytes(&Shape::Bitnet2b.config()) < MEMORY_FOR_2B);
    }
}
