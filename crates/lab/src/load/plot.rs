//! A load test as an SVG image: distributions of latencies, and tokens per second over time.

use super::report::Report;
use crate::stats::quantile;
use crate::svg::{self, BLUE, Bar, Panel};

/// Number of bars of a distribution.
const BARS: usize = 60;

impl Report {
    /// Draws latencies and tokens per second as an SVG image.
    pub fn svg(&self) -> String {
        let Self { model, url, requests, tok_s, .. } = self;
        let title = format!("{model} on {url}: {requests} requests, {tok_s:.1} completion tok/s");
        let streamed = Panel {
            title: "Streamed tokens per second",
            bars: bars(&self.streamed_tok_s),
            marks: Vec::new(),
            end: Some(format!("{:.1} s", self.seconds)),
        };
        let first = distribution("Time to first token", &self.first_token_times);
        let between = distribution("Time between tokens", &self.between_tokens_times);
        svg::chart(&title, &[], &[first, between, streamed])
    }
}

fn bars(values: &[f64]) -> Vec<Bar> {
    let bar = |&value: &f64| Bar { value, colour: BLUE, label: None, limit: None };
    values.iter().map(bar).collect()
}

/// Returns a histogram of latencies up to the 99.5th percentile: a single outlier would squeeze all
/// others into one bar.
fn distribution(title: &'static str, sorted_ms: &[f64]) -> Panel {
    let kept = &sorted_ms[..(sorted_ms.len() * 199).div_ceil(200)];
    let widest = kept.last().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut heights = vec![0.0; BARS];
    for ms in kept {
        heights[((ms / widest * BARS as f64) as usize).min(BARS - 1)] += 1.0;
    }
    let marks = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")].into_iter();
    let marks = marks.filter(|_| !sorted_ms.is_empty()).map(|(share, name)| {
        let ms = quantile(sorted_ms, share);
        (ms / widest, format!("{name} {ms:.1}"))
    });
    let (marks, end) = (marks.collect(), Some(format!("{widest:.1} ms")));
    Panel { title, bars: bars(&heights), marks, end }
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
        let svg = report.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt;model&gt;") && svg.contains("p50 200.5"), "{svg}");
        for words in ["Time to first token", "Time between tokens", "3.0 s", "398.0 ms"] {
            assert!(svg.contains(words), "{words}");
        }
        // The background, sixty bars with three marks, two bars of tokens, and three axes.
        assert_eq!(svg.matches("<rect ").count(), 1 + 60 + 3 + 2 + 3, "{svg}");
    }
}
