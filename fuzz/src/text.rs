//! Shared code of the text targets: uses all functions of a tokenizer.

use wf_text::{Detokenizer, Tokenizer};

/// Encodes the text and decodes it again, whole and piece by piece. A user's text that becomes a special
/// token is a finding.
pub fn use_tokenizer(tokenizer: &Tokenizer, text: &str) {
    let ids = tokenizer.encode(text);
    // Unknown text may become the unknown token, which counts as special.
    let unknown = tokenizer.encode("\u{10ffff}");
    let mut specials = ids.iter().filter(|id| tokenizer.is_special(**id));
    assert!(specials.all(|id| unknown.contains(id)), "{text:?} became {ids:?}");
    let mut detokenizer = Detokenizer::new(false);
    let pieces: String = ids.iter().map(|id| detokenizer.push(tokenizer, *id)).collect();
    assert_eq!(pieces + &detokenizer.finish(), tokenizer.decode(&ids, false));
    tokenizer.encode_with_specials(text);
}
