//! The ledger for people and for tools: text and JSON. Neither shows content, only places and rules.

use std::fmt;

use fhir::Json;
use hl7::Message;
use smol_str::SmolStr;

use crate::ledger::{Fate, Leaf, Ledger, Trace};
use crate::plan::Plan;

/// A ledger with its rules by name; `Display` is the readable text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'p> {
    /// The structure the message was mapped by.
    pub structure: SmolStr,
    /// Every valued leaf in order.
    pub leaves: Vec<Leaf<'p>>,
}

impl Ledger {
    /// What became of every valued leaf, and by which rule.
    pub fn explain<'p>(&self, message: &Message<'_>, plan: &'p Plan) -> Explanation<'p> {
        Explanation { structure: self.structure_name(plan), leaves: self.leaves(message, plan) }
    }
}

impl Explanation<'_> {
    /// `{"structure": …, "leaves": [{"location": …, "fate": …, "rules": […]}]}`
    pub fn to_json(&self) -> Json {
        let leaves = self.leaves.iter().map(leaf_json).collect();
        Json::object([("structure", Json::String(self.structure.clone())), ("leaves", Json::Array(leaves))])
    }
}

fn leaf_json(leaf: &Leaf<'_>) -> Json {
    let mut pairs =
        vec![("location", Json::string(leaf.location.to_string())), ("fate", Json::from(leaf.fate.kind().as_str()))];
    match &leaf.fate {
        Fate::Mapped(rules) => pairs.push(("rules", rules_json(rules))),
        Fate::Kept(code) => pairs.extend(code.map(|code| ("code", Json::from(code.as_str())))),
        Fate::Ignored { why, file, line } => {
            pairs.push(("why", Json::string(*why)));
            if !file.is_empty() {
                pairs.push(("file", Json::string(*file)));
                pairs.push(("line", number(*line)));
            }
        }
        Fate::Failed(code, rules) => {
            pairs.push(("code", Json::from(code.as_str())));
            pairs.push(("rules", rules_json(rules)));
        }
    }
    Json::object(pairs)
}

fn rules_json(traces: &[Trace<'_>]) -> Json {
    let rule = |trace: &Trace<'_>| {
        let rule = &trace.rule;
        Json::object([
            ("path", Json::String(trace.path.clone())),
            ("file", Json::string(rule.file)),
            ("line", number(rule.line)),
            ("map", Json::string(rule.map)),
            ("rows", Json::Array(rule.rows.iter().map(|row| number(*row)).collect())),
        ])
    };
    Json::Array(traces.iter().map(rule).collect())
}

fn number(number: u32) -> Json {
    Json::Number(SmolStr::from(number.to_string()))
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "structure {}", self.structure)?;
        for leaf in &self.leaves {
            write!(f, "{:<22} {:<8}", leaf.location.to_string(), leaf.fate.kind().as_str())?;
            match &leaf.fate {
                Fate::Mapped(rules) => show_rules(f, rules)?,
                Fate::Kept(code) => {
                    if let Some(code) = code {
                        write!(f, " {code}")?;
                    }
                }
                Fate::Ignored { why, .. } => write!(f, " {why}")?,
                Fate::Failed(code, rules) => {
                    write!(f, " {code}")?;
                    show_rules(f, rules)?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn show_rules(f: &mut fmt::Formatter<'_>, traces: &[Trace<'_>]) -> fmt::Result {
    for (i, Trace { rule, path }) in traces.iter().enumerate() {
        let separator = if i == 0 { "" } else { "," };
        write!(f, "{separator} {path} ({}:{})", rule.file, rule.line)?;
    }
    Ok(())
}
