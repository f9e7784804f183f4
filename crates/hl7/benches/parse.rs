//! What a message costs: decoding, indexing, walking, its canonical form, its answer; and what splitting a field costs
//! by our own iterators and by the `hl7-parser` crate.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hl7::ack::{self, Ack, AckCode, AckSource};
use hl7::canonical::{Skip, canonical};
use hl7::{Charset, Element, Level, Message, decode};

/// An admission as interface engines send it: 10 segments, 1.4 KB.
const ADMISSION: &str = concat!(
    "MSH|^~\\&|REGADT^1.2.840.99.3^ISO|NORTHGATE|SLUICE|REGION|20240229130501.123-0500||ADT^A01^ADT_A01|N0000481516|P|2.5.1|||AL|NE|USA|UNICODE UTF-8\r",
    "EVN|A01|20240229130455-0500||ADMIT|OP114^Lindqvist^Maja^^^^^^NORTHGATE|20240229125000-0500|NORTHGATE\r",
    "PID|1||4810023^^^NORTHGATE&1.2.840.99.3.1&ISO^MR~923-55-0188^^^USSSA^SS||Okonkwo^Adaeze^Ruth^^Mrs^^L~Obi^Adaeze^^^^^M|Obi|19810417|F||2106-3|",
    "118 Quarry Lane^Apt 4B^Millbrook^OH^45140^USA^H||^PRN^PH^^1^513^5550142~^NET^Internet^a.okonkwo@example.org|^WPN^PH^^1^513^5550199|en|M|CHR|",
    "V7730091^^^NORTHGATE^AN|||||Millbrook \\T\\ County||||||||N\r",
    "PD1|||Millbrook Family Practice^^10442|77120^Hargreaves^Tomas^^^^MD\r",
    "NK1|1|Okonkwo^Emeka^^^^^L|SPO^Spouse^HL70063|118 Quarry Lane^Apt 4B^Millbrook^OH^45140^USA^H|^PRN^PH^^1^513^5550143||C^Emergency contact^HL70131\r",
    "PV1|1|I|4EAST^412^B^NORTHGATE^^N^TOWER|U|||31007^Castellanos^Ines^^^^MD^^NPI|77120^Hargreaves^Tomas^^^^MD^^NPI||MED||||7|A0||",
    "31007^Castellanos^Ines^^^^MD^^NPI|IN|V7730091^^^NORTHGATE^VN|BC|||||||||||||||||||||||||20240229125000-0500\r",
    "PV2||SEMI|R07.9^Chest pain, unspecified^I10|||||20240229|20240303|3\r",
    "AL1|1|DA|7980^Penicillin G^RXNORM|SV|Hives|20110302\r",
    "DG1|1||R07.9^Chest pain, unspecified^I10||20240229|A\r",
    "IN1|1|PPO20^Preferred 20^NORTHGATE|BC044|Buckeye Mutual|PO Box 900^^Columbus^OH^43085||||GRP-55120||||20240101|20241231|||Okonkwo^Adaeze^Ruth|SEL^Self^HL70063|19810417|118 Quarry Lane^Apt 4B^Millbrook^OH^45140^USA^H\r",
);

fn whole(c: &mut Criterion) {
    let message = Message::parse(ADMISSION).expect("the message of this benchmark parses");
    assert_eq!(message.segment_count(), 10);
    let accepted = Ack { code: AckCode::AA, errors: Vec::new() };
    let mut group = c.benchmark_group("admission");
    group.throughput(Throughput::Elements(1));
    group.bench_function("decode", |b| b.iter(|| decode(black_box(ADMISSION.as_bytes()), Charset::UTF_8)));
    let lines = ADMISSION.replace('\r', "\r\n");
    group.bench_function("decode CR LF", |b| b.iter(|| decode(black_box(lines.as_bytes()), Charset::UTF_8)));
    group.bench_function("parse", |b| b.iter(|| Message::parse(black_box(ADMISSION))));
    group.bench_function("canonical", |b| b.iter(|| canonical(black_box(&message), Skip::Transmission)));
    group.bench_function("decode, parse and canonical", |b| {
        b.iter(|| {
            let decoded = decode(black_box(ADMISSION.as_bytes()), Charset::UTF_8).ok()?;
            let message = Message::parse(&decoded.text).ok()?;
            Some(canonical(&message, Skip::Transmission).len())
        });
    });
    group.bench_function("every leaf's text", |b| {
        b.iter(|| {
            message.segments().flat_map(|s| s.fields().map(|(_, f)| texts(f)).collect::<Vec<_>>()).sum::<usize>()
        });
    });
    group.bench_function("answer", |b| {
        b.iter(|| ack::build(AckSource::Message(black_box(&message)), &accepted, "R1", "20240229130502-0500"));
    });
    group.bench_function("parse by hl7-parser", |b| b.iter(|| hl7_parser::Message::parse(black_box(ADMISSION))));
    group.finish();
}

fn texts(element: Element<'_>) -> usize {
    match element.level() {
        Level::Field => element.repetitions().map(texts).sum(),
        Level::Repetition => element.components().map(texts).sum(),
        Level::Component => element.subcomponents().map(texts).sum(),
        Level::Literal | Level::Subcomponent => element.text().len(),
    }
}

fn field(c: &mut Criterion) {
    let message = Message::parse(ADMISSION).expect("the message of this benchmark parses");
    let pid = message.segment("PID").expect("it has a PID");
    let separators = hl7_parser::message::Separators::default();
    let mut group = c.benchmark_group("inside a field");
    for (name, n) in [("PID-3", 3), ("PID-8", 8), ("PID-11", 11)] {
        let field = pid.field(n);
        group.bench_function(format!("{name}, component 4 by ours"), |b| {
            b.iter(|| black_box(field).component(4).raw().len());
        });
        group.bench_function(format!("{name}, component 4 by hl7-parser"), |b| {
            b.iter(|| {
                let parsed =
                    hl7_parser::parser::parse_field_with_separators(black_box(field).raw(), separators).ok()?;
                parsed.component(4).map(|component| component.raw_value().len())
            });
        });
        group.bench_function(format!("{name}, every leaf by ours"), |b| b.iter(|| texts(black_box(field))));
        group.bench_function(format!("{name}, every leaf by hl7-parser"), |b| {
            b.iter(|| {
                let parsed =
                    hl7_parser::parser::parse_field_with_separators(black_box(field).raw(), separators).ok()?;
                let leaves = parsed
                    .repeats()
                    .flat_map(hl7_parser::message::Repeat::components)
                    .flat_map(hl7_parser::message::Component::subcomponents);
                Some(leaves.map(|leaf| leaf.raw_value().len()).sum::<usize>())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, whole, field);
criterion_main!(benches);
