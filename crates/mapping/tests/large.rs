//! Large messages map in time that grows with their length (M19): each of these would take minutes if any step looked at
//! all of the message for each part of it.

mod support;

use std::fmt::Write;

use support::{a01, map_with, of, plan, register, sender};

#[test]
fn many_segments() {
    let mut segments = "PID|1||123^^^HOSP^MR\nPV1|1|I|||||||||||||||||V1^^^HOSP^VN".to_owned();
    for n in 0..6000 {
        let _ = write!(segments, "\nDG1|{n}||C{n}^x^I10||||||||||||1\nXYZ|{n}");
    }
    let text = a01(&segments);
    let plan = plan();
    let mapped = map_with(&plan, &text, &sender()).unwrap();
    assert_eq!(of(&mapped, "Condition").len(), 6000);
    assert_eq!(mapped.issues.len(), 6000);
    assert_eq!(mapped.issues.last().unwrap().location.to_string(), "XYZ[6000]");
    let items = &of(&mapped, "Encounter")[0].registers["diagnosis[1]"];
    assert_eq!(items.value.as_ref().unwrap().items().len(), 6000);
    let message = hl7::Message::parse(&text).unwrap();
    assert!(mapped.ledger.counts(&message, &plan).values().sum::<u64>() > 30_000);
}

#[test]
fn many_repetitions_and_a_long_field() {
    let numbers: Vec<String> = (0..20_000).map(|n| format!("{n}^^^HOSP^MR")).collect();
    let long = "A".repeat(1 << 20);
    let dates = vec!["19800101"; 20_000].join("~");
    let text = a01(&format!("PID|1||{}||{long}^John||{dates}", numbers.join("~")));
    let plan = plan();
    let mapped = map_with(&plan, &text, &sender()).unwrap();
    let patient = of(&mapped, "Patient")[0];
    assert_eq!(patient.registers["identifier[2]"].value.as_ref().unwrap().items().len(), 20_000);
    assert!(register(patient, "name[1]").len() > 1 << 20);
    assert_eq!(mapped.issues.len(), 19_999);
    let message = hl7::Message::parse(&text).unwrap();
    assert!(mapped.ledger.leaves(&message, &plan).len() > 80_000);
}
