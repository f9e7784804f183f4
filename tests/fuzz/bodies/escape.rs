//! What must hold for any text and separators. The first five bytes choose the separators, the rest is the text.

use hl7::Delimiters;

/// Panics where a promise of [`hl7::escape`] or [`hl7::unescape`] is broken.
pub(crate) fn escape(bytes: &[u8]) {
    let (head, text) = bytes.split_at(bytes.len().min(5));
    let text = String::from_utf8_lossy(text);
    let delimiters = match head.split_first() {
        Some((&field, encoding)) => Delimiters::read(field, &String::from_utf8_lossy(encoding)).unwrap_or_default(),
        None => Delimiters::default(),
    };
    let sent = hl7::escape(&text, delimiters);
    assert!(!sent.contains(char::is_control), "control characters end segments and frames");
    for separator in [delimiters.field, delimiters.component, delimiters.repetition, delimiters.subcomponent] {
        assert!(!sent.contains(char::from(separator)), "a separator in a value would split it");
    }
    assert_eq!(hl7::unescape(&sent, delimiters), text);
    // One `\.sp99\` is the most that few bytes can become.
    let resolved = hl7::unescape(&text, delimiters);
    assert!(resolved.len() <= text.len().saturating_mul(15), "few bytes became many");
    if !text.contains(char::from(delimiters.escape)) {
        assert_eq!(resolved, text);
    }
}
