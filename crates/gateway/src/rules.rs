//! Reads the rule files, built in or from a directory, and compiles them.

use std::path::Path;

use include_dir::{Dir, include_dir};
use mapping::{Fault, Plan, RuleFile};

/// The rule files of `mappings/v1`, as built into the binary.
static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../mappings/v1");

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or directory can't be read.
    #[error("cannot read rule files in {path}")]
    Read {
        /// The directory.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The rules have faults: all of them.
    #[error("the rule files have {} faults:\n{}", .0.len(), .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Faults(Vec<Fault>),
}

/// Compiles the rules in `directory`, or the built-in ones when it is empty.
pub fn load(directory: &str) -> Result<Plan, LoadError> {
    let mut files = Vec::new();
    if directory.is_empty() {
        built_in(&BUILT_IN, &mut files);
    } else {
        let root = Path::new(directory);
        read(root, root, &mut files).map_err(|source| LoadError::Read { path: directory.into(), source })?;
    }
    let files: Vec<RuleFile<'_>> = files.iter().map(|(path, text)| RuleFile { path, text }).collect();
    Plan::compile(&files).map_err(LoadError::Faults)
}

fn is_rule_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml" || e == "json")
}

fn built_in(dir: &Dir<'_>, files: &mut Vec<(String, String)>) {
    for file in dir.files().filter(|f| is_rule_file(f.path())) {
        let text = file.contents_utf8().unwrap_or_default();
        files.push((file.path().display().to_string(), text.to_owned()));
    }
    for inner in dir.dirs() {
        built_in(inner, files);
    }
}

fn read(root: &Path, dir: &Path, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if is_rule_file(&path) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push((name, std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}
