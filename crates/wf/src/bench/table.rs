//! A report as tables for people.

use std::fmt::Write;

use super::decode::DecodeReport;
use super::report::Report;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut out = Out(String::new());
    out.machine(report);
    out.passes(report);
    out.parts(report);
    out.kernels(report);
    out.compare(report);
    out.cost(report);
    for what in &report.left_out {
        out.line(&format!("left out, no room in the context: {what}"));
    }
    for warning in &report.warnings {
        out.line(&format!("warning: {warning}"));
    }
    out.0
}

/// What `--decode` found.
pub(super) fn decode_text(report: &DecodeReport) -> String {
    let mut out = Out(String::new());
    out.line(&format!("model    {}, {} threads", report.model, report.threads));
    let rows: Vec<_> = (report.modes.iter())
        .map(|case| {
            vec![
                case.decode.clone(),
                format!("{:.2}", case.tokens_per_pass),
                format!("{:.1}", case.rows_per_pass),
                case.accepted.map_or("-".to_owned(), percent),
                number(case.tok_s),
                format!("{:.2}", case.speedup),
                case.nll.map_or("-".to_owned(), |nll| format!("{nll:.3}")),
                if case.same_replies { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    let header =
        ["decode", "tokens/pass", "rows/pass", "accepted", "tok/s", "× first", "NLL", "same text"];
    out.table("ways to decode (NLL: nats a token, by the model token by token)", &header, &rows);
    let rows: Vec<_> = (report.passes.iter())
        .map(|pass| {
            vec![pass.rows.to_string(), format!("{:.2}", pass.ms), format!("{:.2}", pass.ratio)]
        })
        .collect();
    out.table(&format!("passes of {}", report.pass_model), &["rows", "ms", "× one row"], &rows);
    out.0
}

struct Out(String);

impl Out {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// A title, and rows under a header: the first column to the left, the others to the right.
    fn table(&mut self, title: &str, header: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([header[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
        let _ = writeln!(self.0, "\n{title}");
        for row in std::iter::once(&header).chain(rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(line, "  {cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            self.line(line.trim_end());
        }
    }

    fn machine(&mut self, report: &Report) {
        let gigabytes = report.weights_bytes as f64 / 1e9;
        self.line(&format!("model    {}, {gigabytes:.2} GB of weights", report.model));
        let clock = report.clock_ghz.map_or(String::new(), |ghz| format!(", {ghz:.1} GHz"));
        let cpu = report.cpu.as_deref().unwrap_or("unknown");
        self.line(&format!("machine  {cpu}{clock}, {} threads", report.threads));
        self.line(&format!("kernel   {}, K/V in {}", report.isa, report.kv));
        if let Some(zeros) = &report.sparsity {
            self.line(&format!(
                "zeros    skipped in {} layers: {} of the rows of up, {} of the columns of down, for \
                 {:.2} GB",
                zeros.layers,
                percent(zeros.closed_gates),
                percent(zeros.zero_codes),
                zeros.copies_bytes as f64 / 1e9
            ));
        }
        let rows: Vec<_> = (report.limits.iter())
            .map(|limit| {
                vec![
                    limit.threads.to_string(),
                    number(limit.stream_gb_s),
                    number(limit.peak_gmac_s),
                    number(limit.kernel_gmac_s),
                    format!("{:.2}", limit.barrier_us),
                ]
            })
            .collect();
        let header = ["threads", "memory GB/s", "peak GMAC/s", "kernel GMAC/s", "barrier µs"];
        let instruction = report.limits.last().map_or("none", |limit| limit.peak_instruction);
        let title = format!("limits of the machine (peak: {instruction})");
        self.table(&title, &header, &rows);
    }

    fn passes(&mut self, report: &Report) {
        let rows: Vec<_> = (report.decode.iter())
            .map(|case| {
                vec![
                    case.context.to_string(),
                    case.threads.to_string(),
                    if case.sparse { "skipped" } else { "read" }.to_owned(),
                    number(case.tok_s),
                    number(case.bytes_per_token as f64 / 1e6),
                    number(case.gb_s),
                    number(case.stream_gb_s),
                    percent(case.share_of_stream),
                    spread(case.spread),
                ]
            })
            .collect();
        let header = [
            "context", "threads", "zeros", "tok/s", "MB/token", "GB/s", "memory", "share", "spread",
        ];
        self.table("decode: one sequence", &header, &rows);
        let rows: Vec<_> = (report.prefill.iter())
            .map(|case| {
                let (tokens, threads) = (case.tokens.to_string(), case.threads.to_string());
                let share = percent(case.share_of_peak);
                vec![tokens, threads, number(case.tok_s), share, spread(case.spread)]
            })
            .collect();
        let header = ["tokens", "threads", "tok/s", "of peak", "spread"];
        self.table("prefill: a prompt", &header, &rows);
        let rows: Vec<_> = (report.batch.iter())
            .map(|case| {
                let (sequences, threads) = (case.sequences.to_string(), case.threads.to_string());
                let each = number(case.tok_s / case.sequences as f64);
                vec![sequences, threads, number(case.tok_s), each, spread(case.spread)]
            })
            .collect();
        let header = ["sequences", "threads", "tok/s", "each", "spread"];
        self.table("batch: sequences decoded together, at context 0", &header, &rows);
    }

    fn parts(&mut self, report: &Report) {
        for alike in report.parts.chunk_by(|a, b| a.pass == b.pass) {
            let rows: Vec<_> = (alike.iter())
                .map(|p| vec![p.part.to_owned(), number(p.us_per_token), percent(p.share)])
                .collect();
            let first = &alike[0];
            let what = match first.pass {
                "decode" => format!("a token at context {}", first.tokens),
                _ => format!("a prompt of {}", first.tokens),
            };
            let title = format!("where the time goes: {what}, {} threads", first.threads);
            self.table(&title, &["part", "µs/token", "share"], &rows);
        }
    }

    fn kernels(&mut self, report: &Report) {
        let maybe = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let rows: Vec<_> = (report.kernels.iter())
            .map(|rate| {
                vec![
                    format!("{} {}", rate.kernel, rate.shape),
                    rate.isa.to_owned(),
                    rate.tokens.to_string(),
                    number(rate.gb_s),
                    number(rate.gmac_s),
                    maybe(rate.weights_per_cycle),
                    maybe(rate.mac_per_cycle),
                    spread(rate.spread),
                ]
            })
            .collect();
        let header =
            ["kernel", "isa", "tokens", "GB/s", "GMAC/s", "weights/cycle", "MAC/cycle", "spread"];
        self.table("kernels on one thread", &header, &rows);
    }

    fn compare(&mut self, report: &Report) {
        let rows: Vec<_> = (report.compare.iter())
            .map(|case| {
                vec![
                    format!("{} {}", case.pass, case.tokens),
                    case.threads.to_string(),
                    number(case.ours_tok_s),
                    number(case.theirs_tok_s),
                    number(case.ratio),
                    spread(case.spread),
                ]
            })
            .collect();
        if let Some(first) = report.compare.first() {
            let title = format!("beside {}, {}, in turn", first.program, first.encoding);
            let header = ["tokens", "threads", "ours tok/s", "theirs tok/s", "ratio", "spread"];
            self.table(&title, &header, &rows);
        }
    }

    fn cost(&mut self, report: &Report) {
        let rows: Vec<_> = (report.cost.iter())
            .map(|cost| {
                let dollars = format!("{:.3}", cost.usd_per_million);
                vec![cost.what.clone(), percent(cost.used), number(cost.tok_s), dollars]
            })
            .collect();
        self.table("cost", &["", "use", "tok/s", "USD per million"], &rows);
    }
}

/// Three digits or so.
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
    use super::*;

    #[test]
    fn every_table_is_there_and_lines_up() {
        let mut report = super::super::report::tests::example();
        report.doubt(Some(9.0));
        let text = text(&report);
        for words in [
            "model    bitnet-2b, 1.20 GB of weights",
            "zeros    skipped in 30 layers: 73 % of the rows of up, 86 % of the columns of down",
            "  512            2  skipped   10.0      1000  10.0    20.0   50 %   2.0 %",
            "beside another 1.0, TQ2_0, in turn",
            "  decode 16        2        10.0          4.00   2.50   1.0 %",
            "prefill: a prompt",
            "  16               2   33.0  2.06  30.0 %",
            "a token at context 512, 2 threads",
            "  gate+up      1234   40 %",
            "ternary gate 6912x2560",
            "USD per million",
            "left out, no room in the context: prefill of 2048",
            "warning: the machine was busy before the run: a load of 9.0, with 2 threads to use",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(text.lines().all(|line| !line.ends_with(' ')), "no spaces at the ends of lines");
    }
}
