//! Faults of rule files: file, line, message; gathered, so that one run shows all of them.
//! Not here: anything about messages.

use std::fmt;
use std::ops::Range;

/// One fault of a rule file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Path of the file, relative to the rule directory.
    pub file: String,
    /// Line from 1; 0 where the fault is the whole file's (or its absence).
    pub line: u32,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for Fault {}

/// A place in a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Index of the file among the sorted files.
    pub file: usize,
    /// Line from 1.
    pub line: u32,
}

/// Where faults are gathered while files load.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    files: Vec<String>,
    found: Vec<Fault>,
}

impl Faults {
    pub(crate) fn new(files: Vec<String>) -> Self {
        Self { files, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, place: Place, message: impl Into<String>) {
        let file = self.files.get(place.file).cloned().unwrap_or_default();
        self.found.push(Fault { file, line: place.line, message: message.into() });
    }

    pub(crate) fn add_file(&mut self, file: &str, message: impl Into<String>) {
        self.found.push(Fault { file: file.to_owned(), line: 0, message: message.into() });
    }

    /// All faults, sorted, each once; empty when there are none.
    pub(crate) fn finish(mut self) -> Vec<Fault> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

/// Turns byte offsets of one text into line numbers.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i.saturating_add(1));
        Self { starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub(crate) fn line(&self, span: &Range<usize>) -> u32 {
        let line = self.starts.partition_point(|start| *start <= span.start);
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let lines = Lines::new("a\nbc\n\nd");
        assert_eq!([0, 1, 2, 4, 5, 6].map(|at| lines.line(&(at..at))), [1, 1, 2, 2, 3, 4]);
    }
}
