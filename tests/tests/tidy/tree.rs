//! The files of the repository, and what its top level may hold.

use std::path::{Path, PathBuf};

use crate::source::Source;
use crate::{Fault, report};

/// What stands at the top level besides dotfiles; nothing may be missing, nothing added.
const TOP_LEVEL: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "README.md", "crates", "deploy", "mappings", "migrations", "tests"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository").to_path_buf()
}

/// Every file under the top-level entries, by path from the root, sorted. Build output and dotfiles are not ours.
pub(crate) fn files() -> Vec<String> {
    let mut found = Vec::new();
    for entry in TOP_LEVEL {
        walk(&root(), entry, &mut found);
    }
    found.sort();
    found
}

fn walk(root: &Path, path: &str, found: &mut Vec<String>) {
    let full = root.join(path);
    if full.is_file() {
        found.push(path.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(&full) else { return };
    for entry in entries {
        let name = entry.expect("the folder is readable").file_name().into_string().expect("names are UTF-8");
        if !name.starts_with('.') && name != "target" {
            walk(root, &format!("{path}/{name}"), found);
        }
    }
}

/// The text of a file; `None` where it is no text.
pub(crate) fn text(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

/// Every Rust file.
pub(crate) fn sources() -> Vec<Source> {
    let rust = files().into_iter().filter(|path| Path::new(path).extension().is_some_and(|e| e == "rs"));
    rust.map(|path| Source::new(&path, &text(&path).expect("Rust files are UTF-8"))).collect()
}

/// Faults of the top level's names.
fn top_level(names: &[String], ignored: &[String]) -> Vec<Fault> {
    let ours = |name: &&String| !name.starts_with('.') && !ignored.contains(name);
    let added = names.iter().filter(ours).filter(|name| !TOP_LEVEL.contains(&name.as_str()));
    let added = added.map(|name| Fault::new(name, 1, "the top level is fixed: this belongs under one of its folders"));
    let missing = TOP_LEVEL.iter().filter(|name| !names.iter().any(|n| n == **name));
    added.chain(missing.map(|name| Fault::new(name, 1, "missing at the top level"))).collect()
}

#[test]
fn the_top_level_is_as_agreed() {
    let entries = std::fs::read_dir(root()).expect("the root is readable");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("the root is readable").file_name().into_string().expect("names are UTF-8")).collect();
    names.sort();
    let ignored = std::fs::read_to_string(root().join(".gitignore")).unwrap_or_default();
    let ignored: Vec<String> =
        ignored.lines().filter_map(|line| Some(line.strip_prefix('/')?.trim_end_matches('/').to_owned())).collect();
    report(&top_level(&names, &ignored));
}

#[test]
fn the_rules_look_at_every_package() {
    let sources = sources();
    let packages = files().into_iter().filter_map(|path| Some(path.strip_suffix("/Cargo.toml")?.to_owned()));
    for package in packages {
        let holds = |folder: &str| sources.iter().any(|s| s.path.starts_with(&format!("{package}/{folder}/")));
        assert!(holds("src") || holds("targets"), "{package}");
    }
    assert!(sources.iter().any(|source| source.path == "tests/tests/tidy/tree.rs"));
}

#[test]
fn both_licences_are_there() {
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        assert!(text(&format!("deploy/licenses/{name}")).is_some(), "deploy/licenses/{name} is missing");
    }
}

#[test]
fn an_entry_too_many_or_too_few_is_found() {
    let mut names: Vec<String> = TOP_LEVEL.iter().map(ToString::to_string).collect();
    names.push(".github".to_owned());
    names.push("target".to_owned());
    let ignored = ["target".to_owned()];
    assert_eq!(top_level(&names, &ignored), []);
    names[0] = "notes".to_owned();
    let found: Vec<String> = top_level(&names, &ignored).into_iter().map(|f| f.path).collect();
    assert_eq!(found, ["notes", "Cargo.lock"]);
}
