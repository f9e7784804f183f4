//! What an answer to a transaction means (DESIGN §5). Pure.

use fhir::OperationOutcome;
use fhir::bundle::{Bundle, BundleType, Entry, Response};
use smol_str::{SmolStr, format_smolstr};

use crate::Written;
use crate::error::{Reason, TransactError};
use crate::http::{Answer, NoAnswer};
use crate::prepare::Planned;

/// What an answer says.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Written(Vec<Written>),
    Failed(TransactError),
    /// The server refuses, and from the answer alone it cannot be told whether for the content or for a version that is not
    /// current: servers in use answer 400 for a failed `ifMatch` inside a transaction.
    Disputed {
        status: u16,
        outcome: Option<Box<OperationOutcome>>,
    },
}

pub(crate) fn read(answer: Result<Answer, NoAnswer>, planned: &[Planned]) -> Verdict {
    let Answer { status, retry_after, body } = match answer {
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(reason)) => {
            return Verdict::Failed(TransactError::Unavailable { reason, retry_after: None });
        }
        Err(NoAnswer::Lost(reason)) => {
            return Verdict::Failed(TransactError::Unknown { reason, retry_after: None });
        }
    };
    let unknown = |reason| Verdict::Failed(TransactError::Unknown { reason, retry_after });
    if (200..300).contains(&status) {
        return match body.map(Bundle::from_json) {
            Ok(Ok(bundle)) => written(bundle, planned).map_or_else(|| unknown(Reason::NotAnAnswer), Verdict::Written),
            Ok(Err(_)) => unknown(Reason::NotAnAnswer),
            Err(reason) => unknown(reason),
        };
    }
    let outcome = body.ok().and_then(|body| OperationOutcome::from_json(&body)).map(Box::new);
    let reason = Reason::Status(status);
    match status {
        401 | 403 => Verdict::Failed(TransactError::Unauthorized { status }),
        // The request was turned away before anything looked into it; without an OperationOutcome not even by a FHIR server.
        300..=399 | 407 | 429 => Verdict::Failed(TransactError::Unavailable { reason, retry_after }),
        404 | 405 if outcome.is_none() => Verdict::Failed(TransactError::Unavailable { reason, retry_after }),
        // A proxy says 503 too, also after it passed the request on; a server that means it says more.
        503 if outcome.is_some() || retry_after.is_some() => {
            Verdict::Failed(TransactError::Unavailable { reason, retry_after })
        }
        400..=499 if status != 408 => refused(status, outcome, planned),
        _ => unknown(reason),
    }
}

fn refused(status: u16, outcome: Option<Box<OperationOutcome>>, planned: &[Planned]) -> Verdict {
    let says = |code: &str| outcome.iter().flat_map(|outcome| &outcome.issues).any(|issue| issue.code == code);
    let expects = planned.iter().any(|planned| planned.if_match.is_some());
    let searches = planned.iter().any(|planned| planned.server_id.is_none());
    let conflict = Verdict::Failed(TransactError::Conflict { full_urls: Vec::new() });
    match status {
        _ if says("multiple-matches") => {
            // With one search only it is clear whose.
            let mut candidates = planned.iter().filter(|planned| planned.server_id.is_none());
            let only = candidates.next().filter(|_| candidates.next().is_none());
            Verdict::Failed(TransactError::MultipleMatches { full_url: only.map(|planned| planned.full_url.clone()) })
        }
        409 => conflict,
        412 if !searches || says("conflict") => conflict,
        412 if !expects => Verdict::Failed(TransactError::MultipleMatches { full_url: None }),
        400 | 404 | 410 | 412 | 422 if expects => Verdict::Disputed { status, outcome },
        _ => Verdict::Failed(TransactError::Refused { status, outcome }),
    }
}

/// What a transaction-response says was written; `None` if it does not answer this transaction in full.
fn written(bundle: Bundle, planned: &[Planned]) -> Option<Vec<Written>> {
    if bundle.bundle_type != BundleType::TransactionResponse || bundle.entries.len() != planned.len() {
        return None;
    }
    bundle.entries.into_iter().zip(planned).map(|(entry, planned)| written_entry(entry, planned)).collect()
}

fn written_entry(entry: Entry, planned: &Planned) -> Option<Written> {
    let response = entry.response?;
    let status = response.status_code().filter(|status| (200..300).contains(status))?;
    let located = response.resource().map(|(resource_type, id)| format_smolstr!("{resource_type}/{id}"));
    let returned = || {
        let resource = entry.resource.as_ref()?;
        Some(format_smolstr!("{}/{}", resource.resource_type()?, resource.get("id")?.as_str()?))
    };
    let server_id = planned.server_id.clone().or(located).or_else(returned)?;
    let resource_type = server_id.split('/').next()?;
    (resource_type == planned.key.resource_type).then(|| Written {
        full_url: planned.full_url.clone(),
        etag: version(&response),
        created: status == 201,
        foreign: planned.foreign.clone(),
        server_id,
    })
}

/// The version a response tells, as for `ifMatch`.
pub(crate) fn version(response: &Response) -> Option<SmolStr> {
    response.version_id().map(|version| format_smolstr!("W/\"{version}\""))
}
