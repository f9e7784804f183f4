//! Numbers by their text: HL7's NM (HL7 v2 §2.A.46) to FHIR's decimal and integers, never through a binary float.

use fhir::Json;
use smol_str::{SmolStr, SmolStrBuilder};

/// Digits a number may have; longer ones are no quantities.
const DIGITS_MAX: usize = 60;

/// The integer types of R4 §2.24.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// `integer`: 32 bits, signed.
    Any,
    /// `unsignedInt`: from 0.
    Unsigned,
    /// `positiveInt`: from 1.
    Positive,
}

/// An NM as decimal: sign `+` and leading zeros go, digits after the point stay (`5.00`), a bare point goes (`1.`).
pub(crate) fn decimal(text: &str) -> Option<Json> {
    let (negative, whole, fraction) = split(text)?;
    let mut out = SmolStrBuilder::new();
    if negative {
        out.push('-');
    }
    out.push_str(whole);
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    Some(Json::Number(out.finish()))
}

/// An NM as integer; a fraction of zeros is none.
pub(crate) fn integer(text: &str, whole: Whole) -> Option<Json> {
    let (negative, digits, fraction) = split(text)?;
    if fraction.bytes().any(|b| b != b'0') {
        return None;
    }
    let magnitude: i64 = digits.parse().ok()?;
    let value = i32::try_from(if negative { magnitude.checked_neg()? } else { magnitude }).ok()?;
    let least = match whole {
        Whole::Any => i32::MIN,
        Whole::Unsigned => 0,
        Whole::Positive => 1,
    };
    (value >= least).then(|| Json::Number(SmolStr::from(value.to_string())))
}

/// Sign, digits before the point without leading zeros (at least one), digits after it.
fn split(text: &str) -> Option<(bool, &str, &str)> {
    let text = text.trim();
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let none = whole.is_empty() && fraction.is_empty();
    if none || !digits(whole) || !digits(fraction) || text.len() > DIGITS_MAX {
        return None;
    }
    let trimmed = whole.trim_start_matches('0');
    Some((negative, if trimmed.is_empty() { "0" } else { trimmed }, fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_their_digits() {
        let show = |text| decimal(text).map(|n| n.to_string());
        for (sent, wanted) in [
            ("065.88", "65.88"),
            ("+5", "5"),
            (" 5 ", "5"),
            ("1.", "1"),
            ("5.00", "5.00"),
            (".5", "0.5"),
            ("-0.10", "-0.10"),
            ("000", "0"),
        ] {
            assert_eq!(show(sent).as_deref(), Some(wanted), "{sent}");
        }
        for bad in ["", ">5", "1e5", "1,5", "5 mg", ".", "-", "+-1", "1.2.3", "٣"] {
            assert_eq!(show(bad), None, "{bad}");
        }
    }

    #[test]
    fn integers_keep_their_range() {
        let show = |text, whole| integer(text, whole).map(|n| n.to_string());
        assert_eq!(show("007", Whole::Positive).as_deref(), Some("7"));
        assert_eq!(show("1.0", Whole::Any).as_deref(), Some("1"));
        assert_eq!(show("-3", Whole::Any).as_deref(), Some("-3"));
        assert_eq!(show("-0", Whole::Unsigned).as_deref(), Some("0"));
        assert_eq!(show("0", Whole::Positive), None);
        assert_eq!(show("-1", Whole::Unsigned), None);
        assert_eq!(show("2147483648", Whole::Any), None);
        assert_eq!(show("1.5", Whole::Any), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_a_fhir_decimal_already_stays(text in "-?(0|[1-9][0-9]{0,10})(\\.[0-9]{1,8})?") {
            proptest::prop_assert_eq!(decimal(&text).map(|n| n.to_string()), Some(text));
        }
    }
}
