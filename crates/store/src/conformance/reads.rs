//! Lineage, counts, lists, the audit trail, settings: promise 5 of DESIGN §9.

use super::delivery::resource;
use super::{all_applied, arrival, at, claim, deliver, keys, repeated, resent};
use crate::{
    AcceptError, AuditEvent, Disposition, FaultKind, IdentityKeyError, ReadError, ReidentifyError, Settlement, Status,
    Store, TRACE_ROWS_MAX, Verdict,
};

async fn delivered<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    let mut resend = resent(&first, "resend");
    keys(&mut resend).message_control_id = "other control".into();
    store.accept(resend).await.unwrap();
    store.accept(repeated(&first, "again")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    let mut settlement = all_applied(&held, 6);
    settlement.resources = vec![resource("urn:1", "Patient/1")];
    settlement.message_resources = vec![("message a 1".to_owned(), "urn:1".to_owned())];
    settlement.audit = vec![AuditEvent {
        event: "delivered".to_owned(),
        message_id: Some("message a 1".to_owned()),
        detail: "{}".to_owned(),
    }];
    store.settle(&held, settlement).await.unwrap();
}

/// Receipt id, message id and MSH-10 of any receipt resolve to the same lineage.
pub async fn every_id_leads_to_the_lineage<S: Store>(store: &S) {
    delivered(store).await;
    store.accept(arrival(2, "b")).await.unwrap();
    let trace = store.trace("message a 1").await.unwrap();
    let verdicts: Vec<_> = trace.receipts.iter().map(|receipt| receipt.verdict).collect();
    assert_eq!(verdicts, [Verdict::Applied, Verdict::SkippedResend, Verdict::SkippedExact]);
    assert_eq!(trace.receipts[0].traceparent, "trace a 1");
    assert_eq!(trace.messages.len(), 1);
    assert_eq!(trace.messages[0].resources, ["urn:1"]);
    assert_eq!(trace.resources[0].server_id.as_deref(), Some("Patient/1"));
    let events: Vec<_> = trace.audit.iter().map(|row| row.event.as_str()).collect();
    assert_eq!(events, ["received", "received", "received", "delivered"]);
    assert!(!trace.truncated);
    for id in ["receipt a 1", "receipt a 1 resend", "receipt a 1 again", "control a 1", "other control"] {
        assert_eq!(store.trace(id).await.unwrap(), trace, "{id}");
    }
    assert!(store.trace("nothing").await.unwrap().receipts.is_empty());
}

/// From a server id or our own name for the resource.
pub async fn a_resource_leads_back<S: Store>(store: &S) {
    delivered(store).await;
    let trace = store.trace_resource("Patient/1").await.unwrap();
    assert_eq!(trace, store.trace("message a 1").await.unwrap());
    assert_eq!(store.trace_resource("urn:1").await.unwrap(), trace);
    assert!(store.trace_resource("Patient/2").await.unwrap().messages.is_empty());
}

/// Bounded, and says so.
pub async fn a_constant_control_id_does_not_fill_the_memory<S: Store>(store: &S) {
    for n in 0..=TRACE_ROWS_MAX as u64 {
        let mut arrival = arrival(n, "a");
        keys(&mut arrival).message_control_id = "site".into();
        store.accept(arrival).await.unwrap();
    }
    let trace = store.trace("site").await.unwrap();
    assert!(trace.truncated);
    assert_eq!(trace.receipts.len(), TRACE_ROWS_MAX);
}

/// By verdict, status and code.
pub async fn counts_add_up<S: Store>(store: &S) {
    assert_eq!(store.counts().await.unwrap(), crate::Counts::default());
    store.accept(arrival(1, "a")).await.unwrap();
    deliver(store, 5).await;
    let first = arrival(6, "a");
    store.accept(first.clone()).await.unwrap();
    store.accept(repeated(&first, "again")).await.unwrap();
    store.accept(arrival(7, "b")).await.unwrap();
    let mut parked = arrival(8, "a");
    parked.disposition = Disposition::Park("UNSUPPORTED_EVENT");
    store.accept(parked).await.unwrap();
    let counts = store.counts().await.unwrap();
    assert_eq!(
        counts.verdicts.into_iter().collect::<Vec<_>>(),
        [(Verdict::SkippedExact, 1), (Verdict::Applied, 3), (Verdict::Parked, 1)]
    );
    assert_eq!(
        counts.statuses.into_iter().collect::<Vec<_>>(),
        [(Status::Pending, 2), (Status::Applied, 1), (Status::Parked, 1)]
    );
    assert_eq!(counts.parked_codes.into_iter().collect::<Vec<_>>(), [("UNSUPPORTED_EVENT".to_owned(), 1)]);
    assert_eq!((counts.dirty_subjects, counts.oldest_pending), (2, Some(at(6))));
}

/// Oldest first, all of them once, with and without a code.
pub async fn parked_messages_come_in_pages<S: Store>(store: &S) {
    for n in 0..25 {
        let mut arrival = arrival(n, "a");
        arrival.disposition = Disposition::Park(if n % 5 == 0 { "FUTURE" } else { "NO_RULES" });
        store.accept(arrival).await.unwrap();
    }
    for (code, expected) in [(None, 25), (Some("FUTURE"), 5), (Some("NO_RULES"), 20), (Some("OTHER"), 0)] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.parked_messages(code, after, 4).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 4);
            after = Some(last.cursor);
            seen.extend(page.into_iter().map(|parked| parked.received_at));
        }
        assert_eq!(seen.len(), expected, "{code:?}");
        assert!(seen.is_sorted());
    }
}

/// Once rules exist: the message gets its subject and is due.
pub async fn a_message_is_identified_anew<S: Store>(store: &S) {
    let mut parked = arrival(1, "a");
    let identified = parked.identified.clone().unwrap();
    parked.disposition = Disposition::Park("UNSUPPORTED_EVENT");
    keys(&mut parked).subject = None;
    keys(&mut parked).business_key = None;
    store.accept(parked.clone()).await.unwrap();
    let again = |disposition| store.reidentify("message a 1", identified.clone(), disposition, at(5));
    again(Disposition::Park("NO_PATIENT")).await.unwrap();
    assert_eq!(store.parked_messages(Some("NO_PATIENT"), None, 9).await.unwrap().len(), 1);
    let nobody = crate::Identified { subject: None, ..identified.clone() };
    let refused = store.reidentify("message a 1", nobody, Disposition::Apply, at(5)).await;
    assert_eq!(refused.unwrap_err(), ReidentifyError::NoSubject);
    again(Disposition::Apply).await.unwrap();
    assert_eq!(again(Disposition::Apply).await.unwrap_err(), ReidentifyError::NotParked);
    let held = claim(store, 6).await.unwrap();
    assert_eq!((held.subject.as_str(), held.messages.len()), ("a", 1));
    // Its business key counts from now on.
    let mut corrected = arrival(2, "a");
    keys(&mut corrected).business_key = identified.business_key;
    assert_eq!(store.accept(corrected).await.unwrap().verdict, Verdict::AppliedCorrection);
}

/// Made at first start; another one only while nothing depends on it.
pub async fn the_identity_key_stays<S: Store>(store: &S) {
    let made = store.identity_key().await.unwrap();
    assert_ne!(made, [0; 32]);
    store.import_identity_key([5; 32]).await.unwrap();
    assert_eq!(store.identity_key().await.unwrap(), [5; 32]);
    store.accept(arrival(1, "a")).await.unwrap();
    store.import_identity_key([5; 32]).await.unwrap();
    assert_eq!(store.import_identity_key(made).await.unwrap_err(), IdentityKeyError::InUse);
    assert_eq!(store.identity_key().await.unwrap(), [5; 32]);
}

/// One row for each receipt and event; the head changes with each.
pub async fn the_audit_chain_holds<S: Store>(store: &S) {
    assert_eq!(store.verify_audit().await.unwrap().rows, 0);
    delivered(store).await;
    let before = store.verify_audit().await.unwrap();
    assert_eq!(before.rows, 4);
    store.accept(arrival(9, "b")).await.unwrap();
    let held = claim(store, 9).await.unwrap();
    store.park_subject(&held, "REFUSED", "422", at(10)).await.unwrap();
    let after = store.verify_audit().await.unwrap();
    assert_eq!(after.rows, 6);
    assert_ne!(before.hash, after.hash);
}

/// After closing nothing is taken, and nothing is in doubt.
pub async fn closed_is_closed<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let held = claim(store, 1).await.unwrap();
    store.close().await;
    let Err(AcceptError::Write(refused)) = store.accept(arrival(2, "a")).await else { panic!("closed") };
    assert!(refused.certainly_not_written);
    assert_eq!(refused.fault.kind, FaultKind::Closed);
    assert!(store.settle(&held, Settlement::new(at(2))).await.is_err());
    let Err(ReadError::Database(fault)) = store.counts().await else { panic!("closed") };
    assert_eq!(fault.kind, FaultKind::Closed);
    store.close().await;
}
