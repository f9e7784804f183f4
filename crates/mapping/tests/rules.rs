//! Rule semantics on the test rules: states, items, codes, references, constants, ledger.

mod support;

use mapping::{Fate, FateKind, Strength};
use support::{a01, issues, map, map_with, of, plan, register, sender};

const PID: &str = "PID|1||123^^^HOSP^MR||Smith^John";

#[test]
fn fields_become_registers() {
    let mapped = map(&a01(
        "PID|1||123^^^HOSP^MR~7^^^&1.2.3&ISO^SS||Smith&van^John^Q^^Dr~Jones^J|Maid|198001021330|M|||||555^^^^1^555^1234~^NET^Internet^a@b.c|||M^Married^HL70002||||||||Y",
    ));
    let patient = of(&mapped, "Patient")[0];
    assert_eq!(mapped.subject, patient.resource);
    assert_eq!((patient.resource.system.as_str(), patient.resource.value.as_str()), ("urn:id:HOSP", "123"));
    for (path, wanted) in [
        ("birthDate", r#""1980-01-02""#),
        (
            "_birthDate.extension[1]",
            r#"[{"url":"http://hl7.org/fhir/StructureDefinition/patient-birthTime","valueDateTime":"1980-01-02T13:30:00-05:00"}]"#,
        ),
        ("gender", r#""male""#),
        (
            "name[1]",
            r#"[{"_family":{"extension":[{"url":"http://hl7.org/fhir/StructureDefinition/humanname-own-prefix","valueString":"van"}]},"family":"Smith","given":["John","Q"],"prefix":["Dr"]},{"family":"Jones","given":["J"]}]"#,
        ),
        ("telecom[1]", r#"[{"use":"home","value":"+1 555 1234"},{"system":"email","value":"a@b.c"}]"#),
        ("multipleBirthBoolean", "true"),
        (
            "extension[1]",
            r#"[{"url":"http://hl7.org/fhir/StructureDefinition/patient-mothersMaidenName","valueString":"Maid"}]"#,
        ),
    ] {
        assert_eq!(register(patient, path), wanted, "{path}");
    }
    assert_eq!(issues(&mapped), Vec::<String>::new());
}

#[test]
fn null_clears_absent_says_nothing() {
    let mapped = map(&a01("PID|1||123^^^HOSP^MR||\"\"||\"\"||||||\"\"|||\"\""));
    let patient = of(&mapped, "Patient")[0];
    for (path, wanted) in
        [("name[1]", "null"), ("birthDate", "null"), ("gender", "-"), ("telecom[1]", "null"), ("maritalStatus", "null")]
    {
        assert_eq!(register(patient, path), wanted, "{path}");
    }
    let parts = map(&a01("PID|1||123^^^HOSP^MR||Smith^\"\"^Q"));
    assert_eq!(register(of(&parts, "Patient")[0], "name[1]"), r#"[{"family":"Smith","given":["Q"]}]"#);
}

#[test]
fn codes_translate_keep_omit_or_park() {
    let class = |text: &str| {
        let mapped = map(&a01(&format!("{PID}\nPV1|1|{text}|||||||||||||||||V1^^^HOSP^VN")));
        (register(of(&mapped, "Encounter")[0], "class"), issues(&mapped))
    };
    let act = "http://terminology.hl7.org/CodeSystem/v3-ActCode";
    assert_eq!(class("I^In").0, format!(r#"{{"code":"IMP","display":"inpatient encounter","system":"{act}"}}"#));
    // A code of another system is not of the map's table, whatever its letters.
    let (kept, found) = class("I^In^LN");
    assert_eq!(kept, r#"{"code":"I","display":"In","system":"http://loinc.org"}"#);
    assert_eq!(found, ["CODE_UNMAPPED PV1-2.1.1"]);
    let omitted = map(&a01("PID|1||123^^^HOSP^MR|||||X^Other"));
    assert_eq!(register(of(&omitted, "Patient")[0], "gender"), "-");
    assert_eq!(issues(&omitted), ["CODE_UNMAPPED PID-8.1.1"]);
    let parked = map_with(&plan(), &a01(&format!("{PID}\nPV1|1|I||Z")), &sender()).unwrap_err();
    assert_eq!((parked.code(), parked.location().to_string().as_str()), ("CODE_PARKED", "PV1-4.1.1"));
}

#[test]
fn a_translated_concept_keeps_the_sent_coding_where_it_differs() {
    let status = |text: &str| {
        let mapped = map(&a01(&format!("PID|1||123^^^HOSP^MR|||||||||||||{text}")));
        register(of(&mapped, "Patient")[0], "maritalStatus")
    };
    let (v3, v2) =
        ("http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "http://terminology.hl7.org/CodeSystem/v2-0002");
    let both = format!(
        r#"{{"coding":[{{"code":"M","display":"Married","system":"{v3}"}},{{"code":"M","display":"Wed","system":"{v2}"}}]}}"#
    );
    assert_eq!(status("M^Wed"), both);
    assert_eq!(status("M^Wed^HL70002"), both);
    assert_eq!(status("Q^Queer"), r#"{"coding":[{"code":"Q","display":"Queer"}]}"#);
    assert_eq!(status("^Free text"), r#"{"text":"Free text"}"#);
}

#[test]
fn references_make_resources_or_only_names() {
    let mapped =
        map(&a01(&format!("{PID}\nPV1|1|I|WARD^R^BED||||1234^Doc^Jim^^^^^^HOSP~^Nameless^X||||||||||||V1^^^HOSP^VN")));
    let encounter = of(&mapped, "Encounter")[0];
    let practitioner = of(&mapped, "Practitioner")[0];
    let url = practitioner.resource.full_url();
    assert_eq!(
        register(encounter, "participant[1]"),
        format!(
            r#"[{{"individual":{{"reference":"{url}"}},"type":[{{"coding":[{{"code":"ATND"}}]}}]}},{{"individual":{{"display":"X Nameless"}},"type":[{{"coding":[{{"code":"ATND"}}]}}]}}]"#
        )
    );
    let names: Vec<String> = of(&mapped, "Location").iter().map(|location| register(location, "name")).collect();
    assert_eq!(names.len(), 2);
    let bed = of(&mapped, "Location").into_iter().find(|l| register(l, "name") == "\"BED\"").unwrap();
    let ward = of(&mapped, "Location").into_iter().find(|l| register(l, "name") == "\"WARD\"").unwrap();
    assert_eq!(register(bed, "partOf"), format!(r#"{{"reference":"{}"}}"#, ward.resource.full_url()));
    assert_eq!(issues(&mapped), ["NO_IDENTITY PV1"]);
}

#[test]
fn items_of_an_array_come_from_segments_and_refer_to_their_own() {
    let mapped = map(&a01(&format!(
        "{PID}\nPV1|1|I|||||||||||||||||V1^^^HOSP^VN\nDG1|1||A^x^I10||||||||||||2\nDG1|2||B^y^I10|words|||||||||||1||||||D"
    )));
    let encounter = of(&mapped, "Encounter")[0];
    let url = |code: &str| {
        let conditions = of(&mapped, "Condition");
        let found = conditions.iter().find(|c| register(c, "code").contains(code)).unwrap();
        found.resource.full_url()
    };
    assert_eq!(
        register(encounter, "diagnosis[1]"),
        format!(
            r#"[{{"condition":{{"reference":"{}"}},"rank":2}},{{"condition":{{"reference":"{}"}},"rank":1}}]"#,
            url("\"A\""),
            url("\"B\"")
        )
    );
    let second = of(&mapped, "Condition").into_iter().find(|c| register(c, "code").contains("\"B\"")).unwrap();
    assert!(
        register(second, "code").ends_with(r#""text":"words"}"#),
        "a map's `code.text` joins another rule's `code`"
    );
    assert_eq!(register(second, "verificationStatus.coding[1]"), r#"[{"code":"entered-in-error"}]"#);
    assert_eq!(register(second, "encounter"), format!(r#"{{"reference":"{}"}}"#, encounter.resource.full_url()));
}

#[test]
fn filling_is_weaker_and_dropped_repetitions_are_noted() {
    let mapped = map(&a01(
        "PID|1||123^^^HOSP^MR||||19800101~19810101\nPV1|1|I|||||||||||||||||V1^^^HOSP^VN|||||||||||||||||||||||||20240101",
    ));
    let encounter = of(&mapped, "Encounter")[0];
    assert_eq!(encounter.registers["status"].strength, Strength::Fills);
    assert_eq!(encounter.registers["period.start"].strength, Strength::Asserts);
    assert_eq!(register(of(&mapped, "Patient")[0], "birthDate"), r#""1980-01-01""#);
    assert_eq!(issues(&mapped), ["REPETITION_DROPPED PID-7[2]"]);
}

#[test]
fn a_merge_rule_writes_into_the_resource_at_hand() {
    let mapped = map(&a01("PID|1||123^^^HOSP^MR|9^^^OLD~8^^^OLD"));
    assert_eq!(
        register(of(&mapped, "Patient")[0], "identifier[3]"),
        r#"[{"system":"urn:id:OLD","value":"9"},{"system":"urn:id:OLD","value":"8"}]"#
    );
}

#[test]
fn what_cannot_be_converted_is_left_out_and_said() {
    let mapped = map(&a01("PID|1||123^^^HOSP^MR||||20240230|M|||||||||||||||||two||||0000"));
    let patient = of(&mapped, "Patient")[0];
    assert_eq!(register(patient, "birthDate"), "-");
    assert_eq!(register(patient, "multipleBirthInteger"), "-");
    assert_eq!(register(patient, "deceasedDateTime"), "-");
    assert_eq!(issues(&mapped), ["INVALID_DATE PID-7.1.1", "INVALID_NUMBER PID-25.1.1", "INVALID_DATE PID-29.1.1"]);
}

#[test]
fn the_ledger_tells_each_fate() {
    let text = a01("PID|1||123^7^M10^HOSP^MR||Smith^John^^Jr||20240230|M|||S\nZPD|x");
    let plan = plan();
    let mapped = map_with(&plan, &text, &sender()).unwrap();
    let message = hl7::Message::parse(&text).unwrap();
    let leaves = mapped.ledger.leaves(&message, &plan);
    let fate = |place: &str| &leaves.iter().find(|leaf| leaf.location.to_string() == place).unwrap().fate;
    assert!(matches!(fate("PID-1.1.1"), Fate::Ignored { file: "segments/PID.Patient.toml", .. }));
    assert!(matches!(fate("PID-3.2.1"), Fate::Ignored { file: "datatypes/CX.Identifier.toml", .. }));
    assert!(matches!(fate("PID-3.3.1"), Fate::Kept(None)));
    assert!(matches!(fate("PID-5.4.1"), Fate::Kept(None)));
    assert!(matches!(fate("ZPD-1.1.1"), Fate::Kept(None)));
    assert!(matches!(fate("PID-7.1.1"), Fate::Failed(mapping::IssueCode::InvalidDate, rules) if rules.len() == 1));
    let Fate::Mapped(traces) = fate("PID-5.1.1") else { panic!("mapped") };
    assert_eq!(
        (traces[0].path.as_str(), traces[0].rule.file),
        ("Patient.name[1].family", "datatypes/FN.HumanName.toml")
    );
    let counts = mapped.ledger.counts(&message, &plan);
    assert_eq!(counts[&("PID".into(), FateKind::Failed)], 1);
    assert_eq!(counts[&("Z".into(), FateKind::Kept)], 1);
    assert_eq!(counts.values().sum::<u64>(), leaves.len() as u64);
    let explanation = mapped.ledger.explain(&message, &plan);
    assert!(explanation.to_string().contains("PID-7.1.1              failed   INVALID_DATE Patient.birthDate"));
    assert!(!explanation.to_string().contains("Smith"));
    assert_eq!(explanation.to_json().get("leaves").unwrap().items().len(), leaves.len());
}

#[test]
fn provenance_names_all_and_holds_no_clock() {
    let mapped = map(&a01(PID));
    let provenance = of(&mapped, "Provenance")[0];
    assert_eq!(register(provenance, "recorded"), r#""2024-01-02T03:04:00-05:00""#);
    let patient = of(&mapped, "Patient")[0].resource.full_url();
    assert_eq!(register(provenance, "target[1]"), format!(r#"[{{"reference":"{patient}"}}]"#));
    assert!(register(provenance, "entity[sluice]").contains("message-1"));
    assert!(register(provenance, "meta.tag[sluice]").contains(provenance.resource.value.as_str()));
}
