//! `wf bench`: how fast this machine runs a network, and how far that is from what it could do.
//!
//! First the machine's own limits (`limits.rs`), then whole passes of a network (`network.rs`): a
//! model file, or random weights of a known shape (`shapes.rs`, `synthetic.rs`). Then each kernel on
//! its own (`kernels.rs`), and if asked for another program beside us (`compare/`). Every case warms
//! up and is repeated; what is told is the median and the spread (`stats.rs`).

pub(crate) mod args;
mod compare;
mod cost;
mod dead_gates;
mod decode;
mod kernels;
mod limits;
mod machine;
mod network;
mod plan;
mod plot;
pub(crate) mod random;
mod report;
mod shapes;
pub(crate) mod stats;
mod stream;
mod subject;
mod synthetic;
mod table;

use std::io::IsTerminal;

use anyhow::{Context, Result};
use wf_engine::RunOptions;
use wf_model::{Forward, PAGE_LEN, Part};

use self::args::BenchArgs;
use self::compare::Comparison;
use self::limits::Limits;
use self::network::{Network, Split};
use self::plan::Plan;
use self::report::{Batch, Decode, PartShare, Prefill, Report};
use self::stream::Stream;
use self::subject::Subject;

/// Runs the command.
pub(crate) fn bench(args: &BenchArgs) -> Result<()> {
    let mut plan = match args {
        BenchArgs { smoke: true, .. } => Plan::smoke(),
        BenchArgs { quick: true, .. } => Plan::quick(),
        _ => Plan::full(),
    };
    plan.narrow(args);
    if args.ways_to_decode {
        let report = decode::measure(args, &mut plan)?;
        return match args.json {
            true => crate::report::json(&report),
            false => crate::report::stream(&table::decode_text(&report)),
        };
    }
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
    let (head, sparse) = (args.head.head, args.head.sparse);
    let options = RunOptions { head, sparse, ..args.compute.options(&args.file) };
    let threads = options.threads;
    let isa = wf_engine::compute(&options, threads)?.isa();
    let kernel = wf_kernels::kernel(isa).expect("a kernel that computes exists");

    told("the machine");
    let clock_ghz = limits::clock_ghz();
    let mut stream = Stream::new(plan.stream_bytes, options.cpus.clone());
    let mut limits = limits::measure(kernel, &plan.thread_counts(threads), plan, &mut stream);
    told("making the network");
    let subject = Subject::choose(args, crate::memory::free())?;
    let model = subject.load(&options, plan)?;
    let positions = [model.config().context_len, model.pages() * PAGE_LEN];
    let positions = positions.into_iter().chain(options.context_len).min().unwrap_or(0);
    let left_out = plan.trim(positions, model.pages());
    let mut report = Report {
        model: subject.name(),
        weights_bytes: model.size_bytes(),
        cpu: machine::cpu_name(),
        isa: isa.name(),
        kv: options.kv.to_string(),
        threads,
        clock_ghz,
        left_out,
        ..Report::default()
    };

    let mut network = Network::new(model, options.kv, options.max_batch_tokens, positions);
    let mut comparison = start_comparison(args, &network, &mut report);
    for limits in limits.iter().rev() {
        if limits.threads < threads {
            network.set_compute(wf_engine::compute(&options, limits.threads)?);
        }
        stream.set_threads(limits.threads, plan.limits);
        let mut bench = Bench { network: &mut network, plan, limits, stream: &mut stream };
        bench.run(limits.threads == threads, &mut report);
        if let Some(comparison) =
            comparison.as_mut().filter(|_| [1, threads].contains(&limits.threads))
        {
            told("another program beside us");
            report.compare.extend(comparison.run(&mut network, plan)?);
        }
    }
    limits::update(&mut limits, &stream);
    drop(stream);
    let all = limits.last().expect("limits for all threads");
    (report.stream_gb_s, report.peak_gmac_s) = (all.stream_gb_s, all.peak_gmac_s);
    report.limits = limits;
    report.sparsity = network.sparsity();
    told("kernels");
    report.kernels = kernels::measure(network.model(), plan, clock_ghz);
    if let Some(price) = args.price {
        add_cost(&mut report, price);
    }
    report.doubt(load_before);
    Ok(report)
}

/// Another program with a model of the same shape, if one is asked for and is there. If it is not,
/// that is told, and the rest is measured all the same.
fn start_comparison(
    args: &BenchArgs,
    network: &Network,
    report: &mut Report,
) -> Option<Comparison> {
    let python = args.compare.as_ref()?;
    told("loading the model for another program");
    let started = Comparison::start(python, network);
    started
        .inspect_err(|error| report.warnings.push(format!("compared with nothing: {error:#}")))
        .ok()
}

/// Says what is going on to someone who waits for it.
fn told(what: &str) {
    if std::io::stderr().is_terminal() {
        crate::report::note(&format!("measuring: {what}"));
    }
}

/// What measures a network on some number of threads.
struct Bench<'a> {
    network: &'a mut Network,
    plan: &'a Plan,
    limits: &'a Limits,
    stream: &'a mut Stream,
}

impl Bench<'_> {
    /// Every case on all threads, some on fewer. Prompts come first: they leave the K/V that
    /// decoding after a context needs.
    fn run(&mut self, all_threads: bool, report: &mut Report) {
        let (plan, threads) = (self.plan, self.limits.threads);
        for &tokens in &plan.prompts {
            if all_threads || tokens <= plan.longest_on_fewer_threads {
                told(&format!("prefill of {tokens}, threads: {threads}"));
                report.prefill.push(self.prefill(tokens));
            }
        }
        for &context in &plan.contexts {
            // Between one thread and all, how decoding grows with threads is enough.
            if all_threads || threads == 1 || context == 0 {
                told(&format!("decode at context {context}, threads: {threads}"));
                report.decode.extend(self.decode_each_way(context));
            }
        }
        if all_threads {
            self.parts(report);
        }
        for &sequences in &plan.sequences {
            if all_threads || sequences == plan.sequences_on_fewer_threads {
                told(&format!("{sequences} sequences, threads: {threads}"));
                let timing = self.network.batch(sequences, plan.passes);
                let tok_s = timing.per_second(sequences);
                report.batch.push(Batch { sequences, threads, tok_s, spread: timing.spread });
            }
        }
    }

    fn prefill(&mut self, tokens: usize) -> Prefill {
        let timing = self.network.prefill(tokens, self.plan.passes);
        let gmac_s = timing.per_second(tokens * self.network.trits()) / 1e9;
        Prefill {
            tokens,
            threads: self.limits.threads,
            tok_s: timing.per_second(tokens),
            share_of_peak: gmac_s / self.limits.peak_gmac_s,
            spread: timing.spread,
        }
    }

    /// With zeros skipped and with zeros read, if the network can do both.
    fn decode_each_way(&mut self, context: usize) -> Vec<Decode> {
        let skips = self.network.sparsity().is_some();
        let ways = if skips { &[true, false][..] } else { &[false] };
        let decode = |sparse: &bool| {
            self.network.skip_zeros(*sparse);
            self.decode(context, *sparse)
        };
        let cases = ways.iter().map(decode).collect();
        self.network.skip_zeros(skips);
        cases
    }

    fn decode(&mut self, context: usize, sparse: bool) -> Decode {
        let (timing, reading) = self.network.decode(context, self.plan.passes, self.stream);
        let bytes_per_token = self.network.bytes_per_token(context);
        let gb_s = timing.per_second(bytes_per_token) / 1e9;
        let stream_gb_s = reading.per_second(self.stream.bytes_len()) / 1e9;
        Decode {
            context,
            threads: self.limits.threads,
            sparse,
            tok_s: timing.per_second(1),
            bytes_per_token,
            gb_s,
            stream_gb_s,
            share_of_stream: gb_s / stream_gb_s,
            spread: timing.spread,
        }
    }

    /// Where the time goes: of a token, and of a prompt.
    fn parts(&mut self, report: &mut Report) {
        told("where the time goes");
        let (plan, limits) = (self.plan, self.limits);
        let context = plan.contexts.iter().copied().filter(|&context| context <= 512).max();
        if let Some(context) = context {
            let split = self.network.split_decode(context, plan.passes);
            let runs = self.network.model().shared_runs();
            report.parts.extend(parts("decode", context, 1, &split, (limits, runs)));
        }
        let prompt = plan.prompts.iter().copied().filter(|&tokens| tokens <= 128).max();
        if let Some(tokens) = prompt {
            let split = self.network.split_prefill(tokens, plan.passes);
            report.parts.extend(parts("prefill", tokens, tokens, &split, (limits, 0)));
        }
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
