//! OperationOutcome (R4 §2.35): what a server says about a request, and the one a server of ours says.
//!
//! Severity, codes and expressions may be shown to operators ([`OperationOutcome::summary`]). Diagnostics and details texts
//! often quote the resource, so they're PHI: they come from [`OperationOutcome::diagnostics`] only, and `Debug` leaves them out.

use std::fmt;

use smol_str::SmolStr;

use crate::json::{Json, Object};

/// Greatest number of issues and expressions in a summary.
const SUMMARY_ISSUES_MAX: usize = 10;
/// Greatest number of characters of a code or expression in a summary.
const SUMMARY_WORD_CHARS_MAX: usize = 120;

/// issue.severity (value set issue-severity), the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the standard's codes")]
pub enum Severity {
    Fatal,
    Error,
    Warning,
    Information,
}

impl Severity {
    /// The code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
        }
    }

    fn parse(code: &str) -> Option<Self> {
        [Self::Fatal, Self::Error, Self::Warning, Self::Information].into_iter().find(|s| s.as_str() == code)
    }
}

/// An OperationOutcome: its issues.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OperationOutcome {
    /// At least one in a valid outcome.
    pub issues: Vec<Issue>,
}

/// OperationOutcome.issue
#[derive(Clone, PartialEq, Eq)]
pub struct Issue {
    /// How grave it is.
    pub severity: Severity,
    /// Value set issue-type: `invalid`, `duplicate`, `multiple-matches`, `conflict` …
    pub code: SmolStr,
    /// details.coding as (system, code).
    pub details: Vec<(SmolStr, SmolStr)>,
    /// details.text: may quote PHI.
    pub details_text: Option<SmolStr>,
    /// Additional text of the server: may quote PHI.
    pub diagnostics: Option<SmolStr>,
    /// FHIRPath of the elements concerned, or `location` of servers that still write that.
    pub expression: Vec<SmolStr>,
}

impl Issue {
    /// An issue with its severity and type.
    pub fn new(severity: Severity, code: impl Into<SmolStr>) -> Self {
        Self {
            severity,
            code: code.into(),
            details: Vec::new(),
            details_text: None,
            diagnostics: None,
            expression: Vec::new(),
        }
    }

    /// With diagnostics.
    #[must_use]
    pub fn diagnostics(self, text: impl Into<SmolStr>) -> Self {
        Self { diagnostics: Some(text.into()), ..self }
    }

    /// With one more expression.
    #[must_use]
    pub fn at(mut self, expression: impl Into<SmolStr>) -> Self {
        self.expression.push(expression.into());
        self
    }

    /// Servers leave out what they must not; an issue without severity counts as an error, one without code as `unknown`.
    fn from_json(json: &Json) -> Self {
        let text = |json: &Json, name: &str| json.get(name).and_then(Json::as_str).map(SmolStr::new);
        let severity = text(json, "severity").and_then(|code| Severity::parse(&code)).unwrap_or(Severity::Error);
        let mut issue = Self::new(severity, text(json, "code").unwrap_or_else(|| "unknown".into()));
        issue.diagnostics = text(json, "diagnostics");
        if let Some(details) = json.get("details") {
            issue.details_text = text(details, "text");
            let codings = details.get("coding").map_or(&[][..], Json::items).iter();
            issue.details = codings
                .filter_map(|coding| Some((text(coding, "system").unwrap_or_default(), text(coding, "code")?)))
                .collect();
        }
        let list = |name| json.get(name).map_or(&[][..], Json::items).iter().filter_map(Json::as_str).map(SmolStr::new);
        issue.expression = list("expression").collect();
        if issue.expression.is_empty() {
            issue.expression = list("location").collect();
        }
        issue
    }

    fn to_json(&self) -> Json {
        let mut issue = Object::new();
        let mut put = |name: &str, value: Json| issue.insert(name.into(), value);
        put("severity", self.severity.as_str().into());
        put("code", Json::String(self.code.clone()));
        if !self.details.is_empty() || self.details_text.is_some() {
            put("details", self.details_json());
        }
        if let Some(text) = &self.diagnostics {
            put("diagnostics", Json::String(text.clone()));
        }
        if !self.expression.is_empty() {
            put("expression", Json::Array(self.expression.iter().cloned().map(Json::String).collect()));
        }
        Json::Object(issue)
    }

    fn details_json(&self) -> Json {
        let mut details = Object::new();
        let codings: Vec<Json> = self.details.iter().map(|(system, code)| coding(system, code)).collect();
        if !codings.is_empty() {
            details.insert("coding".into(), Json::Array(codings));
        }
        if let Some(text) = &self.details_text {
            details.insert("text".into(), Json::String(text.clone()));
        }
        Json::Object(details)
    }

    fn summary(&self, out: &mut String) {
        out.push_str(self.severity.as_str());
        out.push(' ');
        out.push_str(word(&self.code));
        for (_, code) in self.details.iter().take(SUMMARY_ISSUES_MAX) {
            out.push('/');
            out.push_str(word(code));
        }
        for (index, expression) in self.expression.iter().take(SUMMARY_ISSUES_MAX).enumerate() {
            out.push_str(if index == 0 { " at " } else { ", " });
            out.push_str(path(expression));
        }
    }
}

impl OperationOutcome {
    /// An outcome with one issue.
    pub fn of(issue: Issue) -> Self {
        Self { issues: vec![issue] }
    }

    /// Reads an outcome; `None` for anything else.
    pub fn from_json(json: &Json) -> Option<Self> {
        let issues = json.get("issue").map_or(&[][..], Json::items).iter().map(Issue::from_json);
        (json.resource_type() == Some("OperationOutcome")).then(|| Self { issues: issues.collect() })
    }

    /// The resource.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("resourceType", Json::from("OperationOutcome")),
            ("issue", Json::Array(self.issues.iter().map(Issue::to_json).collect())),
        ])
    }

    /// The gravest severity among the issues.
    pub fn severity(&self) -> Option<Severity> {
        self.issues.iter().map(|issue| issue.severity).min()
    }

    /// Severities, codes and element paths, for logs and operators: `error duplicate at Patient.identifier`. Values inside
    /// expressions are cut off; words that don't look like a code are shown as `?`.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        for (index, issue) in self.issues.iter().take(SUMMARY_ISSUES_MAX).enumerate() {
            if index > 0 {
                out.push_str("; ");
            }
            issue.summary(&mut out);
        }
        if self.issues.len() > SUMMARY_ISSUES_MAX {
            out.push_str("; …");
        }
        out
    }

    /// Texts of the server, which may quote PHI: to be stored and shown where the message itself may be.
    pub fn diagnostics(&self) -> impl Iterator<Item = &str> {
        self.issues.iter().flat_map(|issue| [&issue.details_text, &issue.diagnostics]).flatten().map(SmolStr::as_str)
    }
}

impl fmt::Debug for OperationOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationOutcome({})", self.summary())
    }
}

impl fmt::Debug for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.summary(&mut out);
        write!(f, "Issue({out})")
    }
}

fn coding(system: &SmolStr, code: &SmolStr) -> Json {
    let system = Some(("system", Json::String(system.clone()))).filter(|_| !system.is_empty());
    Json::object(system.into_iter().chain([("code", Json::String(code.clone()))]))
}

/// A code, or `?` for text in a code's place.
fn word(code: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !code.is_empty() && code.len() <= SUMMARY_WORD_CHARS_MAX && code.chars().all(plain) { code } else { "?" }
}

/// The element path an expression begins with: up to the first function, filter or text.
fn path(expression: &str) -> &str {
    let end = expression.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']' | '_')));
    let end = end.unwrap_or(expression.len()).min(SUMMARY_WORD_CHARS_MAX);
    // `name.where(` leaves `name.where`, whose last part is a function's name and no value.
    expression.get(..end).filter(|path| path.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut issue =
            Issue::new(Severity::Error, "duplicate").diagnostics("MRN 12345 again").at("Patient.identifier");
        issue.details = vec![("http://x.org".into(), "E7".into()), (SmolStr::default(), "E8".into())];
        issue.details_text = Some("Jane Doe".into());
        let outcome = OperationOutcome { issues: vec![issue, Issue::new(Severity::Information, "informational")] };
        let json = outcome.to_json();
        assert_eq!(OperationOutcome::from_json(&json), Some(outcome.clone()));
        assert_eq!(crate::check(&json), []);
        assert_eq!(outcome.severity(), Some(Severity::Error));
        assert_eq!(outcome.diagnostics().collect::<Vec<_>>(), ["Jane Doe", "MRN 12345 again"]);
    }

    #[test]
    fn what_operators_see_has_no_values() {
        let outcome = OperationOutcome::from_json(
            &Json::parse(
                r#"{"resourceType":"OperationOutcome","issue":[
                {"severity":"error","code":"multiple-matches","diagnostics":"12345","expression":["Patient.identifier.where(value='12345')","'12345'"]},
                {"code":"Jane Doe","details":{"text":"Jane","coding":[{"code":"MSG_DUPLICATE"}]},"location":["Bundle.entry[0].resource"]},
                {"severity":"odd"}]}"#,
            )
            .unwrap(),
        )
        .unwrap();
        let expected = "error multiple-matches at Patient.identifier.where, ?; error ?/MSG_DUPLICATE at Bundle.entry[0].resource; error unknown";
        assert_eq!(outcome.summary(), expected);
        assert_eq!(format!("{outcome:?}"), format!("OperationOutcome({expected})"));
    }

    #[test]
    fn an_odd_outcome_is_read_as_far_as_it_goes() {
        assert_eq!(OperationOutcome::from_json(&Json::Null), None);
        assert_eq!(OperationOutcome::from_json(&Json::parse(r#"{"resourceType":"Patient"}"#).unwrap()), None);
        let empty =
            OperationOutcome::from_json(&Json::parse(r#"{"resourceType":"OperationOutcome"}"#).unwrap()).unwrap();
        assert_eq!((empty.issues.len(), empty.summary().as_str()), (0, ""));
        let many = OperationOutcome { issues: vec![Issue::new(Severity::Fatal, "exception"); 12] };
        assert!(many.summary().ends_with("; …"));
    }
}
