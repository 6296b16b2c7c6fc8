//! A report as text tables.

use std::fmt;

use serde_json::Value;

use super::report::Report;
use crate::table;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_subject(f)?;
        self.write_passes(f)?;
        self.write_threads(f)?;
        let title = format!("sampling: one sequence, {} threads", self.threads);
        table::write(f, &title, &self.sampling, "sampling, tok/s, × greedy, spread")?;
        self.write_parts(f)?;
        let headers =
            "kernel, isa, layout, tokens, from, GB/s, GMAC/s, weights/cycle, MAC/cycle, spread";
        table::write(f, "kernels on one thread", &self.kernels, headers)?;
        self.write_comparison(f)?;
        table::write(f, "cost", &self.cost, ", use, tok/s, USD per million")?;
        for case in &self.left_out {
            writeln!(f, "skipped, does not fit into the context: {case}")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

impl Report {
    /// Writes what was measured, and where.
    fn write_subject(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = self.clock_ghz.map_or(String::new(), |ghz| format!(", {ghz:.1} GHz"));
        let cpu = self.cpu.as_deref().unwrap_or("unknown");
        let gigabytes = |bytes: usize| bytes as f64 / 1e9;
        writeln!(f, "model    {}, {:.2} GB of weights", self.model, gigabytes(self.weights_bytes))?;
        writeln!(f, "machine  {cpu}{clock}, {} threads", self.threads)?;
        writeln!(f, "kernel   {}, K/V in {}", self.isa, self.kv)?;
        if let Some(zeros) = &self.sparsity {
            writeln!(
                f,
                "zeros    skipped in {} layers: {:.0} % of the rows of up, {:.0} % of the columns of \
                 down, using {:.2} GB",
                zeros.layers,
                zeros.closed_gates * 100.0,
                zeros.zero_codes * 100.0,
                gigabytes(zeros.copies_bytes)
            )?;
        }
        let in_cache = self.decode.iter().any(|row| row["in_cache"] == true);
        if let Some(bytes) = self.cache_bytes.filter(|_| in_cache) {
            writeln!(
                f,
                "cache    {} MB hold all that a token reads: memory is not a limit of decoding",
                bytes >> 20
            )?;
        }
        Ok(())
    }

    /// Writes the limits of the machine, and the speed of whole passes.
    fn write_passes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instruction = self.limits.last().map_or("none", |limit| limit.peak_instruction);
        let title = format!("limits of the machine (peak: {instruction})");
        let headers = "threads, memory GB/s, peak GMAC/s, kernel GMAC/s, barrier µs";
        table::write(f, &title, &self.limits, headers)?;
        let headers =
            "context, threads, zeros, tok/s, × first, MB/token, from, GB/s, memory, share, spread";
        table::write(f, "decode: one sequence", &self.decode, headers)?;
        let headers = "tokens, threads, tok/s, of peak, spread";
        table::write(f, "prefill: a prompt", &self.prefill, headers)?;
        let headers = "sequences, threads, tok/s, each, spread";
        table::write(f, "batch: sequences decoded together, at context 0", &self.batch, headers)
    }

    fn write_threads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = |key: &str| match self.scaling.first().map(|row| &row[key]) {
            None | Some(Value::Null) => "–".to_owned(),
            Some(value) => value.to_string(),
        };
        let title = format!(
            "threads: decode at context {}, a prompt of {}, {} sequences",
            case("context"),
            case("tokens"),
            case("sequences")
        );
        let headers = "threads, decode tok/s, share, prompt tok/s, batch tok/s";
        table::write(f, &title, &self.scaling, headers)
    }

    /// Writes a table for each pass whose parts were measured.
    fn write_parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same_pass =
            |a: &Value, b: &Value| ["pass", "tokens"].iter().all(|key| a[key] == b[key]);
        for parts in self.parts.chunk_by(same_pass) {
            let (tokens, threads) = (&parts[0]["tokens"], &parts[0]["threads"]);
            let pass = match parts[0]["pass"].as_str() {
                Some("decode") => format!("a token at context {tokens}"),
                Some("batch") => format!("a step of {tokens} sequences"),
                _ => format!("a prompt of {tokens}"),
            };
            let title = format!("where the time goes: {pass}, {threads} threads");
            table::write(f, &title, parts, "part, µs/token, share")?;
        }
        Ok(())
    }

    fn write_comparison(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.compare.first() else { return Ok(()) };
        let text = |key: &str| first[key].as_str().unwrap_or_default();
        let (program, encoding) = (text("program"), text("encoding"));
        let title = format!("compared with {program}, {encoding}, alternating");
        let headers = "tokens, threads, ours tok/s, theirs tok/s, ratio, spread";
        table::write(f, &title, &self.compare, headers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;

    #[test]
    fn all_tables_are_present_and_aligned() {
        let mut report = example();
        report.add_cost(0.36);
        report.add_scaling();
        report.add_warnings(Some(9.0));
        let text = report.to_string();
        for words in [
            "model    bitnet-2b, 1.20 GB of weights",
            "zeros    skipped in 30 layers: 73 % of the rows of up, 86 % of the columns of down",
            "  512            2  skipped   10.0     1.00      1000  memory  10.0    20.0   50 %   2.0 %",
            "compared with another 1.0, TQ2_0, alternating",
            "  decode 16        2        10.0          4.00   2.50   1.0 %",
            "prefill: a prompt",
            "  16               2   33.0  2.06  30.0 %",
            "a token at context 512, 2 threads",
            "a prompt of 32, 2 threads",
            "a prompt of 128, 2 threads",
            "a step of 16 sequences, 2 threads",
            "threads: decode at context 512, a prompt of",
            "  temperature 0.8   9.00      0.90   1.0 %",
            "scalar  five-trits       4  memory",
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

    #[test]
    fn a_network_in_cache_says_so() {
        let mut report = example();
        assert!(!report.to_string().contains("cache "), "{report}");
        report.decode[0]["in_cache"] = serde_json::json!(true);
        let text = report.to_string();
        assert!(text.contains("cache    32 MB hold all that a token reads"), "{text}");
        assert!(text.contains("  1000  cache  "), "{text}");
    }
}
