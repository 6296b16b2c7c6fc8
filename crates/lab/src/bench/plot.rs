//! A report as an SVG bar chart.

use super::report::Report;
use crate::svg::{self, INK, rect, text};

const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 260.0;
const TOP: f64 = 60.0;
const BAR_AREA: f64 = 170.0;
const LEFT: f64 = 40.0;
const ONE_THREAD: &str = "#9db8d2";
const ALL_THREADS: &str = "#2f6690";
const LIMIT: &str = "#c1440e";

/// Bars with a common scale.
struct Panel<'a> {
    title: &'a str,
    bars: Vec<Bar>,
}

struct Bar {
    label: String,
    threads: usize,
    tok_s: f64,
    /// Speed at the memory bandwidth of the machine.
    limit: Option<f64>,
}

impl Report {
    /// Draws decode, prefill and batch speeds as an SVG image.
    pub fn svg(&self) -> String {
        svg(self)
    }
}

fn svg(report: &Report) -> String {
    let panels = panels(report);
    let height = TOP + PANEL_HEIGHT * panels.len() as f64;
    let mut out = svg::begin(WIDTH, height);
    let cpu = report.cpu.as_deref().unwrap_or("unknown CPU");
    let title = format!("{} on {cpu}, {}, tokens per second", report.model, report.isa);
    text(&mut out, (LEFT, 24.0), "start", &title);
    let legend = [
        (ONE_THREAD, "1 thread".to_owned()),
        (ALL_THREADS, format!("{} threads", report.threads)),
        (LIMIT, format!("limit: memory at {:.1} GB/s", report.stream_gb_s)),
    ];
    for (i, (colour, label)) in legend.iter().enumerate() {
        let x = LEFT + 150.0 * i as f64;
        rect(&mut out, (x, 36.0), (12.0, 12.0), colour);
        text(&mut out, (x + 18.0, 47.0), "start", label);
    }
    for (i, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, TOP + PANEL_HEIGHT * i as f64);
    }
    svg::end(&mut out);
    out
}

fn panels(report: &Report) -> Vec<Panel<'static>> {
    let decode = report.decode.iter().map(|case| Bar {
        label: format!(
            "context {}{}",
            case.context,
            if case.sparse { ", zeros skipped" } else { "" }
        ),
        threads: case.threads,
        tok_s: case.tok_s,
        limit: Some(case.tok_s / case.share_of_stream),
    });
    let prefill = report.prefill.iter().map(|case| Bar {
        label: format!("{} tokens", case.tokens),
        threads: case.threads,
        tok_s: case.tok_s,
        limit: None,
    });
    let batch = report.batch.iter().map(|case| Bar {
        label: format!("{} sequences", case.sequences),
        threads: case.threads,
        tok_s: case.tok_s,
        limit: None,
    });
    [
        ("Decode, one sequence", decode.collect::<Vec<_>>()),
        ("Prefill", prefill.collect()),
        ("Batched decode, all sequences together", batch.collect()),
    ]
    .into_iter()
    .filter(|(_, bars)| !bars.is_empty())
    .map(|(title, bars)| Panel { title, bars })
    .collect()
}

fn draw(out: &mut String, panel: &Panel<'_>, top: f64) {
    let floor = top + 36.0 + BAR_AREA;
    let highest = panel.bars.iter().map(|bar| bar.limit.unwrap_or(0.0).max(bar.tok_s));
    let highest = highest.fold(f64::MIN_POSITIVE, f64::max);
    let step = (WIDTH - 2.0 * LEFT) / panel.bars.len() as f64;
    text(out, (LEFT, top + 20.0), "start", panel.title);
    for (i, bar) in panel.bars.iter().enumerate() {
        let (x, width) = (LEFT + step * i as f64, (step * 0.7).min(80.0));
        let height = BAR_AREA * bar.tok_s / highest;
        let colour = if bar.threads == 1 { ONE_THREAD } else { ALL_THREADS };
        rect(out, (x, floor - height), (width, height), colour);
        if let Some(limit) = bar.limit {
            rect(out, (x, floor - BAR_AREA * limit / highest), (width, 2.0), LIMIT);
        }
        let middle = x + width / 2.0;
        text(out, (middle, floor - height - 5.0), "middle", &format!("{:.1}", bar.tok_s));
        text(out, (middle, floor + 16.0), "middle", &bar.label);
    }
    rect(out, (LEFT, floor), (WIDTH - 2.0 * LEFT, 1.0), INK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_bar_and_text_is_escaped() {
        let svg = svg(&super::super::report::tests::example());
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
        let svg = svg(&super::super::report::tests::example());
        // 10 tok/s at half of what memory allows: half of the bar area.
        assert!(svg.contains(&format!("height=\"{:.1}\"", BAR_AREA / 2.0)), "{svg}");
    }

    #[test]
    fn a_panel_without_cases_is_omitted() {
        let mut report = super::super::report::tests::example();
        report.prefill.clear();
        assert!(!svg(&report).contains("Prefill"));
    }
}
