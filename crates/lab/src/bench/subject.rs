//! The subject of a benchmark: a model file, the demo model, or random weights.

use anyhow::{Result, bail, ensure};
use wf_engine::{ActivationSparsity, ModelSource, compute, load_model, topk};
use wf_formats::{ModelInfo, ScaleUnit};
use wf_model::{KvPool, Model, ModelOptions, PAGE_LEN, Placement};

use super::Setup;
use super::args::BenchArgs;
use super::plan::Plan;
use super::shapes::Shape;
use super::synthetic::{self, Gates};

/// Free memory required by the default subject, in bytes.
const MEMORY_FOR_2B: usize = 4_000_000_000;

#[derive(Debug)]
pub(super) enum Subject {
    File(ModelSource),
    Synthetic(Shape, Gates),
}

impl Subject {
    /// Returns the subject that the flags name, or else the shape of BitNet b1.58 2B4T, or the demo
    /// model if there is too little memory for it.
    pub(super) fn choose(args: &BenchArgs, setup: &Setup<'_>) -> Self {
        let has_memory = setup.free_bytes.is_none_or(|bytes| bytes >= MEMORY_FOR_2B);
        match (&setup.model, args.synthetic) {
            (Some(model), _) => Self::File(model.clone()),
            (None, Some(shape)) => Self::Synthetic(shape, args.synthetic_sparsity),
            (None, None) if has_memory && !args.demo => {
                Self::Synthetic(Shape::Bitnet2b, args.synthetic_sparsity)
            }
            (None, None) => Self::File(setup.demo.clone()),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::File(ModelSource::Path(path)) => path.display().to_string(),
            Self::File(ModelSource::Embedded { name, .. }) => (*name).to_owned(),
            Self::Synthetic(shape, Gates::Random) => format!("{}, random weights", shape.name()),
            Self::Synthetic(shape, Gates::Demo) => {
                format!("{}, random weights, gates closed as in the demo model", shape.name())
            }
        }
    }

    /// Loads the network, with K/V pages for every case of `plan` that its context allows.
    pub(super) fn load(&self, setup: &Setup<'_>, plan: &Plan) -> Result<Model> {
        let mut options = setup.options.clone();
        options.max_batch_tokens = options.max_batch_tokens.max(plan.max_sequences());
        let positions = plan.positions().max(plan.max_sequences() * PAGE_LEN);
        let positions = options.context_len.map_or(positions, |max| max.min(positions));
        match self {
            Self::File(source) => {
                let file = source.open(&options.open)?;
                options.context_len = Some(positions.min(file.info().context_len));
                let model = load_model(&file, &options, &mut |_| {})?;
                Ok(model.with_states(plan.max_sequences()))
            }
            Self::Synthetic(shape, gates) => {
                // Tokens can be decoded after as many as the context holds.
                let own = shape.info().context_len + plan.passes.max + 1;
                let max_positions = if plan.beyond_context { usize::MAX } else { own };
                let model_options = ModelOptions {
                    kv: options.kv,
                    pages: positions.min(max_positions).div_ceil(PAGE_LEN),
                    max_batch_tokens: options.max_batch_tokens,
                    head: options.head,
                    sparse: options.sparse,
                    context_len: None,
                    activations: options.activations,
                };
                let states = plan.max_sequences();
                random_model(*shape, *gates, setup, (model_options, states))
            }
        }
    }
}

fn random_model(
    shape: Shape,
    gates: Gates,
    setup: &Setup<'_>,
    (model_options, states): (ModelOptions, usize),
) -> Result<Model> {
    let network = shape.network();
    let kv_bytes = KvPool::size_bytes(&network, model_options.kv, model_options.pages);
    let needed = needed_bytes(shape) + kv_bytes + states * Model::state_bytes(&network);
    if let Some(free) = setup.free_bytes {
        ensure!(
            needed <= free,
            "this shape needs {:.1} GB of memory, but {:.1} GB are available: use a smaller shape \
             or --demo",
            needed as f64 / 1e9,
            free as f64 / 1e9
        );
    }
    let options = &setup.options;
    let compute = compute(options, options.threads)?;
    let pool = Placement::new(options.cpus.as_ref(), options.threads).pool(options.threads);
    let activations = model_options.activations.unwrap_or(network.activations);
    let layout = compute.layout_for(network.trits(), activations)?;
    let weights = synthetic::weights(&network, (gates, shape.scale_unit()), &pool, layout);
    let info = ModelInfo { context_len: model_options.pages * PAGE_LEN, ..shape.info() };
    let layers = network.layers.len();
    let mut model = Model::from_weights(network, info, weights, compute, model_options);
    match &options.activation_sparsity {
        ActivationSparsity::Off => {}
        ActivationSparsity::TopK(share) => {
            model.set_zeros(&topk(*share, layers));
            model.skip_columns();
        }
        mode => bail!(
            "random weights have no calibration, but --activation-sparsity is {mode}: use topk=F"
        ),
    }
    Ok(model.with_states(states))
}

/// Returns the bytes needed to make random weights: two bits per trit, a table in 16 bits, a
/// temporary copy of it, and an int8 copy. Where tables are ternary, too, there are no copies, and each
/// group has a scale. Scales of rows are too few to count.
fn needed_bytes(shape: Shape) -> usize {
    let network = shape.network();
    let tables = if network.head.tied { 1 } else { 2 };
    if let ScaleUnit::Group(len) = shape.scale_unit() {
        let trits = network.trits() + tables * network.vocab_len * network.hidden_len;
        return trits / 4 + trits / len * 4;
    }
    let table = network.vocab_len * network.hidden_len * 2;
    network.trits() / 4 + table * tables + table + table / 2
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wf_engine::RunOptions;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    const DEMO: &str = "built-in demo";

    fn chosen(words: &[&str], free_bytes: Option<usize>) -> String {
        let args = Line::parse_from(["bench"].iter().chain(words)).args;
        let setup = Setup {
            options: RunOptions::default(),
            model: args.model.clone().map(ModelSource::Path),
            draft: None,
            demo: ModelSource::Embedded { name: DEMO, bytes: &[] },
            free_bytes,
            progress: &|_| {},
        };
        Subject::choose(&args, &setup).name()
    }

    #[test]
    fn the_default_is_a_real_shape_if_there_is_memory_for_it() {
        assert_eq!(chosen(&[], Some(8_000_000_000)), "bitnet-2b, random weights");
        assert_eq!(chosen(&[], None), "bitnet-2b, random weights");
        assert_eq!(chosen(&[], Some(2_000_000_000)), DEMO);
    }

    #[test]
    fn the_named_subject_is_measured() {
        assert_eq!(chosen(&["--demo"], None), DEMO);
        assert_eq!(chosen(&["--synthetic", "llama3-8b"], Some(0)), "llama3-8b, random weights");
        assert_eq!(chosen(&["my.gguf"], None), "my.gguf");
    }

    #[test]
    fn a_2b_shape_fits_into_the_memory_it_requires() {
        assert!(needed_bytes(Shape::Bitnet2b) < MEMORY_FOR_2B);
    }
}
