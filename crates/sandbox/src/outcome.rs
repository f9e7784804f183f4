//! A refused interaction and the OperationOutcome (R4 §2.36) that tells it.

use fhir::Json;
use fhir::check::{CheckCode, CheckIssue};

/// Issues told in one outcome.
const ISSUES_MAX: usize = 20;

/// Why an interaction was refused. Diagnostics name elements and rules, never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Value set issue-type.
    pub(crate) code: &'static str,
    pub(crate) diagnostics: String,
    /// What is wrong with the resource, where that is the reason; then `code` and `diagnostics` are its first issue's.
    pub(crate) issues: Vec<CheckIssue>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, diagnostics: impl Into<String>) -> Self {
        Self { status, code, diagnostics: diagnostics.into(), issues: Vec::new() }
    }

    /// 422: the resource breaks rules of R4. `None` if it breaks none.
    pub(crate) fn unprocessable(issues: Vec<CheckIssue>) -> Option<Self> {
        let first = issues.first()?;
        let refusal = Self::new(422, issue_type(first.code), first.to_string());
        Some(Self { issues, ..refusal })
    }

    /// 400: the request makes no sense.
    pub(crate) fn invalid(diagnostics: impl Into<String>) -> Self {
        Self::new(400, "invalid", diagnostics)
    }

    /// 400: the request asks for something that is not offered here.
    pub(crate) fn not_supported(diagnostics: impl Into<String>) -> Self {
        Self::new(400, "not-supported", diagnostics)
    }

    /// 404.
    pub(crate) fn not_found() -> Self {
        Self::new(404, "not-found", "no such resource")
    }

    /// 412: the criteria of a conditional interaction are not selective enough (R4 §3.1.0.4.3).
    pub(crate) fn several_matches(matches: usize) -> Self {
        Self::new(412, "multiple-matches", format!("{matches} resources match the criteria"))
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self.status, 409 | 412)
    }

    /// The same, said of one entry of a bundle.
    pub(crate) fn in_entry(mut self, number: usize) -> Self {
        self.diagnostics = format!("entry {number}: {}", self.diagnostics);
        self
    }

    pub(crate) fn operation_outcome(&self) -> Json {
        let mut issues = vec![issue(self.code, &self.diagnostics, None)];
        if let Some(first) = self.issues.first() {
            issues[0] = issue(self.code, &self.diagnostics, Some(&first.path));
            let more = self.issues.iter().take(ISSUES_MAX).skip(1);
            issues.extend(more.map(|more| issue(issue_type(more.code), &more.to_string(), Some(&more.path))));
        }
        Json::object([("resourceType", Json::from("OperationOutcome")), ("issue", Json::Array(issues))])
    }
}

fn issue(code: &str, diagnostics: &str, expression: Option<&str>) -> Json {
    let mut issue =
        vec![("severity", Json::from("error")), ("code", Json::from(code)), ("diagnostics", Json::from(diagnostics))];
    issue.extend(expression.map(|path| ("expression", Json::Array(vec![Json::from(path)]))));
    Json::object(issue)
}

/// Value set issue-type.
fn issue_type(code: CheckCode) -> &'static str {
    match code {
        CheckCode::Format | CheckCode::Reference => "value",
        CheckCode::Code => "code-invalid",
        CheckCode::Invariant => "invariant",
        _ => "structure",
    }
}
