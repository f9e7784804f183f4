//! Golden cases: every message of `tests/golden/messages` gives exactly its bundle (`.json`) and its ledger (`.ledger`),
//! twice, the second time from rule files read in another order. Behaviour by name is in `golden/behaviour.rs`.
//!
//! `SLUICE_GOLDEN=rewrite cargo test -p tests --test golden` writes what today's rules make of the cases; read the
//! difference before it is committed. `SLUICE_TEST_ORACLE` names a FHIR validator that takes bundle files as arguments and
//! ends in an error where one is not R4; without it that test says that it is skipped.

#[path = "golden/behaviour.rs"]
mod behaviour;

use std::path::Path;
use std::process::Command;

use tests::golden::{SETTINGS, all, compiled, judge, rule_files};

/// The variable that asks for new golden files.
const REWRITE: &str = "SLUICE_GOLDEN";

#[test]
fn every_case_gives_its_bundle_and_its_ledger() {
    let judge = judge(compiled(&rule_files()), SETTINGS);
    let rewrite = std::env::var(REWRITE).is_ok_and(|value| value == "rewrite");
    let mut faults = Vec::new();
    for case in all() {
        let outcome = case.outcome(&judge);
        for (extension, text) in [("json", &outcome.json), ("ledger", &outcome.ledger)] {
            let path = case.file(extension);
            if rewrite {
                std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            } else if let Some(fault) = difference(&path, text) {
                faults.push(fault);
            }
        }
    }
    let advice = "where the new text is right: SLUICE_GOLDEN=rewrite cargo test -p tests --test golden";
    assert!(faults.is_empty(), "{}\n{advice}", faults.join("\n"));
}

/// The first line that is not as expected.
fn difference(path: &Path, text: &str) -> Option<String> {
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == text {
        return None;
    }
    let line = expected.lines().zip(text.lines()).take_while(|(was, is)| was == is).count();
    let (was, is) = (expected.lines().nth(line), text.lines().nth(line));
    Some(format!("{}:{}: was {was:?}, is {is:?}", path.display(), line + 1))
}

#[test]
fn the_order_of_rule_files_does_not_matter() {
    let first = judge(compiled(&rule_files()), SETTINGS);
    let second = judge(compiled(&tests::corpus::shuffled(rule_files(), 41)), SETTINGS);
    assert_eq!(first.mapping_version(), second.mapping_version());
    for case in all() {
        let (first, second) = (case.outcome(&first), case.outcome(&second));
        assert_eq!(first.json, second.json, "{}", case.path.display());
        assert_eq!(first.ledger, second.ledger, "{}", case.path.display());
    }
}

#[test]
fn the_rules_in_the_binary_are_those_of_the_folder() {
    let built_in = gateway::rules::load("").expect("the built-in rules compile");
    assert_eq!(built_in.digest(), compiled(&rule_files()).digest());
}

#[test]
fn every_structure_has_a_case_in_its_folder() {
    let plan = compiled(&rule_files());
    let judge = judge(compiled(&rule_files()), SETTINGS);
    let mut seen = std::collections::BTreeSet::new();
    for case in all() {
        let folder = case.path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().into_owned();
        let ledger = case.outcome(&judge).ledger;
        assert_eq!(ledger.lines().next(), Some(format!("structure {folder}").as_str()), "{}", case.path.display());
        seen.insert(folder);
    }
    let missing: Vec<&str> = plan.structures().filter(|structure| !seen.contains(*structure)).collect();
    assert!(missing.is_empty(), "structures without a golden case: {missing:?}");
}

#[test]
fn every_bundle_is_r4() {
    let judge = judge(compiled(&rule_files()), SETTINGS);
    for case in all() {
        let issues = fhir::check_bundle(&case.outcome(&judge).bundle);
        assert!(issues.is_empty(), "{}: {issues:?}", case.path.display());
    }
}

#[test]
fn every_bundle_passes_another_validator() {
    let Some(validator) = tests::corpus::folder("SLUICE_TEST_ORACLE", "the golden bundles by another validator") else {
        return;
    };
    let files = all().into_iter().map(|case| case.file("json"));
    let output = Command::new(&validator).args(files).output().expect("the validator starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
