//! Sizes and names: files, functions and argument lists stay short, files say what they hold, and no name is a drawer for
//! everything.

use crate::source::{Source, closing, words};
use crate::{Fault, report, tree};

/// A file has fewer lines.
const FILE_LINES: usize = 500;
/// A function has fewer lines, its signature included.
const FUNCTION_LINES: usize = 70;
/// A function has at most so many arguments.
const ARGUMENTS_MAX: usize = 7;
/// Names that say nothing of what is inside.
const DRAWERS: [&str; 13] = [
    "common",
    "commons",
    "data",
    "helper",
    "helpers",
    "info",
    "manager",
    "managers",
    "misc",
    "types",
    "util",
    "utilities",
    "utils",
];

/// A function as written.
struct Function<'s> {
    name: &'s str,
    at: usize,
    arguments: usize,
    /// Of its last byte.
    end: usize,
}

/// Every function with a name.
fn functions(code: &str) -> Vec<Function<'_>> {
    words(code, "fn").filter_map(|at| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let bytes = code.as_bytes();
    let start = at + 2 + code[at + 2..].find(|c: char| !c.is_whitespace())?;
    let length = code[start..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != '#')?;
    let name = &code[start..start + length];
    // A pointer type `fn(u8)` has no name.
    if name.is_empty() {
        return None;
    }
    let open = parameters(bytes, start + length)?;
    let close = closing(code, open);
    let mut end = close;
    let mut brackets = 0_usize;
    for (i, b) in bytes.iter().enumerate().skip(close + 1) {
        match b {
            b'[' => brackets += 1,
            b']' => brackets = brackets.saturating_sub(1),
            b'{' => {
                end = closing(code, i);
                break;
            }
            b';' if brackets == 0 => {
                end = i;
                break;
            }
            _ => {}
        }
    }
    Some(Function { name, at, arguments: arguments(&code[open + 1..close]), end })
}

/// Where the parameter list opens, behind generics if there are some.
fn parameters(bytes: &[u8], from: usize) -> Option<usize> {
    let mut angles = 0_usize;
    for (i, b) in bytes.iter().enumerate().skip(from) {
        match b {
            b'<' => angles += 1,
            b'>' if bytes[i - 1] != b'-' => angles = angles.saturating_sub(1),
            b'(' if angles == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

/// How many arguments a parameter list has.
fn arguments(list: &str) -> usize {
    let (mut depth, mut count, mut empty) = (0_usize, 0, true);
    let mut before = b' ';
    for b in list.bytes() {
        match b {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'>' if before != b'-' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                count += 1;
                empty = true;
            }
            _ => {}
        }
        if !b.is_ascii_whitespace() && b != b',' {
            empty = false;
        }
        before = b;
    }
    count + usize::from(!empty)
}

fn sizes(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let lines = source.text.lines().count();
    if lines >= FILE_LINES {
        faults.push(Fault::new(&source.path, lines, format!("{lines} lines; a file has fewer than {FILE_LINES}")));
    }
    for Function { name, at, arguments, end } in functions(&source.code) {
        let line = source.line(at);
        let lines = source.line(end) - line + 1;
        if lines >= FUNCTION_LINES {
            let text = format!("`{name}` has {lines} lines; a function has fewer than {FUNCTION_LINES}");
            faults.push(Fault::new(&source.path, line, text));
        }
        if arguments > ARGUMENTS_MAX {
            let text = format!("`{name}` takes {arguments} arguments; {ARGUMENTS_MAX} are enough");
            faults.push(Fault::new(&source.path, line, text));
        }
    }
    faults
}

/// What a file is called and how it opens.
fn names(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let opening = source.text.lines().next().and_then(|line| line.strip_prefix("//! "));
    if opening.is_none_or(|line| line.trim().is_empty()) {
        let text = "a file opens with `//! `: what lives here, what does not, the contract";
        faults.push(Fault::new(&source.path, 1, text));
    }
    let (path, _) = source.path.rsplit_once(".rs").unwrap_or((&source.path, ""));
    let inline = words(&source.code, "mod").filter_map(|at| {
        let name = source.code[at + 3..].trim_start();
        Some((source.line(at), &name[..name.find(|c: char| !c.is_alphanumeric() && c != '_')?]))
    });
    let named = path.split('/').map(|name| (1, name)).chain(inline);
    for (line, name) in named.filter(|(_, name)| DRAWERS.contains(name)) {
        faults.push(Fault::new(&source.path, line, format!("`{name}` is a drawer: name what is inside")));
    }
    faults
}

#[test]
fn files_and_functions_are_short() {
    report(&tree::sources().iter().flat_map(sizes).collect::<Vec<_>>());
}

#[test]
fn files_say_what_they_hold() {
    report(&tree::sources().iter().flat_map(names).collect::<Vec<_>>());
}

#[test]
fn long_ones_are_found() {
    let body = "    x();\n".repeat(FUNCTION_LINES - 2);
    let long = format!("//! X.\nfn f<F: Fn(u8) -> u8>(a: F)\nwhere [u8; 2]: Sized, {{\n{}}}\n", &body);
    let faults = sizes(&Source::new("x.rs", &long));
    assert_eq!(faults[0].to_string(), "x.rs:2: `f` has 71 lines; a function has fewer than 70");
    let short = format!("//! X.\nfn f() {{\n{}}}\n", &body[9..]);
    assert_eq!(sizes(&Source::new("x.rs", &short)), []);
    assert_eq!(sizes(&Source::new("x.rs", &"\n".repeat(FILE_LINES))).len(), 1);
    assert_eq!(sizes(&Source::new("x.rs", &"\n".repeat(FILE_LINES - 1))), []);
}

#[test]
fn arguments_are_counted() {
    let count = |text: &str| functions(&Source::new("x.rs", text).code).iter().map(|f| f.arguments).collect::<Vec<_>>();
    assert_eq!(
        count("fn a() {} fn b(x: u8,) {} fn c(&self, f: fn(u8, u8) -> BTreeMap<u8, u8>, t: (u8, u8)) -> [u8; 2];"),
        [0, 1, 3]
    );
    assert_eq!(count("fn g<F: Fn(u8, u8) -> u8>(f: F, a: impl Fn(u8) -> u8, b: u8) {}"), [3]);
    let eight = "fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8) {}";
    assert_eq!(sizes(&Source::new("x.rs", eight)).len(), 1);
}

#[test]
fn drawers_and_silent_files_are_found() {
    let faults = |path: &str, text: &str| names(&Source::new(path, text)).len();
    assert_eq!(faults("crates/a/src/order.rs", "//! Orders.\nmod line { }\n"), 0);
    assert_eq!(faults("crates/a/src/order.rs", "use x;\n"), 1);
    assert_eq!(faults("crates/a/src/order.rs", "//!\n"), 1);
    assert_eq!(faults("crates/a/src/util.rs", "//! X.\n"), 1);
    assert_eq!(faults("crates/a/src/types/mod.rs", "//! X.\n"), 1);
    assert_eq!(faults("crates/a/src/order.rs", "//! X.\nmod helpers {}\n"), 1);
}
