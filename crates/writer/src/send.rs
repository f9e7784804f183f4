//! Sends a prepared bundle, and settles what the answer alone does not.

use fhir::OperationOutcome;
use smol_str::SmolStr;

use crate::answer::{self, Verdict};
use crate::error::TransactError;
use crate::lookup::{Found, Question};
use crate::prepare::{Planned, Prepared};
use crate::{Writer, Written};

impl Writer {
    /// Sends the bundle, once. What was adopted comes first in the answer. A bundle without entries is not sent.
    pub async fn send(&self, prepared: Prepared) -> Result<Vec<Written>, TransactError> {
        let Prepared { bundle, adopted, planned } = prepared;
        if bundle.entries.is_empty() {
            return Ok(adopted);
        }
        match answer::read(self.http.post(&bundle).await, &planned) {
            Verdict::Written(written) => Ok(adopted.into_iter().chain(written).collect()),
            Verdict::Failed(error) => Err(error),
            Verdict::Disputed { status, outcome } => Err(self.settle_dispute(status, outcome, &planned).await),
        }
    }

    /// Was the bundle refused for a version that is not current? The versions on the server tell.
    async fn settle_dispute(
        &self,
        status: u16,
        outcome: Option<Box<OperationOutcome>>,
        planned: &[Planned],
    ) -> TransactError {
        match self.outdated(planned).await {
            // It cannot be told; whoever reads again before the next write does no harm.
            None => TransactError::Conflict { full_urls: Vec::new() },
            Some(full_urls) if !full_urls.is_empty() => TransactError::Conflict { full_urls },
            Some(_) if status == 412 => TransactError::MultipleMatches { full_url: None },
            Some(_) => TransactError::Refused { status, outcome },
        }
    }

    /// `fullUrl`s of the entries whose `ifMatch` is not the current version.
    async fn outdated(&self, planned: &[Planned]) -> Option<Vec<SmolStr>> {
        let expecting: Vec<&Planned> = planned.iter().filter(|planned| planned.if_match.is_some()).collect();
        let mut questions = Vec::new();
        for planned in &expecting {
            questions.push(Question { key: &planned.key, server_id: planned.server_id.as_deref() });
        }
        let found = self.lookup(&questions).await.ok()?;
        let outdated = expecting.into_iter().filter(|planned| match found.get(&planned.full_url) {
            Some(Found::One(remote)) => remote.etag != planned.if_match,
            _ => true,
        });
        Some(outdated.map(|planned| planned.full_url.clone()).collect())
    }
}
