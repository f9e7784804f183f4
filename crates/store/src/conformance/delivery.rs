//! Leases, epochs, attempts, settlements: DESIGN §2, §5 and promises 1 and 3 of §9 as far as the store keeps them.

use std::collections::BTreeSet;

use super::{LEASE, all_applied, arrival, at, claim, deliver};
use crate::Checkpoint;
use crate::{
    Attempt, AttemptError, AuditEvent, ClaimError, LeaseError, ParkedFilter, Resource, SettleError, Settlement, Status,
    Store,
};

fn attempt(id: &str, resources: &[&str], now: u64) -> Attempt {
    Attempt {
        attempt_id: id.to_owned(),
        resources: resources.iter().map(|full_url| (*full_url).to_owned()).collect(),
        bundle_hash: [7; 32],
        created_at: at(now),
    }
}

pub(super) fn resource(full_url: &str, server_id: &str) -> Resource {
    Resource {
        full_url: full_url.to_owned(),
        resource_type: "Patient".to_owned(),
        system: "urn:id:mrn".to_owned(),
        value: "1".to_owned(),
        subject: "a".to_owned(),
        server_id: Some(server_id.to_owned()),
        etag: Some("W/\"1\"".to_owned()),
        hash: [9; 32],
        foreign_elements: "{}".to_owned(),
    }
}

/// Fair: in the order in which subjects became due, whatever else they get meanwhile.
pub async fn the_longest_due_comes_first<S: Store>(store: &S) {
    for (n, subject) in [(3, "c"), (1, "a"), (2, "b"), (4, "a"), (9, "z")] {
        store.accept(arrival(n, subject)).await.unwrap();
    }
    let mut order = Vec::new();
    while let Some(claim) = claim(store, 5).await {
        order.push((claim.subject.clone(), claim.messages.len()));
    }
    let expected = [("a", 2), ("b", 1), ("c", 1)];
    assert_eq!(order, expected.map(|(subject, messages)| (subject.to_owned(), messages)), "z is not due yet");
    assert_eq!(claim(store, 9).await.unwrap().subject, "z");
}

/// Held until the lease ends; then the next holder has the next epoch.
pub async fn a_lease_excludes_until_it_ends<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let first = claim(store, 5).await.unwrap();
    assert!(claim(store, 5).await.is_none());
    store.accept(arrival(2, "a")).await.unwrap();
    assert!(claim(store, 64).await.is_none(), "a new message does not break a lease");
    assert_eq!(store.next_due().await.unwrap(), Some(at(65)));
    let second = claim(store, 65).await.unwrap();
    assert_eq!((second.epoch, second.messages.len()), (first.epoch + 1, 2));
}

/// Every write under a lease that was taken over is refused, and leaves nothing.
pub async fn a_zombie_finishes_nothing<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let zombie = claim(store, 5).await.unwrap();
    let holder = claim(store, 100).await.unwrap();
    let mut settlement = all_applied(&zombie, 101);
    settlement.checkpoints = vec![checkpoint("urn:1", 0, b"zombie")];
    assert_eq!(store.settle(&zombie, settlement).await.unwrap_err(), SettleError::StaleEpoch);
    let late = store.record_attempt(&zombie, attempt("zombie", &["urn:1"], 101)).await;
    assert_eq!(late.unwrap_err(), AttemptError::StaleEpoch);
    assert_eq!(store.renew(&zombie, LEASE, at(101)).await.unwrap_err(), LeaseError::StaleEpoch);
    assert_eq!(store.release(&zombie, at(101), "zombie").await.unwrap_err(), LeaseError::StaleEpoch);
    assert_eq!(store.park_subject(&zombie, "X", "", at(101)).await.unwrap_err(), LeaseError::StaleEpoch);
    let more = store.claim_more(&zombie, &["b".to_owned()], LEASE, at(101)).await;
    assert_eq!(more.unwrap_err(), ClaimError::StaleEpoch);
    assert!(store.checkpoints(&["urn:1".to_owned()]).await.unwrap().is_empty());
    store.settle(&holder, all_applied(&holder, 102)).await.unwrap();
    assert_eq!(store.settle(&holder, Settlement::new(at(103))).await.unwrap_err(), SettleError::StaleEpoch, "ended");
}

/// Renewing moves the end.
pub async fn a_renewed_lease_lasts<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    store.renew(&held, LEASE, at(60)).await.unwrap();
    assert!(claim(store, 119).await.is_none());
    assert!(claim(store, 120).await.is_some());
}

/// Checkpoints, shadows, lineage and status, in one.
pub async fn a_settlement_is_read_back<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    let urls = ["urn:1".to_owned(), "urn:2".to_owned()];
    let mut settlement = all_applied(&held, 6);
    settlement.checkpoints = vec![checkpoint("urn:1", 0, b"one"), checkpoint("urn:2", 0, b"two")];
    settlement.resources = vec![resource("urn:1", "Patient/1")];
    settlement.message_resources = vec![("message a 1".to_owned(), "urn:1".to_owned())];
    store.settle(&held, settlement).await.unwrap();
    let checkpoints = store.checkpoints(&urls).await.unwrap();
    assert_eq!(
        checkpoints.into_values().map(|c| (c.version, c.registers)).collect::<Vec<_>>(),
        [(1, b"one".to_vec()), (1, b"two".to_vec())]
    );
    assert_eq!(store.resources(&urls).await.unwrap()["urn:1"], resource("urn:1", "Patient/1"));
    assert_eq!(store.trace("message a 1").await.unwrap().messages[0].status, Status::Applied);
    let owners = store.owners(&["Patient/1".to_owned(), "Patient/2".to_owned()]).await.unwrap();
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [("Patient/1".to_owned(), "urn:1".to_owned())]);
    // A second settlement replaces them.
    store.accept(arrival(7, "a")).await.unwrap();
    let held = claim(store, 8).await.unwrap();
    let mut settlement = all_applied(&held, 9);
    settlement.checkpoints = vec![checkpoint("urn:1", 1, b"new")];
    settlement.resources = vec![resource("urn:1", "Patient/2")];
    store.settle(&held, settlement).await.unwrap();
    assert_eq!(store.checkpoints(&urls).await.unwrap()["urn:1"], Checkpoint { version: 2, registers: b"new".to_vec() });
    assert_eq!(store.resources(&urls).await.unwrap()["urn:1"].server_id.as_deref(), Some("Patient/2"));
}

/// Two claims fold one shared resource: the second to settle folds again, whatever the leases say.
pub async fn a_checkpoint_that_moved_is_noticed<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    store.accept(arrival(1, "b")).await.unwrap();
    let (first, second) = (claim(store, 5).await.unwrap(), claim(store, 5).await.unwrap());
    let mut settlement = all_applied(&first, 6);
    settlement.checkpoints = vec![checkpoint("urn:shared", 0, b"first")];
    store.settle(&first, settlement).await.unwrap();
    let mut settlement = all_applied(&second, 7);
    settlement.checkpoints = vec![checkpoint("urn:shared", 0, b"second"), checkpoint("urn:own", 0, b"second")];
    assert_eq!(store.settle(&second, settlement.clone()).await, Err(SettleError::CheckpointMoved));
    let urls = ["urn:own".to_owned(), "urn:shared".to_owned()];
    let found = store.checkpoints(&urls).await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [checkpoint("urn:shared", 1, b"first")]);
    settlement.checkpoints = vec![checkpoint("urn:shared", 1, b"both"), checkpoint("urn:own", 0, b"second")];
    store.settle(&second, settlement).await.unwrap();
    assert_eq!(store.checkpoints(&urls).await.unwrap()["urn:shared"].registers, b"both");
}

fn checkpoint(full_url: &str, version: i64, registers: &[u8]) -> (String, Checkpoint) {
    (full_url.to_owned(), Checkpoint { version, registers: registers.to_vec() })
}

/// One bundle a message under one lease.
pub async fn a_kept_lease_goes_on<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    store.accept(arrival(2, "a")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    let one = Settlement { applied: vec!["message a 1".into()], keep_lease: true, ..Settlement::new(at(6)) };
    store.settle(&held, one).await.unwrap();
    assert!(claim(store, 7).await.is_none());
    let two = Settlement { applied: vec!["message a 2".into()], keep_lease: true, ..Settlement::new(at(8)) };
    store.settle(&held, two).await.unwrap();
    // Nothing is pending, the lease stands: a new message must not let anybody in.
    store.accept(arrival(9, "a")).await.unwrap();
    assert!(claim(store, 10).await.is_none());
    assert_eq!(store.next_due().await.unwrap(), Some(at(65)));
    store.settle(&held, Settlement::new(at(11))).await.unwrap();
    assert_eq!(claim(store, 11).await.unwrap().messages.len(), 1);
}

/// Until its time; failures are counted until something is settled.
pub async fn a_released_subject_waits<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    for failures in 0..3 {
        let held = claim(store, 10 * u64::from(failures) + 5).await.unwrap();
        assert_eq!(held.failures, failures);
        store.release(&held, at(10 * u64::from(failures) + 15), "503").await.unwrap();
        store.accept(arrival(u64::from(failures) + 2, "a")).await.unwrap();
        assert!(claim(store, 10 * u64::from(failures) + 14).await.is_none(), "a new message does not end the wait");
    }
    deliver(store, 35).await;
    store.accept(arrival(50, "a")).await.unwrap();
    assert_eq!(claim(store, 50).await.unwrap().failures, 0);
}

/// A poisoned subject waits alone, visibly, until it is retried.
pub async fn a_parked_subject_holds_only_itself<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    store.accept(arrival(2, "b")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    store.park_subject(&held, "REFUSED", "422: element missing", at(6)).await.unwrap();
    store.accept(arrival(3, "a")).await.unwrap();
    assert_eq!(claim(store, 7).await.unwrap().subject, "b");
    assert!(claim(store, 7).await.is_none());
    let parked = store.parked_subjects(None, 10).await.unwrap();
    assert_eq!((parked[0].code.as_str(), parked[0].summary.as_str()), ("REFUSED", "422: element missing"));
    assert!(store.parked_subjects(Some("a"), 10).await.unwrap().is_empty());
    let other = ParkedFilter { code: Some("OTHER".to_owned()), ..ParkedFilter::default() };
    assert_eq!(store.retry_parked(&other, at(8)).await.unwrap().subjects, 0);
    let filter = ParkedFilter { code: Some("REFUSED".to_owned()), ..ParkedFilter::default() };
    assert_eq!(store.retry_parked(&filter, at(8)).await.unwrap().subjects, 1);
    let again = claim(store, 8).await.unwrap();
    assert_eq!((again.subject.as_str(), again.messages.len()), ("a", 2));
}

/// In more than one chunk; those without a subject are counted, not lost.
pub async fn parked_messages_can_be_retried<S: Store>(store: &S) {
    for n in 1..=600 {
        store.accept(arrival(n, "a")).await.unwrap();
    }
    while let Some(held) = claim(store, 1000).await {
        let parked = held.messages.iter().map(|message| (message.message_id.clone(), "MAP".to_owned())).collect();
        store.settle(&held, Settlement { parked, ..Settlement::new(at(1000)) }).await.unwrap();
    }
    assert_eq!(store.counts().await.unwrap().parked_codes["MAP"], 600);
    let one = ParkedFilter { message_id: Some("message a 5".to_owned()), ..ParkedFilter::default() };
    assert_eq!(store.retry_parked(&one, at(1002)).await.unwrap().messages, 1);
    deliver(store, 1002).await;
    let mut homeless = arrival(700, "a");
    homeless.disposition = crate::Disposition::Park("MAP");
    super::keys(&mut homeless).subject = None;
    store.accept(homeless).await.unwrap();
    let filter = ParkedFilter { code: Some("MAP".to_owned()), ..ParkedFilter::default() };
    let retried = store.retry_parked(&filter, at(1003)).await.unwrap();
    assert_eq!((retried.messages, retried.without_subject), (599, 1));
    deliver(store, 1003).await;
    assert_eq!(store.counts().await.unwrap().statuses[&Status::Applied], 600);
}

/// A settlement may name the claim's messages only.
pub async fn only_claimed_messages_settle<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    store.accept(arrival(2, "b")).await.unwrap();
    let held = claim(store, 5).await.unwrap();
    let foreign = Settlement { applied: vec!["message b 2".into()], ..Settlement::new(at(6)) };
    assert_eq!(store.settle(&held, foreign).await.unwrap_err(), SettleError::NotClaimed);
}

/// Recorded before it is sent, found by whoever comes next, gone with the settlement. A second one carries along what
/// the first wrote.
pub async fn an_open_attempt_is_seen_by_the_next_claim<S: Store>(store: &S) {
    store.accept(arrival(1, "a")).await.unwrap();
    let crashed = claim(store, 5).await.unwrap();
    assert!(crashed.open_attempt.is_none());
    store.record_attempt(&crashed, attempt("one", &["urn:1", "urn:2"], 6)).await.unwrap();
    let second = claim(store, 100).await.unwrap();
    assert_eq!(second.open_attempt, Some(attempt("one", &["urn:1", "urn:2"], 6)));
    store.record_attempt(&second, attempt("two", &["urn:2", "urn:3"], 101)).await.unwrap();
    store.release(&second, at(102), "timeout").await.unwrap();
    let third = claim(store, 102).await.unwrap();
    assert_eq!(third.open_attempt, Some(attempt("two", &["urn:1", "urn:2", "urn:3"], 101)));
    let mut settlement = all_applied(&third, 103);
    settlement.attempt_id = Some("two".to_owned());
    store.settle(&third, settlement).await.unwrap();
    store.accept(arrival(104, "a")).await.unwrap();
    assert!(claim(store, 104).await.unwrap().open_attempt.is_none());
}

/// In sorted order, all or none; one settlement ends them all.
pub async fn more_subjects_all_or_none<S: Store>(store: &S) {
    for (n, subject) in [(1, "m"), (2, "b"), (3, "z")] {
        store.accept(arrival(n, subject)).await.unwrap();
    }
    let held = claim(store, 1).await.unwrap();
    let other = claim(store, 2).await.unwrap();
    assert_eq!((held.subject.as_str(), other.subject.as_str()), ("m", "b"));
    let wanted = ["z".to_owned(), "b".to_owned(), "m".to_owned(), "unknown".to_owned()];
    assert!(store.claim_more(&held, &wanted, LEASE, at(3)).await.unwrap().is_none(), "b is held");
    assert_eq!(claim(store, 3).await.unwrap().subject, "z", "nothing was taken");
    let wide = store.claim_more(&held, &wanted, LEASE, at(100)).await.unwrap().unwrap();
    assert_eq!(wide.leases().map(|(subject, _)| subject).collect::<Vec<_>>(), ["m", "b", "unknown", "z"]);
    let ids: Vec<_> = wide.messages.iter().map(|message| message.message_id.as_str()).collect();
    assert_eq!(ids, ["message m 1", "message b 2", "message z 3"], "in key order");
    assert_eq!(store.settle(&other, all_applied(&other, 101)).await.unwrap_err(), SettleError::StaleEpoch);
    store.settle(&wide, all_applied(&wide, 101)).await.unwrap();
    assert!(claim(store, 1000).await.is_none());
    assert_eq!(store.counts().await.unwrap().dirty_subjects, 0);
}

/// No wake-up between a claim that found nothing and the wait for work is lost.
pub async fn work_wakes_a_waiter<S: Store>(store: &S) {
    let woken = store.notified();
    assert!(claim(store, 1).await.is_none());
    store.accept(arrival(1, "a")).await.unwrap();
    woken.await;
    let held = claim(store, 1).await.unwrap();
    let woken = store.notified();
    store.release(&held, at(2), "503").await.unwrap();
    woken.await;
    assert_eq!(store.next_due().await.unwrap(), Some(at(2)));
}

/// A subject with many messages comes in several claims, in key order.
pub async fn a_claim_is_bounded<S: Store>(store: &S) {
    for n in (1..=600).rev() {
        store.accept(arrival(n, "a")).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(held) = claim(store, 1000).await {
        assert_eq!(held.truncated, seen.len() + held.messages.len() < 600);
        seen.extend(held.messages.iter().map(|message| message.order_key.clone()));
        store.settle(&held, all_applied(&held, 1000)).await.unwrap();
    }
    assert_eq!(seen.len(), 600);
    assert!(seen.is_sorted());
}

/// Many holders at once, each subject to one of them.
pub async fn concurrent_claims_never_share_a_subject<S: Store>(store: &S) {
    for n in 0..40 {
        store.accept(arrival(n, &format!("s{n}"))).await.unwrap();
    }
    let holder = async |_| {
        let mut subjects = Vec::new();
        while let Some(held) = claim(store, 100).await {
            subjects.push(held.subject);
        }
        subjects
    };
    let (a, b, c) = tokio::join!(holder(1), holder(2), holder(3));
    let all: Vec<String> = [a, b, c].concat();
    assert_eq!(all.len(), 40);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 40);
}

/// For a fold from scratch: in key order, page by page, without those put aside.
pub async fn messages_of_a_resource_come_in_pages<S: Store>(store: &S) {
    for n in [5, 3, 4, 1, 2] {
        store.accept(arrival(n, "a")).await.unwrap();
    }
    let held = claim(store, 10).await.unwrap();
    let mut settlement = Settlement::new(at(11));
    settlement.message_resources =
        held.messages.iter().map(|message| (message.message_id.clone(), "urn:1".to_owned())).collect();
    settlement.parked = vec![("message a 2".to_owned(), "X".to_owned())];
    settlement.applied = [1, 3, 4, 5].map(|n| format!("message a {n}")).to_vec();
    let event = |id: &str| AuditEvent { event: "delivered".into(), message_id: Some(id.into()), detail: "{}".into() };
    settlement.audit = settlement.applied.iter().map(|id| event(id)).collect();
    store.settle(&held, settlement).await.unwrap();
    let mut seen = Vec::new();
    let mut last: Option<(Vec<u8>, String)> = None;
    loop {
        let after = last.as_ref().map(|(key, id)| (key.as_slice(), id.as_str()));
        let page = store.messages_of_resource("urn:1", after, 3).await.unwrap();
        let Some(end) = page.last() else { break };
        last = Some((end.order_key.clone(), end.message_id.clone()));
        assert!(page.len() <= 3);
        assert!(page.iter().all(|message| message.raw.is_some()));
        seen.extend(page.into_iter().map(|message| message.message_id));
    }
    assert_eq!(seen, ["message a 1", "message a 3", "message a 4", "message a 5"]);
}
