//! Time to check, read and write the bundle of a typical ADT message: six resources.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fhir::{Bundle, BundleType, Entry, Json, Request, check_bundle};

const PATIENT: &str = r#"{"resourceType":"Patient","identifier":[{"use":"usual","type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"MR"}]},"system":"urn:oid:1.2.3.4","value":"12345"},{"type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"SS"}]},"system":"http://hl7.org/fhir/sid/us-ssn","value":"999999999"}],"active":true,"name":[{"use":"official","family":"Everywoman","given":["Eve","E"],"suffix":["Jr"],"prefix":["Dr"]}],"telecom":[{"system":"phone","use":"home","value":"+1 555 555 2003"},{"system":"email","value":"eve@example.org"}],"gender":"female","birthDate":"1962-03-20","_birthDate":{"extension":[{"url":"http://hl7.org/fhir/StructureDefinition/patient-birthTime","valueDateTime":"1962-03-20T10:12:00-05:00"}]},"address":[{"use":"home","type":"physical","line":["153 Fernwood Dr."],"city":"Statesville","state":"OH","postalCode":"35292","country":"USA"}],"maritalStatus":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v3-MaritalStatus","code":"M"}]},"contact":[{"relationship":[{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0131","code":"N"}]}],"name":{"family":"Everyman","given":["Adam"]}}],"communication":[{"language":{"coding":[{"system":"urn:ietf:bcp:47","code":"en"}]},"preferred":true}],"managingOrganization":{"reference":"urn:uuid:00000000-0000-4000-8000-000000000003"}}"#;
const ENCOUNTER: &str = r#"{"resourceType":"Encounter","identifier":[{"type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"VN"}]},"system":"urn:oid:1.2.3.5","value":"V1"}],"status":"in-progress","class":{"system":"http://terminology.hl7.org/CodeSystem/v3-ActCode","code":"IMP"},"type":[{"text":"x"}],"subject":{"reference":"urn:uuid:00000000-0000-4000-8000-000000000001"},"participant":[{"type":[{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v3-ParticipationType","code":"ATND"}]}],"individual":{"reference":"urn:uuid:00000000-0000-4000-8000-000000000004"}}],"period":{"start":"2020-01-01T10:00:00+01:00"},"hospitalization":{"admitSource":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0023","code":"7"}]}},"location":[{"location":{"reference":"urn:uuid:00000000-0000-4000-8000-000000000005"},"status":"active"}],"serviceProvider":{"reference":"urn:uuid:00000000-0000-4000-8000-000000000003"}}"#;
const ORGANIZATION: &str = r#"{"resourceType":"Organization","identifier":[{"system":"urn:oid:1.2.3.6","value":"H"}],"name":"Good Health Hospital"}"#;
const PRACTITIONER: &str = r#"{"resourceType":"Practitioner","identifier":[{"system":"http://hl7.org/fhir/sid/us-npi","value":"1234567893"}],"name":[{"family":"Primary","given":["P"],"prefix":["Dr"]}]}"#;
const LOCATION: &str = r#"{"resourceType":"Location","identifier":[{"system":"urn:oid:1.2.3.7","value":"2000^2012^01"}],"status":"active","name":"2012-01","mode":"instance","physicalType":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/location-physical-type","code":"bd"}]}}"#;
const PROVENANCE: &str = r#"{"resourceType":"Provenance","target":[{"reference":"urn:uuid:00000000-0000-4000-8000-000000000001"},{"reference":"urn:uuid:00000000-0000-4000-8000-000000000002"}],"recorded":"2020-01-01T09:00:01Z","activity":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v3-DataOperation","code":"UPDATE"}]},"agent":[{"who":{"display":"ADT"}}],"entity":[{"role":"source","what":{"identifier":{"value":"MSG1"}}}]}"#;

fn bundle() -> Bundle {
    let entry = |number: u8, text: &str| {
        let resource = Json::parse(text).expect("the bench's own JSON");
        let criteria = format!("identifier=urn:oid:1.2.3|{number}");
        let request = Request::conditional_update(resource.resource_type().expect("a resource"), &criteria);
        Entry::write(format!("urn:uuid:00000000-0000-4000-8000-00000000000{number}"), resource, request)
    };
    let texts = [PATIENT, ENCOUNTER, ORGANIZATION, PRACTITIONER, LOCATION, PROVENANCE];
    let entries = (1_u8..).zip(texts).map(|(number, text)| entry(number, text)).collect();
    Bundle { bundle_type: BundleType::Transaction, entries }
}

fn benches(c: &mut Criterion) {
    let bundle = bundle();
    assert_eq!(bundle.check(), []);
    let patient = bundle.entries[0].resource.clone().expect("the patient");
    let (json, text) = (bundle.to_json(), bundle.to_text());
    c.bench_function("check/patient", |b| b.iter(|| fhir::check(black_box(&patient))));
    c.bench_function("check/bundle_of_six", |b| b.iter(|| black_box(&bundle).check()));
    c.bench_function("check/bundle_of_six_as_json", |b| b.iter(|| check_bundle(black_box(&json))));
    c.bench_function("json/read_bundle_of_six", |b| b.iter(|| Json::parse(black_box(&text))));
    c.bench_function("json/write_bundle_of_six", |b| b.iter(|| black_box(&bundle).to_text()));
    c.bench_function("bundle/reference_order_of_six", |b| {
        b.iter(|| fhir::bundle::reference_order(black_box(&bundle.entries)));
    });
}

criterion_group!(check, benches);
criterion_main!(check);
