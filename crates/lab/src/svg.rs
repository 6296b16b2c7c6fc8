//! Bar charts as SVG images.

use std::fmt::Write;

pub(crate) const BLUE: &str = "#2f6690";
pub(crate) const RED: &str = "#c1440e";

/// Colour of text and lines.
const INK: &str = "#222";
const WIDTH: f64 = 900.0;
/// Mean width of a letter.
const LETTER_WIDTH: f64 = 7.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 60.0;
const PANEL_HEIGHT: f64 = 260.0;
/// Height of the largest value of a panel.
pub(crate) const BAR_AREA: f64 = 150.0;

/// Bars with a common scale.
#[derive(Default)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) bars: Vec<Bar>,
    /// Lines at fractions of the width, with labels.
    pub(crate) marks: Vec<(f64, String)>,
    /// Label at the right end of an axis that begins with 0.
    pub(crate) end: Option<String>,
}

/// A bar; not drawn if its value is 0.
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) colour: &'static str,
    /// Text below; the value is above.
    pub(crate) label: Option<String>,
    /// Maximum that the value could have.
    pub(crate) limit: Option<f64>,
}

/// Draws panels below each other. `legend` has colours and their meanings.
pub(crate) fn chart(title: &str, legend: &[(&str, String)], panels: &[Panel]) -> String {
    let height = TOP + PANEL_HEIGHT * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text(&mut out, (LEFT, 24.0), "start", title);
    let mut x = LEFT;
    for (colour, label) in legend {
        rect(&mut out, (x, 36.0), (12.0, 12.0), colour);
        text(&mut out, (x + 18.0, 47.0), "start", label);
        x += (LETTER_WIDTH * label.chars().count() as f64 + 40.0).max(150.0);
    }
    for (i, panel) in panels.iter().enumerate() {
        panel.draw(&mut out, TOP + PANEL_HEIGHT * i as f64);
    }
    out + "</svg>\n"
}

impl Panel {
    fn draw(&self, out: &mut String, top: f64) {
        let floor = top + 74.0 + BAR_AREA;
        let width = WIDTH - 2.0 * LEFT;
        let values = self.bars.iter().map(|bar| bar.limit.unwrap_or(0.0).max(bar.value));
        let highest = values.fold(f64::MIN_POSITIVE, f64::max);
        text(out, (LEFT, top + 16.0), "start", self.title);
        let step = width / self.bars.len().max(1) as f64;
        for (i, bar) in self.bars.iter().enumerate().filter(|(_, bar)| bar.value > 0.0) {
            let (x, width) = (LEFT + step * i as f64, (step * 0.8).min(80.0));
            let height = BAR_AREA * bar.value / highest;
            rect(out, (x, floor - height), (width, height), bar.colour);
            if let Some(limit) = bar.limit {
                rect(out, (x, floor - BAR_AREA * limit / highest), (width, 2.0), RED);
            }
            if let Some(label) = &bar.label {
                let middle = x + width / 2.0;
                text(out, (middle, floor - height - 5.0), "middle", &format!("{:.1}", bar.value));
                text(out, (middle, floor + 16.0), "middle", label);
            }
        }
        for (i, (share, words)) in self.marks.iter().enumerate().filter(|(_, (x, _))| *x <= 1.0) {
            let x = LEFT + width * share;
            rect(out, (x, top + 24.0), (1.0, floor - top - 24.0), RED);
            // Labels are on lines of their own, since marks may be close together, and left of their
            // marks near the right border.
            let (x, anchor) = if *share > 0.8 { (x - 4.0, "end") } else { (x + 4.0, "start") };
            text(out, (x, top + 34.0 + 15.0 * i as f64), anchor, words);
        }
        rect(out, (LEFT, floor), (width, 1.0), INK);
        if let Some(end) = &self.end {
            text(out, (LEFT, floor + 18.0), "middle", "0");
            text(out, (LEFT + width, floor + 18.0), "middle", end);
            text(out, (LEFT - 6.0, floor - BAR_AREA + 10.0), "end", &format!("{highest:.0}"));
        }
    }
}

fn rect(out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
