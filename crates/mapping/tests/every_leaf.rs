//! No silent loss: whatever the message, mapping answers, and every valued leaf has exactly one fate.

mod support;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use mapping::{FateKind, Plan};
use proptest::prelude::*;
use support::{map_with, plan, sender};

static PLAN: LazyLock<Plan> = LazyLock::new(plan);

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        3 => "[A-Z]{1,3}",
        1 => "[0-9]{1,14}",
        1 => Just("\"\"".to_owned()),
        1 => Just("20240102".to_owned()),
        1 => "[ -~&&[^|^~\\\\&\r]]{0,12}",
        1 => Just("\\T\\x\\".to_owned()),
    ]
}

fn joined(part: impl Strategy<Value = String>, separator: &'static str, most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(part, 0..most).prop_map(move |parts| parts.join(separator))
}

fn segment() -> impl Strategy<Value = String> {
    let names = prop_oneof![
        6 => prop::sample::select(vec!["PID", "PV1", "AL1", "DG1", "NK1", "EVN", "IN1", "PD1", "MRG"]).prop_map(str::to_owned),
        1 => "[A-Z][A-Z0-9]{2}",
        1 => Just("MSH".to_owned()),
    ];
    let field = joined(joined(joined(leaf(), "&", 3), "^", 8), "~", 3);
    (names, joined(field, "|", 46)).prop_map(|(name, fields)| format!("{name}|{fields}"))
}

fn message() -> impl Strategy<Value = String> {
    let event = prop::sample::select(vec!["ADT^A01^ADT_A01", "ADT^A40", "ADT^A17^ADT_A17", "ADT^A08^ADT_A39", "ADT"]);
    (event, prop::collection::vec(segment(), 0..9), any::<bool>()).prop_map(|(event, segments, with_patient)| {
        let mut text = format!("MSH|^~\\&|A|H|||20240102||{event}|1|P|2.5.1\rEVN|A01|20240102\r");
        if with_patient {
            text.push_str("PID|1||1^^^H^MR||Smith^John\r");
        }
        for segment in segments {
            text.push_str(&segment);
            text.push('\r');
        }
        text
    })
}

/// Places of all valued leaves, found by splitting alone.
fn leaves(text: &str) -> Vec<(usize, [usize; 4])> {
    let mut found = Vec::new();
    for (number, segment) in text.split('\r').filter(|s| !s.is_empty()).enumerate() {
        let mut fields: Vec<&str> = segment.split('|').collect();
        let header = fields[0] == "MSH";
        if header {
            fields.insert(1, "");
            found.push((number, [1, 1, 1, 1]));
            if fields.len() > 2 && !fields[2].is_empty() {
                found.push((number, [2, 1, 1, 1]));
            }
        }
        for (f, field) in fields.iter().enumerate().skip(if header { 3 } else { 1 }) {
            for (r, repetition) in field.split('~').enumerate() {
                for (c, component) in repetition.split('^').enumerate() {
                    for (s, leaf) in component.split('&').enumerate() {
                        if !leaf.is_empty() {
                            found.push((number, [f, r + 1, c + 1, s + 1]));
                        }
                    }
                }
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn every_valued_leaf_has_one_fate(text in message()) {
        let message = hl7::Message::parse(&text).unwrap();
        if let Ok(mapped) = map_with(&PLAN, &text, &sender()) {
            let told = mapped.ledger.leaves(&message, &PLAN);
            let wanted = leaves(&text);
            prop_assert_eq!(told.len(), wanted.len());
            for (leaf, (_, place)) in told.iter().zip(&wanted) {
                let at = leaf.location;
                prop_assert_eq!([at.field, at.repetition, at.component, at.subcomponent].map(|n| n as usize), *place);
            }
            let distinct: BTreeSet<_> = told.iter().map(|leaf| leaf.location).collect();
            prop_assert!(distinct.len() <= told.len());
            let counted: u64 = mapped.ledger.counts(&message, &PLAN).values().sum();
            prop_assert_eq!(counted, told.len() as u64);
            let again = map_with(&PLAN, &text, &sender()).unwrap();
            prop_assert_eq!(mapped, again);
        }
    }

    #[test]
    fn what_is_mapped_as_text_is_in_a_contribution(family in "[A-Z]{8}", given in "[A-Z]{8}", ward in "[A-Z]{8}", code in "[A-Z]{8}") {
        let text = support::a01(&format!(
            "PID|1||1^^^H^MR||{family}^{given}\nPV1|1|I|{ward}||||||||||||||||V1^^^H^VN\nAL1|1||{code}^{code}"
        ));
        let mapped = map_with(&PLAN, &text, &sender()).unwrap();
        let message = hl7::Message::parse(&text).unwrap();
        let all: String = mapped.contributions.iter().flat_map(|c| c.registers.values()).filter_map(|r| r.value.as_ref()).map(ToString::to_string).collect();
        for word in [&family, &given, &ward, &code] {
            prop_assert!(all.contains(word.as_str()));
        }
        let lost = mapped.ledger.leaves(&message, &PLAN);
        let failed = lost.iter().filter(|leaf| leaf.fate.kind() == FateKind::Failed).count();
        prop_assert_eq!(failed, 0);
    }

    #[test]
    fn no_text_breaks_the_compiler(path in "(segments|datatypes|messages|codes)/[A-Z]{3}\\.toml|[a-z]{1,8}\\.toml", text in "[ -~\n]{0,200}") {
        let _ = Plan::compile(&[mapping::RuleFile { path: &path, text: &text }]);
    }
}
