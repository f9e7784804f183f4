//! One fault each, and what must not be taken for one.

use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
}

/// `CODE path` of each issue.
fn found(text: &str) -> Vec<String> {
    check(&json(text)).iter().map(|issue| format!("{} {}", issue.code, issue.path)).collect()
}

fn assert_faults(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(found(text), [*expected], "{text}");
    }
}

fn assert_valid(cases: &[&str]) {
    for text in cases {
        assert_eq!(check(&json(text)), [], "{text}");
    }
}

#[test]
fn names_and_json_types() {
    assert_faults(&[
        (r#"{"resourceType":"Patent","active":true}"#, "UNKNOWN_ELEMENT Resource"),
        (r#"{"active":true}"#, "CARDINALITY Resource"),
        ("[]", "JSON_TYPE Resource"),
        (r#"{"resourceType":"Patient","alias":"x"}"#, "UNKNOWN_ELEMENT Patient.alias"),
        (r#"{"resourceType":"Patient","name":[{"first":"x"}]}"#, "UNKNOWN_ELEMENT Patient.name[0].first"),
        (r#"{"resourceType":"Patient","_name":[{"id":"x"}]}"#, "UNKNOWN_ELEMENT Patient._name"),
        (r#"{"resourceType":"Patient","deceasedString":"x"}"#, "UNKNOWN_ELEMENT Patient.deceasedString"),
        (r#"{"resourceType":"Patient","name":{"family":"x"}}"#, "JSON_TYPE Patient.name"),
        (r#"{"resourceType":"Patient","name":["x"]}"#, "JSON_TYPE Patient.name[0]"),
        (r#"{"resourceType":"Patient","name":[[{"family":"x"}]]}"#, "JSON_TYPE Patient.name[0]"),
        (r#"{"resourceType":"Patient","gender":["male"]}"#, "JSON_TYPE Patient.gender"),
        (r#"{"resourceType":"Patient","active":"true"}"#, "JSON_TYPE Patient.active"),
        (r#"{"resourceType":"Patient","multipleBirthInteger":"2"}"#, "JSON_TYPE Patient.multipleBirthInteger"),
        (r#"{"resourceType":"Patient","birthDate":2000}"#, "JSON_TYPE Patient.birthDate"),
        (r#"{"resourceType":"Patient","_birthDate":"x"}"#, "JSON_TYPE Patient._birthDate"),
        (r#"{"resourceType":"Patient","maritalStatus":"M"}"#, "JSON_TYPE Patient.maritalStatus"),
    ]);
}

#[test]
fn cardinality() {
    assert_faults(&[
        (r#"{"resourceType":"Encounter","status":"planned"}"#, "CARDINALITY Encounter.class"),
        (
            r#"{"resourceType":"Patient","deceasedBoolean":true,"deceasedDateTime":"2020"}"#,
            "CARDINALITY Patient.deceasedDateTime",
        ),
        (
            r#"{"resourceType":"Immunization","status":"completed","vaccineCode":{"text":"x"},"patient":{"display":"x"}}"#,
            "CARDINALITY Immunization.occurrenceDateTime",
        ),
        (
            r#"{"resourceType":"Patient","communication":[{"preferred":true}]}"#,
            "CARDINALITY Patient.communication[0].language",
        ),
        (r#"{"resourceType":"OperationOutcome"}"#, "CARDINALITY OperationOutcome.issue"),
    ]);
    assert_valid(&[
        r#"{"resourceType":"Patient","id":"7"}"#,
        r#"{"resourceType":"Patient","deceasedBoolean":true,"_deceasedBoolean":{"id":"x","extension":[{"url":"http://x.org","valueCode":"y"}]}}"#,
        r#"{"resourceType":"MessageHeader","eventCoding":{"code":"A01"},"source":{"_endpoint":{"extension":[{"url":"http://x.org","valueCode":"unknown"}]}}}"#,
    ]);
}

#[test]
fn nothing_is_empty_and_null_stands_for_extensions_only() {
    assert_faults(&[
        (r#"{"resourceType":"Patient","maritalStatus":{}}"#, "EMPTY Patient.maritalStatus"),
        (r#"{"resourceType":"Patient","maritalStatus":{"id":"x"}}"#, "EMPTY Patient.maritalStatus"),
        (r#"{"resourceType":"Patient","name":[]}"#, "EMPTY Patient.name"),
        (r#"{"resourceType":"Patient","name":[{"family":""}]}"#, "EMPTY Patient.name[0].family"),
        (r#"{"resourceType":"Patient","birthDate":null}"#, "NULL Patient.birthDate"),
        (r#"{"resourceType":"Patient","name":[null]}"#, "NULL Patient.name[0]"),
        (r#"{"resourceType":"Patient","name":[{"given":["A",null]}]}"#, "NULL Patient.name[0].given[1]"),
        (
            r#"{"resourceType":"Patient","name":[{"given":["A","B"],"_given":[{"id":"x","extension":[{"url":"http://x.org","valueCode":"y"}]}]}]}"#,
            "JSON_TYPE Patient.name[0]._given",
        ),
        (
            r#"{"resourceType":"Patient","name":[{"_given":[null,{"extension":[{"url":"http://x.org","valueCode":"y"}]}]}]}"#,
            "NULL Patient.name[0]._given[0]",
        ),
    ]);
    assert_valid(&[
        r#"{"resourceType":"Patient","name":[{"given":["A",null],"_given":[null,{"extension":[{"url":"http://x.org","valueCode":"y"}]}]}]}"#,
        r#"{"resourceType":"Patient","name":[{"_given":[{"extension":[{"url":"http://x.org","valueCode":"y"}]}]}]}"#,
    ]);
}

#[test]
fn codes_of_required_bindings() {
    assert_faults(&[
        (r#"{"resourceType":"Patient","gender":"F"}"#, "CODE Patient.gender"),
        (
            r#"{"resourceType":"AllergyIntolerance","clinicalStatus":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical","code":"odd"}]},"patient":{"display":"x"}}"#,
            "CODE AllergyIntolerance.clinicalStatus",
        ),
        (
            r#"{"resourceType":"AllergyIntolerance","clinicalStatus":{"text":"active"},"patient":{"display":"x"}}"#,
            "CODE AllergyIntolerance.clinicalStatus",
        ),
        (
            r#"{"resourceType":"Encounter","status":"planned","class":{"system":"http://terminology.hl7.org/CodeSystem/v3-ActCode","code":"I"}}"#,
            "CODE Encounter.class",
        ),
    ]);
    assert_valid(&[
        r#"{"resourceType":"AllergyIntolerance","clinicalStatus":{"coding":[{"code":"A"},{"system":"http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical","code":"active"}]},"patient":{"display":"x"}}"#,
        r#"{"resourceType":"Encounter","status":"planned","class":{"system":"http://x.org","code":"I"}}"#,
    ]);
}

#[test]
fn references_lead_somewhere_allowed() {
    let encounter = |subject: &str| {
        format!(r#"{{"resourceType":"Encounter","status":"planned","class":{{"code":"x"}},"subject":{subject}}}"#)
    };
    for (subject, expected) in [
        (r#"{"reference":"Practitioner/7"}"#, "REFERENCE Encounter.subject"),
        (r#"{"reference":"https://x.org/fhir/Practitioner/7"}"#, "REFERENCE Encounter.subject"),
        (r#"{"type":"Practitioner","display":"x"}"#, "REFERENCE Encounter.subject"),
        (r#"{"reference":"Patient/7","type":"Group"}"#, "REFERENCE Encounter.subject.type"),
        (r#"{"reference":"7"}"#, "REFERENCE Encounter.subject.reference"),
        (r##"{"reference":"#c"}"##, "REFERENCE Encounter.subject.reference"),
        (r#"{"reference":"urn:uuid:7"}"#, "REFERENCE Encounter.subject.reference"),
    ] {
        assert_eq!(found(&encounter(subject)), [expected], "{subject}");
    }
    for subject in [
        r#"{"reference":"Patient/7"}"#,
        r#"{"reference":"Group/7/_history/1"}"#,
        r#"{"reference":"urn:uuid:00000000-0000-4000-8000-000000000000"}"#,
        r#"{"identifier":{"system":"urn:oid:1.2","value":"7"},"type":"Patient"}"#,
    ] {
        assert_eq!(found(&encounter(subject)), Vec::<String>::new(), "{subject}");
    }
    let urn = json(&encounter(r#"{"reference":"urn:uuid:00000000-0000-4000-8000-000000000000"}"#));
    for (resolved, count) in [(Some("Patient"), 0), (Some("Observation"), 1), (None, 1)] {
        assert_eq!(check_with(&urn, &|_| resolved).len(), count, "{resolved:?}");
    }
}

#[test]
fn contained_resources_are_referred_to() {
    let patient = |contained: &str, rest: &str| {
        format!(
            r#"{{"resourceType":"Patient","contained":[{contained}],"managingOrganization":{{"reference":"{rest}"}}}}"#
        )
    };
    let organization = r#"{"resourceType":"Organization","id":"o","name":"x"}"#;
    assert_valid(&[&patient(organization, "#o")]);
    assert_faults(&[
        (&patient(organization, "Organization/1"), "INVARIANT Patient.contained[0]"),
        (
            &patient(r#"{"resourceType":"Patient","id":"o","active":true}"#, "#o"),
            "REFERENCE Patient.managingOrganization",
        ),
        (
            &patient(r#"{"resourceType":"Organization","id":"o","name":"x","meta":{"versionId":"1"}}"#, "#o"),
            "INVARIANT Patient.contained[0]",
        ),
        (&patient(r#"{"resourceType":"Organization","id":"o","alias":["x"]}"#, "#o"), "INVARIANT Patient.contained[0]"),
    ]);
}

#[test]
fn invariants_between_elements() {
    let patient = |member: &str| format!(r#"{{"resourceType":"Patient",{member}}}"#);
    for (member, path) in [
        (r#""contact":[{"gender":"male"}]"#, "Patient.contact[0]"),
        (r#""telecom":[{"value":"1"}]"#, "Patient.telecom[0]"),
        (r#""name":[{"period":{"start":"2020-02","end":"2020-01"}}]"#, "Patient.name[0].period"),
        (r#""photo":[{"data":"AAAA"}]"#, "Patient.photo[0]"),
        (r#""extension":[{"url":"http://x.org"}]"#, "Patient.extension[0]"),
        (
            r#""extension":[{"url":"http://x.org","valueCode":"a","extension":[{"url":"b","valueCode":"c"}]}]"#,
            "Patient.extension[0]",
        ),
    ] {
        assert_eq!(found(&patient(member)), [format!("INVARIANT {path}")], "{member}");
    }
    assert_faults(&[
        (r#"{"resourceType":"Patient","extension":[{"valueCode":"x"}]}"#, "CARDINALITY Patient.extension[0].url"),
        (r#"{"resourceType":"Patient","extension":[{"url":"x","valueCode":"x"}]}"#, "FORMAT Patient.extension[0]"),
        (r#"{"resourceType":"Organization","active":true}"#, "INVARIANT Organization"),
        (
            r#"{"resourceType":"Observation","status":"final","code":{"coding":[{"code":"a"}]},"valueString":"x","component":[{"code":{"coding":[{"code":"a"}]}}]}"#,
            "INVARIANT Observation",
        ),
        (r#"{"resourceType":"AllergyIntolerance","patient":{"display":"x"}}"#, "INVARIANT AllergyIntolerance"),
        (
            r#"{"resourceType":"Condition","subject":{"display":"x"},"abatementDateTime":"2020","clinicalStatus":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/condition-clinical","code":"active"}]}}"#,
            "INVARIANT Condition",
        ),
    ]);
    assert_valid(&[
        r#"{"resourceType":"Patient","extension":[{"url":"http://x.org","extension":[{"url":"b","valueCode":"c"}]}]}"#,
        r#"{"resourceType":"Patient","_birthDate":{"extension":[{"url":"http://x.org","_valueCode":{"id":"q","extension":[{"url":"http://y.org","valueCode":"z"}]}}]}}"#,
    ]);
}

#[test]
fn issues_quote_no_value() {
    let text = r#"{"resourceType":"Patient","gender":"Jane","birthDate":"Jane","active":"Jane","managingOrganization":{"reference":"Jane"},"identifier":[{"system":"Jane","value":"Jane"}]}"#;
    let issues = check(&json(text));
    assert_eq!(issues.len(), 5);
    assert!(issues.iter().all(|issue| !issue.to_string().contains("Jane")));
}

#[test]
fn several_issues_come_in_the_order_of_the_elements() {
    let text = r#"{"resourceType":"Patient","zeta":1,"gender":"F","name":[{"family":"","use":"x"}]}"#;
    let paths: Vec<String> = check(&json(text)).into_iter().map(|issue| issue.path).collect();
    assert_eq!(paths, ["Patient.gender", "Patient.name[0].family", "Patient.name[0].use", "Patient.zeta"]);
}

/// JSON made of the names that occur in resources.
fn any_resource() -> impl Strategy<Value = Json> {
    let names = [
        "resourceType",
        "id",
        "name",
        "_birthDate",
        "birthDate",
        "extension",
        "url",
        "valueCode",
        "contained",
        "reference",
        "identifier",
        "period",
        "start",
        "end",
        "coding",
        "gender",
        "subject",
        "component",
        "given",
        "_given",
        "entry",
        "resource",
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        prop::sample::select(vec!["Patient", "Bundle", "Encounter", "#x", "2020-01-01", "é", ""]).prop_map(Json::from),
        prop::sample::select(vec!["1", "1e5"]).prop_map(|n| Json::Number(n.into())),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..6).prop_map(Json::object),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_breaks_the_check(mut json in any_resource(), resource_type in "Patient|Observation|Bundle|Parameters|Encounter") {
        if let Some(members) = json.as_object_mut() {
            members.insert("resourceType".into(), resource_type.as_str().into());
        }
        prop_assert_eq!(check(&json), check(&json));
        let _ = crate::bundle::check_bundle(&json);
    }
}
