//! Rotary position embeddings: pairs of dimensions, and frequencies stretched for long contexts.

/// A rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the rotation frequencies.
    pub theta: f64,
    /// Dimensions that rotate together.
    pub pairs: RotaryPairs,
    /// Number of dimensions that rotate, from the first of a head on; `None` rotates all.
    pub dims: Option<usize>,
    /// Change of the frequencies for contexts longer than those of pretraining.
    pub scaling: RopeScaling,
}

impl Default for Rope {
    fn default() -> Self {
        Self { theta: 10_000.0, pairs: RotaryPairs::Halves, dims: None, scaling: RopeScaling::None }
    }
}

/// Change of the frequencies of a rotary embedding.
///
/// The published methods whose frequencies depend on the current length (`Dynamic`, `Divided`) take
/// that of the longest sequence allowed, so that a cached prefix stays valid as a sequence grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// Frequencies are those of the base.
    #[default]
    None,
    /// All frequencies are divided by a factor.
    Linear {
        /// Divisor of the frequencies.
        factor: f64,
    },
    /// The base grows with the length beyond the original one (dynamic NTK).
    Dynamic {
        /// Growth of the base.
        factor: f64,
        /// Length up to which nothing changes.
        original_len: usize,
    },
    /// Low frequencies are divided by a factor, high ones stay, those between are blended (Llama 3.1).
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Turns within the original context below which a frequency is low.
        low_turns: f64,
        /// Turns within the original context above which a frequency is high.
        high_turns: f64,
        /// Context of pretraining.
        original_len: usize,
    },
    /// YaRN.
    Yarn(Yarn),
    /// Each frequency has its own divisor in [`RopeDivisors`] (LongRoPE).
    Divided {
        /// Longest context with the short divisors; longer ones have the long divisors.
        original_len: usize,
        /// Factor of cosines and sines.
        attention_factor: f64,
    },
}

/// Parameters of YaRN: frequencies that turn often within the original context stay, those that turn
/// rarely are divided by a factor, and those between are blended by their index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Divisor of low frequencies.
    pub factor: f64,
    /// Context of pretraining.
    pub original_len: usize,
    /// Turns within the original context from which on a frequency stays.
    pub fast_turns: f64,
    /// Turns within the original context up to which a frequency is divided.
    pub slow_turns: f64,
    /// Factor of cosines and sines.
    pub attention_factor: f64,
    /// True if the range of blended indices is widened to whole indices.
    pub whole_indices: bool,
}

/// Divisors of the frequencies of [`RopeScaling::Divided`], one for each pair of dimensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RopeDivisors {
    /// Divisors for contexts up to the original one.
    pub short: Vec<f32>,
    /// Divisors for longer contexts.
    pub long: Vec<f32>,
}

impl Rope {
    /// Returns the setting that cannot be run and why; `dims` is the number of dimensions that rotate.
    pub(crate) fn check(
        &self,
        divisors: &RopeDivisors,
        dims: usize,
    ) -> Result<(), (&'static str, String)> {
        positive("rotary base", self.theta)?;
        match self.scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("rotary factor", factor),
            RopeScaling::Dynamic { factor, original_len } => {
                positive("rotary factor", factor)?;
                if dims <= 2 {
                    let problem = format!("{dims}, must exceed 2 for dynamic rotary scaling");
                    return Err(("head size", problem));
                }
                known_len(original_len)
            }
            RopeScaling::Llama3 { factor, low_turns, high_turns, original_len } => {
                positive("rotary factor", factor)?;
                ordered("rotary frequency factors", low_turns, high_turns)?;
                known_len(original_len)
            }
            RopeScaling::Yarn(yarn) => {
                positive("rotary factor", yarn.factor)?;
                ordered("rotary betas", yarn.slow_turns, yarn.fast_turns)?;
                positive("rotary attention factor", yarn.attention_factor)?;
                known_len(yarn.original_len)
            }
            RopeScaling::Divided { attention_factor, .. } => {
                positive("rotary attention factor", attention_factor)?;
                divisors.check("short", &divisors.short, dims)?;
                divisors.check("long", &divisors.long, dims)
            }
        }
    }
}

impl Yarn {
    /// Returns the attention factor that the paper recommends, with the logarithm times `scale`.
    pub fn published_attention_factor(factor: f64, scale: f64) -> f64 {
        if factor <= 1.0 { 1.0 } else { 0.1 * scale * natural_logarithm(factor) + 1.0 }
    }

    /// Returns the attention factor as a multiple of the published one, which GGUF files store as f32.
    /// The product of the two, rounded to f32, is the factor again.
    pub fn relative_attention_factor(&self) -> f32 {
        let published = Self::published_attention_factor(self.factor, 1.0);
        let nearest = (self.attention_factor / published) as f32;
        let is_exact = |relative: &f32| {
            (f64::from(*relative) * published) as f32 == self.attention_factor as f32
        };
        let near = [nearest, nearest.next_up(), nearest.next_down()];
        near.into_iter().find(is_exact).unwrap_or(nearest)
    }
}

impl RopeScaling {
    /// Returns the length of the context that the scaling was made for, if it tells: the length of a
    /// file that names only the original one.
    pub fn extended_len(&self) -> Option<usize> {
        match self {
            // As a float, this cannot overflow; `as` saturates.
            Self::Dynamic { factor, original_len } => {
                Some((*original_len as f64 * factor) as usize)
            }
            _ => None,
        }
    }
}

/// Natural logarithm of a factor, for attention factors only.
#[expect(clippy::disallowed_methods, reason = "used in f32: the last bit of f64 does not matter")]
fn natural_logarithm(value: f64) -> f64 {
    value.ln()
}

impl RopeDivisors {
    /// Returns the attention factor that the paper of LongRoPE recommends for a context that is `factor`
    /// times the original one.
    pub fn published_attention_factor(factor: f64, original_len: usize) -> f64 {
        if factor <= 1.0 {
            return 1.0;
        }
        (1.0 + natural_logarithm(factor) / natural_logarithm(original_len as f64)).sqrt()
    }

    fn check(
        &self,
        which: &str,
        divisors: &[f32],
        dims: usize,
    ) -> Result<(), (&'static str, String)> {
        let (found, pairs) = (divisors.len(), dims / 2);
        if found != pairs {
            let problem = format!("{found} {which} ones, must be {pairs}: one per pair");
            return Err(("rotary divisors", problem));
        }
        divisors.iter().try_for_each(|&divisor| positive("rotary divisors", divisor.into()))
    }
}

/// Largest factor, base or divisor: beyond it, frequencies are no longer normal numbers.
const MAX_FACTOR: f64 = 1e30;

fn positive(key: &'static str, value: f64) -> Result<(), (&'static str, String)> {
    if value.is_finite() && (1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&value) {
        return Ok(());
    }
    Err((key, format!("{value}, must be a positive number")))
}

fn ordered(key: &'static str, low: f64, high: f64) -> Result<(), (&'static str, String)> {
    positive(key, low)?;
    positive(key, high)?;
    if low < high {
        return Ok(());
    }
    Err((key, format!("{low} and {high}, the first must be below the second")))
}

fn known_len(original_len: usize) -> Result<(), (&'static str, String)> {
    if original_len > 0 {
        return Ok(());
    }
    Err(("original context length", "0, must be at least 1".to_owned()))
}

/// Pairs of head dimensions that a rotary embedding rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryPairs {
    /// Dimensions `i` and `i + head_dim / 2`, as in Hugging Face checkpoints.
    Halves,
    /// Dimensions `2i` and `2i + 1`, as in GGUF files of the `llama` architecture.
    Adjacent,
}

impl RotaryPairs {
    /// Returns the row of a query or key projection in the other pairing that becomes `row` in this
    /// one.
    pub fn row_before(self, row: usize, head_dim: usize) -> usize {
        let half = (head_dim / 2).max(1);
        let (head, dim) = (row / head_dim.max(1), row % head_dim.max(1));
        let from = match self {
            // 0, half, 1, half + 1, …
            Self::Adjacent => dim / 2 + dim % 2 * half,
            // 0, 2, 4, …, 1, 3, 5, …
            Self::Halves => dim % half * 2 + dim / half,
        };
        head * head_dim + from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(scaling: RopeScaling) -> String {
        let rope = Rope { scaling, ..Rope::default() };
        let checked = rope.check(&RopeDivisors { short: vec![1.0; 4], long: vec![1.0; 3] }, 8);
        checked.err().map_or_else(String::new, |(key, problem)| format!("{key}: {problem}"))
    }

    #[test]
    fn scalings_that_cannot_be_computed_are_named() {
        assert_eq!(problem(RopeScaling::None), "");
        let linear = |factor| problem(RopeScaling::Linear { factor });
        assert_eq!(linear(4.0), "");
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                linear(factor),
                format!("rotary factor: {factor}, must be a positive number")
            );
        }
        let yarn = Yarn {
            factor: 4.0,
            original_len: 32,
            fast_turns: 32.0,
            slow_turns: 1.0,
            attention_factor: 1.0,
            whole_indices: true,
        };
        assert_eq!(problem(RopeScaling::Yarn(yarn)), "");
        let swapped = Yarn { fast_turns: 1.0, slow_turns: 32.0, ..yarn };
        assert!(problem(RopeScaling::Yarn(swapped)).contains("32 and 1, the first must be below"));
        let no_context = problem(RopeScaling::Yarn(Yarn { original_len: 0, ..yarn }));
        assert_eq!(no_context, "original context length: 0, must be at least 1");
        let divided = RopeScaling::Divided { original_len: 8, attention_factor: 1.0 };
        assert_eq!(problem(divided), "rotary divisors: 3 long ones, must be 4: one per pair");
    }
}
