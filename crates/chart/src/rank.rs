//! Which of two events at the same clinical clock comes first (DESIGN §3.1), for every trigger event of HL7 table 0003
//! that an ADT message may carry.

/// The place of a trigger event among events of one instant: a visit is announced, begins, moves, is updated and ends;
/// what a cancel or a merge speaks of is there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// Pre-admission, pending admission, a person added.
    Announced = 1,
    /// Admission and registration.
    Began = 2,
    /// Transfers, class changes, leaves, tracking, swaps.
    Moved = 3,
    /// Changes of what is known; every message that is no ADT.
    Updated = 4,
    /// Discharge.
    Ended = 5,
    /// Cancels, deletions and unlinking.
    Cancelled = 6,
    /// Merges, moves and changes of identifiers, links.
    Merged = 7,
}

impl Rank {
    /// The rank of a trigger event (MSH-9.2): `A01`. One that is not listed is an update.
    pub fn of(trigger_event: &str) -> Rank {
        match trigger_event {
            "A05" | "A14" | "A28" => Rank::Announced,
            "A01" | "A04" => Rank::Began,
            "A02" | "A06" | "A07" | "A09" | "A10" | "A15" | "A17" | "A20" | "A21" | "A22" => Rank::Moved,
            "A03" => Rank::Ended,
            "A11" | "A12" | "A13" | "A23" | "A25" | "A26" | "A27" | "A29" | "A32" | "A33" | "A37" | "A38" | "A52"
            | "A53" | "A55" | "A62" => Rank::Cancelled,
            "A18" | "A24" | "A30" | "A34" | "A35" | "A36" | "A39" | "A40" | "A41" | "A42" | "A43" | "A44" | "A45"
            | "A46" | "A47" | "A48" | "A49" | "A50" | "A51" => Rank::Merged,
            // A08 A16 A19 A31 A54 A60 A61 and whatever is no ADT.
            _ => Rank::Updated,
        }
    }

    /// The number that sorts as the rank does.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Reads [`Rank::number`] back.
    pub fn from_number(number: u8) -> Option<Rank> {
        use Rank::{Announced, Began, Cancelled, Ended, Merged, Moved, Updated};
        [Announced, Began, Moved, Updated, Ended, Cancelled, Merged].into_iter().find(|rank| rank.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_the_design() {
        let chain: [&[&str]; 7] = [
            &["A05"],
            &["A01", "A04"],
            &["A02", "A06", "A07"],
            &["A08", "A31", "R01", ""],
            &["A03"],
            &["A11", "A12", "A13", "A23", "A25", "A26", "A27", "A29", "A38", "A52", "A53", "A55", "A62"],
            &["A18", "A34", "A35", "A36", "A39", "A40", "A41", "A42", "A45", "A47", "A50"],
        ];
        for (i, events) in chain.iter().enumerate() {
            for event in *events {
                assert_eq!(usize::from(Rank::of(event).number()), i + 1, "{event}");
            }
        }
    }

    #[test]
    fn every_adt_event_has_its_place() {
        let updates = ["A08", "A16", "A19", "A31", "A54", "A60", "A61"];
        // A56 to A59 are not assigned (HL7 table 0003).
        for n in (1..=55).chain(60..=62) {
            let event = format!("A{n:02}");
            assert_eq!(Rank::of(&event) == Rank::Updated, updates.contains(&event.as_str()), "{event}");
        }
    }

    #[test]
    fn numbers_read_back() {
        for number in 0..=u8::MAX {
            assert_eq!(
                Rank::from_number(number).is_some_and(|rank| rank.number() == number),
                (1..=7).contains(&number)
            );
        }
    }
}
