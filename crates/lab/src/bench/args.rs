//! The flags of `wf bench`.

use std::path::PathBuf;

use clap::Args;

use super::shapes::Shape;
use super::synthetic::Gates;
use crate::parse;

/// Options of a benchmark.
#[derive(Args)]
pub struct BenchArgs {
    /// Model to measure [default: WF_MODEL, or random weights in the shape of bitnet-2b]
    pub model: Option<PathBuf>,

    /// Model to measure, as a flag
    #[arg(long = "model", short = 'm', alias = "model-path", value_name = "MODEL", hide = true)]
    pub model_flag: Option<PathBuf>,

    /// Measure random weights in the shape of a published model; nothing is read or downloaded
    #[arg(long, value_name = "SHAPE", conflicts_with = "demo")]
    pub synthetic: Option<Shape>,

    /// Share of closed gates in random weights: random (half of them) or demo (as in the trained
    /// demo model)
    #[arg(long, value_name = "GATES", default_value = "random", conflicts_with = "demo")]
    pub synthetic_sparsity: Gates,

    /// Measure the built-in demo model
    #[arg(long)]
    pub demo: bool,

    /// Measure the speedup of each decoding mode (on the demo model, or MODEL), and the cost of a
    /// pass over several rows
    #[arg(long = "decode", conflicts_with_all = ["compare", "plot", "price"])]
    pub decoding_modes: bool,

    /// With --decode: draft model, smaller and with the same tokenizer
    #[arg(long, value_name = "MODEL", requires = "decoding_modes")]
    pub draft: Option<PathBuf>,

    /// Measure fewer lengths with fewer repeats: takes less than a minute
    #[arg(long)]
    pub quick: bool,

    /// Measure whole passes on all threads only: no fewer threads, parts, kernels and sampling
    #[arg(long)]
    pub brief: bool,

    /// Context lengths to decode at, for example 0,512
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    pub contexts: Option<Vec<usize>>,

    /// Prompt lengths to prefill, for example 32,512
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = parse::count::<usize>)]
    pub prompts: Option<Vec<usize>>,

    /// Numbers of sequences to decode together, for example 1,8
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = parse::count::<usize>)]
    pub sequences: Option<Vec<usize>>,

    /// Run the shortest cases once, to test that everything runs
    #[arg(long, hide = true, conflicts_with = "quick")]
    pub smoke: bool,

    /// Price of this machine per hour: adds the cost of a million tokens
    #[arg(long, value_name = "USD_PER_HOUR", value_parser = parse_price)]
    pub price: Option<f64>,

    /// Print a JSON object: stream_gb_s, isa, decode, prefill, batch, scaling, sampling, kernels, parts
    /// and more
    #[arg(long)]
    pub json: bool,

    /// Also run llama-cpp-python on the same shape, alternating with wf, if PYTHON has it
    #[arg(long, value_name = "PYTHON", num_args = 0..=1, require_equals = true,
          default_missing_value = "python3")]
    pub compare: Option<PathBuf>,

    /// Draw decode, prefill and batch speeds into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

fn parse_price(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(price) if f64::is_finite(price) && price > 0.0 => Ok(price),
        _ => Err("must be a price above 0, for example 0.17".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_a_positive_number() {
        assert_eq!(parse_price("0.17"), Ok(0.17));
        for wrong in ["0", "-1", "inf", "NaN", "cheap"] {
            assert!(parse_price(wrong).is_err(), "{wrong}");
        }
    }
}
