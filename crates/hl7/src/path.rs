//! Paths into a message: `PV1-3.2`, `PID-3[2].4.1`, `OBX[3]-5`; and locations as ERL and as text.

use std::fmt;
use std::str::FromStr;

/// Names a field or a part of one. Numbers count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// `PID`
    pub segment: String,
    /// Which segment of that name.
    pub occurrence: usize,
    /// Field number.
    pub field: usize,
    /// Repetition, where one is meant.
    pub repetition: Option<usize>,
    /// Component, where one is meant.
    pub component: Option<usize>,
    /// Subcomponent, where one is meant.
    pub subcomponent: Option<usize>,
}

/// A text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a path such as PID-3[2].4.1 or OBX[3]-5")]
pub struct PathError;

impl Path {
    /// A whole field of the first segment of a name.
    pub fn field(segment: &str, field: usize) -> Self {
        Self { segment: segment.into(), occurrence: 1, field, repetition: None, component: None, subcomponent: None }
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (head, tail) = text.split_once('-').ok_or(PathError)?;
        let (segment, occurrence) = indexed(head)?;
        let name = segment.len() == 3 && segment.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let mut parts = tail.split('.');
        let (field, repetition) = indexed(parts.next().ok_or(PathError)?)?;
        let component = parts.next().map(number).transpose()?;
        let subcomponent = parts.next().map(number).transpose()?;
        if !name || parts.next().is_some() {
            return Err(PathError);
        }
        Ok(Self {
            segment: segment.into(),
            occurrence: occurrence.unwrap_or(1),
            field: number(field)?,
            repetition,
            component,
            subcomponent,
        })
    }
}

fn number(text: &str) -> Result<usize, PathError> {
    if text.is_empty() || text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(PathError);
    }
    text.parse().map_err(|_| PathError)
}

/// `NAME` or `NAME[n]`.
fn indexed(text: &str) -> Result<(&str, Option<usize>), PathError> {
    match text.split_once('[') {
        None => Ok((text, None)),
        Some((name, index)) => Ok((name, Some(number(index.strip_suffix(']').ok_or(PathError)?)?))),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.segment)?;
        if self.occurrence > 1 {
            write!(f, "[{}]", self.occurrence)?;
        }
        write!(f, "-{}", self.field)?;
        if let Some(n) = self.repetition {
            write!(f, "[{n}]")?;
        }
        if let Some(n) = self.component {
            write!(f, ".{n}")?;
            if let Some(n) = self.subcomponent {
                write!(f, ".{n}")?;
            }
        }
        Ok(())
    }
}

/// A place in a message that an error or a ledger entry is about. Numbers count from 1; 0 means "not said".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Segment name, three bytes.
    pub segment: [u8; 3],
    /// Which segment of that name.
    pub occurrence: u32,
    /// Field.
    pub field: u32,
    /// Repetition.
    pub repetition: u32,
    /// Component.
    pub component: u32,
    /// Subcomponent.
    pub subcomponent: u32,
}

impl Location {
    /// A segment; a name that is not three ASCII characters is written `???`.
    pub fn segment(name: &str, occurrence: u32) -> Self {
        let segment = <[u8; 3]>::try_from(name.as_bytes()).ok().filter(|n| n.is_ascii()).unwrap_or(*b"???");
        Self { segment, occurrence, ..Self::default() }
    }

    /// A field of the first segment of a name.
    pub fn field(name: &str, field: u32) -> Self {
        Self { field, ..Self::segment(name, 1) }
    }

    /// The segment's name.
    pub fn segment_name(&self) -> &str {
        std::str::from_utf8(&self.segment).unwrap_or("???")
    }

    /// As an ERL: `PID^1^3^1^4` (HL7 v2.5.1 §2.A.28). What is not said stands as 1 where something follows it.
    pub fn erl(&self, component_separator: char) -> String {
        let mut text = self.segment_name().to_owned();
        let numbers = [self.occurrence.max(1), self.field, self.repetition, self.component, self.subcomponent];
        // A place below no field would be the segment's.
        let said =
            if self.field == 0 { 1 } else { numbers.iter().rposition(|&n| n > 0).map_or(1, |at| at.saturating_add(1)) };
        for n in numbers.into_iter().take(said) {
            text.push(component_separator);
            text.push_str(&n.max(1).to_string());
        }
        text
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.segment_name())?;
        if self.occurrence > 1 {
            write!(f, "[{}]", self.occurrence)?;
        }
        if self.field > 0 {
            write!(f, "-{}", self.field)?;
            if self.repetition > 1 {
                write!(f, "[{}]", self.repetition)?;
            }
            if self.component > 0 {
                write!(f, ".{}", self.component)?;
                if self.subcomponent > 0 {
                    write!(f, ".{}", self.subcomponent)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths() -> impl Strategy<Value = Path> {
        let index = || proptest::option::of(1..=usize::MAX);
        let parts = proptest::option::of((1..=usize::MAX, index()));
        ("[A-Z0-9]{3}", 1..100_usize, 1..=usize::MAX, index(), parts).prop_map(
            |(segment, occurrence, field, repetition, parts)| Path {
                segment,
                occurrence,
                field,
                repetition,
                component: parts.map(|(component, _)| component),
                subcomponent: parts.and_then(|(_, subcomponent)| subcomponent),
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_path_reads_back(path in paths()) {
            prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path));
        }

        #[test]
        fn any_text_is_a_path_or_none(text in "[A-Z0-9\\[\\].é-]{0,12}|.{0,20}") {
            if let Ok(path) = text.parse::<Path>() {
                prop_assert_eq!(path.to_string().parse::<Path>(), Ok(path));
            }
        }
    }

    #[test]
    fn paths_read_as_they_are_written() {
        for text in ["PID-3", "PV1-3.2", "PID-3[2].4.1", "OBX[3]-5", "ZB1-1[1]"] {
            assert_eq!(text.parse::<Path>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "PID",
            "PID-",
            "PID-0",
            "PID-03",
            "pid-3",
            "PID-3.",
            "PID-3.1.1.1",
            "PID[0]-3",
            "PIDX-3",
            "PID-3[",
            "PID-3[a]",
        ] {
            assert!(text.parse::<Path>().is_err(), "{text}");
        }
    }

    #[test]
    fn locations_are_written_for_people_and_for_erl() {
        let at = Location { repetition: 2, component: 4, ..Location::field("PID", 3) };
        assert_eq!(at.to_string(), "PID-3[2].4");
        assert_eq!(at.erl('^'), "PID^1^3^2^4");
        assert_eq!(Location::segment("EVN", 1).erl('^'), "EVN^1");
        assert_eq!(Location::field("PID", 3).erl('$'), "PID$1$3");
        assert_eq!(Location { component: 4, ..Location::field("PID", 3) }.erl('^'), "PID^1^3^1^4");
        assert_eq!(Location { component: 4, ..Location::segment("OBX", 7) }.erl('^'), "OBX^7");
        assert_eq!(Location::segment("longer", 1).to_string(), "???");
    }
}
