//! The test rules, and mapping a message by them. Not here: tests.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;

use mapping::{Context, Contribution, MapError, Mapped, Plan, RuleFile, Sender, Zone};

/// The files of `tests/rules`, paths relative to it.
pub(crate) fn rule_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let mut files = Vec::new();
    read(&root, &root, &mut files);
    files
}

fn read(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

pub(crate) fn borrowed(files: &[(String, String)]) -> Vec<RuleFile<'_>> {
    files.iter().map(|(path, text)| RuleFile { path, text }).collect()
}

pub(crate) fn plan() -> Plan {
    Plan::compile(&borrowed(&rule_files())).unwrap()
}

pub(crate) fn sender() -> Sender {
    Sender::new("test", Zone::named("America/New_York").unwrap())
}

/// A message of the segments given; lines are segments.
pub(crate) fn text(segments: &str) -> String {
    segments.lines().flat_map(|line| [line.trim_start(), "\r"]).collect()
}

pub(crate) fn a01(segments: &str) -> String {
    let header = r"MSH|^~\&|ADT|HOSP|X|Y|20240102030405||ADT^A01^ADT_A01|1|P|2.5.1";
    text(&format!("{header}\nEVN|A01|20240102030400\n{segments}"))
}

pub(crate) fn map_with(plan: &Plan, text: &str, sender: &Sender) -> Result<Mapped, MapError> {
    let message = hl7::Message::parse(text).unwrap();
    let context = Context { sender, identity_key: b"key", message_id: "message-1", message_header: false };
    plan.map(&message, &context)
}

pub(crate) fn map(text: &str) -> Mapped {
    map_with(&plan(), text, &sender()).unwrap()
}

/// The contributions to resources of a type.
pub(crate) fn of<'m>(mapped: &'m Mapped, kind: &str) -> Vec<&'m Contribution> {
    mapped.contributions.iter().filter(|c| c.resource.resource_type == kind).collect()
}

/// A register's value as JSON text; `null` for an explicit null, `-` where nothing is said.
pub(crate) fn register(contribution: &Contribution, path: &str) -> String {
    match contribution.registers.get(path) {
        None => "-".to_owned(),
        Some(register) => register.value.as_ref().map_or("null".to_owned(), ToString::to_string),
    }
}

pub(crate) fn issues(mapped: &Mapped) -> Vec<String> {
    mapped.issues.iter().map(|issue| format!("{} {}", issue.code, issue.location)).collect()
}
