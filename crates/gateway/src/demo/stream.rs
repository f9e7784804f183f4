//! The invented ADT stream that `sluice demo` plays: whole visits, then what networks do to them.
//!
//! The same messages in the same order every time, so that two runs can be compared. People, places and numbers are made up.

use std::fmt::Write as _;

/// What is special about a message of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In its turn, for the first time.
    InOrder,
    /// For the first time, but after messages about later events.
    Late,
    /// The same bytes again.
    Duplicate,
    /// The same content with a new MSH-7 and MSH-10.
    Resend,
    /// An event that no rules exist for.
    NoRules,
    /// Something a receiver must refuse or put aside.
    Faulty,
}

impl Kind {
    /// As shown in the demo's table.
    pub fn label(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Late => "late",
            Self::Duplicate => "duplicate",
            Self::Resend => "re-stamped resend",
            Self::NoRules => "event without rules",
            Self::Faulty => "faulty",
        }
    }
}

/// One message to send.
#[derive(Clone, Debug)]
pub struct Step {
    /// Segments ended by CR.
    pub message: String,
    /// What is special about it.
    pub kind: Kind,
}

const FAMILIES: [&str; 12] = [
    "Okafor",
    "Lindqvist",
    "Moreau",
    "Tanaka",
    "Kowalska",
    "Haddad",
    "Byrne",
    "Castellano",
    "Novak",
    "Eriksen",
    "Mbeki",
    "Sørensen",
];
const GIVENS: [(&str, &str); 12] = [
    ("Ada", "F"),
    ("Bo", "M"),
    ("Claire", "F"),
    ("Daichi", "M"),
    ("Ewa", "F"),
    ("Farid", "M"),
    ("Grainne", "F"),
    ("Hugo", "M"),
    ("Irena", "F"),
    ("Jonas", "M"),
    ("Khanyi", "F"),
    ("Lars", "M"),
];
const WARDS: [&str; 4] = ["CARD", "ORTH", "NEUR", "MATY"];
const DOCTORS: [(&str, &str, &str); 5] = [
    ("4711", "Adeyemi", "Tola"),
    ("4712", "Brandt", "Ilse"),
    ("4713", "Costa", "Rui"),
    ("4714", "Dhillon", "Harpreet"),
    ("4715", "Ek", "Maja"),
];

/// A clock that only goes forward, in minutes from the stream's first day.
struct Stamp(usize);

impl Stamp {
    fn text(&self) -> String {
        let (day, minute) = (self.0 / 1440, self.0 % 1440);
        format!("202601{:02}{:02}{:02}00+0000", 5 + day % 20, minute / 60, minute % 60)
    }
}

/// One visit's place in the tables above.
struct Visit {
    patient: usize,
    number: usize,
}

impl Visit {
    fn message(
        &self,
        event: &str,
        structure: &str,
        control: usize,
        at: &Stamp,
        ward: usize,
        discharged: bool,
    ) -> String {
        let (given, sex) = GIVENS[self.patient % GIVENS.len()];
        let family = FAMILIES[self.patient % FAMILIES.len()];
        let (doctor, doctor_family, doctor_given) = DOCTORS[(self.patient + ward) % DOCTORS.len()];
        let ward_name = WARDS[ward % WARDS.len()];
        let time = at.text();
        let mut m = String::new();
        // A String takes every write.
        let _ = write!(
            m,
            "MSH|^~\\&|ADT1|STELLA|SLUICE|HUB|{time}||ADT^{event}^{structure}|ST{control:06}|P|2.5.1|||AL|NE||UNICODE UTF-8\r\
             EVN|{event}|{time}|||{doctor}^{doctor_family}^{doctor_given}^^^^^^STELLA\r\
             PID|1||{mrn}^^^STELLA^MR~{national}^^^NATID^NI||{family}^{given}^^^^^L||19{year}0{month}1{day}|{sex}|||\
             {house} Quay Street^^Port Stella^^PS{house} 1AA^GBR^H||+44 20 7946 0{phone}^PRN^PH||en|S\r",
            mrn = 100_100 + self.patient,
            national = 9_434_765_000_usize + self.patient * 7,
            year = 40 + (self.patient * 7) % 55,
            month = 1 + self.patient % 9,
            day = self.patient % 10,
            house = 10 + self.patient,
            phone = 100 + self.patient * 3,
        );
        if event == "A01" {
            let _ =
                write!(m, "NK1|1|{family}^Sam^^^^^L|SPO^Spouse^HL70063||+44 20 7946 0{}^PRN^PH\r", 900 - self.patient);
        }
        let class = if event == "A05" { "P" } else { "I" };
        let _ = write!(
            m,
            "PV1|1|{class}|{ward_name}^{room}^{bed}^STELLA||||{doctor}^{doctor_family}^{doctor_given}^^^^^^STELLA|||MED|||||||||\
             V{visit:05}^^^STELLA^VN|||||||||||||||||{disposition}||||||||{admitted}|{discharge}\r",
            room = 100 + ward,
            bed = 1 + self.patient % 4,
            visit = self.number,
            disposition = if discharged { "01" } else { "" },
            admitted = Stamp(self.number * 17).text(),
            discharge = if discharged { time.as_str() } else { "" },
        );
        if event == "A01" {
            let _ = write!(
                m,
                "AL1|1|DA|7980^Penicillin^RXNORM|SV|Rash\rDG1|1||I21.9^Acute myocardial infarction^I10||{time}|A\r"
            );
        }
        m
    }
}

/// The stream in the order the events happened, each message once.
pub fn in_order() -> Vec<String> {
    let mut events = Vec::new();
    for patient in 0..FAMILIES.len() {
        let visit = Visit { patient, number: 1 + patient };
        let start = visit.number * 17;
        let mut plan: Vec<(usize, &str, &str, usize, bool)> = Vec::new();
        if patient % 3 == 0 {
            plan.push((start.saturating_sub(10), "A05", "ADT_A05", patient, false));
        }
        plan.push((start, "A01", "ADT_A01", patient, false));
        plan.push((start + 45, "A08", "ADT_A01", patient, false));
        plan.push((start + 190, "A02", "ADT_A02", patient + 1, false));
        if patient % 2 == 0 {
            plan.push((start + 300, "A02", "ADT_A02", patient + 2, false));
        }
        if patient % 4 != 3 {
            plan.push((start + 2000, "A03", "ADT_A03", patient + 2, true));
        }
        for (minute, event, structure, ward, discharged) in plan {
            events.push((minute, patient, event, structure, ward, discharged));
        }
    }
    events.sort_unstable();
    let message = |(control, (minute, patient, event, structure, ward, discharged)): (
        usize,
        (usize, usize, &str, &str, usize, bool),
    )| {
        Visit { patient, number: 1 + patient }.message(event, structure, control + 1, &Stamp(minute), ward, discharged)
    };
    events.into_iter().enumerate().map(message).collect()
}

/// The stream as a network delivers it: some messages late, some again, some re-stamped, some that can't be used.
pub fn as_delivered() -> Vec<Step> {
    let mut waiting: Vec<(usize, String)> = Vec::new();
    let mut steps = Vec::new();
    for (i, message) in in_order().into_iter().enumerate() {
        waiting.sort_by_key(|(due, _)| *due);
        while waiting.first().is_some_and(|(due, _)| *due <= i) {
            let (_, message) = waiting.remove(0);
            steps.push(Step { message, kind: Kind::Late });
        }
        if i % 7 == 3 {
            waiting.push((i + 4 + i % 9, message));
            continue;
        }
        steps.push(Step { message: message.clone(), kind: Kind::InOrder });
        if i % 5 == 1 {
            steps.push(Step { message: message.clone(), kind: Kind::Duplicate });
        }
        if i % 11 == 4 {
            steps.push(Step { message: restamped(&message, i), kind: Kind::Resend });
        }
        if i == 20 {
            steps.extend(unusable());
        }
    }
    steps.extend(waiting.into_iter().map(|(_, message)| Step { message, kind: Kind::Late }));
    let again: Vec<Step> =
        steps.iter().step_by(6).map(|s| Step { message: s.message.clone(), kind: Kind::Duplicate }).collect();
    steps.extend(again);
    steps
}

/// The same content as another transmission: new MSH-7 and MSH-10.
fn restamped(message: &str, i: usize) -> String {
    let mut fields: Vec<&str> = message.split('|').collect();
    let control = format!("RS{i:06}");
    if let Some(time) = fields.get_mut(6) {
        *time = "20260131000000+0000";
    }
    if let Some(id) = fields.get_mut(9) {
        *id = &control;
    }
    fields.join("|")
}

/// A result (no rules yet), a patient without identifier, and a text that is no HL7.
fn unusable() -> Vec<Step> {
    let head = "MSH|^~\\&|LAB|STELLA|SLUICE|HUB|20260106090000+0000||";
    vec![
        Step {
            message: format!(
                "{head}ORU^R01^ORU_R01|LB000001|P|2.5.1\rPID|1||100100^^^STELLA^MR||Okafor^Ada\rOBR|1||F1|718-7^Hb^LN\r\
                 OBX|1|NM|718-7^Haemoglobin^LN||13.50|g/dL|||||F\r"
            ),
            kind: Kind::NoRules,
        },
        Step {
            message: format!(
                "{head}ADT^A08^ADT_A01|LB000002|P|2.5.1\rEVN|A08|20260106090000+0000\rPID|1||||Nobody^Known\rPV1|1|I\r"
            ),
            kind: Kind::Faulty,
        },
        Step { message: "this is not an HL7 message".into(), kind: Kind::Faulty },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delivered_stream_has_every_message_and_every_kind() {
        let steps = as_delivered();
        for message in in_order() {
            assert!(steps.iter().any(|s| s.message == message));
        }
        for kind in [Kind::InOrder, Kind::Late, Kind::Duplicate, Kind::Resend, Kind::NoRules, Kind::Faulty] {
            assert!(steps.iter().any(|s| s.kind == kind), "{kind:?}");
        }
    }

    #[test]
    fn every_visit_has_its_own_number_and_times_go_forward() {
        let times: Vec<String> =
            in_order().iter().map(|m| m.split('|').nth(6).unwrap_or_default().to_owned()).collect();
        assert!(times.is_sorted());
    }
}
