//! The rules against the guide and against the golden cases: each of the guide's rows that names a target is either
//! implemented or a deviation with its reason, and each rule fires in at least one case.
//! Not here: what the rules make (`golden.rs`); faults inside rule files (the compiler's).

use std::collections::{BTreeMap, BTreeSet};

use tests::golden::{SETTINGS, all, compiled, judge, map, rule_files};

/// The guide's rows with a target, for the maps of ADT messages.
const GUIDE: &str = include_str!("../data/guide_rows.txt");

/// Rules that no golden case can fire: map, target and why.
const NEVER: [(&str, &str, &str); 0] = [];

type Rows = BTreeMap<String, BTreeSet<u32>>;

/// `PV1[Encounter]: 1-3 7`.
fn guide() -> Rows {
    let mut rows = Rows::new();
    for line in GUIDE.lines().filter(|line| !line.starts_with('#')) {
        let (map, numbers) = line.split_once(": ").unwrap_or_else(|| panic!("no rows in `{line}`"));
        let numbers = numbers.split(' ').flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("no row number: {text}"));
            number(first)..=number(last)
        });
        rows.insert(map.to_owned(), numbers.collect());
    }
    rows
}

/// The rows that `deviations.toml` gives up, by map.
fn deviations() -> Rows {
    let files = rule_files();
    let (_, text) = files.iter().find(|(path, _)| path == "deviations.toml").expect("a file of deviations");
    let table: toml::Table = text.parse().expect("TOML");
    let mut rows = Rows::new();
    for deviation in table["deviation"].as_array().expect("deviations") {
        let numbers = deviation["rows"].as_array().expect("rows").iter();
        let numbers = numbers.map(|n| n.as_integer().and_then(|n| u32::try_from(n).ok()).expect("a row number"));
        rows.entry(deviation["map"].as_str().expect("a map").to_owned()).or_default().extend(numbers);
    }
    rows
}

#[test]
fn every_row_of_the_guide_is_a_rule_or_a_deviation_and_not_both() {
    let plan = compiled(&rule_files());
    let mut implemented = Rows::new();
    for rule in plan.rules().chain(plan.bindings()) {
        implemented.entry(rule.map.to_owned()).or_default().extend(rule.rows);
    }
    let deviations = deviations();
    let none = BTreeSet::new();
    let mut faults = Vec::new();
    for (map, rows) in guide() {
        let done = implemented.get(&map).unwrap_or(&none);
        let given_up = deviations.get(&map).unwrap_or(&none);
        for row in &rows {
            match (done.contains(row), given_up.contains(row)) {
                (true, true) => faults.push(format!("{map} row {row}: a rule and a deviation")),
                (false, false) => faults.push(format!("{map} row {row}: neither a rule nor a deviation")),
                _ => {}
            }
        }
        for row in done.difference(&rows) {
            faults.push(format!("{map} row {row}: the guide has no target there"));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_rule_fires_in_a_golden_case() {
    let judge = judge(compiled(&rule_files()), SETTINGS);
    let mut fired = BTreeSet::new();
    for case in all() {
        let outcome = map(&judge, &case.bytes).unwrap_or_else(|fault| panic!("{}: {fault}", case.path.display()));
        fired.extend(outcome.fired);
    }
    let mut silent = Vec::new();
    for rule in judge.plan().rules() {
        let excused = NEVER.iter().any(|(map, target, _)| *map == rule.map && *target == rule.target);
        let seen = fired.contains(&(rule.file.to_owned(), rule.line));
        if seen == excused {
            let what = if seen { "fires, though listed as one that can't" } else { "never fires" };
            silent.push(format!("{}:{} {} {}", rule.file, rule.line, rule.target, what));
        }
    }
    assert!(silent.is_empty(), "{} rules\n{}", silent.len(), silent.join("\n"));
}
