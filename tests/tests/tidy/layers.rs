//! Which crate may use which (the table of DESIGN §8), what each pure crate may depend on outside, and that every crate
//! takes the workspace's lints.

use toml::Table;

use crate::{Fault, report, tree};

/// A crate's place among the others.
struct Layer {
    name: &'static str,
    /// Crates of ours it may use.
    uses: &'static [&'static str],
    /// Crates of ours its tests may use besides.
    tests_use: &'static [&'static str],
    /// For a pure crate, all that it may use from outside: nothing here has a clock, I/O, randomness, environment or
    /// logging, or what has it is closed off (`.clippy.toml`).
    outside: Option<&'static [&'static str]>,
}

/// DESIGN §8. `console` comes with the console.
const LAYERS: [Layer; 12] = [
    Layer {
        name: "hl7",
        uses: &[],
        tests_use: &[],
        outside: Some(&["encoding_rs", "hl7-parser", "memchr", "thiserror"]),
    },
    Layer {
        name: "fhir",
        uses: &[],
        tests_use: &[],
        outside: Some(&["base64", "serde", "serde_json", "sha2", "smol_str", "thiserror", "uuid"]),
    },
    Layer {
        name: "mapping",
        uses: &["hl7", "fhir"],
        tests_use: &[],
        outside: Some(&["hex", "hmac", "jiff", "serde", "serde_json", "sha2", "smol_str", "thiserror", "toml", "uuid"]),
    },
    Layer {
        name: "chart",
        uses: &["hl7", "fhir", "mapping"],
        tests_use: &[],
        outside: Some(&["hex", "serde", "serde_json", "sha2", "smol_str", "thiserror"]),
    },
    Layer { name: "mllp", uses: &[], tests_use: &[], outside: None },
    Layer { name: "store", uses: &[], tests_use: &["store"], outside: None },
    Layer { name: "writer", uses: &["fhir"], tests_use: &["sandbox"], outside: None },
    Layer { name: "sandbox", uses: &["fhir"], tests_use: &[], outside: None },
    Layer { name: "console", uses: &["hl7", "fhir", "mapping", "store"], tests_use: &[], outside: None },
    Layer {
        name: "gateway",
        uses: &["hl7", "fhir", "mapping", "chart", "mllp", "store", "writer", "sandbox", "console"],
        tests_use: &[],
        outside: None,
    },
    Layer { name: "fuzz", uses: &["hl7", "fhir", "mapping", "mllp"], tests_use: &[], outside: None },
    Layer {
        name: "tests",
        uses: &["hl7", "fhir", "mapping", "chart", "mllp", "store", "writer", "sandbox", "console", "gateway"],
        tests_use: &[],
        outside: None,
    },
];

/// The pure crates' names.
pub(crate) fn pure() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().filter(|layer| layer.outside.is_some()).map(|layer| layer.name)
}

/// The names in a table of dependencies, also in those for some targets only.
fn dependencies(manifest: &Table, kind: &str) -> Vec<String> {
    let here = manifest.get(kind).and_then(toml::Value::as_table).into_iter().flat_map(Table::keys).cloned();
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(Table::values);
    let there = targets.filter_map(toml::Value::as_table).flat_map(|target| dependencies(target, kind));
    here.chain(there).collect()
}

/// Faults of one manifest.
fn check(path: &str, text: &str) -> Vec<Fault> {
    let at = |needle: &str, fault: String| {
        let line = text.lines().position(|line| line.starts_with(needle)).map_or(1, |line| line + 1);
        Fault::new(path, line, fault)
    };
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(fault) => return vec![Fault::new(path, 1, format!("not TOML: {}", fault.message()))],
    };
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str).unwrap_or_default();
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        return vec![at("name", format!("crate `{name}` is not in the table of layers"))];
    };
    let mut faults = Vec::new();
    for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
        for used in dependencies(&manifest, kind) {
            let in_tests = kind == "dev-dependencies";
            if LAYERS.iter().any(|layer| layer.name == used) {
                let allowed =
                    layer.uses.contains(&used.as_str()) || in_tests && layer.tests_use.contains(&used.as_str());
                if !allowed {
                    faults.push(at(&used, format!("`{name}` may not use `{used}` in [{kind}]")));
                }
            } else if !in_tests && layer.outside.is_some_and(|outside| !outside.contains(&used.as_str())) {
                faults.push(at(
                    &used,
                    format!("`{name}` is pure and may not use `{used}`; in [dev-dependencies] it may"),
                ));
            }
        }
    }
    if manifest.get("lints").and_then(|lints| lints.get("workspace")) != Some(&toml::Value::Boolean(true)) {
        faults.push(Fault::new(path, 1, "missing [lints] workspace = true"));
    }
    faults
}

#[test]
fn crates_use_what_their_layer_may() {
    let manifests = tree::files().into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let faults: Vec<Fault> = manifests.flat_map(|path| check(&path, &tree::text(&path).expect("UTF-8"))).collect();
    report(&faults);
}

#[test]
fn a_crate_that_looks_up_is_found() {
    let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}");
    let faults = |name: &str, rest: &str| -> Vec<String> {
        check("c/Cargo.toml", &manifest(name, rest)).into_iter().map(|f| f.to_string()).collect()
    };
    assert_eq!(faults("mapping", "[dependencies]\nhl7.workspace = true\njiff.workspace = true\n"), [""; 0]);
    assert_eq!(
        faults("hl7", "[dependencies]\nfhir.workspace = true\n"),
        ["c/Cargo.toml:6: `hl7` may not use `fhir` in [dependencies]"]
    );
    assert_eq!(faults("fhir", "[target.'cfg(unix)'.dependencies]\nrand = \"1\"\n").len(), 1);
    assert_eq!(faults("fhir", "[dev-dependencies]\nrand = \"1\"\n").len(), 0);
    assert_eq!(faults("writer", "[dev-dependencies]\nsandbox.workspace = true\n").len(), 0);
    assert_eq!(faults("writer", "[dependencies]\nsandbox.workspace = true\n").len(), 1);
    assert_eq!(faults("common", "").len(), 1);
    assert_eq!(check("c/Cargo.toml", "[package]\nname = \"hl7\"\n").len(), 1);
}
