//! Which structure a message has: MSH-9.3, else the event, else its content (HL7 v2 §2.15.9.9, versions 2.1 to 2.9).
//! Not here: placing segments (`grammar`).

use hl7::{Location, Message, Segment};
use smol_str::SmolStr;

use crate::grammar::{Placement, Placer};
use crate::mapped::MapError;
use crate::plan::{Plan, Structure};

/// The structure's index. The event must have rules; MSH-9.3 counts where it is one of the event's structures or where
/// the content fits it better than those.
pub(crate) fn choose(plan: &Plan, message: &Message<'_>) -> Result<usize, MapError> {
    let header = message.segment("MSH");
    let part = |n: usize| {
        let text = header.map(|header| header.field(9).component(n).text().trim().to_owned());
        text.filter(|text| !text.is_empty())
    };
    // 2.1 and 2.2 may leave the event to EVN-1.
    let event = part(2).or_else(|| {
        let event = message.segment("EVN")?;
        let text = event.field(1).component(1).text().trim().to_owned();
        (!text.is_empty()).then_some(text)
    });
    let unsupported = || MapError::UnsupportedEvent { location: message_type() };
    let (code, event) = part(1).zip(event).ok_or_else(unsupported)?;
    let of_event = plan.events.get(&SmolStr::from_iter([&code, "^", &event])).ok_or_else(unsupported)?;
    let named = part(3).and_then(|name| {
        let prefix = name.split('_').next() == Some(code.as_str());
        plan.structures.iter().position(|structure| prefix && structure.name == name)
    });
    match (named, of_event.as_slice()) {
        (Some(named), _) if of_event.contains(&named) => Ok(named),
        (None, [only]) => Ok(*only),
        (named, _) => best(plan, message, of_event.iter().copied().chain(named)).ok_or_else(unsupported),
    }
}

/// MSH-9.
pub(crate) fn message_type() -> Location {
    Location::field("MSH", 9)
}

/// The candidate with the fewest segments out of place; the first of equals.
fn best(plan: &Plan, message: &Message<'_>, candidates: impl Iterator<Item = usize>) -> Option<usize> {
    candidates
        .filter_map(|index| Some((misfits(plan.structures.get(index)?, message), index)))
        .min_by_key(|(n, _)| *n)
        .map(|(_, index)| index)
}

fn misfits(structure: &Structure, message: &Message<'_>) -> usize {
    let mut placer = Placer::new(&structure.grammar);
    let fits = |segment: Segment<'_, '_>| match placer.place(segment.name()) {
        Placement::Placed(at_slot) => !at_slot.out_of_order,
        Placement::Repeated | Placement::Unknown => false,
    };
    message.segment_count().saturating_sub(message.segments().map(fits).filter(|fits| *fits).count())
}
