//! A Rust file split into code and comments, both at their places: what is no code is blank in `code`, what is no comment
//! is blank in `comments`, and string and character literals are blank in both. Not here: what the rules look for.

/// A Rust file.
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Code alone, of the same length.
    pub(crate) code: String,
    /// Comments alone, of the same length.
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Splits a text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let kinds = kinds(text.as_bytes());
        let only = |kind: Kind| {
            let kept = text.bytes().zip(&kinds).map(|(b, k)| if b == b'\n' || *k == kind { b } else { b' ' });
            String::from_utf8(kept.collect()).expect("a literal or comment ends between characters")
        };
        Self { path: path.to_owned(), text: text.to_owned(), code: only(Kind::Code), comments: only(Kind::Comment) }
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].split(|b| *b == b'\n').count()
    }

    /// The name without folders and ending.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// The code without what is compiled for tests alone, and the names of modules in files that are.
    pub(crate) fn product(&self) -> (String, Vec<String>) {
        const ATTRIBUTE: &str = "#[cfg(test)]";
        let mut code = self.code.clone();
        let mut modules = Vec::new();
        while let Some(start) = code.find(ATTRIBUTE) {
            let after = start + ATTRIBUTE.len();
            let end = item_end(&code, after);
            if let Some(name) = code[after..end].trim().strip_suffix(';').and_then(|item| item.split("mod ").nth(1)) {
                modules.push(name.trim().to_owned());
            }
            let blank: String = code[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            code.replace_range(start..end, &blank);
        }
        (code, modules)
    }
}

/// Where the item that begins at `from` ends: behind its `;` or its closing brace.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (i, b) in code.bytes().enumerate().skip(from) {
        match b {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return i + 1,
            b'{' if depth == 0 => return closing(code, i) + 1,
            _ => {}
        }
    }
    code.len()
}

/// Where the bracket that opens at `open` closes; the end of the code where it does not.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let bytes = code.as_bytes();
    let (up, down) = match bytes[open] {
        b'{' => (b'{', b'}'),
        b'[' => (b'[', b']'),
        _ => (b'(', b')'),
    };
    let mut depth = 0_usize;
    for (i, b) in bytes.iter().enumerate().skip(open) {
        if *b == up {
            depth += 1;
        } else if *b == down {
            depth -= 1;
            if depth == 0 {
                return i;
            }
        }
    }
    bytes.len() - 1
}

/// Where `word` stands by itself, not as part of a name.
pub(crate) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let part_of_name = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        !part_of_name(at.checked_sub(1).and_then(|i| bytes.get(i))) && !part_of_name(bytes.get(at + word.len()))
    })
}

fn kinds(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(bytes.len());
    while kinds.len() < bytes.len() {
        let rest = &bytes[kinds.len()..];
        let named = kinds.last() == Some(&Kind::Code) && is_name(bytes[kinds.len() - 1]);
        let (kind, length) = next(rest, named);
        kinds.extend(std::iter::repeat_n(kind, length.clamp(1, rest.len())));
    }
    kinds
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// What begins here, and its length. `named`: the byte before belongs to a name.
fn next(rest: &[u8], named: bool) -> (Kind, usize) {
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(rest)),
        [b'"', ..] => (Kind::Literal, quoted(rest, b'"')),
        [b'\'', b'\\', ..] => (Kind::Literal, quoted(rest, b'\'')),
        [b'\'', first, ..] => {
            // A lifetime has no second quote behind its first character.
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if rest.get(1 + width) == Some(&b'\'') { (Kind::Literal, width + 2) } else { (Kind::Code, 1) }
        }
        [b'b' | b'c', quote @ (b'"' | b'\''), ..] if !named => (Kind::Literal, 1 + quoted(&rest[1..], *quote)),
        [b'r' | b'b' | b'c', ..] if !named => match raw_string(rest) {
            Some(length) => (Kind::Literal, length),
            None => (Kind::Code, 1),
        },
        _ => (Kind::Code, 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut i = 0;
    while i < rest.len() {
        match &rest[i..] {
            [b'/', b'*', ..] => (depth, i) = (depth + 1, i + 2),
            [b'*', b'/', ..] if depth == 1 => return i + 2,
            [b'*', b'/', ..] => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// The length of `r"…"`, `r#"…"#`, `br"…"`; `None` where it is a name.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let r = rest.iter().position(|b| *b == b'r').filter(|at| *at <= 1)?;
    let hashes = rest[r + 1..].iter().take_while(|b| **b == b'#').count();
    let open = r + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), "#".repeat(hashes).as_bytes()].concat();
    let length = rest[open + 1..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| open + 1 + length + end.len()))
}

#[test]
fn code_comments_and_literals_are_told_apart() {
    let text = concat!(
        "let a = \"// no \\\" comment\"; // yes 'x\n",
        "let b = r#\"\" { \"#; /* a /* b */ c */ let c: &'static str = 'é'.x('\\'', b'{');\n",
        "let r#fn = br\"\\\"; fn f<'a>(x: &'a u8) {}\n",
    );
    let source = Source::new("x.rs", text);
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        squeezed(&source.code),
        "let a = ; let b = ; let c: &'static str = .x( , ); let r#fn = ; fn f<'a>(x: &'a u8) {}"
    );
    assert_eq!(squeezed(&source.comments), "// yes 'x /* a /* b */ c */");
    assert_eq!((source.code.len(), source.line(text.len() - 1)), (text.len(), 3));
}

#[test]
fn what_is_for_tests_is_left_out() {
    let source =
        Source::new("x.rs", "a\n#[cfg(test)]\nmod oracle;\n#[cfg(test)]\n#[rustfmt::skip]\nmod t { fn x() {} }\nb");
    let (code, modules) = source.product();
    assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(modules, ["oracle"]);
}
