//! The header fields an answer takes over, from a message or from what can be read of one.

use crate::delimiters::Delimiters;
use crate::escape::{escape, escape_controls};
use crate::message::Message;

/// MSH-3/4, 5/6, 9.2, 10, 11, 12 and 18 as they are written into the answer.
#[derive(Default)]
pub(super) struct Header {
    pub sending: [String; 2],
    pub receiving: [String; 2],
    pub event: String,
    pub control_id: String,
    pub processing_id: String,
    pub version: String,
    pub charset: String,
}

impl Header {
    pub(super) fn of(message: &Message<'_>) -> Self {
        let Some(msh) = message.segment("MSH") else { return Self::default() };
        let event = msh.field(9).component(2).raw();
        Self::from_fields(event, |n| escape_controls(msh.field(n).raw(), message.delimiters()).into_owned())
    }

    fn from_fields(event: &str, field: impl Fn(usize) -> String) -> Self {
        Self {
            sending: [field(3), field(4)],
            receiving: [field(5), field(6)],
            event: event.replace(char::is_control, ""),
            control_id: field(10),
            processing_id: field(11),
            version: field(12),
            charset: field(18),
        }
    }

    /// What can be read of an MSH that is not first, in lower case, of UTF-16, or has unusable separators; and the
    /// separators to answer with.
    pub(super) fn salvage(text: &str) -> (Self, Delimiters) {
        let recommended = Delimiters::default();
        // Single-byte text that was sent as UTF-16 has a NUL in each character.
        let text = text.replace('\0', "");
        let Some(rest) = text.split(['\r', '\n']).find_map(header) else { return (Self::default(), recommended) };
        let Some(separator) = rest.chars().next() else { return (Self::default(), recommended) };
        let fields: Vec<&str> = rest.split(separator).take(18).collect();
        let at = |n: usize| fields.get(n.saturating_sub(1)).copied().unwrap_or_default();
        match u8::try_from(separator).ok().and_then(|field| Delimiters::read(field, at(2)).ok()) {
            Some(own) => {
                let event = at(9).split(char::from(own.component)).nth(1).unwrap_or_default();
                (Self::from_fields(event, |n| escape_controls(at(n), own).into_owned()), own)
            }
            // With separators that can't be used, values are written with the recommended ones: whole and escaped.
            None => (Self::from_fields("", |n| escape(at(n), recommended).into_owned()), recommended),
        }
    }
}

/// What follows the name in a line that is meant as MSH.
fn header(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let (name, rest) = line.split_at_checked(3)?;
    let separated = rest.chars().next().is_some_and(|c| !c.is_alphanumeric());
    (name.eq_ignore_ascii_case("MSH") && separated).then_some(rest)
}
