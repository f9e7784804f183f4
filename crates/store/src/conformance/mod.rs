//! What every implementation of [`Store`] must do, as one test a function over a fresh store.
//!
//! `store::conformance!(open)` makes tests of them, where `open` is an async function that gives a new store and
//! whatever keeps it alive. What does not live here: what only one database can do wrong.
#![expect(clippy::missing_panics_doc, reason = "every function here is a test")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::{Arrival, Claim, Disposition, Identified, Settlement, Store};

pub mod decisions;
pub mod delivery;
pub mod reads;

/// Makes a test of each case.
#[macro_export]
macro_rules! conformance {
    ($open:ident) => {
        $crate::conformance!($open; decisions: new_is_applied, same_bytes_get_the_same_answer,
            same_bytes_of_another_sender_are_a_resend, a_resend_is_skipped_with_its_own_answer,
            a_refused_resend_speaks_for_nothing, the_smallest_order_key_counts, a_key_lowered_in_flight_stays_pending, restamped_content_is_applied_with_an_alert,
            a_reused_control_id_is_flagged_once, a_correction_is_linked_to_the_first, older_than_the_newest_is_late,
            unreadable_bytes_are_kept, a_rejected_message_may_be_taken_later, a_parked_resend_gets_the_stored_answer,
            nothing_to_apply_without_a_subject, duplicates_at_once_are_one_message, many_callers_at_once,
            one_bad_arrival_fails_alone);
        $crate::conformance!($open; delivery: the_longest_due_comes_first, a_lease_excludes_until_it_ends,
            a_zombie_finishes_nothing, a_renewed_lease_lasts, a_settlement_is_read_back,
            a_checkpoint_that_moved_is_noticed, a_kept_lease_goes_on,
            a_released_subject_waits, a_parked_subject_holds_only_itself, parked_messages_can_be_retried,
            only_claimed_messages_settle, an_open_attempt_is_seen_by_the_next_claim, more_subjects_all_or_none,
            work_wakes_a_waiter, a_claim_is_bounded, concurrent_claims_never_share_a_subject,
            messages_of_a_resource_come_in_pages);
        $crate::conformance!($open; reads: every_id_leads_to_the_lineage, a_resource_leads_back,
            a_constant_control_id_does_not_fill_the_memory, counts_add_up, parked_messages_come_in_pages,
            a_message_is_identified_anew, the_identity_key_stays, the_audit_chain_holds, closed_is_closed);
    };
    ($open:ident; $module:ident: $($case:ident),*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (store, _kept) = super::$open().await;
                $crate::conformance::$module::$case(&store).await;
            })*
        }
    };
}

/// The lease of every case.
const LEASE: Duration = Duration::from_mins(1);

/// A time of the cases' clock.
fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn hash(kind: &str, text: &str) -> [u8; 32] {
    Sha256::digest(format!("{kind} {text}")).into()
}

/// Content `n` about `subject`, as it first comes: all keys follow from `n`.
fn arrival(n: u64, subject: &str) -> Arrival {
    let name = format!("{subject} {n}");
    let raw = format!("MSH|^~\\&|{name}").into_bytes();
    Arrival {
        receipt_id: format!("receipt {name}"),
        received_at: at(n),
        sender: "adt".to_owned(),
        peer: "127.0.0.1:1".to_owned(),
        traceparent: format!("trace {name}"),
        raw_hash: Sha256::digest(&raw).into(),
        raw,
        identified: Some(Identified {
            message_id: format!("message {name}"),
            semantic_hash: hash("semantic", &name),
            transport_key: format!("transport {name}"),
            business_key: Some(hash("business", &name)),
            order_key: n.to_be_bytes().to_vec(),
            subject: Some(subject.to_owned()),
            message_type: "ADT^A01^ADT_A01".to_owned(),
            message_control_id: format!("control {name}"),
        }),
        disposition: Disposition::Apply,
        mapping_version: "v1".to_owned(),
        ack: format!("AA {name}").into_bytes(),
    }
}

/// The same content in other bytes: another receipt, another answer.
fn resent(first: &Arrival, by: &str) -> Arrival {
    let mut arrival = Arrival { receipt_id: format!("{} {by}", first.receipt_id), ..first.clone() };
    arrival.raw.extend_from_slice(by.as_bytes());
    arrival.raw_hash = Sha256::digest(&arrival.raw).into();
    arrival.ack = format!("AA {by}").into_bytes();
    arrival
}

/// The same bytes again.
fn repeated(first: &Arrival, by: &str) -> Arrival {
    let ack = format!("AA {by}").into_bytes();
    Arrival { receipt_id: format!("{} {by}", first.receipt_id), ack, ..first.clone() }
}

fn keys(arrival: &mut Arrival) -> &mut Identified {
    arrival.identified.as_mut().unwrap()
}

async fn claim<S: Store>(store: &S, now: u64) -> Option<Claim> {
    store.claim("worker", LEASE, at(now)).await.unwrap()
}

/// Everything in the claim is applied, nothing else is known about it.
fn all_applied(claim: &Claim, now: u64) -> Settlement {
    let applied = claim.messages.iter().map(|message| message.message_id.clone()).collect();
    Settlement { applied, ..Settlement::new(at(now)) }
}

/// Delivers everything that is due.
async fn deliver<S: Store>(store: &S, now: u64) {
    while let Some(claim) = claim(store, now).await {
        store.settle(&claim, all_applied(&claim, now)).await.unwrap();
    }
}
