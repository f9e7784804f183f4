//! The CapabilityStatement (R4 §5.1): what this sandbox is and can.

use fhir::{ElementTable, Json};

use crate::SOFTWARE_NAME;
use crate::profile::Profile;

pub(crate) fn statement(base_url: &str, profile: &Profile) -> Json {
    let resources = ElementTable::r4().resource_types().map(|resource_type| resource(resource_type, profile)).collect();
    let rest = Json::object([
        ("mode", Json::from("server")),
        ("resource", Json::Array(resources)),
        ("interaction", codes(&["transaction", "batch"])),
    ]);
    Json::object([
        ("resourceType", Json::from("CapabilityStatement")),
        ("status", Json::from("active")),
        ("date", Json::from("2024-01-01")),
        ("kind", Json::from("instance")),
        (
            "software",
            Json::object([("name", Json::from(SOFTWARE_NAME)), ("version", Json::from(env!("CARGO_PKG_VERSION")))]),
        ),
        ("implementation", Json::object([("description", Json::from(SOFTWARE_NAME)), ("url", Json::string(base_url))])),
        ("fhirVersion", Json::from("4.0.1")),
        ("format", Json::Array(vec![Json::from("application/fhir+json")])),
        ("rest", Json::Array(vec![rest])),
    ])
}

fn resource(resource_type: &str, profile: &Profile) -> Json {
    let interactions = ["read", "vread", "update", "delete", "history-instance", "create", "search-type"];
    let parameters = [("_id", "token"), ("_tag", "token"), ("identifier", "token")]
        .into_iter()
        .chain(["patient", "subject", "encounter", "target"].map(|name| (name, "reference")));
    let parameters =
        parameters.map(|(name, kind)| Json::object([("name", Json::from(name)), ("type", Json::from(kind))]));
    Json::object([
        ("type", Json::from(resource_type)),
        ("interaction", codes(&interactions)),
        ("versioning", Json::from(if profile.ignores_if_match { "versioned" } else { "versioned-update" })),
        ("readHistory", Json::from(true)),
        ("updateCreate", Json::from(!profile.refuses_client_ids)),
        ("conditionalCreate", Json::from(true)),
        ("conditionalRead", Json::from("not-match")),
        ("conditionalUpdate", Json::from(true)),
        ("conditionalDelete", Json::from("not-supported")),
        ("searchParam", Json::Array(parameters.collect())),
    ])
}

fn codes(codes: &[&str]) -> Json {
    Json::Array(codes.iter().map(|code| Json::object([("code", Json::from(*code))])).collect())
}
