//! TOML with line numbers, read key by key: a wrong type or an unknown key is a fault, and reading goes on.
//! Not here: what the keys mean.
//! Contract: every key of a table is either read or reported.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use crate::fault::{Faults, Lines, Place};

/// A TOML value with its line.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub value: Value,
}

/// The kinds of TOML that rule files use.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    Other(&'static str),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// Parses a file; syntax faults are added and what could be read is returned.
pub(crate) fn parse(file: usize, text: &str, faults: &mut Faults) -> Table {
    let lines = Lines::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = error.span().map_or(0, |span| lines.line(&span));
        faults.add(Place { file, line }, error.message().to_owned());
    }
    let place = Place { file, line: 1 };
    match convert(DeValue::Table(document.into_inner()), place, &lines) {
        Node { value: Value::Table(entries), .. } => Table::new(place, entries),
        Node { .. } => Table::new(place, BTreeMap::new()),
    }
}

fn convert(value: DeValue<'_>, place: Place, lines: &Lines) -> Node {
    let at = |span| Place { file: place.file, line: lines.line(&span) };
    let value = match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("an integer out of range"),
        },
        DeValue::Boolean(flag) => Value::Boolean(flag),
        DeValue::Float(_) => Value::Other("a float"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::List(
            items
                .into_iter()
                .map(|item| {
                    let place = at(item.span());
                    convert(item.into_inner(), place, lines)
                })
                .collect(),
        ),
        DeValue::Table(entries) => Value::Table(
            entries
                .into_iter()
                .map(|(key, item)| {
                    // A table's own span may start at its header; its key is where a reader looks.
                    let place = at(key.span());
                    (key.into_inner().into_owned(), convert(item.into_inner(), place, lines))
                })
                .collect(),
        ),
    };
    Node { place, value }
}

/// A table being read.
#[derive(Debug)]
pub(crate) struct Table {
    pub place: Place,
    entries: BTreeMap<String, Node>,
    known: BTreeSet<&'static str>,
}

impl Table {
    pub(crate) fn new(place: Place, entries: BTreeMap<String, Node>) -> Self {
        Self { place, entries, known: BTreeSet::new() }
    }

    /// The entry of `key`, taken out.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Node> {
        self.known.insert(key);
        self.entries.remove(key)
    }

    /// The line of `key`, or of the table.
    pub(crate) fn place_of(&self, key: &str) -> Place {
        self.entries.get(key).map_or(self.place, |node| node.place)
    }

    pub(crate) fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<String> {
        let node = self.take(key)?;
        match node.value {
            Value::Text(text) => Some(text),
            other => {
                wrong(&node.place, key, "a string", &other, faults);
                None
            }
        }
    }

    pub(crate) fn required_text(&mut self, key: &'static str, faults: &mut Faults) -> Option<String> {
        if !self.entries.contains_key(key) {
            faults.add(self.place, format!("`{key}` is missing"));
        }
        self.text(key, faults)
    }

    pub(crate) fn boolean(&mut self, key: &'static str, faults: &mut Faults) -> bool {
        let Some(node) = self.take(key) else { return false };
        match node.value {
            Value::Boolean(flag) => flag,
            other => {
                wrong(&node.place, key, "a boolean", &other, faults);
                false
            }
        }
    }

    pub(crate) fn texts(&mut self, key: &'static str, faults: &mut Faults) -> Vec<String> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let Value::List(items) = node.value else {
            wrong(&node.place, key, "an array of strings", &node.value, faults);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match item.value {
                Value::Text(text) => texts.push(text),
                other => wrong(&item.place, key, "an array of strings", &other, faults),
            }
        }
        texts
    }

    /// Row numbers: positive integers.
    pub(crate) fn rows(&mut self, key: &'static str, faults: &mut Faults) -> Vec<u32> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let Value::List(items) = node.value else {
            wrong(&node.place, key, "an array of row numbers", &node.value, faults);
            return Vec::new();
        };
        let mut rows = Vec::new();
        for item in items {
            match item.value {
                Value::Integer(row) if u32::try_from(row).is_ok_and(|row| row > 0) => {
                    rows.extend(u32::try_from(row));
                }
                other => wrong(&item.place, key, "an array of row numbers", &other, faults),
            }
        }
        rows
    }

    /// `[[key]]` tables.
    pub(crate) fn tables(&mut self, key: &'static str, faults: &mut Faults) -> Vec<Table> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let Value::List(items) = node.value else {
            faults.add(node.place, format!("`{key}` is {}, not tables: write [[{key}]]", node.value.kind()));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match item.value {
                Value::Table(entries) => {
                    // An array of tables carries the span of its header only for the first; take the first key's line.
                    let line = entries.values().map(|entry| entry.place.line).min().unwrap_or(item.place.line);
                    tables.push(Table::new(Place { file: item.place.file, line }, entries));
                }
                other => wrong(&item.place, key, "a table", &other, faults),
            }
        }
        tables
    }

    /// A table of strings, with the line of each.
    pub(crate) fn pairs(&mut self, key: &'static str, faults: &mut Faults) -> Vec<(String, String, Place)> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let Value::Table(entries) = node.value else {
            wrong(&node.place, key, "a table of strings", &node.value, faults);
            return Vec::new();
        };
        text_pairs(entries, faults)
    }

    /// All entries left, in key order, as tables (`[Patient]`).
    pub(crate) fn named_tables(&mut self, faults: &mut Faults) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        for (name, node) in std::mem::take(&mut self.entries) {
            match node.value {
                Value::Table(entries) => tables.push((name, Table::new(node.place, entries))),
                other => wrong(&node.place, &name, "a table", &other, faults),
            }
        }
        tables
    }

    /// Reports the keys nobody read.
    pub(crate) fn finish(self, faults: &mut Faults) {
        let known: Vec<&str> = self.known.iter().copied().collect();
        for (key, node) in &self.entries {
            faults.add(node.place, format!("unknown key `{key}`; known here: {}", known.join(", ")));
        }
    }
}

fn text_pairs(entries: BTreeMap<String, Node>, faults: &mut Faults) -> Vec<(String, String, Place)> {
    let mut pairs = Vec::new();
    for (name, node) in entries {
        match node.value {
            Value::Text(text) => pairs.push((name, text, node.place)),
            // `subject.reference = ""` would be dotted keys; references are quoted paths.
            other => wrong(&node.place, &name, "a string (quote a key with dots)", &other, faults),
        }
    }
    pairs
}

fn wrong(place: &Place, key: &str, wanted: &str, found: &Value, faults: &mut Faults) {
    faults.add(*place, format!("`{key}` is {}, wanted {wanted}", found.kind()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_every_fault_with_its_line() {
        let mut faults = Faults::new(vec!["a.toml".into()]);
        let mut table = parse(
            0,
            "map = 1\nrows = [1, \"x\"]\nother = true\n[[rule]]\nfrom = \"A\"\n\n[[rule]]\nto=\"b\"",
            &mut faults,
        );
        assert_eq!(table.text("map", &mut faults), None);
        assert_eq!(table.rows("rows", &mut faults), [1]);
        let rules = table.tables("rule", &mut faults);
        assert_eq!(rules.iter().map(|r| r.place.line).collect::<Vec<_>>(), [5, 8]);
        table.finish(&mut faults);
        let lines: Vec<u32> = faults.finish().iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn syntax_faults_do_not_stop_reading() {
        let mut faults = Faults::new(vec!["a.toml".into()]);
        let mut table = parse(0, "map = \"A\"\nb = = 2\nc = \"d\"\n", &mut faults);
        assert_eq!(table.text("map", &mut faults).as_deref(), Some("A"));
        assert!(!faults.finish().is_empty());
    }
}
