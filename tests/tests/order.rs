//! The contract: the state of the server is a function of the set of messages. How often they come, in which order and on
//! how many connections changes nothing (DESIGN §9, promises 2, 3, 4 and 7).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chart::{Chart, Clock, Event};
use fhir::Json;
use gateway::judge::Judge;
use sandbox::{Profile, Sandbox};
use tests::adt::{message, pid, pv1, stamped};
use tests::corpus::shuffled;
use tests::scene::{self, Scene, Settings};
use tests::wire;

const DOCTORS: [&str; 5] = [
    "101^Ahrens^Uwe^^^Dr.^^^NORTH",
    "101^Ahrens^U.^^^^^^NORTH",
    "101^AHRENS^UWE^M^^^^^NORTH",
    "102^Brandt^Eva^^^^^^NORTH",
    "103^Conrad^Ole^^^^^^NORTH",
];
const WARDS: [&str; 4] = ["1A^1^1^NORTH", "1A^1^2^NORTH", "2B^7^^NORTH", "ICU^^^NORTH"];
const SEX: [&str; 3] = ["F", "M", "U"];

fn clock(day: usize, minute: usize) -> String {
    format!("202405{:02}{:02}{:02}00", 1 + day, 7 + minute / 60, minute % 60)
}

fn person(patient: usize, variant: usize) -> String {
    let family = ["Abel", "Abel-Born", "Born"][variant % 3];
    let phone = ["030 11^PRN^PH", "", "\"\""][variant % 3];
    let married = ["S", "M", "\"\"", ""][variant % 4];
    let street = format!("Weg {variant}^^Ulm^^8907{patient}");
    pid(
        &format!("P-{patient}"),
        &format!("{family}^Kim{patient}||1970010{}|{}|||{street}||{phone}|||{married}", 1 + patient, SEX[patient % 3]),
    )
}

/// Two stays of each of five patients: planned, admitted, moved, changed, discharged, and what comes after.
fn stays() -> Vec<String> {
    let mut all = Vec::new();
    for patient in 0..5 {
        for stay in 0..2 {
            let visit = format!("S-{patient}-{stay}");
            let day = patient + 7 * stay;
            let admitted = clock(day, 10);
            let at = |n: usize| pv1(&visit, WARDS[(patient + stay + n) % 4], DOCTORS[(patient + n) % 5], &admitted);
            let id = |n: usize| format!("M{patient}{stay}{n}");
            let told = |n: usize| person(patient, 3 * stay + n);
            all.push(message("A01^ADT_A01", &id(0), &clock(day, 10), &[&told(0), &at(0)]));
            all.push(message(
                "A08^ADT_A01",
                &id(1),
                &clock(day, 25),
                &[&told(1), &at(0), "AL1|1|DA|PEN^Penicillin^L|SV|rash"],
            ));
            all.push(message("A02^ADT_A02", &id(2), &clock(day, 50), &[&told(1), &at(1)]));
            all.push(message(
                "A08^ADT_A01",
                &id(3),
                &clock(day, 95),
                &[&told(2), &at(2), "AL1|1|DA|PEN^Penicillin^L|MO|\"\"", "NK1|1|Abel^Ana|MTH^Mother^HL70063"],
            ));
            all.push(message(
                "A03^ADT_A03",
                &id(4),
                &clock(day, 300),
                &[&told(2), &format!("{}|{}", at(2), clock(day, 299))],
            ));
        }
    }
    all
}

/// What is hard about order: corrections, ties, resends under other stamps, events about a person, a stay told of only
/// by its discharge.
fn hard_cases() -> Vec<String> {
    let visit = |n: usize| pv1("S-0-0", WARDS[n % 4], DOCTORS[n % 5], &clock(0, 10));
    let correction = |id: &str, sent: usize, variant: usize| {
        stamped("A08^ADT_A01", id, &clock(0, sent), &clock(0, 400), &[&person(0, variant), &visit(variant)])
    };
    vec![
        // One event, said three times over, each time otherwise: the latest MSH-7 is right.
        correction("C1", 401, 5),
        correction("C2", 410, 6),
        correction("C3", 405, 7),
        // The first again, stamped later than all: still the first. The second under another control id alone.
        correction("C1-again", 450, 5),
        correction("C2-again", 410, 6),
        // Nothing but the content tells these two apart.
        message("A31^ADT_A05", "T1", &clock(1, 500), &[&person(1, 8)]),
        message("A31^ADT_A05", "T2", &clock(1, 500), &[&person(1, 10)]),
        // One control id for two patients' events.
        message("A31^ADT_A05", "REUSED", &clock(2, 500), &[&person(2, 9)]),
        message("A31^ADT_A05", "REUSED", &clock(3, 500), &[&person(3, 11)]),
        // Known by its discharge alone; and a plan for somebody who never came.
        message(
            "A03^ADT_A03",
            "L1",
            &clock(20, 30),
            &[&person(4, 3), &pv1("S-4-9", WARDS[3], DOCTORS[4], &clock(20, 1))],
        ),
        message("A05^ADT_A05", "L2", &clock(21, 30), &[&person(4, 4), &pv1("S-4-8", "", DOCTORS[0], "")]),
        message("A11^ADT_A09", "L3", &clock(22, 30), &[&person(3, 4), &pv1("S-3-1", WARDS[1], DOCTORS[0], "")]),
    ]
}

fn messages() -> Vec<String> {
    [stays(), hard_cases()].concat()
}

/// Sends the messages over `connections` at once and waits for delivery.
async fn deliver(scene: &Scene, messages: &[String], connections: usize) {
    let mut senders = tokio::task::JoinSet::new();
    for connection in 0..connections {
        let own: Vec<&String> = messages.iter().skip(connection).step_by(connections).collect();
        let bytes: Vec<u8> = own.iter().flat_map(wire::frame).collect();
        let (count, address) = (own.len(), scene.gateway.mllp[0]);
        senders.spawn(async move {
            let answers = wire::conversation(address, &bytes).await;
            assert_eq!(answers.len(), count);
            assert!(answers.iter().all(|answer| answer.code() == "AA"), "{answers:?}");
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.expect("a sender ends");
    }
    scene.drained().await;
}

async fn state_after(messages: &[String], connections: usize, coalesce: &str) -> Vec<String> {
    let settings = Settings { deliver: format!("coalesce = \"{coalesce}\""), ..Settings::default() };
    let scene = Scene::with(settings, Profile::default()).await;
    deliver(&scene, messages, connections).await;
    let state = scene.state();
    scene.stop().await;
    state
}

fn assert_same(state: &[String], expected: &[String], what: &str) {
    let differs = state.iter().zip(expected).find(|(a, b)| a != b);
    assert!(differs.is_none(), "{what}:\n{}\n{}", differs.expect("a difference").0, differs.expect("a difference").1);
    assert_eq!(state.len(), expected.len(), "{what}");
}

/// Messages with duplicates among them, shuffled.
fn arrivals(round: u64) -> Vec<String> {
    let mut all = messages();
    let twice: Vec<String> = shuffled(messages(), round + 77).into_iter().take(25).collect();
    all.extend(twice);
    shuffled(all, round + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_shuffles_with_duplicates_over_four_connections_come_to_the_same() {
    let expected = state_after(&messages(), 1, "backlog").await;
    for kind in
        ["Patient", "Encounter", "Practitioner", "Location", "AllergyIntolerance", "RelatedPerson", "Provenance"]
    {
        let needle = format!("\"resourceType\":\"{kind}\"");
        assert!(expected.iter().any(|resource| resource.contains(&needle)), "no {kind}");
    }
    for round in 0..20 {
        let state = state_after(&arrivals(round), 4, "backlog").await;
        assert_same(&state, &expected, &format!("shuffle {round}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_messages_share_bundles_changes_nothing() {
    let expected = state_after(&messages(), 1, "never").await;
    for (round, coalesce) in [(31, "never"), (32, "always"), (33, "backlog"), (34, "never"), (35, "always")] {
        let state = state_after(&arrivals(round), 3, coalesce).await;
        assert_same(&state, &expected, coalesce);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_everything_again_writes_nothing() {
    let scene = Scene::start().await;
    deliver(&scene, &messages(), 2).await;
    let (state, versions) = (scene.state(), scene.versions());
    for round in 0..3 {
        deliver(&scene, &arrivals(round + 50), 4).await;
    }
    // Also under another process and without the store knowing the bytes: new stamps on old content.
    let scene = scene.restart(&Settings::default()).await;
    let restamped: Vec<String> = messages().iter().map(|m| m.replacen("|2024", "|2025", 1)).collect();
    deliver(&scene, &restamped, 2).await;
    assert_same(&scene.state(), &state, "after the replay");
    assert_eq!(scene.versions(), versions, "a replay wrote");
    scene.stop().await;
}

/// The value of the identifier of each resource of a type with this identifier type code, how often.
fn counts(sandbox: &Sandbox, kind: &str, code: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for resource in sandbox.resources().iter().filter(|r| r.resource_type() == Some(kind)) {
        for identifier in resource.get("identifier").map(Json::items).unwrap_or_default() {
            if identifier.get("type").is_some_and(|t| t.to_string().contains(&format!("\"{code}\""))) {
                let value = identifier.get("value").and_then(Json::as_str).unwrap_or_default();
                *counts.entry(value.to_owned()).or_insert(0) += 1;
            }
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn at_no_instant_is_a_visit_or_a_record_number_there_twice() {
    for (round, profile) in [
        (60, Profile::default()),
        (61, Profile { stale_search: 2, ..Profile::default() }),
        (62, Profile { resets_after_apply: 6, ..Profile::default() }),
    ] {
        let scene = Scene::with(Settings::default(), profile).await;
        let done = Arc::new(AtomicBool::new(false));
        let watch = tokio::spawn({
            let (sandbox, done) = (scene.sandbox().clone(), Arc::clone(&done));
            async move {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    for (kind, code) in [("Encounter", "VN"), ("Patient", "MR")] {
                        let twice: Vec<_> = counts(&sandbox, kind, code).into_iter().filter(|(_, n)| *n > 1).collect();
                        assert!(twice.is_empty(), "{kind}: {twice:?}");
                    }
                    looks += 1;
                    tokio::task::yield_now().await;
                }
                looks
            }
        });
        deliver(&scene, &arrivals(round), 4).await;
        done.store(true, Ordering::Relaxed);
        assert!(watch.await.expect("never twice") > 10, "nobody looked");
        assert_eq!(counts(scene.sandbox(), "Patient", "MR").len(), 5);
        assert_eq!(counts(scene.sandbox(), "Encounter", "VN").len(), 12);
        scene.stop().await;
    }
}

/// The chart of messages in the order given, each placed by `place`.
fn folded(judge: &Judge, messages: &[String], place: impl Fn(usize, &mut Event)) -> Vec<String> {
    let mut chart = Chart::default();
    for (n, text) in messages.iter().enumerate() {
        let parsed = Judge::parse(text).expect("a message");
        let Ok(content) = judge.judge(&parsed, "default").content else { panic!("{n} is not taken") };
        let mut event = content.event;
        place(n, &mut event);
        chart.absorb(&event);
    }
    chart.resources().map(|(key, state)| state.render(&key.resource_type).json.to_string()).collect()
}

#[test]
fn negative_control_last_arrival_wins_is_told_apart_by_these_messages() {
    let config = gateway::config::parse("").expect("the defaults");
    let judge = Judge::new(scene::plan(), &config, [7; 32]).expect("a judge");
    // Which receipt speaks for a message is the store's to say, which is not at hand here.
    let all: Vec<String> = messages().into_iter().filter(|m| !m.contains("-again|")).collect();
    let by_key = |_: usize, _: &mut Event| {};
    let by_arrival = |n: usize, event: &mut Event| {
        event.key.clock = Clock::new(i64::try_from(n).expect("a number"), 0);
    };
    let expected = folded(&judge, &all, by_key);
    assert_eq!(expected, folded(&judge, &all, by_key), "the same twice");
    for round in 0..5 {
        let others = shuffled(all.clone(), round + 1);
        assert_eq!(expected, folded(&judge, &others, by_key));
        assert_ne!(folded(&judge, &all, by_arrival), folded(&judge, &others, by_arrival), "shuffle {round}");
    }
}
