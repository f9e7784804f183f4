//! Behaviours by name, where a golden text alone would not say what matters: what a null does, what identifies, what is
//! never guessed.

use fhir::Json;
use mapping::Register;
use tests::golden::{Outcome, SETTINGS, compiled, judge, map, rule_files};

const HEAD: &str = "MSH|^~\\&|HIS|GENHOSP|||20240215120000||ADT^A08^ADT_A01|B1|P|2.5.1\rEVN|A08|20240215120000\r";
const PID: &str = "PID|1||100234^^^GENHOSP^MR||Larkin^Maeve\r";

fn mapped_with(settings: &str, segments: &str) -> Result<Outcome, String> {
    map(&judge(compiled(&rule_files()), settings), format!("{HEAD}{segments}").as_bytes())
}

fn mapped(segments: &str) -> Outcome {
    mapped_with(SETTINGS, segments).unwrap_or_else(|fault| panic!("{fault}"))
}

/// The resources of a type.
fn of(outcome: &Outcome, kind: &str) -> Vec<Json> {
    let entries = outcome.bundle.get("entry").map(Json::items).unwrap_or_default();
    let resources = entries.iter().filter_map(|entry| entry.get("resource"));
    resources.filter(|resource| resource.resource_type() == Some(kind)).cloned().collect()
}

/// What the message says of a register; a null has no value.
fn register(outcome: &Outcome, kind: &str, path: &str) -> Option<Register> {
    let mut of_kind = outcome.contributions.iter().filter(|c| c.resource.resource_type == kind);
    of_kind.find_map(|c| c.registers.get(path)).cloned()
}

fn observation(obx: &str) -> Json {
    let found = of(&mapped(&format!("{PID}PV1|1|O\r{obx}\r")), "Observation");
    found.into_iter().next().expect("an Observation")
}

fn text(json: Option<&Json>) -> String {
    json.map(Json::to_string).unwrap_or_default()
}

#[test]
fn m1_null_clears_and_empty_leaves() {
    let outcome = mapped("PID|1||100234^^^GENHOSP^MR||Larkin^Maeve||\"\"||||||\"\"|||\"\"\r");
    for path in ["birthDate", "telecom[1]", "maritalStatus"] {
        let said = register(&outcome, "Patient", path).unwrap_or_else(|| panic!("nothing on {path}"));
        assert_eq!(said.value, None, "{path}");
    }
    for path in ["gender", "address[1]"] {
        assert_eq!(register(&outcome, "Patient", path), None, "{path}");
    }
}

#[test]
fn m2_empty_segments_say_nothing() {
    let outcome = mapped(&format!("{PID}NK1|1\rPV1|1|O\rPV2|\rAL1|\rDG1|1\rIN1|1\r"));
    for kind in ["AllergyIntolerance", "Condition", "Coverage", "RelatedPerson"] {
        assert_eq!(of(&outcome, kind), [], "{kind}");
    }
}

#[test]
fn m6_numbers_keep_their_digits_and_what_is_none_stays_text() {
    for (sent, value) in
        [("065.88", "65.88"), ("+5", "5"), (" 5 ", "5"), ("1.", "1"), ("5.00", "5.00"), ("-0.5", "-0.5")]
    {
        let found = observation(&format!("OBX|1|NM|1^Case^LN||{sent}|kg^^UCUM|||||F"));
        assert_eq!(text(found.get("valueQuantity").and_then(|q| q.get("value"))), value, "{sent}");
    }
    let outcome = mapped(&format!("{PID}PV1|1|O\rOBX|1|NM|1^Case^LN||>5|kg^^UCUM|||||F\r"));
    let found = of(&outcome, "Observation").remove(0);
    assert_eq!((text(found.get("valueString")).as_str(), found.get("valueQuantity")), ("\">5\"", None));
    assert!(outcome.ledger.contains("INVALID_NUMBER"));
    let equal = observation("OBX|1|SN|1^Case^LN||=^5|kg^^UCUM|||||F");
    assert_eq!(
        text(equal.get("valueQuantity")),
        r#"{"code":"kg","system":"http://unitsofmeasure.org","unit":"kg","value":5}"#
    );
    assert_eq!(text(observation("OBX|1|SN|1^Case^LN||<>^5||||||F").get("valueString")), "\"<>^5\"");
}

#[test]
fn m6_value_and_unit_are_one_register() {
    let outcome = mapped(&format!("{PID}PV1|1|O\rOBX|1|NM|1^Case^LN||5||||||F\r"));
    let quantity = register(&outcome, "Observation", "valueQuantity").and_then(|register| register.value);
    assert_eq!(text(quantity.as_ref()), r#"{"value":5}"#, "a unit of an older message would stay otherwise");
    let below = outcome.contributions.iter().flat_map(|c| c.registers.keys());
    assert!(below.filter(|path| path.starts_with("valueQuantity")).all(|path| path == "valueQuantity"));
}

#[test]
fn units_without_a_system_have_no_code() {
    let found = observation("OBX|1|NM|1^Case^LN||5|kg^kilogram^99UNITS|||||F");
    assert_eq!(text(found.get("valueQuantity")), r#"{"unit":"kilogram","value":5}"#);
}

#[test]
fn telecoms_have_a_system_whatever_the_equipment() {
    let outcome = mapped("PID|1||100234^^^GENHOSP^MR||Larkin^Maeve||||||||^PRN^XX^^^217^5550179\r");
    let telecom = of(&outcome, "Patient").remove(0).get("telecom").cloned();
    assert_eq!(text(telecom.as_ref().and_then(|t| t.items().first()?.get("system"))), "\"other\"");
}

#[test]
fn m8_times_are_the_senders_and_as_precise_as_sent() {
    for (sent, time) in [
        ("20240701101530.1234+0200", "2024-07-01T10:15:30.1234+02:00"),
        ("202407011015", "2024-07-01T10:15:00-04:00"),
        ("20240101101530", "2024-01-01T10:15:30-05:00"),
        ("20240701", "2024-07-01"),
        ("2024", "2024"),
    ] {
        let found = observation(&format!("OBX|1|ST|1^Case^LN||x||||||F|||{sent}"));
        assert_eq!(text(found.get("effectiveDateTime")), format!("\"{time}\""), "{sent}");
    }
    for none in ["0000", "00000000", "20240230"] {
        let found = observation(&format!("OBX|1|ST|1^Case^LN||x||||||F|||{none}"));
        assert_eq!(found.get("effectiveDateTime"), None, "{none}");
    }
}

#[test]
fn m9_numbers_identify_with_their_authority_only() {
    let patient = |pid3: &str| mapped(&format!("PID|1||{pid3}||Larkin^Maeve\r")).subject;
    assert_ne!(patient("1^^^A^MR"), patient("1^^^B^MR"));
    assert_eq!(patient("9^^^A^SS~1^^^A^MR"), patient("1^^^A^MR"));
    let bare = mapped_with("", "PID|1||100234||Larkin^Maeve\r").map(|_| ()).unwrap_err();
    assert!(bare.starts_with("NO_PATIENT_IDENTITY"), "{bare}");
}

#[test]
fn m10_no_visit_number_no_guess() {
    let none = "[sender.default]\nencounter_fallbacks = []\npatient_id_system = \"urn:x:mrn\"\n";
    let admitted = format!("{PID}PV1|1|O|CLIN{}20240215120000\r", "|".repeat(41));
    let outcome = mapped_with(none, &admitted).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(of(&outcome, "Encounter"), []);
    assert!(outcome.ledger.contains("NO_IDENTITY"));
    assert_eq!(of(&mapped(&admitted), "Encounter").len(), 1, "the default falls back on the admission time");
}

#[test]
fn m12_unknown_codes_stay_as_sent_or_are_left_out() {
    let outcome = mapped("PID|1||100234^^^GENHOSP^MR||Larkin^Maeve|||Q||||||||Q^Quite^L\r");
    let patient = of(&outcome, "Patient").remove(0);
    assert_eq!(patient.get("gender"), None);
    assert!(text(patient.get("maritalStatus")).contains("\"Quite\""));
    assert!(outcome.ledger.contains("CODE_UNMAPPED at PID-8"));
}

#[test]
fn m13_escapes_come_after_splitting() {
    let outcome = mapped("PID|1||100234^^^GENHOSP^MR||O\\T\\Hara \\F\\ Sons\\S\\x^Maeve\r");
    assert!(text(of(&outcome, "Patient").remove(0).get("name")).contains("O&Hara | Sons^x"));
}

#[test]
fn m14_separators_in_text_cut_nothing() {
    let found = observation("OBX|1|TX|1^Case^LN||salt & water ^ sugar||||||F");
    assert_eq!(text(found.get("valueString")), "\"salt & water ^ sugar\"");
}

#[test]
fn related_persons_are_one_patients_whatever_number_they_share() {
    let nk1 = "NK1|1|Larkin^Owen|SPO^Spouse^HL70063|||||||||||||||||||||||||||||||||||998112233\r";
    let person = |pid: &str| mapped(&format!("PID|1||{pid}^^^A^MR||Larkin^Maeve\r{nk1}PV1|1|O\r"));
    let key = |outcome: &Outcome| {
        let found = outcome.contributions.iter().find(|c| c.resource.resource_type == "RelatedPerson");
        found.map(|c| c.resource.clone()).expect("a RelatedPerson")
    };
    assert_ne!(key(&person("1")), key(&person("2")));
    assert_eq!(key(&person("1")), key(&person("1")));
}
