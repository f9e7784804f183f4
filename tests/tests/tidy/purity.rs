//! What the pure crates may not say outside tests: clock, I/O, randomness, environment, threads, logging, printing. The
//! same is told by clippy where it can tell (`.clippy.toml`); here it holds also for macros, imports and whole modules.

use std::collections::BTreeSet;

use crate::source::{Source, words};
use crate::{Fault, layers, report, tree};

/// Modules of the standard library that reach outside.
const MODULES: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// Names that reach outside, wherever they come from.
const NAMES: [(&str, &str); 14] = [
    ("SystemTime", "the clock"),
    ("Timestamp::now", "the clock"),
    ("Zoned::now", "the clock"),
    ("now_v7", "the clock and randomness"),
    ("new_v4", "randomness"),
    ("RandomState", "randomness"),
    ("TimeZone::system", "the environment"),
    ("tracing", "logging"),
    ("log", "logging"),
    ("println!", "printing"),
    ("eprintln!", "printing"),
    ("print!", "printing"),
    ("eprint!", "printing"),
    ("option_env!", "the environment"),
];

/// What every pure crate denies itself, so that no input makes it panic.
const DENIED: [&str; 8] = [
    "clippy::unwrap_used",
    "clippy::expect_used",
    "clippy::panic",
    "clippy::indexing_slicing",
    "clippy::arithmetic_side_effects",
    "clippy::disallowed_macros",
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
];

/// Faults of one file's product code.
fn check(source: &Source, code: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for at in words(code, "std").filter(|at| code[*at..].starts_with("std::")) {
        let rest = &code[at + "std::".len()..];
        let names = match rest.strip_prefix('{') {
            // `use std::{fs, io::Read}`: the first name of each part at the outer level.
            Some(_) => group(&code[..=crate::source::closing(code, at + "std::".len())][at + "std::{".len()..]),
            None => vec![rest],
        };
        for module in names.iter().filter_map(|name| MODULES.iter().find(|m| words(name, m).next() == Some(0))) {
            faults.push(Fault::new(
                &source.path,
                source.line(at),
                format!("a pure crate does not use `std::{module}`"),
            ));
        }
    }
    for (name, what) in NAMES {
        // As a path or macro, not as a field or variable of that name.
        let used =
            |at: &usize| name.contains([':', '!', '_']) || name == "SystemTime" || is_path(&code[at + name.len()..]);
        for at in words(code, name.trim_end_matches('!')).filter(|at| code[*at..].starts_with(name)).filter(used) {
            faults.push(Fault::new(
                &source.path,
                source.line(at),
                format!("a pure crate does not use {what}: `{name}`"),
            ));
        }
    }
    faults
}

fn is_path(rest: &str) -> bool {
    rest.starts_with("::")
}

/// The parts of a braced import, at the outer level.
fn group(inner: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (i, b) in inner.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                parts.push(inner[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The files of a crate's library that are compiled into the product, with their product code.
fn product(name: &str) -> Vec<(Source, String)> {
    let folder = format!("crates/{name}/src/");
    let sources: Vec<Source> = tree::sources().into_iter().filter(|s| s.path.starts_with(&folder)).collect();
    let mut for_tests = BTreeSet::new();
    for source in &sources {
        let base = source.path.strip_suffix(".rs").unwrap_or_default();
        let base = if ["lib", "main", "mod"].contains(&source.stem()) {
            base.rsplit_once('/').map_or("", |b| b.0)
        } else {
            base
        };
        for module in source.product().1 {
            for_tests.insert(format!("{base}/{module}"));
        }
    }
    let is_product = |s: &Source| {
        !for_tests
            .iter()
            .any(|t| s.path.strip_prefix(t.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
    };
    sources.into_iter().filter(is_product).map(|source| (source.product().0, source)).map(|(c, s)| (s, c)).collect()
}

#[test]
fn pure_crates_reach_nothing_outside() {
    let mut faults = Vec::new();
    for (source, code) in layers::pure().flat_map(product) {
        faults.extend(check(&source, &code));
    }
    report(&faults);
}

#[test]
fn crates_that_read_foreign_input_deny_themselves_to_panic() {
    let mut faults = Vec::new();
    for name in layers::pure().chain(["mllp"]) {
        let path = format!("crates/{name}/src/lib.rs");
        let text = tree::text(&path).expect("every crate has a lib.rs");
        // Only purity is about what else a crate may not call.
        let wanted = if name == "mllp" { &DENIED[..5] } else { &DENIED[..] };
        let missing = wanted.iter().filter(|lint| !text.contains(*lint));
        faults.extend(
            missing.map(|lint| Fault::new(&path, 1, format!("missing in #![cfg_attr(not(test), deny(…))]: {lint}"))),
        );
    }
    report(&faults);
}

#[test]
fn what_reaches_outside_is_found() {
    let found = |text: &str| -> Vec<usize> {
        let source = Source::new("x.rs", text);
        let mut lines: Vec<usize> = check(&source, &source.product().0).into_iter().map(|f| f.line).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(found("use std::fs;\nuse std::{fmt, env::var, collections::{io, net}};\n"), [1, 2]);
    assert_eq!(found("fn f() {\n let t = std::time::Instant::now();\n println!(\"\");\n}"), [2, 3]);
    assert_eq!(found("use std::time::SystemTime;\n"), [1, 1]);
    assert_eq!(found("tracing::info!(x);\nUuid::new_v4();\nuse std::{\n  thread};\n"), [1, 2, 3]);
    for innocent in [
        "// std::fs println!\nlet a = \"std::fs\";",
        "#[cfg(test)]\nmod tests { use std::fs; }",
        "use std::fmt; use std::environment; let log = 1; log.x(); Primitive::Instant; writeln!(out);",
    ] {
        assert_eq!(found(innocent), [0; 0], "{innocent}");
    }
}
