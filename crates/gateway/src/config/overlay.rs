//! Lays a user's TOML document over the default one and notes the line of every value.
//!
//! The default document is the schema: a key that is not in it is a fault. Three places are open: `[sender.*]` (each
//! like `sender.default`), `[sender.*.authorities]` (any names), and `[[listener]]` (each like the default listener).

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::Fault;

/// The merged document and where each value stands in the user's file, by dotted key.
pub(super) struct Merged {
    /// Defaults with the user's values over them.
    pub(super) table: Table,
    /// The defaults alone.
    pub(super) defaults: Table,
    /// Line of each key the user's file sets.
    pub(super) lines: BTreeMap<String, usize>,
}

impl Merged {
    /// The line of a dotted key, of its nearest parent, or 0.
    pub(super) fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return *line;
            }
            match key.rfind('.') {
                Some(end) => key = &key[..end],
                None => return 0,
            }
        }
    }
}

/// One walk over the user's document.
struct Walk<'t> {
    text: &'t str,
    lines: BTreeMap<String, usize>,
    faults: Vec<Fault>,
}

pub(super) fn over_defaults(defaults: &str, text: &str) -> Result<Merged, Vec<Fault>> {
    let mut table: Table =
        toml::from_str(defaults).map_err(|e| vec![Fault { line: 0, message: e.message().into() }])?;
    let defaults = table.clone();
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut walk = Walk { text, lines: BTreeMap::new(), faults: Vec::new() };
    for error in errors {
        let line = walk.line(error.span().map_or(0, |s| s.start));
        walk.faults.push(Fault { line, message: error.message().into() });
    }
    if walk.faults.is_empty() {
        walk.senders_inherit(document.get_ref(), &mut table);
        walk.table("", document.get_ref(), &mut table);
    }
    let merged = Merged { table, defaults, lines: walk.lines };
    if walk.faults.is_empty() { Ok(merged) } else { Err(sorted(walk.faults, &merged)) }
}

/// Faults of the keys, with those that the typed reading of the sound rest finds, in order of lines.
fn sorted(mut faults: Vec<Fault>, merged: &Merged) -> Vec<Fault> {
    faults.extend(super::settings::typed(merged).err().unwrap_or_default());
    faults.sort_by(|a, b| (a.line, &a.message).cmp(&(b.line, &b.message)));
    faults.dedup();
    faults
}

impl Walk<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes().iter().take(offset).filter(|&&b| b == b'\n').count() + 1
    }

    /// Gives every named sender a copy of the (user's) default sender before its own keys are laid over it.
    fn senders_inherit(&mut self, document: &DeTable<'_>, table: &mut Table) {
        let Some(named) = document.get("sender").and_then(|s| s.get_ref().as_table()) else { return };
        let Some(Value::Table(senders)) = table.get_mut("sender") else { return };
        let Some(Value::Table(default)) = senders.get_mut("default") else { return };
        if let Some(own) = named.get("default").and_then(|s| s.get_ref().as_table()) {
            let mut probe = Walk { text: self.text, lines: BTreeMap::new(), faults: Vec::new() };
            probe.table("sender.default", own, default);
        }
        let default = default.clone();
        for name in named.keys() {
            senders.entry(name.get_ref().to_string()).or_insert_with(|| Value::Table(default.clone()));
        }
    }

    fn table(&mut self, prefix: &str, user: &DeTable<'_>, into: &mut Table) {
        for (key, value) in user {
            let name = key.get_ref().as_ref();
            let dotted = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let line = self.line(key.span().start);
            self.lines.insert(dotted.clone(), line);
            if dotted == "listener" {
                self.listeners(value, into);
            } else if prefix.ends_with(".authorities") {
                self.authority(&dotted, line, name, value, into);
            } else {
                match into.get_mut(name) {
                    None => self.faults.push(Fault { line, message: format!("unknown key `{dotted}`") }),
                    Some(slot) => self.value(&dotted, line, value, slot),
                }
            }
        }
    }

    fn authority(&mut self, dotted: &str, line: usize, name: &str, value: &Spanned<DeValue<'_>>, into: &mut Table) {
        match value.get_ref().as_str() {
            Some(uri) => {
                into.insert(name.to_owned(), Value::String(uri.to_owned()));
            }
            None => self.faults.push(Fault { line, message: format!("`{dotted}` must be a string: a system URI") }),
        }
    }

    fn listeners(&mut self, value: &Spanned<DeValue<'_>>, into: &mut Table) {
        let template = match into.get("listener") {
            Some(Value::Array(items)) => items.first().cloned(),
            _ => None,
        };
        let (Some(template), Some(items)) = (template, value.get_ref().as_array()) else {
            let line = self.line(value.span().start);
            return self.faults.push(Fault { line, message: "`listener` must be written `[[listener]]`".into() });
        };
        let mut listeners = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let mut slot = template.clone();
            let line = self.line(item.span().start);
            let dotted = format!("listener.{i}");
            self.lines.insert(dotted.clone(), line);
            self.value(&dotted, line, item, &mut slot);
            listeners.push(slot);
        }
        into.insert("listener".into(), Value::Array(listeners));
    }

    fn value(&mut self, dotted: &str, line: usize, user: &Spanned<DeValue<'_>>, slot: &mut Value) {
        if let (Some(table), Value::Table(into)) = (user.get_ref().as_table(), &mut *slot) {
            return self.table(dotted, table, into);
        }
        match plain(user.get_ref()) {
            Some(value) if value.same_type(slot) => *slot = value,
            _ => self.faults.push(Fault { line, message: format!("`{dotted}` must be a {}", slot.type_str()) }),
        }
    }
}

/// The value without spans; integers out of range are no value.
fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => Value::Integer(i64::from_str_radix(i.as_str(), i.radix()).ok()?),
        DeValue::Float(f) => Value::Float(f.as_str().parse().ok()?),
        DeValue::Boolean(b) => Value::Boolean(*b),
        DeValue::Datetime(d) => Value::Datetime(*d),
        DeValue::Array(items) => Value::Array(items.iter().map(|i| plain(i.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(_) => return None,
    })
}
