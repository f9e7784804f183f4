//! Rendering, case by case: a register with `value`, the second its message was sent in, and what comes of it.

use super::*;
use crate::clock::Clock;
use crate::event::Event;
use crate::order::OrderKey;
use crate::rank::Rank;
use mapping::{Contribution, Register, Scope, Strength};

fn key(resource_type: &str) -> ResourceKey {
    ResourceKey { resource_type: resource_type.into(), system: "urn:s".into(), value: "1".into() }
}

/// One event per second, each saying (register, JSON or `-` for a null).
fn render(resource_type: &str, said: &[&[(&str, &str)]]) -> Rendered {
    let events = said.iter().zip(0..).map(|(registers, second)| {
        let register = |text: &str| Register {
            strength: Strength::Asserts,
            value: (text != "-").then(|| Json::parse(text).unwrap()),
        };
        let registers = registers.iter().map(|(path, text)| (SmolStr::new(path), register(text))).collect();
        let order = OrderKey {
            clock: Clock::new(second, 0),
            sequence: 0,
            rank: Rank::Updated,
            message_time: None,
            control_id: SmolStr::default(),
            hash: [0; 32],
        };
        let contribution = Contribution { resource: key(resource_type), scope: Scope::Subject, registers };
        Event { message_id: SmolStr::from(format!("m{second}")), key: order, contributions: vec![contribution] }
    });
    Chart::fold(&events.collect::<Vec<_>>()).render(&key(resource_type)).unwrap()
}

fn patient(said: &[&[(&str, &str)]]) -> String {
    let text = render("Patient", said).json.to_string();
    text.replace(r#"{"resourceType":"Patient""#, "{").replace("{,", "{")
}

#[test]
fn items_stand_in_the_order_of_slots() {
    let identifier = |value: &str| format!(r#"[{{"system":"urn:s","value":"{value}"}}]"#);
    let (own, ten, two, same) = (identifier("own"), identifier("10"), identifier("2"), identifier("2"));
    let said = [
        ("identifier[sluice]", own.as_str()),
        ("identifier[10]", &ten),
        ("identifier[2]", &two),
        ("identifier[3]", &same),
    ];
    let rendered = render("Patient", &[&said]);
    let values: Vec<&str> = rendered
        .json
        .get("identifier")
        .unwrap()
        .items()
        .iter()
        .map(|i| i.get("value").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(values, ["2", "10", "own"]);
}

#[test]
fn nested_paths_share_their_parents() {
    let rendered = render(
        "Encounter",
        &[&[
            ("status", r#""finished""#),
            ("class", r#"{"code":"IMP"}"#),
            ("period.start", r#""2024-01-01""#),
            ("period.end", r#""2024-01-02""#),
            ("hospitalization.specialArrangement[1]", r#"[{"text":"wheelchair"}]"#),
            ("hospitalization.dischargeDisposition", r#"{"text":"home"}"#),
        ]],
    );
    assert_eq!(
        rendered.json.to_string(),
        concat!(
            r#"{"resourceType":"Encounter","class":{"code":"IMP"},"hospitalization":{"dischargeDisposition":{"text":"home"},"#,
            r#""specialArrangement":[{"text":"wheelchair"}]},"period":{"end":"2024-01-02","start":"2024-01-01"},"status":"finished"}"#
        )
    );
    assert_eq!((rendered.missing, rendered.issues), (vec![], vec![]));
}

#[test]
fn nulls_and_empties_leave_nothing_behind() {
    assert_eq!(patient(&[&[("gender", r#""male""#)], &[("gender", "-")]]), "{}");
    assert_eq!(patient(&[&[("contact[1]", "[]"), ("name[1]", r#"[{"family":""}]"#)]]), "{}");
    assert_eq!(
        patient(&[&[("maritalStatus.coding[1]", r#"[{},{"code":"M"},{}]"#)]]),
        r#"{"maritalStatus":{"coding":[{"code":"M"}]}}"#
    );
}

#[test]
fn extensions_stand_beside_their_primitive() {
    let time = r#"[{"url":"urn:t","valueDateTime":"1960-01-01T10:00:00Z"}]"#;
    let both: &[(&str, &str)] = &[("birthDate", r#""1960-01-01""#), ("_birthDate.extension[1]", time)];
    let with = r#"{"_birthDate":{"extension":[{"url":"urn:t","valueDateTime":"1960-01-01T10:00:00Z"}]},"birthDate":"1960-01-01"}"#;
    assert_eq!(patient(&[both]), with);
    // The extension was about the old value.
    assert_eq!(patient(&[both, &[("birthDate", r#""1961-01-01""#)]]), r#"{"birthDate":"1961-01-01"}"#);
    assert_eq!(patient(&[both, &[("birthDate", "-")]]), "{}");
    // One that came later is about the value that was there.
    assert_eq!(patient(&[&[("birthDate", r#""1960-01-01""#)], &[("_birthDate.extension[1]", time)]]), with);
}

#[test]
fn items_of_a_repeating_primitive_keep_their_extensions() {
    let allergy = |said: &[&[(&str, &str)]]| {
        let json = render("AllergyIntolerance", said).json;
        [json.get("category"), json.get("_category")].map(|member| member.map(Json::to_string).unwrap_or_default())
    };
    let first: &[(&str, &str)] = &[("category[1]", r#"["food",null]"#), ("_category[1]", r#"[null,{"id":"x"}]"#)];
    assert_eq!(allergy(&[first]), [r#"["food",null]"#, r#"[null,{"id":"x"}]"#]);
    // Slots without extensions keep the places of those that have some.
    let mut more = first.to_vec();
    more.push(("category[2]", r#"["medication","food"]"#));
    assert_eq!(allergy(&[&more]), [r#"["food",null,"medication"]"#, r#"[null,{"id":"x"},null]"#]);
    // Another message's items have nothing to do with the extensions.
    assert_eq!(allergy(&[first, &[("category[1]", r#"["biologic"]"#)]]), [r#"["biologic"]"#, ""]);
}

#[test]
fn a_choice_has_the_type_that_was_said_last() {
    let boolean: &[(&str, &str)] = &[("deceasedBoolean", "true")];
    let time: &[(&str, &str)] = &[("deceasedDateTime", r#""2024-01-01""#)];
    assert_eq!(patient(&[boolean, time]), r#"{"deceasedDateTime":"2024-01-01"}"#);
    assert_eq!(patient(&[time, boolean]), r#"{"deceasedBoolean":true}"#);
    assert_eq!(patient(&[&[time, boolean].concat()]), r#"{"deceasedDateTime":"2024-01-01"}"#);
    // A null clears its own type and no other.
    assert_eq!(patient(&[boolean, &[("deceasedDateTime", "-")]]), r#"{"deceasedBoolean":true}"#);
    assert_eq!(patient(&[time, &[("deceasedDateTime", "-")]]), "{}");
    let observation = render(
        "Observation",
        &[
            &[("valueQuantity.value", "5.00"), ("valueQuantity.unit", r#""mg""#)],
            &[("valueString", r#""positive""#), ("_valueString.extension[1]", r#"[{"url":"u","valueCode":"c"}]"#)],
        ],
    );
    assert_eq!(observation.json.get("valueQuantity"), None);
    assert!(observation.json.get("valueString").is_some() && observation.json.get("_valueString").is_some());
}

#[test]
fn what_r4_requires_and_nobody_said_is_reported() {
    let rendered = render("Encounter", &[&[("period.start", r#""2024-01-01""#)]]);
    assert_eq!(rendered.missing, ["Encounter.class", "Encounter.status"]);
    let rendered = render("Observation", &[&[("status", r#""final""#)]]);
    assert_eq!(rendered.missing, ["Observation.code"]);
    // A choice that is required, and something required inside.
    let rendered = render("Patient", &[&[("link[1]", r#"[{"type":"replaces"}]"#)]]);
    assert_eq!(rendered.missing, ["Patient.link[0].other"]);
    // Wrong is not missing: that is the check's to say.
    assert_eq!(render("Patient", &[&[("gender", r#""X""#)]]).missing, Vec::<String>::new());
}

#[test]
fn the_end_of_a_period_never_comes_before_its_start() {
    let reversed =
        r#"[{"status":"completed","period":{"start":"2024-02-01","end":"2024-01-01"},"location":{"display":"w"}}]"#;
    let rendered = render(
        "Encounter",
        &[&[
            ("period.start", r#""2024-01-02T10:00:00+01:00""#),
            ("period.end", r#""2024-01-02T08:59:59Z""#),
            ("location[1]", reversed),
        ]],
    );
    let paths: Vec<&str> = rendered.issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["Encounter.location[0].period.end", "Encounter.period.end"]);
    assert!(rendered.issues.iter().all(|issue| issue.code == PERIOD_REVERSED));
    assert_eq!(rendered.json.get("period").unwrap().to_string(), r#"{"start":"2024-01-02T10:00:00+01:00"}"#);
    // An appointment is no period.
    let slot = render("Slot", &[&[("start", r#""2024-02-01T00:00:00Z""#), ("end", r#""2024-01-01T00:00:00Z""#)]]);
    assert!(slot.issues.is_empty() && slot.json.get("end").is_some());
    let fits = render("Encounter", &[&[("period.start", r#""2024-01-02""#), ("period.end", r#""2024-01""#)]]);
    assert_eq!(fits.issues, vec![]);
}

#[test]
fn a_resource_nobody_spoke_of_is_none() {
    assert_eq!(Chart::default().render(&key("Patient")), None);
    assert_eq!(Chart::default().save(&key("Patient")), Vec::<u8>::new());
}
