//! Every resource of the golden bundles through fhirbolt's typed R4 model and back: what a typed reader of another make
//! takes for R4 and keeps. Built with `--features fhirbolt`, since its model takes minutes to compile.
//! Contract: equal as JSON values, numbers by their text.

#![cfg(feature = "fhirbolt")]

use fhir::Json;
use fhirbolt::model::r4::resources::Bundle;
use tests::golden::all;

#[test]
fn every_golden_bundle_keeps_its_content_in_a_typed_model() {
    let mut faults = Vec::new();
    for case in all() {
        let path = case.file("json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let sent = Json::parse(&text).expect("JSON");
        // Its default is strict: an element it does not know is an error.
        let typed: Bundle = match fhirbolt::json::from_str(&text, None) {
            Ok(bundle) => bundle,
            Err(error) => {
                faults.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        let back = fhirbolt::json::to_string(&typed, None).expect("the model is written");
        if Json::parse(&back).expect("JSON") != sent {
            faults.push(format!("{}: not the same after the model", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
