//! The rules of the repository that no compiler knows: layers of crates, purity, sizes, names, words (DESIGN §8). Each
//! module holds one rule with what it allows, and shows on a bad example that it would be broken.
//! Contract: a fault names file and line, and all faults of a rule come at once.

#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/purity.rs"]
mod purity;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/words.rs"]
mod words;

use std::fmt;

/// A broken rule and where.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    path: String,
    /// From 1.
    line: usize,
    text: String,
}

impl Fault {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Fails with every fault on a line of its own.
fn report(faults: &[Fault]) {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(lines.is_empty(), "{} faults\n{}", lines.len(), lines.join("\n"));
}
