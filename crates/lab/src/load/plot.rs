//! A load test as an SVG image: distributions of latencies, and tokens per second over time.

use super::report::Report;
use crate::svg::{self, INK, rect, text};

const WIDTH: f64 = 900.0;
const TOP: f64 = 50.0;
const PANEL_HEIGHT: f64 = 270.0;
/// Height above the bars of a panel: a title, and a line for each mark.
const HEADING: f64 = 74.0;
const BAR_AREA: f64 = 150.0;
const LEFT: f64 = 60.0;
const BARS: usize = 60;
const COLOUR: &str = "#2f6690";
const MARK: &str = "#c1440e";

impl Report {
    /// Draws latencies and tokens per second as an SVG image.
    pub fn svg(&self) -> String {
        svg(self)
    }
}

fn svg(report: &Report) -> String {
    let mut out = svg::begin(WIDTH, TOP + 3.0 * PANEL_HEIGHT);
    let title = format!(
        "{} on {}: {} requests, {:.1} completion tok/s",
        report.model, report.url, report.requests, report.tok_s
    );
    text(&mut out, (LEFT, 28.0), "start", &title);
    distribution(&mut out, 0, "Time to first token", &report.first_token_times);
    distribution(&mut out, 1, "Time between tokens", &report.between_tokens_times);
    let panel = Panel {
        place: 2,
        title: "Streamed tokens per second",
        heights: &report.streamed_tok_s,
        end: format!("{:.1} s", report.seconds),
    };
    panel.draw(&mut out, &[]);
    svg::end(&mut out);
    out
}

/// Draws a histogram of latencies up to the 99.5th percentile: a single outlier would squeeze all
/// others into one bar.
fn distribution(out: &mut String, place: usize, title: &str, sorted_ms: &[f64]) {
    let kept = &sorted_ms[..(sorted_ms.len() * 199).div_ceil(200)];
    let widest = kept.last().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut heights = vec![0.0; BARS];
    for ms in kept {
        heights[((ms / widest * BARS as f64) as usize).min(BARS - 1)] += 1.0;
    }
    let marks: Vec<(f64, String)> = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")]
        .into_iter()
        .filter(|_| !sorted_ms.is_empty())
        .map(|(share, name)| {
            let ms = crate::stats::quantile(sorted_ms, share);
            (ms / widest, format!("{name} {ms:.1}"))
        })
        .collect();
    let panel = Panel { place, title, heights: &heights, end: format!("{widest:.1} ms") };
    panel.draw(out, &marks);
}

struct Panel<'a> {
    place: usize,
    title: &'a str,
    heights: &'a [f64],
    /// Label at the right end of the axis.
    end: String,
}

impl Panel<'_> {
    /// Draws the bars, and `marks` at fractions of the width.
    fn draw(&self, out: &mut String, marks: &[(f64, String)]) {
        let top = TOP + PANEL_HEIGHT * self.place as f64;
        let floor = top + HEADING + BAR_AREA;
        let width = WIDTH - 2.0 * LEFT;
        let highest = self.heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        text(out, (LEFT, top + 16.0), "start", self.title);
        let step = width / self.heights.len().max(1) as f64;
        for (i, height) in self.heights.iter().enumerate().filter(|(_, height)| **height > 0.0) {
            let height = BAR_AREA * height / highest;
            let place = (LEFT + step * i as f64, floor - height);
            rect(out, place, ((step - 1.0).max(0.5), height), COLOUR);
        }
        for (i, (share, words)) in marks.iter().enumerate().filter(|(_, (share, _))| *share <= 1.0)
        {
            let x = LEFT + width * share;
            rect(out, (x, top + 24.0), (1.0, floor - top - 24.0), MARK);
            // Labels are on lines of their own, since marks may be close together, and left of their
            // marks near the right border.
            let (x, anchor) = if *share > 0.8 { (x - 4.0, "end") } else { (x + 4.0, "start") };
            text(out, (x, top + 34.0 + 15.0 * i as f64), anchor, words);
        }
        rect(out, (LEFT, floor), (width, 1.0), INK);
        text(out, (LEFT, floor + 18.0), "middle", "0");
        text(out, (LEFT + width, floor + 18.0), "middle", &self.end);
        text(out, (LEFT - 6.0, floor - BAR_AREA + 10.0), "end", &format!("{highest:.0}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_three_panels_and_their_marks() {
        let report = Report {
            model: "a <model>".to_owned(),
            streamed_tok_s: vec![10.0, 0.0, 30.0],
            seconds: 3.0,
            first_token_times: (1..=400).map(f64::from).collect(),
            ..Report::default()
        };
        let svg = svg(&report);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt;model&gt;") && svg.contains("p50 200.5"), "{svg}");
        for words in ["Time to first token", "Time between tokens", "3.0 s", "398.0 ms"] {
            assert!(svg.contains(words), "{words}");
        }
        // The background, sixty bars with three marks, two bars of tokens, and three axes.
        assert_eq!(svg.matches("<rect ").count(), 1 + 60 + 3 + 2 + 3, "{svg}");
    }
}
