//! `sluice map`: what the rules make of messages, without store or server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use chart::Chart;
use fhir::{Bundle, Entry, Json, Request};
use hl7::Message;

use super::{ConfigFile, Failure};
use crate::judge::{self, Content, Fault, Judge};
use crate::{message_file, rules};

/// Arguments of `map`.
#[derive(Debug, clap::Args)]
pub(super) struct Map {
    /// File with one or more messages
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
    /// Show what became of every field, repetition and component instead of the resources
    #[arg(long)]
    explain: bool,
    /// With --explain: as JSON
    #[arg(long, requires = "explain")]
    json: bool,
    /// Sender of the configuration that the messages come from
    #[arg(long, default_value = "default")]
    sender: String,
}

impl Map {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = self.config.load()?;
        let plan = Arc::new(rules::load(&config.mapping.directory)?);
        // Identifiers we make depend on the deployment's key; without a store they are made with a fixed one.
        let judge = Judge::new(plan, &config, [0; 32])?;
        let bytes = std::fs::read(&self.file).map_err(|e| format!("cannot read {}: {e}", self.file.display()))?;
        let mut faults = 0;
        for message in message_file::split(&bytes) {
            if let Err(fault) = self.one(&judge, &message) {
                faults += 1;
                let place = fault.location.map(|l| format!(" at {l}")).unwrap_or_default();
                eprintln!("{}{place}: {}", fault.outcome.code(), fault.text);
            }
        }
        Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn one(&self, judge: &Judge, bytes: &[u8]) -> Result<(), Fault> {
        let decoded = judge.decode(bytes, &self.sender)?;
        let message = Judge::parse(&decoded.text)?;
        let content = judge.judge(&message, &self.sender).content?;
        if self.explain {
            self.explained(judge, &message, &content);
        } else {
            println!("{}", pretty(&bundle(&content.event), 0));
        }
        judge::check(content).map(drop)
    }

    fn explained(&self, judge: &Judge, message: &Message<'_>, content: &Content) {
        if self.json {
            println!("{}", pretty(&content.mapped.ledger.explain(message, judge.plan()).to_json(), 0));
        } else {
            print!("{}", explanation(judge, message, content));
        }
    }
}

/// What became of every field, then the issues, a line each; no content of the message.
pub fn explanation(judge: &Judge, message: &Message<'_>, content: &Content) -> String {
    let issues =
        content.mapped.issues.iter().map(|issue| {
            format!("{} at {} {}: {}\n", issue.code, issue.location, issue.path, issue.code.meaning().trim())
        });
    let ledger = content.mapped.ledger.explain(message, judge.plan());
    std::iter::once(format!("{ledger}\n")).chain(issues).collect()
}

/// The transaction that would create the message's resources on an empty server.
pub fn bundle(event: &chart::Event) -> Json {
    let chart = Chart::fold(std::slice::from_ref(event));
    let entries = chart.resources().map(|(key, state)| {
        let request = Request::conditional_update(&key.resource_type, &writer::criteria(key));
        Entry::write(key.full_url(), state.render(&key.resource_type).json, request)
    });
    let mut bundle = Bundle::transaction(entries.collect());
    bundle.sort();
    bundle.to_json()
}

/// JSON for people: two spaces a level.
pub fn pretty(json: &Json, level: usize) -> String {
    let inner = "  ".repeat(level + 1);
    let outer = "  ".repeat(level);
    match json {
        Json::Array(items) if !items.is_empty() => {
            let items: Vec<String> = items.iter().map(|i| format!("{inner}{}", pretty(i, level + 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        Json::Object(members) if !members.is_empty() => {
            let first = members.iter().filter(|(name, _)| *name == "resourceType");
            let rest = members.iter().filter(|(name, _)| *name != "resourceType");
            let members: Vec<String> = first
                .chain(rest)
                .map(|(name, value)| format!("{inner}{}: {}", Json::String(name.clone()), pretty(value, level + 1)))
                .collect();
            format!("{{\n{}\n{outer}}}", members.join(",\n"))
        }
        other => other.to_string(),
    }
}
