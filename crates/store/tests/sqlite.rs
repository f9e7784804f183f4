//! SQLite against the conformance suite.

use store::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

async fn open() -> (SqliteStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store.db"), SqliteOptions::default()).await.unwrap();
    (store, directory)
}

store::conformance!(open);

/// A case that nobody runs proves nothing.
#[test]
fn every_case_is_listed() {
    let suite = include_str!("../src/conformance/mod.rs");
    for cases in [
        include_str!("../src/conformance/decisions.rs"),
        include_str!("../src/conformance/delivery.rs"),
        include_str!("../src/conformance/reads.rs"),
    ] {
        let names = cases.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('<').next());
        for name in names {
            let listed = |end: char| suite.contains(&format!("{name}{end}"));
            assert!(listed(',') || listed(')'), "{name}");
        }
    }
}
