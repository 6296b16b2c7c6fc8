//! `wf bench`: how fast this machine runs a network, and how far that is from what it could do.
//!
//! First the machine's own limits (`limits.rs`), then whole passes of a network (`network.rs`): a
//! model file, or random weights of a known shape (`shapes.rs`, `synthetic.rs`). Then each kernel on
//! its own (`kernels.rs`). Every case warms up and is repeated; what is told is the median and the
//! spread (`stats.rs`).

pub(crate) mod args;
mod cost;
mod kernels;
mod limits;
mod machine;
mod network;
mod plan;
mod plot;
mod random;
mod report;
mod shapes;
mod stats;
mod subject;
mod synthetic;
mod table;

use std::io::IsTerminal;

use anyhow::{Context, Result};
use wf_engine::RunOptions;
use wf_model::{Forward, PAGE_LEN, Part};

use self::args::BenchArgs;
use self::limits::Limits;
use self::network::{Network, Split};
use self::plan::Plan;
use self::report::{Batch, Decode, PartShare, Prefill, Report};
use self::subject::Subject;

/// Runs the command.
pub(crate) fn bench(args: &BenchArgs) -> Result<()> {
    let mut plan = match args {
        BenchArgs { smoke: true, .. } => Plan::smoke(),
        BenchArgs { quick: true, .. } => Plan::quick(),
        _ => Plan::full(),
    };
    let report = measure(args, &mut plan)?;
    if let Some(path) = &args.plot {
        let name = path.display();
        std::fs::write(path, plot::svg(&report)).with_context(|| format!("writing {name}"))?;
    }
    if args.json {
        crate::report::json(&report)
    } else {
        crate::report::stream(&table::text(&report))
    }
}

fn measure(args: &BenchArgs, plan: &mut Plan) -> Result<Report> {
    let load_before = machine::load_average();
    let options = RunOptions { head: args.head.head, ..args.compute.options(&args.file) };
    let threads = options.threads;
    let isa = wf_engine::compute(&options, threads)?.isa();
    let kernel = wf_kernels::kernel(isa).expect("a kernel that computes exists");

    told("the machine");
    let clock_ghz = limits::clock_ghz();
    let limits = limits::measure(kernel, &limits::thread_counts(threads), plan);
    told("making the network");
    let subject = Subject::choose(args, machine::available_bytes());
    let model = subject.load(&options, plan)?;
    let positions = [model.config().context_len, model.pages() * PAGE_LEN];
    let positions = positions.into_iter().chain(options.context_len).min().unwrap_or(0);
    let left_out = plan.trim(positions, model.pages());
    let all = *limits.last().expect("limits for all threads");
    let mut report = Report {
        model: subject.name(),
        weights_bytes: model.size_bytes(),
        cpu: machine::cpu_name(),
        isa: isa.name(),
        kv: options.kv.to_string(),
        threads,
        clock_ghz,
        stream_gb_s: all.stream_gb_s,
        peak_gmac_s: all.peak_gmac_s,
        limits: limits.clone(),
        decode: Vec::new(),
        prefill: Vec::new(),
        batch: Vec::new(),
        kernels: Vec::new(),
        parts: Vec::new(),
        cost: Vec::new(),
        left_out,
        warnings: Vec::new(),
    };

    let mut network = Network::new(model, options.kv, options.max_batch_tokens, positions);
    on_all_threads(&mut network, plan, &all, &mut report);
    if threads > 1 {
        network.set_compute(wf_engine::compute(&options, 1)?);
        on_one_thread(&mut network, plan, &limits[0], &mut report);
    }
    told("kernels");
    report.kernels = kernels::measure(network.model(), plan, clock_ghz);
    if let Some(price) = args.price {
        add_cost(&mut report, price);
    }
    report.doubt(load_before);
    Ok(report)
}

/// Says what is going on to someone who waits for it.
fn told(what: &str) {
    if std::io::stderr().is_terminal() {
        crate::report::note(&format!("measuring: {what}"));
    }
}

/// Prompts come first: they leave the K/V that decoding after a context needs.
fn on_all_threads(network: &mut Network, plan: &Plan, limits: &Limits, report: &mut Report) {
    for &tokens in &plan.prompts {
        told(&format!("prefill of {tokens}"));
        report.prefill.push(prefill(network, tokens, plan, limits));
    }
    for &context in &plan.contexts {
        told(&format!("decode at context {context}"));
        report.decode.push(decode(network, context, plan, limits));
    }
    told("where the time goes");
    let context = plan.contexts.iter().copied().filter(|&context| context <= 512).max();
    if let Some(context) = context {
        let split = network.split_decode(context, plan.passes);
        let runs = network.model().shared_runs();
        report.parts.extend(parts("decode", context, 1, &split, (limits, runs)));
    }
    let prompt = plan.prompts.iter().copied().filter(|&tokens| tokens <= 128).max();
    if let Some(tokens) = prompt {
        let split = network.split_prefill(tokens, plan.passes);
        report.parts.extend(parts("prefill", tokens, tokens, &split, (limits, 0)));
    }
    for &sequences in &plan.sequences {
        told(&format!("{sequences} sequences"));
        let timing = network.batch(sequences, plan.passes);
        let (threads, tok_s) = (limits.threads, timing.per_second(sequences));
        report.batch.push(Batch { sequences, threads, tok_s, spread: timing.spread });
    }
}

fn on_one_thread(network: &mut Network, plan: &Plan, limits: &Limits, report: &mut Report) {
    for &context in &plan.contexts {
        told(&format!("decode at context {context}, one thread"));
        report.decode.push(decode(network, context, plan, limits));
    }
    for &tokens in plan.prompts.iter().filter(|&&tokens| tokens <= plan.longest_on_one_thread) {
        told(&format!("prefill of {tokens}, one thread"));
        report.prefill.push(prefill(network, tokens, plan, limits));
    }
}

fn prefill(network: &mut Network, tokens: usize, plan: &Plan, limits: &Limits) -> Prefill {
    let timing = network.prefill(tokens, plan.passes);
    let gmac_s = timing.per_second(tokens * network.trits()) / 1e9;
    Prefill {
        tokens,
        threads: limits.threads,
        tok_s: timing.per_second(tokens),
        share_of_peak: gmac_s / limits.peak_gmac_s,
        spread: timing.spread,
    }
}

fn decode(network: &mut Network, context: usize, plan: &Plan, limits: &Limits) -> Decode {
    let timing = network.decode(context, plan.passes);
    let bytes_per_token = network.bytes_per_token(context);
    let gb_s = timing.per_second(bytes_per_token) / 1e9;
    Decode {
        context,
        threads: limits.threads,
        tok_s: timing.per_second(1),
        bytes_per_token,
        gb_s,
        share_of_stream: gb_s / limits.stream_gb_s,
        spread: timing.spread,
    }
}

/// One row for each part, the sampling, and what sharing work out `runs` times a pass costs.
fn parts(
    pass: &'static str,
    tokens: usize,
    tokens_of_pass: usize,
    split: &Split,
    (limits, runs): (&Limits, usize),
) -> Vec<PartShare> {
    let computed = (split.passes * tokens_of_pass) as f64;
    let total = (split.parts.total() + split.sampling).as_secs_f64();
    let row = |part, seconds: f64| PartShare {
        pass,
        tokens,
        threads: limits.threads,
        part,
        us_per_token: seconds * 1e6 / computed,
        share: seconds / total,
    };
    let timed = Part::ALL.into_iter().map(|part| (part.name(), split.parts.of(part)));
    let mut rows: Vec<_> = timed.map(|(name, time)| row(name, time.as_secs_f64())).collect();
    rows.push(row("sampling", split.sampling.as_secs_f64()));
    if runs > 0 {
        rows.push(row("barriers", limits.barrier_us / 1e6 * (runs * split.passes) as f64));
    }
    rows
}

/// The price of the three ways to spend a machine: one user, as many as it takes, and prompts.
fn add_cost(report: &mut Report, usd_per_hour: f64) {
    let threads = report.threads;
    let decode = report.decode.iter().find(|case| case.threads == threads);
    let batch = report.batch.iter().max_by(|a, b| a.tok_s.total_cmp(&b.tok_s));
    let prefill = report.prefill.iter().rfind(|case| case.threads == threads);
    let speeds = [
        decode.map(|case| (format!("decode at context {}", case.context), case.tok_s)),
        batch.map(|case| (format!("decode of {} sequences", case.sequences), case.tok_s)),
        prefill.map(|case| (format!("prefill of {}", case.tokens), case.tok_s)),
    ];
    for (what, tok_s) in speeds.into_iter().flatten() {
        report.cost.extend(cost::costs(&what, tok_s, usd_per_hour));
    }
}
