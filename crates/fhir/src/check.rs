//! The check of a resource before it's sent: names, JSON types, cardinality, primitive formats, required codes, references
//! and invariants of R4, against the element table.
//!
//! A resource without issues is accepted by a server that holds to R4 itself; profiles and extension definitions are not
//! checked, nor displays. Issues name elements and rules, never values, so they may be logged. Bundles as a whole: `bundle`.

mod reference;
mod terminology;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;
use std::fmt;

use crate::element::ElementTable;
use crate::json::Json;

/// What kind of rule a resource breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckCode {
    /// A resource type or an element that R4 doesn't have.
    UnknownElement,
    /// Another JSON type: a string for a boolean, an object for an array.
    JsonType,
    /// Missing, too many, or several types of one choice.
    Cardinality,
    /// The form of a primitive value.
    Format,
    /// An empty string, array or object (R4 §2.6.2: there are none).
    Empty,
    /// A `null` that doesn't stand for an extension in an array of primitives (R4 §2.6.2.3).
    Null,
    /// A code outside the value set of its binding.
    Code,
    /// A reference that is malformed, leads nowhere, or to a type that isn't allowed.
    Reference,
    /// An invariant of the standard; the message begins with its key.
    Invariant,
    /// A bundle whose entries don't fit one another or their requests.
    Bundle,
}

impl CheckCode {
    /// Stable text for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownElement => "UNKNOWN_ELEMENT",
            Self::JsonType => "JSON_TYPE",
            Self::Cardinality => "CARDINALITY",
            Self::Format => "FORMAT",
            Self::Empty => "EMPTY",
            Self::Null => "NULL",
            Self::Code => "CODE",
            Self::Reference => "REFERENCE",
            Self::Invariant => "INVARIANT",
            Self::Bundle => "BUNDLE",
        }
    }
}

impl fmt::Display for CheckCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule a resource breaks, and where. No part of it quotes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckIssue {
    /// `Patient.name[0].family`
    pub path: String,
    /// The kind of rule.
    pub code: CheckCode,
    /// The rule.
    pub message: Cow<'static, str>,
}

impl fmt::Display for CheckIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.path, self.message)
    }
}

/// Checks a resource by itself: `urn:` references may lead anywhere.
pub fn check(resource: &Json) -> Vec<CheckIssue> {
    run(resource, None)
}

/// Checks a resource among others: `resolve` gives the resource type behind a `urn:` reference, `None` where there is none.
pub fn check_with<'t>(resource: &Json, resolve: &dyn Fn(&str) -> Option<&'t str>) -> Vec<CheckIssue> {
    run(resource, Some(resolve))
}

/// Finds the resource type behind a `urn:` reference.
pub(crate) type Resolve<'w, 't> = &'w dyn Fn(&str) -> Option<&'t str>;

fn run(resource: &Json, resolve: Option<Resolve<'_, '_>>) -> Vec<CheckIssue> {
    let mut issues = Vec::new();
    let name = resource.resource_type().filter(|name| ElementTable::r4().is_resource_type(name)).unwrap_or("Resource");
    resource_at(resource, &Place::root(name), resolve, &mut issues);
    issues
}

/// Checks a resource at a place of its own, e.g. `entry[2].resource`.
pub(crate) fn resource_at(
    resource: &Json,
    at: &Place<'_>,
    resolve: Option<Resolve<'_, '_>>,
    issues: &mut Vec<CheckIssue>,
) {
    walk::Walk::new(resource, resolve, issues).resource(resource, at);
}

/// Where the check is. Text is made of it for an issue only.
pub(crate) struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Name(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    pub(crate) fn root(name: &'p str) -> Self {
        Self { parent: None, step: Step::Name(name) }
    }

    pub(crate) fn member(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), step: Step::Name(name) }
    }

    pub(crate) fn item(&'p self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Name(name) => {
                if self.parent.is_some() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }

    pub(crate) fn issue(&self, code: CheckCode, message: impl Into<Cow<'static, str>>) -> CheckIssue {
        let mut path = String::new();
        self.write(&mut path);
        CheckIssue { path, code, message: message.into() }
    }
}
