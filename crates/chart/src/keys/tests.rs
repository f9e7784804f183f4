//! Keys over messages: what must be the same message, and what must not.

use super::*;

const A01: &str = "MSH|^~\\&|APP|FAC|SLUICE|X|20240102120000||ADT^A01^ADT_A01|77|P|2.5.1\r\
                   EVN|A01|20240102115500\rPID|1||123^^^H^MR||Doe^Jane\rPV1|1|I\r";

/// Berlin in winter.
fn zone(time: &hl7::DateTime) -> Option<i64> {
    let mut with_offset = time.clone();
    with_offset.offset = Some(60);
    Clock::of(&with_offset, &|_| None).map(Clock::seconds)
}

fn identify(text: &str, sender: SenderOrder) -> Identity {
    Identity::of(&Message::parse(text).unwrap(), &sender, &zone)
}

fn id(text: &str) -> SmolStr {
    identify(text, SenderOrder::default()).message_id
}

#[test]
fn an_id_is_short_and_stable() {
    let id = id(A01);
    assert_eq!(id.len(), 32);
    assert!(id.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(id, super::tests::id(A01));
}

#[test]
fn what_is_about_the_transmission_does_not_count() {
    for (from, to) in [
        ("20240102120000|", "20240102120001|"),
        ("|77|", "|78|"),
        ("2.5.1\r", "2.5.1|||||||||\r"),
        ("Jane\r", "Jane^^|||\r"),
        ("2.5.1\r", "2.5.1\rSFT|x\r"),
        ("H^MR", "H^\\X4D\\R"),
    ] {
        assert!(A01.contains(from), "{from}");
        assert_eq!(id(&A01.replace(from, to)), id(A01), "{to}");
    }
    for (from, to) in [
        ("Jane", "Joan"),
        ("|20240102115500", "|20240102115501"),
        ("Doe^Jane", "Doe^Jane~Roe^Jane"),
        ("PV1|1|I", "PV1|1|I|\"\""),
    ] {
        assert_ne!(id(&A01.replace(from, to)), id(A01), "{to}");
    }
}

#[test]
fn msh_7_counts_where_it_is_the_only_clock() {
    let bare = A01.replace("|20240102115500", "|");
    let later = bare.replace("20240102120000|", "20240102120001|");
    assert_ne!(id(&bare), id(&later));
    assert_eq!(
        identify(&bare, SenderOrder::default()).semantic_hash,
        identify(&later, SenderOrder::default()).semantic_hash
    );
    // The same instant, written otherwise.
    assert_eq!(id(&bare), id(&bare.replace("20240102120000|", "20240102110000+0000|")));
    let restamps = SenderOrder { restamps: true, ..SenderOrder::default() };
    assert_eq!(identify(&bare, restamps).message_id, identify(&later, restamps).message_id);
    assert_eq!(identify(&bare, restamps).clock_source, Some(ClockSource::Message));
}

#[test]
fn the_order_key_has_what_the_sender_is_known_for() {
    let text = A01.replace("2.5.1\r", "2.5.1|41\r");
    let plain = identify(&text, SenderOrder::default());
    assert_eq!((plain.key.sequence, plain.key.control_id.as_str(), plain.key.rank), (0, "", Rank::Began));
    assert_eq!(plain.clock_source, Some(ClockSource::EventRecorded));
    let all = SenderOrder { sequence_numbers: true, monotone_control_ids: true, restamps: false };
    let counted = identify(&text, all);
    assert_eq!(counted.key.sequence, 41);
    let next = identify(&text.replace("|77|", "|100|"), all);
    assert!(counted.key.control_id < next.key.control_id, "77 before 100");
    assert_eq!(plain.message_id, counted.message_id);
}

#[test]
fn the_event_of_an_old_message_is_in_evn() {
    let old = A01.replace("ADT^A01^ADT_A01", "ADT").replace("EVN|A01", "EVN|A03");
    assert_eq!(identify(&old, SenderOrder::default()).key.rank, Rank::Ended);
}

#[test]
fn transport_keys_name_a_message_as_its_sender_does() {
    let key = |sender: &str, text: &str| transport_key(sender, &Message::parse(text).unwrap());
    let base = key("adt", A01);
    assert_eq!(base, key("adt", &A01.replace("Jane", "Joan").replace("APP|", "APP^^|").replace("|77|", "| 77 |")));
    assert_ne!(base, key("lab", A01));
    assert_ne!(base, key("adt", &A01.replace("|77|", "|78|")));
    assert_ne!(base, key("adt", &A01.replace("APP|FAC", "APPF|AC")));
    assert!(!base.contains("77"));
}

#[test]
fn business_keys_name_the_event_in_the_world() {
    let key = |resource_type: &str, value: &str| ResourceKey {
        resource_type: resource_type.into(),
        system: "urn:s".into(),
        value: value.into(),
    };
    let (patient, visit, other) = (key("Patient", "1"), key("Encounter", "1"), key("Encounter", "2"));
    let business = Business {
        sender: "adt",
        event: ("A01", "ADT_A01"),
        patient: Some(&patient),
        visit: Some(&visit),
        clock: Clock::new(1, 0),
    };
    let base = business_key(&business).unwrap();
    let different = [
        Business { sender: "lab", ..business },
        Business { event: ("A04", "ADT_A01"), ..business },
        Business { patient: Some(&visit), ..business },
        Business { visit: Some(&other), ..business },
        Business { visit: None, ..business },
        Business { clock: Clock::new(2, 0), ..business },
    ];
    for other in different {
        assert_ne!(business_key(&other), Some(base));
    }
    assert_eq!(business_key(&Business { patient: None, ..business }), None);
    assert_eq!(business_key(&Business { clock: None, ..business }), None);
}

#[test]
fn the_visit_is_the_encounter() {
    let of = |resource_type: &str, value: &str| Contribution {
        resource: ResourceKey { resource_type: resource_type.into(), system: "urn:s".into(), value: value.into() },
        scope: mapping::Scope::Subject,
        registers: std::collections::BTreeMap::new(),
    };
    let said = [of("Patient", "0"), of("Encounter", "2"), of("Encounter", "1")];
    assert_eq!(visit(&said).map(|key| key.value.as_str()), Some("1"));
    assert_eq!(visit(&said[..1]), None);
}
