//! The few SVG shapes that plots are made of.

use std::fmt::Write;

/// Colour of text and lines.
pub(crate) const INK: &str = "#222";

/// Returns the start of an image with a white background.
pub(crate) fn begin(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    )
}

/// Ends an image.
pub(crate) fn end(out: &mut String) {
    out.push_str("</svg>\n");
}

pub(crate) fn rect(
    out: &mut String,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    colour: &str,
) {
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

pub(crate) fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
