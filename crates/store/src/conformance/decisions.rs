//! The decision table of DESIGN §4, row by row, and that concurrency does not change it.

use super::{all_applied, arrival, claim, deliver, hash, keys, repeated, resent};
use crate::{CONTROL_ID_REUSE, Disposition, RESTAMPED_CONTENT, Status, Store, Verdict};

/// Row 7.
pub async fn new_is_applied<S: Store>(store: &S) {
    let accepted = store.accept(arrival(1, "a")).await.unwrap();
    assert_eq!(accepted.verdict, Verdict::Applied);
    assert_eq!(accepted.message_id.as_deref(), Some("message a 1"));
    assert_eq!(accepted.ack, b"AA a 1");
    assert!(accepted.alerts.is_empty());
    assert_eq!(store.accept(arrival(2, "a")).await.unwrap().verdict, Verdict::Applied);
}

/// Row 1: the stored answer, again.
pub async fn same_bytes_get_the_same_answer<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    let again = store.accept(repeated(&first, "again")).await.unwrap();
    assert_eq!((again.verdict, again.ack), (Verdict::SkippedExact, b"AA a 1".to_vec()));
    assert_eq!(again.message_id.as_deref(), Some("message a 1"));
    // A resend's own bytes have their own answer.
    let resend = resent(&first, "resend");
    store.accept(resend.clone()).await.unwrap();
    let again = store.accept(repeated(&resend, "third")).await.unwrap();
    assert_eq!((again.verdict, again.ack), (Verdict::SkippedExact, b"AA resend".to_vec()));
    assert_eq!(store.raw("receipt a 1 resend third").await.unwrap().unwrap(), resend.raw);
}

/// The raw hash counts for one sender; the content is the same message all the same.
pub async fn same_bytes_of_another_sender_are_a_resend<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    let mut other = repeated(&first, "other");
    other.sender = "copy".into();
    keys(&mut other).transport_key = "copy".into();
    let accepted = store.accept(other).await.unwrap();
    assert_eq!((accepted.verdict, accepted.ack), (Verdict::SkippedResend, b"AA other".to_vec()));
}

/// Row 2; the bytes are kept, since no message row holds them.
pub async fn a_resend_is_skipped_with_its_own_answer<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    let resend = resent(&first, "resend");
    let accepted = store.accept(resend.clone()).await.unwrap();
    assert_eq!((accepted.verdict, accepted.ack), (Verdict::SkippedResend, b"AA resend".to_vec()));
    assert_eq!(store.raw(&resend.receipt_id).await.unwrap().unwrap(), resend.raw);
    assert_eq!(store.raw("message a 1").await.unwrap().unwrap(), first.raw);
    deliver(store, 10).await;
    assert!(claim(store, 11).await.is_none(), "a resend is no work");
}

/// Row 11: the same content in a form that can't be taken (no MSH-10) is refused, and speaks for nothing.
pub async fn a_refused_resend_speaks_for_nothing<S: Store>(store: &S) {
    let first = arrival(5, "a");
    store.accept(first.clone()).await.unwrap();
    let mut refused = resent(&first, "refused");
    keys(&mut refused).order_key = 3_u64.to_be_bytes().to_vec();
    refused.disposition = Disposition::Reject("CONTROL_ID_MISSING");
    let accepted = store.accept(refused.clone()).await.unwrap();
    assert_eq!((accepted.verdict, accepted.ack), (Verdict::Rejected, refused.ack));
    let held = claim(store, 6).await.unwrap();
    assert_eq!(held.messages[0].raw.as_deref(), Some(first.raw.as_slice()));
    assert_eq!(held.messages[0].order_key, 5_u64.to_be_bytes());
}

/// Row 2: the order key is the smallest over the receipts, and what was folded with a greater one is folded anew.
pub async fn the_smallest_order_key_counts<S: Store>(store: &S) {
    let first = arrival(5, "a");
    store.accept(first.clone()).await.unwrap();
    deliver(store, 10).await;
    let mut later = resent(&first, "later");
    keys(&mut later).order_key = 9_u64.to_be_bytes().to_vec();
    store.accept(later).await.unwrap();
    assert!(claim(store, 11).await.is_none(), "a greater key changes nothing");
    let mut earlier = resent(&first, "earlier");
    keys(&mut earlier).order_key = 3_u64.to_be_bytes().to_vec();
    assert_eq!(store.accept(earlier.clone()).await.unwrap().verdict, Verdict::SkippedResend);
    let again = claim(store, 12).await.unwrap();
    assert!(again.refold);
    assert_eq!(again.messages[0].raw.as_ref(), Some(&earlier.raw), "the receipt with the smallest key speaks");
    assert_eq!(again.messages[0].order_key, 3_u64.to_be_bytes());
    store.settle(&again, all_applied(&again, 12)).await.unwrap();
    assert!(claim(store, 13).await.is_none());
}

/// A key lowered between claim and settlement: the settlement was made with the greater one.
pub async fn a_key_lowered_in_flight_stays_pending<S: Store>(store: &S) {
    let first = arrival(5, "a");
    store.accept(first.clone()).await.unwrap();
    let held = claim(store, 6).await.unwrap();
    let mut earlier = resent(&first, "earlier");
    keys(&mut earlier).order_key = 3_u64.to_be_bytes().to_vec();
    store.accept(earlier).await.unwrap();
    store.settle(&held, all_applied(&held, 7)).await.unwrap();
    let again = claim(store, 8).await.unwrap();
    assert!(again.refold);
    assert_eq!(again.messages[0].order_key, 3_u64.to_be_bytes());
}

/// Row 3: another message of the same content.
pub async fn restamped_content_is_applied_with_an_alert<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    let mut restamped = resent(&first, "restamped");
    let identified = keys(&mut restamped);
    identified.message_id = "message a 1 restamped".into();
    identified.business_key = Some(hash("business", "restamped"));
    identified.transport_key = "restamped".into();
    identified.order_key = 2_u64.to_be_bytes().to_vec();
    let accepted = store.accept(restamped).await.unwrap();
    assert_eq!((accepted.verdict, accepted.alerts), (Verdict::Applied, vec![RESTAMPED_CONTENT]));
}

/// Row 4, and a sender that puts its site id into MSH-10: distinct messages, flagged once.
pub async fn a_reused_control_id_is_flagged_once<S: Store>(store: &S) {
    let mut alerts = Vec::new();
    for n in 1..=4 {
        let mut arrival = arrival(n, "a");
        keys(&mut arrival).transport_key = "constant".into();
        let accepted = store.accept(arrival).await.unwrap();
        assert_eq!(accepted.verdict, Verdict::Applied);
        alerts.push(accepted.alerts);
    }
    assert_eq!(alerts, [vec![], vec![CONTROL_ID_REUSE], vec![], vec![]]);
}

/// Row 5; the same control id on a correction is no reuse. A third version is linked to the first as well.
pub async fn a_correction_is_linked_to_the_first<S: Store>(store: &S) {
    let first = arrival(1, "a");
    store.accept(first.clone()).await.unwrap();
    for n in 2..=3 {
        let mut corrected = arrival(n, "a");
        let identified = keys(&mut corrected);
        identified.business_key.clone_from(&first.identified.as_ref().unwrap().business_key);
        identified.transport_key.clone_from(&first.identified.as_ref().unwrap().transport_key);
        // Older than the newest, but a correction all the same.
        identified.order_key = 0_u64.to_be_bytes().to_vec();
        let accepted = store.accept(corrected).await.unwrap();
        assert_eq!((accepted.verdict, accepted.alerts), (Verdict::AppliedCorrection, vec![]));
        let trace = store.trace(&format!("message a {n}")).await.unwrap();
        assert_eq!(trace.messages[0].corrects.as_deref(), Some("message a 1"));
    }
}

/// Row 6; other subjects' newest messages do not count.
pub async fn older_than_the_newest_is_late<S: Store>(store: &S) {
    store.accept(arrival(5, "a")).await.unwrap();
    deliver(store, 6).await;
    assert_eq!(store.accept(arrival(4, "b")).await.unwrap().verdict, Verdict::Applied);
    assert_eq!(store.accept(arrival(4, "a")).await.unwrap().verdict, Verdict::AppliedLate);
    assert_eq!(store.accept(arrival(6, "a")).await.unwrap().verdict, Verdict::Applied);
    assert_eq!(store.accept(arrival(5, "b")).await.unwrap().verdict, Verdict::Applied);
}

/// Row 11: what can't be read leaves a receipt with its bytes and its answer.
pub async fn unreadable_bytes_are_kept<S: Store>(store: &S) {
    let mut unreadable = arrival(1, "a");
    unreadable.identified = None;
    unreadable.disposition = Disposition::Reject("NO_MSH");
    unreadable.ack = b"AR".to_vec();
    let accepted = store.accept(unreadable.clone()).await.unwrap();
    assert_eq!((accepted.verdict, accepted.message_id.as_deref()), (Verdict::Rejected, None));
    assert_eq!(store.raw(&unreadable.receipt_id).await.unwrap().unwrap(), unreadable.raw);
    let again = store.accept(repeated(&unreadable, "again")).await.unwrap();
    assert_eq!((again.verdict, again.ack), (Verdict::SkippedExact, b"AR".to_vec()));
    let trace = store.trace(&unreadable.receipt_id).await.unwrap();
    assert_eq!(trace.receipts[0].code.as_deref(), Some("NO_MSH"));
}

/// A sender that tries again once the configuration takes its messages is not answered with the old refusal; and a
/// rejected message is none that others could correct or reuse.
pub async fn a_rejected_message_may_be_taken_later<S: Store>(store: &S) {
    let mut rejected = arrival(1, "a");
    rejected.disposition = Disposition::Reject("PROCESSING_ID");
    rejected.ack = b"AR".to_vec();
    assert_eq!(store.accept(rejected.clone()).await.unwrap().verdict, Verdict::Rejected);
    assert!(claim(store, 5).await.is_none());
    let mut other = arrival(2, "a");
    keys(&mut other).business_key.clone_from(&rejected.identified.as_ref().unwrap().business_key);
    keys(&mut other).transport_key.clone_from(&rejected.identified.as_ref().unwrap().transport_key);
    let accepted = store.accept(other).await.unwrap();
    assert_eq!((accepted.verdict, accepted.alerts), (Verdict::Applied, vec![]));
    let mut again = repeated(&rejected, "again");
    assert_eq!(store.accept(again.clone()).await.unwrap().verdict, Verdict::SkippedExact);
    again.receipt_id = "receipt taken".into();
    again.disposition = Disposition::Apply;
    again.ack = b"AA taken".to_vec();
    let taken = store.accept(again.clone()).await.unwrap();
    assert_eq!((taken.verdict, taken.ack), (Verdict::AppliedCorrection, b"AA taken".to_vec()));
    again.receipt_id = "receipt after".into();
    let after = store.accept(again).await.unwrap();
    assert_eq!((after.verdict, after.ack), (Verdict::SkippedExact, b"AA taken".to_vec()));
    assert_eq!(claim(store, 5).await.unwrap().messages.len(), 2);
}

/// Rows 8 and 9 arrive decided; a resend of a parked message is told what the first was told.
pub async fn a_parked_resend_gets_the_stored_answer<S: Store>(store: &S) {
    let mut parked = arrival(1, "a");
    parked.disposition = Disposition::Park("NO_PATIENT");
    parked.ack = b"AE".to_vec();
    keys(&mut parked).subject = None;
    assert_eq!(store.accept(parked.clone()).await.unwrap().verdict, Verdict::Parked);
    let mut resend = resent(&parked, "resend");
    let accepted = store.accept(resend.clone()).await.unwrap();
    assert_eq!((accepted.verdict, accepted.ack), (Verdict::SkippedResend, b"AE".to_vec()));
    // Under a new MSH-10 the stored answer would answer another message: the sender gets its own.
    resend.receipt_id = "receipt new control id".into();
    resend.raw.push(b'!');
    resend.raw_hash = hash("raw", "new control id");
    keys(&mut resend).message_control_id = "new".into();
    assert_eq!(store.accept(resend).await.unwrap().ack, b"AA resend");
    assert_eq!(store.trace("message a 1").await.unwrap().messages[0].status, Status::Parked);
    assert!(claim(store, 5).await.is_none());
}

/// Refused before anything is written.
pub async fn nothing_to_apply_without_a_subject<S: Store>(store: &S) {
    let mut arrival = arrival(1, "a");
    keys(&mut arrival).subject = None;
    assert!(store.accept(arrival.clone()).await.unwrap_err().certainly_not_written());
    assert!(store.trace(&arrival.receipt_id).await.unwrap().receipts.is_empty());
}

/// The same message from many connections at once: one is new, all get the same answer.
pub async fn duplicates_at_once_are_one_message<S: Store>(store: &S) {
    let first = arrival(1, "a");
    let answers = futures(64, |n| store.accept(repeated(&first, &n.to_string()))).await;
    let mut verdicts = std::collections::BTreeMap::new();
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    for accepted in &answers {
        *verdicts.entry(accepted.verdict).or_insert(0) += 1;
        assert_eq!(accepted.ack, answers[0].ack.clone());
    }
    assert_eq!(verdicts.into_iter().collect::<Vec<_>>(), [(Verdict::SkippedExact, 63), (Verdict::Applied, 1)]);
}

/// Sixty-four callers with a hundred arrivals each, a quarter of them duplicates of others' in flight.
pub async fn many_callers_at_once<S: Store>(store: &S) {
    let caller = |caller: u64| async move {
        for n in 0..100 {
            let content = if n % 4 == 0 { n } else { caller * 1000 + n };
            let mut arrival = arrival(content, &format!("s{}", content % 7));
            arrival.receipt_id = format!("receipt {caller} {n}");
            store.accept(arrival).await.unwrap();
        }
    };
    futures(64, caller).await;
    let counts = store.counts().await.unwrap();
    let receipts: u64 = counts.verdicts.values().sum();
    assert_eq!(receipts, 6400, "each receipt has exactly one verdict");
    let messages = 64 * 75 + 25;
    assert_eq!(counts.statuses[&Status::Pending], messages);
    assert_eq!(counts.verdicts[&Verdict::SkippedExact], 6400 - messages);
    assert_eq!(store.verify_audit().await.unwrap().rows, 6400);
    deliver(store, 1_000_000).await;
    assert_eq!(store.counts().await.unwrap().statuses[&Status::Applied], messages);
}

/// A receipt id that was used before fails its own arrival, not those that share its transaction.
pub async fn one_bad_arrival_fails_alone<S: Store>(store: &S) {
    store.accept(arrival(0, "a")).await.unwrap();
    let answers = futures(32, |n| {
        let mut arrival = arrival(n + 1, "a");
        if n == 7 {
            arrival.receipt_id = "receipt a 0".into();
        }
        store.accept(arrival)
    })
    .await;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(_) => assert_ne!(n, 7),
            Err(error) => assert!(n == 7 && error.certainly_not_written(), "{n}: {error}"),
        }
    }
    assert_eq!(store.counts().await.unwrap().statuses[&Status::Pending], 32);
}

/// Runs `count` futures at the same time on this task; all are asked before any is answered.
async fn futures<F: Future>(count: u64, make: impl Fn(u64) -> F) -> Vec<F::Output> {
    let mut pending: Vec<_> = (0..count).map(|n| (Box::pin(make(n)), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, output) in &mut pending {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}
