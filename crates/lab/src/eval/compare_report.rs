//! A comparison as text and as an SVG image.

use std::fmt;

use super::compare::{Comparison, SideReport};
use crate::svg::{self, BLUE, Bar, Panel, RED};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = format!(
            "{:+.3} % ± {:.3}",
            100.0 * self.perplexity_change,
            100.0 * self.perplexity_change_stderr
        );
        let megabytes = |bytes: usize| format!("{:.2}", bytes as f64 / 1e6);
        let times = |factor: f64| format!("× {factor:.2}");
        let kv = |side: &SideReport| megabytes(side.kv_bytes_per_1000_tokens);
        let (a, b) = (&self.a, &self.b);
        let rows = [
            ["", "a", "b", ""].map(str::to_owned),
            row("settings", [&a.settings, &b.settings].map(Clone::clone), String::new()),
            row("perplexity", [a, b].map(|side| format!("{:.4}", side.perplexity)), change),
            row("prompt tok/s", [a, b].map(|s| speed(s.prompt_tok_s)), times(self.prompt_speedup)),
            row("decode tok/s", [a, b].map(|s| speed(s.decode_tok_s)), times(self.decode_speedup)),
            row("weights MB", [a, b].map(|s| megabytes(s.weights_bytes)), String::new()),
            row("K/V MB/1000 tokens", [a, b].map(kv), String::new()),
        ];
        write_rows(f, &rows)?;
        writeln!(
            f,
            "KL divergence: mean {:.6} nats per token, largest {:.4} (token {})",
            self.kl_mean, self.kl_max, self.kl_max_at
        )?;
        writeln!(f, "same best token: {:.2} %", 100.0 * self.agreement)?;
        if self.identical {
            writeln!(f, "all logits have the same bits")?;
        }
        writeln!(f, "{} tokens, windows of {}", self.tokens, self.window)
    }
}

fn row(name: &str, [a, b]: [String; 2], note: String) -> [String; 4] {
    [name.to_owned(), a, b, note]
}

fn speed(tok_s: f64) -> String {
    format!("{tok_s:.1}")
}

fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[[String; 4]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [first, a, b] = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    for [name, of_a, of_b, note] in rows {
        let line = format!("{name:<first$}  {of_a:>a$}  {of_b:>b$}  {note}");
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

impl Comparison {
    /// Draws quality, speed and memory of both as an SVG image.
    pub fn svg(&self) -> String {
        let title = format!("{}, {} tokens in windows of {}", self.model, self.tokens, self.window);
        let legend =
            [(BLUE, format!("a: {}", self.a.settings)), (RED, format!("b: {}", self.b.settings))];
        let memory = |side: &SideReport| side.kv_bytes_per_1000_tokens as f64 / 1e6;
        let panels = [
            self.panel("Perplexity", |side| side.perplexity),
            self.panel("Decode, tokens per second", |side| side.decode_tok_s),
            self.panel("K/V of 1,000 tokens, MB", memory),
            self.divergence_panel(),
        ];
        svg::chart(&title, &legend, &panels)
    }

    fn panel(&self, title: &'static str, value: impl Fn(&SideReport) -> f64) -> Panel {
        let bar = |side: &SideReport, colour, name: &str| Bar {
            value: value(side),
            colour,
            label: Some(name.to_owned()),
            limit: None,
        };
        let bars = vec![bar(&self.a, BLUE, "a"), bar(&self.b, RED, "b")];
        Panel { title, bars, ..Panel::default() }
    }

    fn divergence_panel(&self) -> Panel {
        let bar = |kl: &f64| Bar { value: 1000.0 * kl, colour: RED, label: None, limit: None };
        Panel {
            title: "Mean KL divergence by position in the window, thousandths of a nat",
            bars: self.kl_by_position.iter().map(bar).collect(),
            end: Some(self.window.to_string()),
            ..Panel::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Comparison {
        let side = |settings: &str, perplexity| SideReport {
            settings: settings.to_owned(),
            perplexity,
            decode_tok_s: 10.0,
            kv_bytes_per_1000_tokens: 2_000_000,
            ..SideReport::default()
        };
        Comparison {
            model: "some <model>".to_owned(),
            tokens: 100,
            window: 64,
            a: side("default", 4.0),
            b: side("kv=int8", 5.0),
            perplexity_change: 0.25,
            perplexity_change_stderr: 0.01,
            kl_mean: 0.002,
            kl_max: 0.5,
            kl_max_at: 17,
            kl_by_position: vec![0.001, 0.003],
            agreement: 0.97,
            identical: false,
            prompt_speedup: 1.0,
            decode_speedup: 1.25,
        }
    }

    #[test]
    fn the_text_has_both_settings_and_their_distance() {
        let text = example().to_string();
        for words in
            ["kv=int8", "+25.000 % ± 1.000", "× 1.25", "mean 0.002000", "(token 17)", "97.00 %"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("same bits"), "{text}");
        let identical = Comparison { identical: true, ..example() };
        assert!(identical.to_string().contains("all logits have the same bits"));
    }

    #[test]
    fn the_image_has_a_bar_for_each_side_and_each_part_of_the_window() {
        let svg = example().svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("some &lt;model&gt;"), "{svg}");
        // Background, two of the legend, three panels of two bars, two parts, four axes.
        assert_eq!(svg.matches("<rect ").count(), 1 + 2 + 6 + 2 + 4, "{svg}");
        for words in ["a: default", "b: kv=int8", "Perplexity", ">4.0<", ">5.0<"] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
