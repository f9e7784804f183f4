//! Messages from files: golden cases of our own, and public messages where a folder with them is at hand.

use std::path::{Path, PathBuf};

/// The folder that an environment variable names; `None`, said aloud, where it is unset.
pub fn folder(variable: &str, what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: {what}: set {variable} to run it");
    }
    folder
}

/// All ADT messages of a public corpus: its `MANIFEST.tsv` names files and types. Stream files (type `MULTI`) are left
/// out, since their messages are there one by one.
pub fn adt_messages(corpus: &Path) -> Vec<Vec<u8>> {
    let manifest = std::fs::read_to_string(corpus.join("MANIFEST.tsv")).expect("the corpus has a manifest");
    manifest
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let (path, kind) = (columns.next()?, columns.next()?);
            kind.starts_with("ADT").then(|| corpus.join(path))
        })
        .flat_map(|path| {
            // Some are kept in their frames.
            gateway::message_file::split(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        })
        .collect()
}

/// The messages of a stream file, in order: each begins with `MSH` at the start of a line.
pub fn stream(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("the stream file is readable");
    gateway::message_file::split(&bytes)
}

/// A fixed shuffle: the same for the same seed.
pub fn shuffled<T>(mut items: Vec<T>, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for i in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let j = usize::try_from(state % (i as u64 + 1)).expect("an index");
        items.swap(i, j);
    }
    items
}
