//! The golden cases: our own messages under `tests/golden/messages/<structure>/<case>.hl7`, and what the rules of
//! the folder make of them. Not here: comparing (`tests/golden.rs`), which rules fire (`tests/rules.rs`).
//! Contract: a case is mapped with fixed settings and a fixed identity key, so that its text is the same on any machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fhir::{Json, ResourceKey};
use gateway::commands::{bundle, explanation, pretty};
use gateway::judge::Judge;
use mapping::{Contribution, Plan, RuleFile};

/// The settings of the cases: a sender in a time zone with summer time, with systems for numbers without an authority.
pub const SETTINGS: &str = r#"
[mapping]
message_header = true

[sender.default]
time_zone = "America/New_York"
patient_id_system = "https://genhosp.example/mrn"
visit_id_system = "https://genhosp.example/visit"
"#;

/// One message file.
pub struct Case {
    /// Path without extension.
    pub path: PathBuf,
    /// The message.
    pub bytes: Vec<u8>,
}

/// What the rules make of a case.
pub struct Outcome {
    /// The transaction.
    pub bundle: Json,
    /// Its text.
    pub json: String,
    /// What became of every field, and the issues.
    pub ledger: String,
    /// What it says, register by register, nulls too.
    pub contributions: Vec<Contribution>,
    /// The patient, or what else the message is about.
    pub subject: ResourceKey,
    /// File and line of every rule that fired.
    pub fired: BTreeSet<(String, u32)>,
}

/// The folder of the cases.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/messages")
}

/// All cases by path.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for structure in listed(&folder()) {
        for path in listed(&structure).into_iter().filter(|path| path.extension().is_some_and(|e| e == "hl7")) {
            let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            cases.push(Case { path: path.with_extension(""), bytes });
        }
    }
    assert!(!cases.is_empty(), "no golden cases in {}", folder().display());
    cases
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
    paths.sort();
    paths
}

/// Path and text of every rule file of `mappings/v1`.
pub fn rule_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mappings/v1");
    let mut files = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(listed(&path));
        } else if path.extension().is_some_and(|e| e == "toml" || e == "json") {
            let name = path.strip_prefix(&root).expect("a path under the root").display().to_string();
            files.push((name, std::fs::read_to_string(&path).expect("a readable rule file")));
        }
    }
    files
}

/// Compiles rule files in the order given.
pub fn compiled(files: &[(String, String)]) -> Plan {
    let files: Vec<RuleFile<'_>> = files.iter().map(|(path, text)| RuleFile { path, text }).collect();
    Plan::compile(&files).unwrap_or_else(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        panic!("{}", faults.join("\n"))
    })
}

/// A judge with the cases' settings.
pub fn judge(plan: Plan, settings: &str) -> Judge {
    let config = gateway::config::parse(settings)
        .unwrap_or_else(|faults| panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")));
    Judge::new(Arc::new(plan), &config, [7; 32]).expect("usable senders")
}

impl Case {
    /// The file of the case with an extension; its name may have points of its own.
    pub fn file(&self, extension: &str) -> PathBuf {
        PathBuf::from(format!("{}.{extension}", self.path.display()))
    }

    /// Maps the message.
    pub fn outcome(&self, judge: &Judge) -> Outcome {
        map(judge, &self.bytes).unwrap_or_else(|fault| panic!("{}: {fault}", self.path.display()))
    }
}

/// Maps a message; a fault as code, place and text.
pub fn map(judge: &Judge, bytes: &[u8]) -> Result<Outcome, String> {
    let shown = |fault: gateway::judge::Fault| {
        let place = fault.location.map(|l| format!(" at {l}")).unwrap_or_default();
        format!("{}{place}: {}", fault.outcome.code(), fault.text)
    };
    let decoded = judge.decode(bytes, "default").map_err(shown)?;
    let message = Judge::parse(&decoded.text).map_err(shown)?;
    let content = judge.judge(&message, "default").content.map_err(shown)?;
    let bundle = bundle(&content.event);
    let fired = content.mapped.ledger.fired(judge.plan()).map(|rule| (rule.file.to_owned(), rule.line)).collect();
    let json = format!("{}\n", pretty(&bundle, 0));
    let ledger = explanation(judge, &message, &content);
    let (contributions, subject) = (content.event.contributions, content.mapped.subject);
    Ok(Outcome { bundle, json, ledger, contributions, subject, fired })
}
