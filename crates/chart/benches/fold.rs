//! The cost of one more event on a chart of many (it must not grow with them beyond the depth of a map), of a fold from
//! scratch, and of what follows: rendering and the checkpoint.

use std::hint::black_box;

use chart::{Chart, Clock, Event, OrderKey, Rank};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use fhir::{Json, ResourceKey};
use mapping::{Contribution, Register, Scope, Strength};
use smol_str::SmolStr;

/// Registers of a contribution, about what an A01 says of its Patient.
const PATHS: [&str; 20] = [
    "identifier[1]",
    "identifier[sluice]",
    "name[1]",
    "name[2]",
    "gender",
    "birthDate",
    "address[1]",
    "telecom[1]",
    "telecom[2]",
    "maritalStatus",
    "communication[1]",
    "deceasedBoolean",
    "multipleBirthInteger",
    "contact[1]",
    "contact[2]",
    "generalPractitioner[1]",
    "managingOrganization",
    "active",
    "extension[1]",
    "extension[2]",
];

fn resource(resource_type: &str, n: u64) -> ResourceKey {
    ResourceKey { resource_type: resource_type.into(), system: "urn:id:H".into(), value: n.to_string().into() }
}

fn contribution(resource: ResourceKey, n: u64) -> Contribution {
    let registers = PATHS.iter().map(|path| {
        let text = Json::string(format!("value {}", n % 7));
        let value = if path.ends_with(']') { Json::Array(vec![Json::object([("text", text)])]) } else { text };
        (SmolStr::new(path), Register { strength: Strength::Asserts, value: Some(value) })
    });
    Contribution { resource, scope: Scope::Subject, registers: registers.collect() }
}

/// Event `n` of one patient: the Patient, and a visit that changes every ten events.
fn event(n: u64) -> Event {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&n.to_be_bytes());
    let seconds = i64::try_from(n).unwrap_or(i64::MAX);
    let key = OrderKey {
        clock: Clock::new(seconds, 0),
        sequence: 0,
        rank: Rank::Updated,
        message_time: Clock::new(seconds, 0),
        control_id: SmolStr::default(),
        hash,
    };
    let contributions = vec![contribution(resource("Patient", 1), n), contribution(resource("Encounter", n / 10), n)];
    Event { message_id: SmolStr::from(format!("{n:032x}")), key, contributions }
}

fn events(n: u64) -> Vec<Event> {
    (0..n).map(event).collect()
}

fn absorb(c: &mut Criterion) {
    let mut group = c.benchmark_group("absorb one more event");
    for size in [10, 1_000, 10_000] {
        let mut chart = Chart::fold(&events(size));
        let mut next = size;
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter_batched(
                || {
                    next += 1;
                    let mut event = event(next);
                    event.contributions[1].resource = resource("Encounter", next % (size / 10));
                    event
                },
                |event| black_box(chart.absorb(&event)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn fold(c: &mut Criterion) {
    let events = events(1_000);
    c.bench_function("fold 1,000 events", |b| b.iter(|| Chart::fold(black_box(&events))));
}

fn after(c: &mut Criterion) {
    let chart = Chart::fold(&events(10));
    let patient = resource("Patient", 1);
    c.bench_function("render a Patient", |b| b.iter(|| chart.render(black_box(&patient))));
    c.bench_function("save a Patient", |b| b.iter(|| chart.save(black_box(&patient))));
    let saved = chart.save(&patient);
    c.bench_function("restore a Patient", |b| b.iter(|| Chart::default().restore(black_box(&saved))));
}

criterion_group!(benches, absorb, fold, after);
criterion_main!(benches);
