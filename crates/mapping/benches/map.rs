//! Compiling the rules of `mappings/v1`, and parsing and mapping a typical ADT^A01 by them.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mapping::{Context, Plan, RuleFile, Sender, Zone};

const A01: &str = concat!(
    "MSH|^~\\&|ADT1|GOOD HEALTH HOSPITAL|GHH LAB|ICU|20240115083000||ADT^A01^ADT_A01|MSG00001|P|2.5.1\r",
    "EVN|A01|20240115082900||||20240115082800\r",
    "PID|1||PATID1234^5^M11^GHH^MR^GHH~123456789^^^USSSA^SS||EVERYMAN^ADAM^A^III||19610615|M||2106-3|",
    "1200 N ELM STREET^^GREENSBORO^NC^27401-1020^USA^H||(919)379-1212^PRN^PH|(919)271-3434^WPN^PH|EN|S|CHR|",
    "PATID12345001^2^M10^GHH^AN|123456789|987654^NC\r",
    "PD1||||1234^WELBY^MARCUS^^^DR^MD^^GHH\r",
    "NK1|1|JONES^BARBARA^K|WI^WIFE^HL70063|1200 N ELM STREET^^GREENSBORO^NC^27401|(919)379-1212||NK^NEXT OF KIN^HL70131\r",
    "PV1|1|I|2000^2012^01||||004777^LEBAUER^SIDNEY^J.^^^^^GHH|004778^SMITH^ANN^^^^^^GHH||SUR||||ADM|A0|",
    "|004777^LEBAUER^SIDNEY^J.^^^^^GHH|S|VN12345^^^GHH^VN||||||||||||||||||||||||20240115083000\r",
    "PV2|||^HEADACHE|||||20240115|20240120\r",
    "AL1|1||^PENICILLIN||PRODUCES HIVES~RASH\r",
    "AL1|2||^CAT DANDER\r",
    "DG1|1||I10^HYPERTENSION^I10||20240115|A\r",
    "GT1|1||EVERYMAN^ADAM^A^III||1200 N ELM STREET^^GREENSBORO^NC^27401|(919)379-1212\r",
    "IN1|1|PPO|BC1|BLUE CROSS|||||||||20240101\r",
);

fn rule_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mappings/v1");
    let mut files = Vec::new();
    read(&root, &root, &mut files).expect("the rules are in mappings/v1");
    files
}

fn read(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

fn benches(criterion: &mut Criterion) {
    let files = rule_files();
    let files: Vec<RuleFile> = files.iter().map(|(path, text)| RuleFile { path, text }).collect();
    let plan = Plan::compile(&files).expect("the rules have no faults");
    let sender = Sender::new("bench", Zone::named("America/New_York").expect("a zone"));
    let context = Context { sender: &sender, identity_key: &[7; 32], message_id: "bench", message_header: false };

    criterion.bench_function("compile/v1", |bencher| bencher.iter(|| Plan::compile(black_box(&files))));

    let mut group = criterion.benchmark_group("a01");
    group.throughput(Throughput::Elements(1));
    let message = hl7::Message::parse(A01).expect("a message");
    plan.map(&message, &context).expect("it maps");
    group.bench_function("map", |bencher| bencher.iter(|| plan.map(black_box(&message), &context)));
    group.bench_function("parse+map", |bencher| {
        bencher.iter(|| {
            let message = hl7::Message::parse(black_box(A01)).expect("a message");
            plan.map(&message, &context)
        });
    });
    let mapped = plan.map(&message, &context).expect("it maps");
    group.bench_function("ledger counts", |bencher| bencher.iter(|| mapped.ledger.counts(black_box(&message), &plan)));
    group.finish();
}

criterion_group!(map, benches);
criterion_main!(map);
