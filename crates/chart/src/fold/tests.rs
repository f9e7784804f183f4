//! Registers case by case: strength before order, nulls, contradictions, checkpoints that are none.

use super::*;
use crate::checkpoint::RestoreError;
use crate::clock::Clock;
use crate::rank::Rank;
use mapping::Register;

fn patient() -> ResourceKey {
    ResourceKey { resource_type: "Patient".into(), system: "urn:s".into(), value: "1".into() }
}

/// A message at a second that says `gender`.
fn event(second: i64, hash: u8, strength: Strength, value: Option<&str>) -> Event {
    let key = OrderKey {
        clock: Clock::new(second, 0),
        sequence: 0,
        rank: Rank::Updated,
        message_time: None,
        control_id: SmolStr::default(),
        hash: [hash; 32],
    };
    let register = Register { strength, value: value.map(Json::from) };
    let registers = BTreeMap::from([(RegisterPath::new("gender"), register)]);
    let contribution = Contribution { resource: patient(), scope: Scope::Subject, registers };
    Event { message_id: SmolStr::from(format!("{second}-{hash}")), key, contributions: vec![contribution] }
}

fn gender(events: &[Event]) -> Option<Json> {
    Chart::fold(events).get(&patient()).unwrap().registers["gender"].value.clone()
}

#[test]
fn the_later_message_wins_unless_it_only_fills() {
    let early = event(1, 0, Strength::Asserts, Some("male"));
    let late = event(2, 0, Strength::Asserts, Some("female"));
    let filler = event(3, 0, Strength::Fills, Some("other"));
    assert_eq!(gender(&[late.clone(), early.clone()]), Some(Json::from("female")));
    assert_eq!(gender(&[filler.clone(), early]), Some(Json::from("male")));
    assert_eq!(gender(std::slice::from_ref(&filler)), Some(Json::from("other")));
    assert_eq!(gender(&[late, event(3, 0, Strength::Asserts, None), filler]), None);
}

#[test]
fn only_a_contradiction_that_the_hash_decides_is_ambiguous() {
    let mut chart = Chart::default();
    let mut said = |event: Event| chart.absorb(&event).ambiguous.len();
    assert_eq!(said(event(1, 1, Strength::Asserts, Some("male"))), 0);
    assert_eq!(said(event(1, 2, Strength::Asserts, Some("male"))), 0, "the same value contradicts nobody");
    assert_eq!(said(event(1, 0, Strength::Asserts, Some("female"))), 1, "also when it loses");
    assert_eq!(said(event(1, 0, Strength::Asserts, Some("female"))), 0, "raised once");
    assert_eq!(said(event(1, 3, Strength::Fills, Some("other"))), 0, "strength decides");
    assert_eq!(chart.ambiguous(), [Ambiguity { resource: patient(), path: "gender".into() }]);
    assert_eq!(chart.absorb(&event(2, 0, Strength::Asserts, Some("other"))).ambiguous, []);
    assert_eq!(chart.ambiguous(), [], "a later message settles it");
}

#[test]
fn a_contradiction_survives_its_checkpoint() {
    let events = [event(1, 1, Strength::Asserts, Some("male")), event(1, 2, Strength::Asserts, None)];
    let chart = Chart::fold(&events);
    let mut restored = Chart::default();
    assert_eq!(restored.restore(&chart.save(&patient())).unwrap(), patient());
    assert_eq!(restored, chart);
    assert_eq!(restored.ambiguous().len(), 1);
}

#[test]
fn a_resource_is_shared_as_soon_as_one_message_says_so() {
    let mut shared = event(1, 0, Strength::Asserts, Some("male"));
    shared.contributions[0].scope = Scope::Shared;
    let chart = Chart::fold(&[shared, event(2, 0, Strength::Asserts, Some("male"))]);
    assert_eq!(chart.scope(&patient()), Scope::Shared);
    assert_eq!(Chart::default().scope(&patient()), Scope::Subject);
}

#[test]
fn what_an_event_speaks_of_is_touched_even_if_it_changes_nothing() {
    let events = [event(2, 0, Strength::Asserts, Some("male")), event(1, 0, Strength::Asserts, Some("female"))];
    let mut chart = Chart::fold(&events);
    let absorbed = chart.absorb(&events[1]);
    assert_eq!(absorbed.touched, BTreeSet::from([patient()]));
}

#[test]
fn bytes_that_are_no_checkpoint_are_refused_without_effect() {
    let chart = Chart::fold(&[event(1, 0, Strength::Asserts, Some("5.00"))]);
    let saved = String::from_utf8(chart.save(&patient())).unwrap();
    let restore = |text: &str| {
        let mut chart = Chart::default();
        let fault = chart.restore(text.as_bytes()).unwrap_err();
        assert_eq!(chart, Chart::default());
        fault
    };
    assert!(matches!(restore(""), RestoreError::Malformed(_)));
    assert!(matches!(restore(&saved.replace(r#""form":1"#, r#""form":2"#)), RestoreError::Form(2)));
    assert!(matches!(restore(&saved.replace(r#""m":0"#, r#""m":1"#)), RestoreError::Inconsistent));
    assert!(matches!(restore(&saved.replace(r#"[["01"#, r#"[["07"#)), RestoreError::Inconsistent));
    assert!(!restore(&saved.replace(r#""form":1"#, r#""form":"urn:s""#)).to_string().contains("urn:s"));
}
