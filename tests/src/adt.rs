//! Invented ADT messages: a header and an event for given segments. Nothing in them is of a real person.

/// An ADT message of `North` with MSH, EVN and the given segments; `clock` is both MSH-7 and EVN-2.
pub fn message(event: &str, control_id: &str, clock: &str, segments: &[&str]) -> String {
    stamped(event, control_id, clock, clock, segments)
}

/// The same with an MSH-7 of its own.
pub fn stamped(event: &str, control_id: &str, sent: &str, clock: &str, segments: &[&str]) -> String {
    let mut text =
        format!("MSH|^~\\&|WARD|NORTH|SLUICE|HUB|{sent}||ADT^{event}|{control_id}|P|2.5.1\rEVN|{event}|{clock}\r");
    for segment in segments {
        text.push_str(segment);
        text.push('\r');
    }
    text
}

/// PID of the patient with this record number of `North`; `rest` begins with PID-5.
pub fn pid(mrn: &str, rest: &str) -> String {
    format!("PID|1||{mrn}^^^NORTH^MR||{rest}")
}

/// PV1 of an inpatient visit; `location` is PV1-3, `doctor` PV1-7, `admitted` PV1-44.
pub fn pv1(visit: &str, location: &str, doctor: &str, admitted: &str) -> String {
    let mut fields = vec![String::new(); 45];
    fields[0] = "PV1".into();
    fields[1] = "1".into();
    fields[2] = "I".into();
    fields[3] = location.into();
    fields[7] = doctor.into();
    fields[19] = if visit.is_empty() { String::new() } else { format!("{visit}^^^NORTH^VN") };
    fields[44] = admitted.into();
    fields.join("|")
}
