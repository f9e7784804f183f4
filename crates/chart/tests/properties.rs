//! What holds for every set of events: the promises of DESIGN §9 that the fold keeps (2, 6), and the order of keys.
//! The negative control folds by arrival and must be caught by the same property.

use std::collections::BTreeMap;

use chart::{Chart, Clock, Event, OrderKey, Rank};
use fhir::{Json, ResourceKey};
use mapping::{Contribution, Register, RegisterPath, Scope, Strength};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use smol_str::SmolStr;

fn clock() -> impl Strategy<Value = Option<Clock>> {
    prop_oneof![
        1 => Just(None),
        6 => (-2_i64..3, 0_u32..2).prop_map(|(s, n)| Clock::new(s, n)),
        1 => (any::<i64>(), 0_u32..1_000_000_000).prop_map(|(s, n)| Clock::new(s, n)),
    ]
}

fn rank() -> impl Strategy<Value = Rank> {
    (1_u8..8).prop_map(|n| Rank::from_number(n).unwrap())
}

fn order_key() -> impl Strategy<Value = OrderKey> {
    let control_id = prop_oneof![Just(String::new()), "[\u{0}\u{1}ab\u{ff}]{0,4}", any::<String>()];
    let sequence = prop_oneof![0_u64..3, any::<u64>()];
    let hash = prop_oneof![(0_u8..4).prop_map(|b| [b; 32]), any::<[u8; 32]>()];
    (clock(), sequence, rank(), clock(), control_id, hash).prop_map(
        |(clock, sequence, rank, message_time, control_id, hash)| OrderKey {
            clock,
            sequence,
            rank,
            message_time,
            control_id: SmolStr::from(control_id),
            hash,
        },
    )
}

fn register() -> impl Strategy<Value = (RegisterPath, Register)> {
    let paths =
        ["gender", "birthDate", "_birthDate.extension[1]", "name[1]", "name[2]", "deceasedBoolean", "deceasedDateTime"];
    let path = proptest::sample::select(paths.to_vec());
    let strength = prop_oneof![Just(Strength::Fills), Just(Strength::Asserts)];
    (path, strength, proptest::option::of(0_u8..3)).prop_map(|(path, strength, value)| {
        let text = |n: u8| Json::string(format!("v{n}"));
        let item = |n| if path.ends_with(']') { Json::Array(vec![Json::object([("text", text(n))])]) } else { text(n) };
        (RegisterPath::new(path), Register { strength, value: value.map(item) })
    })
}

fn contribution() -> impl Strategy<Value = Contribution> {
    let scope = prop_oneof![Just(Scope::Subject), Just(Scope::Shared)];
    (0_u8..3, scope, proptest::collection::vec(register(), 0..5)).prop_map(|(n, scope, said)| Contribution {
        resource: ResourceKey { resource_type: "Patient".into(), system: "urn:s".into(), value: format!("{n}").into() },
        scope,
        registers: said.into_iter().collect(),
    })
}

/// Events with keys that collide often: nearly all that matters is what happens then.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let key = (0_i64..3, rank(), 0_u8..4).prop_map(|(seconds, rank, hash)| OrderKey {
        clock: Clock::new(seconds, 0),
        sequence: 0,
        rank,
        message_time: None,
        control_id: SmolStr::default(),
        hash: [hash; 32],
    });
    let contributions = proptest::collection::vec(contribution(), 1..4);
    let event = (0_u32..1000, key, contributions).prop_map(|(n, key, contributions)| Event {
        message_id: SmolStr::from(format!("{n:032x}")),
        key,
        contributions,
    });
    proptest::collection::vec(event, 0..8)
}

/// Events, and the same ones as they might arrive: shuffled, some of them again.
fn arrivals() -> impl Strategy<Value = (Vec<Event>, Vec<Event>)> {
    events().prop_flat_map(|events| {
        let again = proptest::sample::subsequence(events.clone(), 0..=events.len());
        let arrived = again.prop_flat_map({
            let events = events.clone();
            move |again| Just([events.clone(), again].concat()).prop_shuffle()
        });
        (Just(events), arrived)
    })
}

fn rendered(chart: &Chart) -> Vec<String> {
    chart.resources().map(|(key, _)| chart.render(key).unwrap().json.to_string()).collect()
}

proptest! {
    #[test]
    fn a_chart_is_of_a_set((events, arrived) in arrivals()) {
        let (chart, other) = (Chart::fold(&events), Chart::fold(&arrived));
        prop_assert_eq!(&chart, &other);
        prop_assert_eq!(chart.ambiguous(), other.ambiguous());
        prop_assert_eq!(rendered(&chart), rendered(&other));
    }

    #[test]
    fn one_at_a_time_through_checkpoints_is_from_scratch(events in events()) {
        let mut stored: BTreeMap<ResourceKey, Vec<u8>> = BTreeMap::new();
        let mut ambiguous = Vec::new();
        for event in &events {
            let mut chart = Chart::default();
            for contribution in &event.contributions {
                if let Some(checkpoint) = stored.get(&contribution.resource) {
                    chart.restore(checkpoint).unwrap();
                }
            }
            let absorbed = chart.absorb(event);
            ambiguous.extend(absorbed.ambiguous);
            for key in absorbed.touched {
                stored.insert(key.clone(), chart.save(&key));
            }
        }
        let chart = Chart::fold(&events);
        let mut restored = Chart::default();
        for checkpoint in stored.values() {
            restored.restore(checkpoint).unwrap();
        }
        prop_assert_eq!(&restored, &chart);
        for (key, checkpoint) in &stored {
            prop_assert_eq!(checkpoint, &chart.save(key));
        }
        // What is ambiguous in the end was said on the way.
        prop_assert!(chart.ambiguous().iter().all(|a| ambiguous.contains(a)));
    }

    #[test]
    fn checkpoints_join(one in events(), other in events()) {
        let mut joined = Chart::fold(&one);
        let second = Chart::fold(&other);
        for (key, _) in second.resources() {
            prop_assert_eq!(&joined.restore(&second.save(key)).unwrap(), key);
        }
        prop_assert_eq!(joined, Chart::fold(&[one, other].concat()));
    }

    #[test]
    fn no_register_goes_backwards(events in events()) {
        let mut chart = Chart::default();
        for event in &events {
            let before = chart.clone();
            chart.absorb(event);
            for (key, state) in before.resources() {
                for (path, entry) in &state.registers {
                    let after = &chart.get(key).unwrap().registers[path];
                    prop_assert!((after.strength, &after.key) >= (entry.strength, &entry.key));
                }
            }
        }
    }

    #[test]
    fn bytes_sort_as_keys_do(one in order_key(), other in order_key()) {
        prop_assert_eq!(one.to_bytes().cmp(&other.to_bytes()), one.cmp(&other));
        prop_assert_eq!(OrderKey::from_bytes(&one.to_bytes()), Ok(one));
    }

    #[test]
    fn bytes_that_read_are_what_is_written(bytes in proptest::collection::vec(prop_oneof![0_u8..3, any::<u8>()], 0..90)) {
        if let Ok(key) = OrderKey::from_bytes(&bytes) {
            prop_assert_eq!(key.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in any::<Vec<u8>>()) {
        prop_assert!(Chart::default().restore(&bytes).is_err());
    }
}

/// Folding in the order of arrival, as a gateway without order keys does.
fn last_arrival_wins(events: &[Event]) -> BTreeMap<(ResourceKey, RegisterPath), Option<Json>> {
    let mut registers = BTreeMap::new();
    for event in events {
        for contribution in &event.contributions {
            for (path, register) in &contribution.registers {
                registers.insert((contribution.resource.clone(), path.clone()), register.value.clone());
            }
        }
    }
    registers
}

#[test]
fn the_property_catches_a_fold_by_arrival() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&arrivals(), |(events, arrived)| {
        prop_assert_eq!(last_arrival_wins(&events), last_arrival_wins(&arrived));
        Ok(())
    });
    assert!(matches!(outcome, Err(TestError::Fail(..))), "last arrival wins must not look like a function of the set");
}
