//! Every resource of the golden bundles through fhirbolt's typed R4 model and back: what a typed reader of another make
//! takes for R4 and keeps. Built with `--features fhirbolt`, since its model takes minutes to compile.
//! Contract: equal as JSON values, numbers by their text. Resources go one by one: fhirbolt 0.4 can't read the `fullUrl`
//! that follows the first resource of a Bundle.

#![cfg(feature = "fhirbolt")]

use fhir::Json;
use fhirbolt::model::r4::Resource;
use tests::golden::all;

#[test]
fn every_resource_of_the_golden_bundles_keeps_its_content_in_a_typed_model() {
    let mut faults = Vec::new();
    for case in all() {
        let path = case.file("json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let bundle = Json::parse(&text).expect("JSON");
        for entry in bundle.get("entry").map(Json::items).unwrap_or_default() {
            let resource = entry.get("resource").expect("an entry has a resource");
            let name = format!("{}: {}", path.display(), resource.resource_type().unwrap_or_default());
            match typed(resource) {
                Ok(back) if back == *resource => {}
                Ok(back) => faults.push(format!("{name}: not the same after the model\n  {resource}\n  {back}")),
                Err(error) => faults.push(format!("{name}: {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// Through the model and back. Its reader is strict by default: an element it does not know is an error.
fn typed(resource: &Json) -> Result<Json, String> {
    let typed: Resource = fhirbolt::json::from_str(&resource.to_string(), None).map_err(|e| e.to_string())?;
    let back = fhirbolt::json::to_string(&typed, None).map_err(|e| e.to_string())?;
    Json::parse(&back).map_err(|e| e.to_string())
}
