//! Words that must not be in the product: marks of unfinished work, silenced lints and skipped tests without a reason,
//! and places that only the author's machine has.

use crate::source::{Source, closing, words};
use crate::{Fault, report, tree};

/// Marks of unfinished work in comments.
const MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// Marks of unfinished work in code.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// Places outside the repository, split so that this file does not name them.
const PLACES: [&str; 2] = [concat!("/wo", "rk/"), concat!("../sha", "red")];
/// Places on somebody's machine; in data they may be part of an address.
const MACHINE: [&str; 4] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/t", "mp/"), concat!("/Use", "rs/")];
/// Endings of texts that people write.
const WRITTEN: [&str; 5] = [".md", ".rs", ".sh", ".sql", ".toml"];
/// Files besides those of the top-level folders.
const HIDDEN: [&str; 4] = [".ci/run", ".clippy.toml", ".deny.toml", ".rustfmt.toml"];
/// The only place that packages come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Marks, silenced lints and skipped tests of one Rust file.
fn check(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |at: usize, text: String| faults.push(Fault::new(&source.path, source.line(at), text));
    for mark in MARKS {
        words(&source.comments, mark)
            .for_each(|at| fault(at, format!("`{mark}`: finish it or say why it is as it is")));
    }
    for name in UNFINISHED {
        let found = words(&source.code, name.trim_end_matches('!')).filter(|at| source.code[*at..].starts_with(name));
        found.for_each(|at| fault(at, format!("`{name}` is no finished work")));
    }
    for lint in ["allow", "expect"] {
        for open in ["#[", "#!["] {
            let attribute = format!("{open}{lint}(");
            for (at, _) in source.code.match_indices(&attribute) {
                let end = closing(&source.code, at + open.len() - 1);
                if !source.code[at..end].contains("reason =") {
                    fault(at, format!("`{attribute}…)]` says no reason"));
                }
            }
        }
    }
    for (at, _) in source.code.match_indices("#[ignore]") {
        fault(at, "`#[ignore]` says no reason".to_owned());
    }
    faults
}

/// Places that a text names.
fn places(path: &str, text: &str) -> Vec<Fault> {
    let machine: &[&str] = if WRITTEN.iter().any(|ending| path.ends_with(ending)) { &MACHINE } else { &[] };
    let places = || PLACES.iter().chain(machine);
    let lines = text.lines().zip(1..);
    let named = lines.flat_map(|(line, n)| places().filter(move |place| line.contains(**place)).map(move |p| (n, p)));
    named.map(|(n, place)| Fault::new(path, n, format!("`{place}` is a place on somebody's machine"))).collect()
}

/// Sources in a lock file that are no public registry.
fn origins(path: &str, text: &str) -> Vec<Fault> {
    let sources = text.lines().zip(1..).filter(|(line, _)| line.starts_with("source = "));
    let other = sources.filter(|(line, _)| *line != format!("source = \"{REGISTRY}\""));
    other.map(|(_, n)| Fault::new(path, n, "a package from elsewhere than the public registry")).collect()
}

#[test]
fn work_is_finished_and_exceptions_have_reasons() {
    report(&tree::sources().iter().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn the_text_speaks_of_the_product_alone() {
    let files = tree::files().into_iter().chain(HIDDEN.map(str::to_owned));
    let texts = files.filter_map(|path| Some((tree::text(&path)?, path)));
    report(&texts.flat_map(|(text, path)| places(&path, &text)).collect::<Vec<_>>());
}

#[test]
fn packages_come_from_the_public_registry() {
    report(&origins("Cargo.lock", &tree::text("Cargo.lock").expect("Cargo.lock is committed")));
}

#[test]
fn bad_words_are_found() {
    let lines = |text: &str| check(&Source::new("x.rs", text)).into_iter().map(|f| f.line).collect::<Vec<_>>();
    assert_eq!(lines("// TODO: x\nfn f() {\n todo!()\n}"), [1, 3]);
    assert_eq!(lines("#[allow(dead_code)]\n#[expect(\n dead_code\n)]\n#![allow(x)]\n#[ignore]\n"), [1, 5, 2, 6]);
    assert_eq!(
        lines("#[expect(dead_code, reason = \"x\")]\n#[ignore = \"x\"]\nlet todo = \"TODO dbg!\"; // TODOS\n"),
        [0; 0]
    );
    assert_eq!(places("x.md", &format!("a\nsee {}x\n", PLACES[0])).len(), 1);
    assert_eq!(places("x.md", &format!("{}x\n", MACHINE[0])).len(), 1);
    assert_eq!(places("x.json", &format!("https://example.org{}x\n", MACHINE[0])), []);
    assert_eq!(places("x.md", "work/shared /shared\n"), []);
    assert_eq!(
        origins("Cargo.lock", &format!("source = \"{REGISTRY}\"\nsource = \"git+https://example.org/x\"\n"))[0].line,
        2
    );
}
