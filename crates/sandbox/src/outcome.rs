//! A refused interaction and the OperationOutcome (R4 §2.36) that tells it.

use fhir::Json;

/// Why an interaction was refused. Diagnostics name elements and rules, never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Value set issue-type.
    pub(crate) code: &'static str,
    pub(crate) diagnostics: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, diagnostics: impl Into<String>) -> Self {
        Self { status, code, diagnostics: diagnostics.into() }
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
        let issue = Json::object([
            ("severity", Json::from("error")),
            ("code", Json::from(self.code)),
            ("diagnostics", Json::string(self.diagnostics.as_str())),
        ]);
        Json::object([("resourceType", Json::from("OperationOutcome")), ("issue", Json::Array(vec![issue]))])
    }
}
