//! Reports as text tables.

use std::fmt::{self, Write};

use super::decode::DecodeReport;
use super::report::Report;

/// The header of a column, and the text of a cell.
type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&report_text(self))
    }
}

impl fmt::Display for DecodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decode_text(self))
    }
}

fn report_text(report: &Report) -> String {
    let mut out = machine(report);
    passes(&mut out, report);
    parts(&mut out, report);
    table(
        &mut out,
        "kernels on one thread",
        &report.kernels,
        &[
            ("kernel", &|rate| format!("{} {}", rate.kernel, rate.shape)),
            ("isa", &|rate| rate.isa.to_owned()),
            ("tokens", &|rate| rate.tokens.to_string()),
            ("GB/s", &|rate| number(rate.gb_s)),
            ("GMAC/s", &|rate| number(rate.gmac_s)),
            ("weights/cycle", &|rate| rate.weights_per_cycle.map_or("–".to_owned(), number)),
            ("MAC/cycle", &|rate| rate.mac_per_cycle.map_or("–".to_owned(), number)),
            ("spread", &|rate| spread(rate.spread)),
        ],
    );
    if let Some(first) = report.compare.first() {
        let title = format!("compared with {}, {}, alternating", first.program, first.encoding);
        table(
            &mut out,
            &title,
            &report.compare,
            &[
                ("tokens", &|case| format!("{} {}", case.pass, case.tokens)),
                ("threads", &|case| case.threads.to_string()),
                ("ours tok/s", &|case| number(case.ours_tok_s)),
                ("theirs tok/s", &|case| number(case.theirs_tok_s)),
                ("ratio", &|case| number(case.ratio)),
                ("spread", &|case| spread(case.spread)),
            ],
        );
    }
    table(
        &mut out,
        "cost",
        &report.cost,
        &[
            ("", &|cost| cost.what.clone()),
            ("use", &|cost| percent(cost.used)),
            ("tok/s", &|cost| number(cost.tok_s)),
            ("USD per million", &|cost| format!("{:.3}", cost.usd_per_million)),
        ],
    );
    for case in &report.left_out {
        let _ = writeln!(out, "skipped, does not fit into the context: {case}");
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

fn decode_text(report: &DecodeReport) -> String {
    let mut out = format!("model    {}, {} threads\n", report.model, report.threads);
    table(
        &mut out,
        "decoding modes (NLL: nats per token under autoregressive decoding)",
        &report.modes,
        &[
            ("decode", &|case| case.decode.clone()),
            ("tokens/pass", &|case| format!("{:.2}", case.tokens_per_pass)),
            ("rows/pass", &|case| format!("{:.1}", case.rows_per_pass)),
            ("accepted", &|case| case.accepted.map_or("-".to_owned(), percent)),
            ("tok/s", &|case| number(case.tok_s)),
            ("× first", &|case| format!("{:.2}", case.speedup)),
            ("NLL", &|case| case.nll.map_or("-".to_owned(), |nll| format!("{nll:.3}"))),
            ("same text", &|case| if case.same_replies { "yes" } else { "no" }.to_owned()),
        ],
    );
    table(
        &mut out,
        &format!("passes over several rows, {}", report.pass_model),
        &report.passes,
        &[
            ("rows", &|pass| pass.rows.to_string()),
            ("ms", &|pass| format!("{:.2}", pass.ms)),
            ("× one row", &|pass| format!("{:.2}", pass.ratio)),
        ],
    );
    out
}

/// Appends a table: the first column is left-aligned, the others are right-aligned.
fn table<T>(out: &mut String, title: &str, rows: &[T], columns: &[Column<'_, T>]) {
    if rows.is_empty() {
        return;
    }
    let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    let _ = writeln!(out, "\n{title}");
    for line in &lines {
        let (first, width) = (&line[0], widths[0]);
        let mut text = format!("  {first:<width$}");
        for (cell, &width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

fn machine(report: &Report) -> String {
    let gigabytes = report.weights_bytes as f64 / 1e9;
    let clock = report.clock_ghz.map_or(String::new(), |ghz| format!(", {ghz:.1} GHz"));
    let cpu = report.cpu.as_deref().unwrap_or("unknown");
    let mut out = format!(
        "model    {}, {gigabytes:.2} GB of weights\nmachine  {cpu}{clock}, {} threads\n\
         kernel   {}, K/V in {}\n",
        report.model, report.threads, report.isa, report.kv
    );
    if let Some(zeros) = &report.sparsity {
        let _ = writeln!(
            out,
            "zeros    skipped in {} layers: {} of the rows of up, {} of the columns of down, using \
             {:.2} GB",
            zeros.layers,
            percent(zeros.closed_gates),
            percent(zeros.zero_codes),
            zeros.copies_bytes as f64 / 1e9
        );
    }
    let instruction = report.limits.last().map_or("none", |limit| limit.peak_instruction);
    table(
        &mut out,
        &format!("limits of the machine (peak: {instruction})"),
        &report.limits,
        &[
            ("threads", &|limit| limit.threads.to_string()),
            ("memory GB/s", &|limit| number(limit.stream_gb_s)),
            ("peak GMAC/s", &|limit| number(limit.peak_gmac_s)),
            ("kernel GMAC/s", &|limit| number(limit.kernel_gmac_s)),
            ("barrier µs", &|limit| format!("{:.2}", limit.barrier_us)),
        ],
    );
    out
}

fn passes(out: &mut String, report: &Report) {
    table(
        out,
        "decode: one sequence",
        &report.decode,
        &[
            ("context", &|case| case.context.to_string()),
            ("threads", &|case| case.threads.to_string()),
            ("zeros", &|case| if case.sparse { "skipped" } else { "read" }.to_owned()),
            ("tok/s", &|case| number(case.tok_s)),
            ("MB/token", &|case| number(case.bytes_per_token as f64 / 1e6)),
            ("GB/s", &|case| number(case.gb_s)),
            ("memory", &|case| number(case.stream_gb_s)),
            ("share", &|case| percent(case.share_of_stream)),
            ("spread", &|case| spread(case.spread)),
        ],
    );
    table(
        out,
        "prefill: a prompt",
        &report.prefill,
        &[
            ("tokens", &|case| case.tokens.to_string()),
            ("threads", &|case| case.threads.to_string()),
            ("tok/s", &|case| number(case.tok_s)),
            ("of peak", &|case| percent(case.share_of_peak)),
            ("spread", &|case| spread(case.spread)),
        ],
    );
    table(
        out,
        "batch: sequences decoded together, at context 0",
        &report.batch,
        &[
            ("sequences", &|case| case.sequences.to_string()),
            ("threads", &|case| case.threads.to_string()),
            ("tok/s", &|case| number(case.tok_s)),
            ("each", &|case| number(case.tok_s / case.sequences as f64)),
            ("spread", &|case| spread(case.spread)),
        ],
    );
}

fn parts(out: &mut String, report: &Report) {
    for parts in report.parts.chunk_by(|a, b| a.pass == b.pass) {
        let first = &parts[0];
        let pass = match first.pass {
            "decode" => format!("a token at context {}", first.tokens),
            _ => format!("a prompt of {}", first.tokens),
        };
        table(
            out,
            &format!("where the time goes: {pass}, {} threads", first.threads),
            parts,
            &[
                ("part", &|part| part.part.to_owned()),
                ("µs/token", &|part| number(part.us_per_token)),
                ("share", &|part| percent(part.share)),
            ],
        );
    }
}

/// Formats a number with about three digits.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn spread(spread: Option<f64>) -> String {
    spread.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_tables_are_present_and_aligned() {
        let mut report = super::super::report::tests::example();
        report.add_warnings(Some(9.0));
        let text = report.to_string();
        for words in [
            "model    bitnet-2b, 1.20 GB of weights",
            "zeros    skipped in 30 layers: 73 % of the rows of up, 86 % of the columns of down",
            "  512            2  skipped   10.0      1000  10.0    20.0   50 %   2.0 %",
            "compared with another 1.0, TQ2_0, alternating",
            "  decode 16        2        10.0          4.00   2.50   1.0 %",
            "prefill: a prompt",
            "  16               2   33.0  2.06  30.0 %",
            "a token at context 512, 2 threads",
            "  gate+up      1234   40 %",
            "ternary gate 6912x2560",
            "USD per million",
            "skipped, does not fit into the context: prefill of 2048",
            "warning: the machine was busy before the run: load average 9.0, with 2 threads to use",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(text.lines().all(|line| !line.ends_with(' ')), "no trailing spaces");
    }
}
