//! Where a rule reads: `PV1-3.2`, `MSH-9`, `AL1`, and in a datatype map `XPN.1.2` or `XPN`.
//! Not here: reading it out of a message (`value`).

use smol_str::SmolStr;

/// Greatest field, component or subcomponent number a rule may name: MSH has 25 fields, OBX 33, the guide's longest segment fewer than 100.
pub(crate) const NUMBER_MAX: u16 = 199;

/// A place in a segment or in a datatype's value, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A whole segment (`field` 0) or a field or a part of one.
    Segment {
        /// `None`: the segment at hand; else the first of that name in the message.
        segment: Option<SmolStr>,
        /// From 1; 0 for the segment itself.
        field: u16,
        /// Component and subcomponent, 0 where not named.
        parts: [u16; 2],
    },
    /// A part of the value at hand.
    Value {
        /// First and second level below the value, 0 where not named.
        parts: [u16; 2],
    },
}

/// What a file's paths are relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base<'a> {
    /// A segment map's segment.
    Segment(&'a str),
    /// A datatype map's datatypes (its own and its aliases').
    Datatypes(&'a [String]),
    /// A message's bindings: the segment bound.
    Message(&'a str),
}

/// Reads a path.
pub(crate) fn parse(text: &str, base: Base<'_>) -> Result<Source, String> {
    if let Base::Datatypes(names) = base {
        let (head, parts) = split_parts(text)?;
        if names.iter().any(|name| name == head) {
            return Ok(Source::Value { parts });
        }
    }
    let (name, rest) = match text.split_once('-') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    if !is_segment_name(name) {
        return Err(match base {
            Base::Datatypes(names) => format!(
                "`{text}` is not a path of {} (like {}.1)",
                names.join(" or "),
                names.first().map_or("", String::as_str)
            ),
            Base::Segment(own) | Base::Message(own) => format!("`{text}` is not a path (like {own}-1 or {own}-1.2)"),
        });
    }
    let (field, parts) = match rest {
        None => (0, [0, 0]),
        Some(rest) => {
            let (field, parts) = split_parts(rest)?;
            (number(field)?, parts)
        }
    };
    let own = match base {
        Base::Segment(own) | Base::Message(own) => Some(own),
        Base::Datatypes(_) => None,
    };
    let segment = (own != Some(name)).then(|| SmolStr::new(name));
    Ok(Source::Segment { segment, field, parts })
}

/// Three upper-case letters or digits, a letter first (HL7 v2 §2.5.1).
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.len() == 3
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

fn split_parts(text: &str) -> Result<(&str, [u16; 2]), String> {
    let mut pieces = text.split('.');
    let head = pieces.next().unwrap_or_default();
    let mut parts = [0, 0];
    for part in &mut parts {
        match pieces.next() {
            Some(piece) => *part = number(piece)?,
            None => break,
        }
    }
    if pieces.next().is_some() {
        return Err(format!("`{text}` goes deeper than HL7 does"));
    }
    Ok((head, parts))
}

fn number(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(number) if (1..=NUMBER_MAX).contains(&number) && !text.starts_with(['0', '+']) => Ok(number),
        _ => Err(format!("`{text}` is not a number from 1 to {NUMBER_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_guides_paths() {
        let own = Base::Segment("PV1");
        let segment = |s: Option<&str>, field, parts| Source::Segment { segment: s.map(SmolStr::new), field, parts };
        assert_eq!(parse("PV1-3.2", own), Ok(segment(None, 3, [2, 0])));
        assert_eq!(parse("MSH-9.2.1", own), Ok(segment(Some("MSH"), 9, [2, 1])));
        assert_eq!(parse("PV1", own), Ok(segment(None, 0, [0, 0])));
        let names = ["XPN".to_owned(), "CE".to_owned()];
        let base = Base::Datatypes(&names);
        assert_eq!(parse("XPN", base), Ok(Source::Value { parts: [0, 0] }));
        assert_eq!(parse("CE.1.2", base), Ok(Source::Value { parts: [1, 2] }));
        assert_eq!(parse("PID-11", base), Ok(segment(Some("PID"), 11, [0, 0])));
        for bad in ["PV1-", "PV1-0", "PV1-1.2.3.4", "pv1-1", "XPNN.1", "PV1-+1", "PV1-01", ""] {
            assert!(parse(bad, own).is_err(), "{bad}");
            assert!(parse(bad, base).is_err(), "{bad}");
        }
    }
}
