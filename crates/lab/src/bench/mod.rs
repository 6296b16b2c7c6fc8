//! Measures how fast this machine runs a network, and how far that is from the machine's limits.
//!
//! The machine's limits come first (`limits.rs`), then whole passes of a network (`network.rs`): a
//! model file, or random weights of a known shape (`shapes.rs`, `synthetic.rs`). Then each kernel on
//! its own (`kernels.rs`), sampling as the engine does it (`sampling.rs`), and optionally
//! llama-cpp-python on the same shape (`compare/`). Every case is warmed up and repeated; reports have
//! the median and the spread (`stats.rs`).

mod args;
mod attention;
mod compare;
mod decode;
mod kernels;
mod limits;
mod network;
mod plan;
mod plot;
mod replay;
mod report;
mod sampling;
mod shapes;
mod stream;
mod subject;
mod synthetic;
mod tables;
mod trace;
mod zeros;

use anyhow::Result;
use serde_json::{Value, json};
use wf_engine::{ModelSource, RunOptions};
use wf_model::{Forward, PAGE_LEN, Phase};

pub use self::args::BenchArgs;
pub use self::attention::AttentionReport;
use self::compare::Comparison;
pub use self::decode::DecodeReport;
use self::limits::Limits;
use self::network::{DecodeCase, Network, Split};
use self::plan::Plan;
pub use self::report::Report;
pub use self::shapes::Shape;
use self::stream::Stream;
use self::subject::Subject;
pub use self::synthetic::Gates;
pub use self::zeros::ZerosReport;
use crate::stats::Timing;

/// Everything a benchmark needs besides its flags.
pub struct Setup<'a> {
    /// Options for loading and running the network.
    pub options: RunOptions,
    /// The model of [`BenchArgs::model`].
    pub model: Option<ModelSource>,
    /// The model of [`BenchArgs::draft`].
    pub draft: Option<ModelSource>,
    /// The built-in demo model.
    pub demo: ModelSource,
    /// Free memory in bytes, if known.
    pub free_bytes: Option<usize>,
    /// Called with a description of each case before it is measured.
    pub progress: &'a dyn Fn(&str),
}

/// Measures the speedup of each decoding mode, and the cost of a pass over several rows.
pub fn measure_decoding(args: &BenchArgs, setup: &Setup<'_>) -> Result<DecodeReport> {
    decode::measure(args, setup, &mut Plan::new(args))
}

/// Measures decoding by context, dense and with the attention of the options.
pub fn measure_attention(args: &BenchArgs, setup: &Setup<'_>) -> Result<AttentionReport> {
    attention::measure(args, setup)
}

/// Measures decoding, dense and with the activation sparsity of the options.
pub fn measure_zeros(args: &BenchArgs, setup: &Setup<'_>) -> Result<ZerosReport> {
    zeros::measure(args, setup)
}

/// Measures the machine, the network and the kernels.
pub fn measure(args: &BenchArgs, setup: &Setup<'_>) -> Result<Report> {
    let (plan, options, progress) = (&mut Plan::new(args), &setup.options, setup.progress);
    let load_before = limits::load_average();
    let threads = options.threads;
    let isa = wf_engine::compute(options, threads)?.isa();
    let kernel = wf_kernels::kernel(isa).expect("the kernel of a supported instruction set exists");

    progress("the machine");
    let clock_ghz = limits::clock_ghz();
    let mut stream = Stream::new(plan.stream_bytes, options.cpus.clone());
    let mut limits = limits::measure(kernel, &plan.thread_counts(threads), plan, &mut stream);
    progress("loading the network");
    let subject = Subject::choose(args, setup);
    let model = subject.load(setup, plan)?;
    let positions = [model.info().context_len, model.pages() * PAGE_LEN];
    let positions = positions.into_iter().chain(options.context_len).min().unwrap_or(0);
    let left_out = plan.trim(positions, model.pages());
    let mut report = Report {
        model: subject.name(),
        weights_bytes: model.size_bytes(),
        cpu: limits::cpu_name(),
        isa: isa.name(),
        kv: options.kv.to_string(),
        threads,
        clock_ghz,
        cache_bytes: stream::last_cache_bytes(),
        left_out,
        ..Report::default()
    };

    let mut network = Network::new(model, options.kv, options.max_batch_tokens, positions);
    let mut comparison = args.compare.as_ref().and_then(|python| {
        progress("loading the model for llama-cpp-python");
        // If it cannot be started, everything else is measured all the same.
        Comparison::start(python, &network)
            .inspect_err(|error| report.warnings.push(format!("nothing compared: {error:#}")))
            .ok()
    });
    for limits in limits.iter().rev() {
        if limits.threads < threads {
            network.model.set_compute(wf_engine::compute(options, limits.threads)?);
        }
        stream.set_threads(limits.threads, plan.limits);
        let mut bench =
            Bench { network: &mut network, plan, limits, stream: &mut stream, progress };
        bench.run(limits.threads == threads, &mut report);
        if let Some(comparison) =
            comparison.as_mut().filter(|_| [1, threads].contains(&limits.threads))
        {
            progress("llama-cpp-python");
            report.compare.extend(comparison.run(&mut network, plan)?);
        }
    }
    limits::update(&mut limits, &stream);
    drop(stream);
    let all = limits.last().expect("limits for all threads");
    (report.stream_gb_s, report.peak_gmac_s) = (all.stream_gb_s, all.peak_gmac_s);
    report.limits = limits;
    report.sparsity = network.sparsity();
    if !plan.passes_only {
        progress("kernels");
        report.kernels = kernels::measure(&network.model, plan, clock_ghz);
        progress("sampling");
        network.model.set_compute(wf_engine::compute(options, threads)?);
        match sampling::measure(network.model, positions, plan)? {
            rows if rows.is_empty() => report.left_out.push("sampling".to_owned()),
            rows => report.sampling = rows,
        }
    }
    report.add_scaling();
    if let Some(price) = args.price {
        report.add_cost(price);
    }
    report.add_warnings(load_before);
    Ok(report)
}

/// Measures a network on some number of threads.
struct Bench<'a> {
    network: &'a mut Network,
    plan: &'a Plan,
    limits: &'a Limits,
    stream: &'a mut Stream,
    progress: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// Measures every case on all threads, some on fewer. Prefill comes first: it leaves the K/V
    /// that decoding after a context needs.
    fn run(&mut self, all_threads: bool, report: &mut Report) {
        let (plan, threads) = (self.plan, self.limits.threads);
        for &tokens in &plan.prompts {
            if all_threads || tokens <= plan.max_prompt_on_fewer_threads {
                (self.progress)(&format!("prefill of {tokens}, threads: {threads}"));
                report.prefill.push(self.prefill(tokens));
            }
        }
        // Between one thread and all, how decoding grows with threads is enough.
        let long_contexts = all_threads || threads == 1;
        let contexts =
            plan.contexts.iter().copied().filter(|&context| long_contexts || context == 0);
        (self.progress)(&format!("decode, threads: {threads}"));
        report.decode.extend(self.decode(contexts));
        if all_threads && !plan.passes_only {
            self.parts(report);
        }
        for &sequences in &plan.sequences {
            if all_threads || sequences == plan.sequences_on_fewer_threads {
                (self.progress)(&format!("{sequences} sequences, threads: {threads}"));
                let timing = self.network.batch(sequences, plan.passes);
                report.batch.push(json!({
                    "sequences": sequences,
                    "threads": threads,
                    "tok_s": timing.per_second(sequences),
                    "spread": timing.spread,
                }));
            }
        }
    }

    fn prefill(&mut self, tokens: usize) -> Value {
        let timing = self.network.prefill(tokens, self.plan.passes);
        let gmac_s = timing.per_second(tokens * self.network.model.network().active_trits()) / 1e9;
        json!({
            "tokens": tokens,
            "threads": self.limits.threads,
            "tok_s": timing.per_second(tokens),
            // Multiplications by trits, as a fraction of the peak of the same threads.
            "share_of_peak": gmac_s / self.limits.peak_gmac_s,
            "spread": timing.spread,
        })
    }

    /// Decodes at each context with zeros skipped and with zeros read, if the network can do both.
    fn decode(&mut self, contexts: impl Iterator<Item = usize>) -> Vec<Value> {
        let ways = if self.network.sparsity().is_some() { &[true, false][..] } else { &[false] };
        let case =
            |context| ways.iter().map(move |&skips_zeros| DecodeCase { context, skips_zeros });
        let cases: Vec<DecodeCase> = contexts.flat_map(case).collect();
        let cache = stream::last_cache_bytes();
        let timings = self.network.decode(&cases, self.plan.passes, self.stream, cache);
        let row = |(n, (case, (steps, reads))): (usize, (&DecodeCase, &(Timing, Timing)))| {
            let bytes_per_token = self.network.bytes_per_token(*case);
            let gb_s = steps.per_second(bytes_per_token) / 1e9;
            // Median memory bandwidth of the same threads, measured alternating with these steps.
            let stream_gb_s = reads.per_second(self.stream.bytes_len()) / 1e9;
            // The same way at the first context.
            let first = &timings[n % ways.len()].0;
            json!({
                "context": case.context,
                "threads": self.limits.threads,
                "sparse": case.skips_zeros,
                "tok_s": steps.per_second(1),
                "speedup": first.seconds / steps.seconds,
                "bytes_per_token": bytes_per_token,
                "in_cache": self.network.is_cached(*case, cache),
                "gb_s": gb_s,
                "stream_gb_s": stream_gb_s,
                "share_of_stream": gb_s / stream_gb_s,
                "spread": steps.spread,
            })
        };
        cases.iter().zip(&timings).enumerate().map(row).collect()
    }

    /// Measures where the time of a token and of a prompt goes.
    fn parts(&mut self, report: &mut Report) {
        (self.progress)("where the time goes");
        let (plan, limits) = (self.plan, self.limits);
        let context = plan.contexts.iter().copied().filter(|&context| context <= 512).max();
        if let Some(context) = context {
            let split = self.network.split_decode(context, plan.passes);
            report.parts.extend(parts("decode", context, &split, limits));
        }
        for tokens in plan.prompts.iter().copied().filter(|&tokens| tokens <= 512) {
            let split = self.network.split_prefill(tokens, plan.passes);
            report.parts.extend(parts("prefill", tokens, &split, limits));
        }
        for sequences in plan.sequences.iter().copied().filter(|&sequences| sequences > 1) {
            let split = self.network.split_batch(sequences, plan.passes);
            report.parts.extend(parts("batch", sequences, &split, limits));
        }
    }
}

/// Returns a row for each part, for sampling, and for the estimated cost of the barriers of a pass,
/// which is included in the other parts.
///
/// `tokens` is the context length of `decode`, or the prompt length of `prefill`.
fn parts(pass: &'static str, tokens: usize, split: &Split, limits: &Limits) -> Vec<Value> {
    let tokens_per_pass = if pass == "decode" { 1 } else { tokens };
    let computed = (split.passes * tokens_per_pass) as f64;
    let total = (split.parts.total() + split.sampling).as_secs_f64();
    let row = |(part, seconds): (&str, f64)| {
        json!({
            "pass": pass,
            "tokens": tokens,
            "threads": limits.threads,
            "part": part,
            "us_per_token": seconds * 1e6 / computed,
            "share": seconds / total,
        })
    };
    let phases = Phase::ALL.into_iter().map(|part| (part.name(), split.parts.of(part)));
    let timed = phases.chain([("sampling", split.sampling)]);
    let barriers = |count| ("barriers", limits.barrier_us / 1e6 * (count * split.passes) as f64);
    let timed = timed.map(|(name, time)| (name, time.as_secs_f64()));
    timed.chain(split.barriers.map(barriers)).map(row).collect()
}
