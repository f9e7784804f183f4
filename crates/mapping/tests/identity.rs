//! Which resource a message means: identifiers, fallbacks, subjects, structures, placement.

mod support;

use mapping::{Context, EncounterFallback, Scope};
use support::{a01, issues, map, map_with, of, plan, register, sender, text};

const PID: &str = "PID|1||123^^^HOSP^MR||Smith^John|||||||||||||A7^^^FIN";

#[test]
fn a_patient_needs_an_identifier_with_a_system() {
    let plan = plan();
    let bare = a01("PID|1||123||Smith^John");
    let error = map_with(&plan, &bare, &sender()).unwrap_err();
    assert_eq!((error.code(), error.location().to_string().as_str()), ("NO_PATIENT_IDENTITY", "PID"));
    let none = map_with(&plan, &a01("PV1|1|I"), &sender()).unwrap_err();
    assert_eq!((none.code(), none.location().to_string().as_str()), ("NO_PATIENT_IDENTITY", "PID"));
    let mut configured = sender();
    configured.patient_id_system = Some("urn:test:mrn".into());
    let mapped = map_with(&plan, &bare, &configured).unwrap();
    assert_eq!(mapped.subject.system, "urn:test:mrn");
    // The default is for numbers of the patient's own kinds only.
    let social = a01("PID|1||123^^^^SS||Smith^John");
    assert_eq!(map_with(&plan, &social, &configured).unwrap_err().code(), "NO_PATIENT_IDENTITY");
}

#[test]
fn the_preferred_type_goes_before_the_order() {
    let mapped = map(&a01("PID|1||1^^^A^SS~2^^^B^PI~3^^^C^MR"));
    assert_eq!(mapped.subject.value, "3");
    assert_eq!(map(&a01("PID|1||1^^^A^SS~2^^^B^XX")).subject.value, "1");
}

#[test]
fn one_authority_has_one_system_with_and_without_its_oid() {
    let mut sender = sender();
    sender.authorities.insert("HOSP".into(), "urn:oid:1.2.3".into());
    let plan = plan();
    let subject = |text: &str| map_with(&plan, &a01(text), &sender).unwrap().subject;
    assert_eq!(subject("PID|1||1^^^HOSP"), subject("PID|1||1^^^HOSP&1.2.3&ISO"));
    assert_eq!(subject("PID|1||1^^^HOSP"), subject("PID|1||1^^^&1.2.3&ISO"));
    assert_ne!(subject("PID|1||1^^^HOSP"), subject("PID|1||1^^^OTHER"));
}

#[test]
fn an_encounter_falls_back_only_as_configured() {
    let plan = plan();
    let visit = |pv1: &str, fallbacks: &[EncounterFallback]| {
        let mut sender = sender();
        sender.encounter_fallbacks = fallbacks.to_vec();
        let mapped = map_with(&plan, &a01(&format!("{PID}\n{pv1}")), &sender).unwrap();
        of(&mapped, "Encounter").first().map(|e| e.resource.clone()).ok_or_else(|| issues(&mapped))
    };
    let with_number = "PV1|1|I|||||||||||||||||V1^^^HOSP^VN";
    let without = format!("PV1|1|I{}20240101{}ALT^^^OTHER", "|".repeat(42), "|".repeat(6));
    assert_eq!(visit(with_number, &[]).unwrap().value, "V1");
    assert_eq!(visit(&without, &[]), Err(vec!["NO_IDENTITY PV1".to_owned()]));
    assert_eq!(visit(&without, &[EncounterFallback::AlternateVisitId]).unwrap().value, "ALT");
    let account = visit(&without, &[EncounterFallback::AccountNumber]).unwrap();
    assert_eq!((account.system.as_str(), account.value.as_str()), ("urn:id:FIN", "A7"));
    let admit = visit(&without, &[EncounterFallback::AdmitTime]).unwrap();
    assert_eq!(admit.system, "urn:sluice:id");
    assert_eq!(visit(&without, &[EncounterFallback::AdmitTime]).unwrap(), admit);
    let bare = visit("PV1|1|I|||||||||||||||||V1", &[]).unwrap();
    assert_eq!(bare.system, "urn:sluice:id", "a bare number identifies within its patient only");
}

#[test]
fn an_identifier_of_ours_depends_on_subject_content_and_key() {
    let allergy = |pid: &str, code: &str, key: &[u8]| {
        let text = a01(&format!("{pid}\nPV1|1|I\nAL1|1||{code}"));
        let message = hl7::Message::parse(&text).unwrap();
        let sender = sender();
        let context = Context { sender: &sender, identity_key: key, message_id: "m", message_header: false };
        let mapped = plan().map(&message, &context).unwrap();
        of(&mapped, "AllergyIntolerance")[0].clone()
    };
    let first = allergy(PID, "P^Peanut", b"k");
    assert_eq!(first.resource, allergy(PID, "P^Peanut", b"k").resource);
    assert_eq!(first.scope, Scope::Subject);
    assert!(register(&first, "identifier[sluice]").contains(first.resource.value.as_str()));
    assert!(!first.resource.value.contains("123"));
    for other in [
        allergy("PID|1||124^^^HOSP^MR", "P^Peanut", b"k"),
        allergy(PID, "E^Egg", b"k"),
        allergy(PID, "P^Peanut", b"other"),
    ] {
        assert_ne!(first.resource, other.resource);
    }
}

#[test]
fn one_resource_mentioned_twice_is_one_contribution() {
    let doctor = "9^Doc^Jim^^^^^^HOSP";
    let mapped =
        map(&a01(&format!("{PID}\nPV1|1|I|||||{doctor}~{doctor}||||||||||||V1^^^HOSP^VN\nAL1|1||P\nAL1|2||P")));
    assert_eq!(of(&mapped, "Practitioner").len(), 1);
    assert_eq!(register(of(&mapped, "Practitioner")[0], "name[1]"), r#"[{"family":"Doc","given":["Jim"]}]"#);
    assert_eq!(of(&mapped, "AllergyIntolerance").len(), 1);
}

#[test]
fn a_merge_speaks_of_both_patients() {
    let mapped = map(&text(
        "MSH|^~\\&|A|H|||20240101||ADT^A40^ADT_A39|1|P|2.5.1\nEVN||20240101\nPID|1||1^^^H^MR\nMRG|2^^^H^MR\nPID|1||3^^^H^MR\nMRG|4^^^H^MR",
    ));
    assert_eq!(mapped.subject.value, "1");
    let patients = of(&mapped, "Patient");
    assert_eq!(patients.iter().map(|p| p.resource.value.as_str()).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    let url = |value: &str| patients.iter().find(|p| p.resource.value == value).unwrap().resource.full_url();
    assert_eq!(register(patients[1], "active"), "false");
    assert_eq!(register(patients[3], "link[1]"), format!(r#"[{{"other":{{"reference":"{}"}}}}]"#, url("3")));
}

#[test]
fn what_belongs_to_the_second_patient_is_identified_by_it() {
    let swap = |first: &str, second: &str| {
        map(&text(&format!(
            "MSH|^~\\&|A|H|||20240101||ADT^A17|1|P|2.5.1\nEVN||20240101\nPID|1||{first}^^^H^MR\nPV1|1|I\nPID|1||{second}^^^H^MR\nPV1|1|I\nAL1|1||P"
        )))
    };
    let key = |first, second| of(&swap(first, second), "AllergyIntolerance")[0].resource.clone();
    assert_eq!(key("1", "2"), key("3", "2"));
    assert_ne!(key("1", "2"), key("1", "3"));
}

#[test]
fn the_structure_follows_msh_9_the_event_or_evn() {
    let structure = |msh9: &str, evn: &str| {
        let text = text(&format!(
            "MSH|^~\\&|A|H|||20240101||{msh9}|1|P|2.3\nEVN|{evn}|20240101\nPID|1||1^^^H^MR\nMRG|2^^^H^MR"
        ));
        map_with(&plan(), &text, &sender()).map(|mapped| mapped.structure.to_string()).map_err(|error| error.code())
    };
    assert_eq!(structure("ADT^A40^ADT_A39", "").as_deref(), Ok("ADT_A39"));
    assert_eq!(structure("ADT^A08", "A08").as_deref(), Ok("ADT_A01"));
    assert_eq!(structure("ADT^A08^ADT_A08", "A08").as_deref(), Ok("ADT_A01"));
    assert_eq!(structure("ADT", "A04").as_deref(), Ok("ADT_A01"));
    // A structure that is not the event's counts only where the content fits it better.
    assert_eq!(structure("ADT^A40^ADT_A01", "").as_deref(), Ok("ADT_A39"));
    assert_eq!(structure("ADT^Z99^ADT_A01", ""), Err("UNSUPPORTED_EVENT"));
    assert_eq!(structure("ORU^R01^ORU_R01", ""), Err("UNSUPPORTED_EVENT"));
    assert_eq!(structure("", ""), Err("UNSUPPORTED_EVENT"));
}

#[test]
fn segments_out_of_place_are_placed_by_name_and_said() {
    let mapped = map(&a01(&format!(
        "PV1|1|I|||||||||||||||||V1^^^HOSP^VN\n{PID}\nDG1|1||A^x^I10\nAL1|1||P\nPID|1||9^^^HOSP^MR\nOBX|1\nZZ1|1"
    )));
    assert_eq!(
        issues(&mapped),
        ["SEGMENT_OUT_OF_ORDER PID", "SEGMENT_OUT_OF_ORDER AL1", "SEGMENT_REPEATED PID[2]", "UNKNOWN_SEGMENT OBX"]
    );
    assert_eq!(mapped.subject.value, "123");
    assert_eq!(of(&mapped, "AllergyIntolerance").len(), 1);
}

#[test]
fn a_message_header_comes_only_when_asked_for() {
    let text = a01(PID);
    let message = hl7::Message::parse(&text).unwrap();
    let sender = sender();
    let with = |message_header| {
        let context = Context { sender: &sender, identity_key: b"k", message_id: "m", message_header };
        plan().map(&message, &context).unwrap()
    };
    assert_eq!(of(&with(true), "MessageHeader").len(), 1);
    assert_eq!(of(&with(false), "MessageHeader").len(), 0);
}

#[test]
fn group_conditions_hold_per_repetition() {
    let mapped = map(&a01(&format!("{PID}\nNK1|1|Roe^Jane|MTH^Mother\nNK1|2|Acme|EMR\nPV1|1|I")));
    let kin = of(&mapped, "RelatedPerson");
    assert_eq!(kin.len(), 1);
    assert_eq!(register(kin[0], "name[1]"), r#"[{"family":"Roe","given":["Jane"]}]"#);
}
