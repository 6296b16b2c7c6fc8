//! A report as an SVG bar chart.

use serde_json::Value;

use super::report::{Report, float};
use crate::svg::{self, BLUE, Bar, Panel, RED};

const ONE_THREAD: &str = "#9db8d2";

impl Report {
    /// Draws decode, prefill and batch speeds as an SVG image.
    pub fn svg(&self) -> String {
        let cpu = self.cpu.as_deref().unwrap_or("unknown CPU");
        let title = format!("{} on {cpu}, {}, tokens per second", self.model, self.isa);
        let legend = [
            (ONE_THREAD, "1 thread".to_owned()),
            (BLUE, format!("{} threads", self.threads)),
            (RED, format!("limit: memory at {:.1} GB/s", self.stream_gb_s)),
        ];
        let decode = |row: &Value| {
            let zeros = if row["sparse"] == true { ", zeros skipped" } else { "" };
            format!("context {}{zeros}", row["context"])
        };
        let prefill = |row: &Value| format!("{} tokens", row["tokens"]);
        let batch = |row: &Value| format!("{} sequences", row["sequences"]);
        let panels = [
            panel("Decode, one sequence", &self.decode, &decode),
            panel("Prefill", &self.prefill, &prefill),
            panel("Batched decode, all sequences together", &self.batch, &batch),
        ];
        svg::chart(&title, &legend, &panels.into_iter().flatten().collect::<Vec<_>>())
    }
}

/// Returns a bar for each row, if there are any.
fn panel(title: &'static str, rows: &[Value], label: &dyn Fn(&Value) -> String) -> Option<Panel> {
    let bar = |row: &Value| Bar {
        value: float(row, "tok_s"),
        colour: if row["threads"] == 1 { ONE_THREAD } else { BLUE },
        label: Some(label(row)),
        // Speed at the memory bandwidth of the machine.
        limit: row["share_of_stream"].as_f64().map(|share| float(row, "tok_s") / share),
    };
    let bars: Vec<Bar> = rows.iter().map(bar).collect();
    (!bars.is_empty()).then(|| Panel { title, bars, ..Panel::default() })
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;
    use super::*;

    #[test]
    fn every_case_has_a_bar_and_text_is_escaped() {
        let svg = example().svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        // Background, three of the legend, three bars, one limit, three axes.
        assert_eq!(svg.matches("<rect ").count(), 11, "{svg}");
        assert!(svg.contains("Some &lt;CPU&gt; &amp; more"), "{svg}");
        for label in ["context 512", "128 tokens", "16 sequences", ">33.0<"] {
            assert!(svg.contains(label), "{label}");
        }
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
    }

    #[test]
    fn bars_are_as_high_as_their_share_of_the_limit() {
        let svg = example().svg();
        // 10 tok/s at half of what memory allows: half of the bar area.
        assert!(svg.contains(&format!("height=\"{:.1}\"", svg::BAR_AREA / 2.0)), "{svg}");
    }

    #[test]
    fn a_panel_without_cases_is_omitted() {
        let mut report = example();
        report.prefill.clear();
        assert!(!report.svg().contains("Prefill"));
    }
}
