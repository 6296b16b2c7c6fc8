//! Bounds the work of `llguidance` for one grammar.
//!
//! `llguidance` counts its work on regular expressions as fuel and stops where the fuel is used up, with two gaps.
//! The first transitions of a lexer have unlimited fuel, so [`parser`] first takes them alone, with a limit: the
//! parser then repeats the same work. And fuel is checked between derivatives, while one derivative of an
//! intersection multiplies the character sets of its parts; [`width`] bounds that product, and the fuel of a grammar
//! is divided by it. Patterns in schemas are intersected while a schema is read; `limits.rs` adds up their
//! [`pattern_bits`].

use std::panic::AssertUnwindSafe;

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::derivre::raw::ExprSet;
use llguidance::derivre::{ExprRef, RegexBuilder};
use llguidance::earley::lexerspec::LexerSpec;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{HashMap, HashSet, Logger, ParserFactory, TokenParser, regex_to_lark};

use super::GrammarError;

/// Maximum width of a grammar, and of the later bytes of its characters in UTF-8, of whose sets the first byte has
/// already selected a few.
const MAX_WIDTH: u64 = 256;
const MAX_LATER_WIDTH: u64 = 4096;
const LATER_BYTES: std::ops::Range<usize> = 0x80..0xc0;
/// Width up to which a grammar has all of its fuel.
const USUAL_WIDTH: u64 = 64;
/// Maximum number of nodes visited to find the width.
const MAX_VISITS: usize = 2_000_000;

const BYTES: usize = 256;

/// Error of `llguidance`, or of a limit.
pub(super) enum Failure {
    Library(String),
    Limit(GrammarError),
}

/// Creates the parser of a grammar with bounded work and memory.
pub(super) fn parser(
    factory: &ParserFactory,
    top: TopLevelGrammar,
    limits: ParserLimits,
) -> Result<TokenParser, Failure> {
    let library = |error: &dyn std::fmt::Display| Failure::Library(error.to_string());
    let init = GrammarInit::Serialized(top);
    let environment = Some(factory.tok_env().clone());
    let (grammar, spec) =
        catch_unwind(AssertUnwindSafe(|| init.to_internal(environment, limits.clone())))
            .map_err(|error| library(&error))?;
    let limits = divided(limits, width(spec.regex_builder.exprset()).map_err(Failure::Limit)?);
    let first = catch_unwind(AssertUnwindSafe(|| {
        Ok(first_transitions(spec.clone(), &factory.extra_lexemes(), limits.clone()))
    }));
    first.map_err(|error| library(&error))?.map_err(Failure::Limit)?;
    let init = GrammarInit::Internal(grammar, spec);
    let capabilities = InferenceCapabilities::default();
    factory
        .create_parser_from_init_ext(init, Logger::new(0, 0), capabilities, limits)
        .map_err(|error| library(&error))
}

/// Divides the fuel of a grammar by its width, as far as that is beyond the usual.
fn divided(mut limits: ParserLimits, width: u64) -> ParserLimits {
    let divide = |fuel: u64| fuel * USUAL_WIDTH / width.max(USUAL_WIDTH);
    limits.initial_lexer_fuel = divide(limits.initial_lexer_fuel);
    limits.step_lexer_fuel = divide(limits.step_lexer_fuel);
    limits
}

/// Takes the transitions that creating a lexer takes, with limited fuel.
fn first_transitions(
    mut spec: LexerSpec,
    extra_lexemes: &[String],
    mut limits: ParserLimits,
) -> Result<(), GrammarError> {
    let too_complex = || GrammarError::new("its patterns are too complex in combination");
    spec.add_extra_lexemes(extra_lexemes);
    let mut lexer = spec.to_regex_vec(&mut limits).map_err(|_| too_complex())?;
    lexer.set_fuel(limits.initial_lexer_fuel);
    lexer.set_max_states(limits.max_lexer_states);
    let start = lexer.initial_state(&spec.all_lexemes());
    for byte in 0..=u8::MAX {
        lexer.transition(start, byte);
        if lexer.has_error() {
            return Err(too_complex());
        }
    }
    Ok(())
}

/// Returns the width of regular expressions: the maximum over all bytes and all intersections of the number of
/// combinations of character sets, one of each part, that contain the byte.
fn width(exprs: &ExprSet) -> Result<u64, GrammarError> {
    let mut widths = Widths { exprs, known: HashMap::default(), visits: 0 };
    let mut width = 1;
    // The ids of expressions are their indices; 0 is none.
    for id in 1..exprs.len() as u32 {
        if kind(exprs, ExprRef::new(id)) == Kind::And {
            let (own, later) = maxima(&widths.of_and(ExprRef::new(id))?);
            width = width.max(own);
            if own > MAX_WIDTH || later > MAX_LATER_WIDTH {
                return Err(GrammarError::new(format!(
                    "one text must match too many patterns at once: {} combinations of their character classes \
                     contain the same character, which must be at most {MAX_WIDTH}",
                    own.max(later)
                )));
            }
        }
    }
    Ok(width)
}

/// Returns the maximum of all bytes but the later ones of a character, and the maximum of those.
fn maxima(widths: &[u64; BYTES]) -> (u64, u64) {
    let (mut own, mut later) = (1, 1);
    for (byte, &width) in widths.iter().enumerate() {
        let max = if LATER_BYTES.contains(&byte) { &mut later } else { &mut own };
        *max = width.max(*max);
    }
    (own, later)
}

/// Returns the share of a pattern in the work of matching several at once: the logarithm to base 2 of the number of
/// its character classes that contain the same character, rounded up, and at least 1.
pub(super) fn pattern_bits(pattern: &str) -> Result<usize, GrammarError> {
    let mut builder = RegexBuilder::new();
    // Errors are reported when the schema is compiled.
    let Ok(expr) = builder.mk_regex_for_serach(&regex_to_lark(pattern, "dw")) else { return Ok(1) };
    let mut widths = Widths { exprs: builder.exprset(), known: HashMap::default(), visits: 0 };
    let (own, later) = maxima(&widths.sets_of(expr)?);
    let own = own.max(later * MAX_WIDTH / MAX_LATER_WIDTH);
    Ok((own.next_power_of_two().ilog2() as usize).max(1))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    And,
    Not,
    /// A set of several bytes.
    Set,
    /// One byte, or a text.
    Literal,
    /// A remainder of a division by a number, which reads digits.
    Remainder,
    Other,
}

/// Returns the kind of an expression, whose type `derivre` does not export.
fn kind(exprs: &ExprSet, expr: ExprRef) -> Kind {
    match format!("{:?}", exprs.get_tag(expr)).as_str() {
        "And" => Kind::And,
        "Not" => Kind::Not,
        "ByteSet" => Kind::Set,
        "Byte" | "ByteConcat" => Kind::Literal,
        "RemainderIs" => Kind::Remainder,
        _ => Kind::Other,
    }
}

struct Widths<'a> {
    exprs: &'a ExprSet,
    /// Widths of intersections, by byte.
    known: HashMap<ExprRef, [u64; BYTES]>,
    visits: usize,
}

impl Widths<'_> {
    fn of_and(&mut self, and: ExprRef) -> Result<[u64; BYTES], GrammarError> {
        if let Some(&known) = self.known.get(&and) {
            return Ok(known);
        }
        let mut widths = [1_u64; BYTES];
        for &part in self.exprs.get_args(and) {
            let sets = self.sets_of(part)?;
            for (width, sets) in widths.iter_mut().zip(sets) {
                *width = width.saturating_mul(sets);
            }
        }
        self.known.insert(and, widths);
        Ok(widths)
    }

    /// Returns for each byte the number of different character sets in an expression that contain it. Derivatives
    /// consist of the same sets, and equal sets are joined before an intersection.
    fn sets_of(&mut self, part: ExprRef) -> Result<[u64; BYTES], GrammarError> {
        let mut sets = [0_u64; BYTES];
        let (mut todo, mut seen) = (vec![part], HashSet::default());
        let mut has_literal = false;
        while let Some(expr) = todo.pop() {
            if !seen.insert(expr) {
                continue;
            }
            self.visits += 1;
            if self.visits > MAX_VISITS {
                return Err(GrammarError::new("its patterns are too complex in combination"));
            }
            match kind(self.exprs, expr) {
                // The sets of a complement are made disjoint.
                Kind::Not => sets.iter_mut().for_each(|count| *count += 1),
                Kind::And => {
                    let inner = self.of_and(expr)?;
                    sets.iter_mut().zip(inner).for_each(|(count, inner)| *count += inner);
                }
                Kind::Set => {
                    let set = self.exprs.get(expr);
                    for byte in 0..=u8::MAX {
                        sets[usize::from(byte)] += u64::from(set.matches_byte(byte));
                    }
                }
                Kind::Literal | Kind::Remainder => has_literal = true,
                Kind::Other => {}
            }
            if !matches!(kind(self.exprs, expr), Kind::And | Kind::Not) {
                todo.extend(self.exprs.get_args(expr));
            }
        }
        // The literals of one byte are equal sets.
        sets.iter_mut().for_each(|count| *count += u64::from(has_literal));
        Ok(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_pattern_count_overlapping_classes() {
        for (pattern, bits) in [
            ("^[a-z]+$", 1),
            ("^.*3.*$", 1),
            ("^([ab]x|[ac]x|[ad]x|[ae]x|[af]x)$", 3),
            ("^\\p{L}+$", 4),
            ("(", 1),
        ] {
            assert_eq!(pattern_bits(pattern).unwrap(), bits, "{pattern}");
        }
    }

    #[test]
    fn the_width_is_the_product_over_parts_of_an_intersection() {
        let mut builder = RegexBuilder::new();
        builder.mk_regex_and(&["([ab]x|[ac]y)*", "([ad]x|[ae]y|[af]z)*"]).unwrap();
        // Two and three classes, and the literals of each.
        assert_eq!(width(builder.exprset()).unwrap(), 12);
        let many: Vec<String> = (b'b'..=b'z').map(|b| format!("[a{}]x", b as char)).collect();
        let many = format!("({})*", many.join("|"));
        builder.mk_regex_and(&[&many, &format!("b?{many}")]).unwrap();
        let message = width(builder.exprset()).unwrap_err().to_string();
        assert!(message.contains("676 combinations"), "{message}");
    }

    #[test]
    fn wide_grammars_have_less_fuel() {
        let fuel = |width| divided(ParserLimits::default(), width).initial_lexer_fuel;
        assert_eq!((fuel(1), fuel(64), fuel(256)), (1_000_000, 1_000_000, 250_000));
    }
}
