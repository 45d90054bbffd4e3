//! The layer check: no module of the engine may use a module that stands above it.
//!
//! Owns the reading of the module order from a crate's `lib.rs`, and a scanner that finds every path
//! beginning with `crate::`, `$crate::`, `super::` or `self::` in the module's files, `use` trees
//! included. Comments and strings are skipped. Nothing is exempt, test modules neither: a test that needs
//! a room above belongs into that room, or into `tests/`.
//!
//! Called by `tests/layers.rs`, which is part of the test command.

use std::{
    collections::HashMap,
    fmt, io,
    path::{Path, PathBuf},
};

/// A place where the order is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Every path in the crate under `src` that points from a module to one later in `lib.rs`'s list. A path
/// that cannot be resolved to a module (a glob, an unknown name) is a violation too, so that nothing
/// slips through unread.
pub fn upward_imports(src: &Path) -> io::Result<Vec<Violation>> {
    let lib = tokens(&std::fs::read_to_string(src.join("lib.rs"))?);
    let order = Order::read(&lib);
    let mut violations = Vec::new();
    for file in rust_files(src)? {
        let relative = file.strip_prefix(src).unwrap_or(&file);
        let module = module_path(relative);
        let Some(own) = module.first() else { continue };
        let Some(own_rank) = order.rank.get(own) else {
            violations.push(Violation {
                file: file.clone(),
                line: 1,
                what: format!("module `{own}` is not listed in lib.rs"),
            });
            continue;
        };
        for (line, path) in paths(&tokens(&std::fs::read_to_string(&file)?), &module) {
            let Some(target) = path.first().and_then(|name| order.module_of(name)) else {
                let what = format!("`crate::{}` names no module or re-export of lib.rs", path.join("::"));
                violations.push(Violation { file: file.clone(), line, what });
                continue;
            };
            if order.rank[target] > *own_rank {
                let what = format!("`{own}` uses `{}`, but `{target}` stands above it", path.join("::"));
                violations.push(Violation { file: file.clone(), line, what });
            }
        }
    }
    Ok(violations)
}

/// Every line under `src` that says one of `words` (lower case, compared as whole words of prose or of an
/// identifier, plural included).
pub fn forbidden_words(src: &Path, words: &[&str]) -> io::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in rust_files(src)? {
        for (number, line) in std::fs::read_to_string(&file)?.lines().enumerate() {
            for said in words_of(line) {
                if words.iter().any(|word| said == *word || said.strip_suffix('s') == Some(word)) {
                    let what = format!("says {said:?}, a word that has no meaning in this crate");
                    violations.push(Violation { file: file.clone(), line: number + 1, what });
                }
            }
        }
    }
    Ok(violations)
}

/// The words of a line: split at everything that is no letter, and where camel case rises.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && lower_before) {
            words.push(String::new());
        }
        if c.is_alphabetic() {
            words.last_mut().expect("starts with one word").extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The `.rs` files under a directory, sorted.
fn rust_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// `table/writer.rs` → `[table, writer]`; `table/mod.rs` → `[table]`; `lib.rs` → `[]`.
fn module_path(relative: &Path) -> Vec<String> {
    let stem = relative.with_extension("");
    let mut path: Vec<String> = stem.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
        path.pop();
    }
    path
}

/// What `lib.rs` says: the place of each module, and which module each re-exported name comes from.
struct Order {
    rank: HashMap<String, usize>,
    exports: HashMap<String, String>,
}

impl Order {
    fn read(lib: &[Token]) -> Order {
        let mut rank = HashMap::new();
        let mut exports = HashMap::new();
        for (at, token) in lib.iter().enumerate() {
            let next = |n: usize| lib.get(at + n).map_or("", |token| token.text.as_str());
            if token.text == "mod" && next(2) == ";" {
                let place = rank.len();
                rank.insert(next(1).to_owned(), place);
            } else if token.text == "use" {
                let from = if next(1) == "crate" || next(1) == "self" { at + 3 } else { at + 1 };
                let mut leaves = Vec::new();
                path_tree(lib, from, Vec::new(), &mut leaves);
                for (_, path, name) in leaves {
                    if let Some(first) = path.first() {
                        exports.insert(name, first.clone());
                    }
                }
            }
        }
        Order { rank, exports }
    }

    fn module_of(&self, name: &str) -> Option<&str> {
        if let Some((module, _)) = self.rank.get_key_value(name) {
            return Some(module);
        }
        self.exports.get(name).map(String::as_str).filter(|module| self.rank.contains_key(*module))
    }
}

/// A path as written: its line, its segments, and the name that it introduces.
type Leaf = (usize, Vec<String>, String);

/// The absolute paths (without the leading `crate`) that a file names, with their lines.
fn paths(tokens: &[Token], module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    // Inline modules that are open, with the brace depth outside of each.
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        let text = |n: usize| tokens.get(at + n).map_or("", |token| token.text.as_str());
        match text(0) {
            "{" => depth += 1,
            "}" => {
                depth = usize::saturating_sub(depth, 1);
                if inline.last().is_some_and(|(_, outside)| *outside == depth) {
                    inline.pop();
                }
            }
            "mod" if text(2) == "{" => {
                inline.push((text(1).to_owned(), depth));
                depth += 1;
                at += 3;
                continue;
            }
            "crate" | "super" | "self" if text(1) == "::" && (at == 0 || tokens[at - 1].text != "::") => {
                let here: Vec<String> =
                    module.iter().cloned().chain(inline.iter().map(|(name, _)| name.clone())).collect();
                let mut leaves = Vec::new();
                at = path_tree(tokens, at, Vec::new(), &mut leaves);
                found.extend(
                    leaves.into_iter().filter_map(|(line, path, _)| Some((line, absolute(&path, &here)?))),
                );
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// A path as seen from the crate's root. `None` for one that is not relative to the crate.
fn absolute(path: &[String], here: &[String]) -> Option<Vec<String>> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => here.to_vec(),
        "super" => here[..here.len().saturating_sub(1)].to_vec(),
        _ => return None,
    };
    for segment in &path[1..] {
        match segment.as_str() {
            "super" => {
                base.pop();
            }
            "self" => {}
            _ => base.push(segment.clone()),
        }
    }
    Some(base)
}

/// Reads the path tree at `at` (`a::b`, `a::{b, c::d as e}`, `a::*`) into leaves; returns the position
/// after it.
fn path_tree(tokens: &[Token], mut at: usize, prefix: Vec<String>, leaves: &mut Vec<Leaf>) -> usize {
    let mut path = prefix;
    let line = tokens.get(at).map_or(0, |token| token.line);
    loop {
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    let after = path_tree(tokens, at, path.clone(), leaves);
                    at = after.max(at + 1);
                    if tokens.get(at).is_some_and(|token| token.text == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some(segment) if segment == "*" || is_name(segment) => {
                path.push(segment.to_owned());
                at += 1;
            }
            _ => {
                // `path::<T>()`: the path ends before the generic arguments.
                let name = path.last().cloned().unwrap_or_default();
                leaves.push((line, path, name));
                return at;
            }
        }
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("::") => at += 1,
            Some("as") => {
                let name = tokens.get(at + 1).map_or(String::new(), |token| token.text.clone());
                leaves.push((line, path, name));
                return at + 2;
            }
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                leaves.push((line, path, name));
                return at;
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A name, a `::`, or one other visible character.
struct Token {
    line: usize,
    text: String,
}

/// Rust source without comments, strings, characters and lifetimes.
fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        let rest = &bytes[at..];
        let token = match rest[0] {
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                None
            }
            b'/' if rest.starts_with(b"/*") => {
                at += block_comment_len(rest);
                None
            }
            b'"' => {
                at += string_len(rest);
                None
            }
            b'\'' => {
                at += quote_len(rest);
                None
            }
            b'r' | b'b' | b'c' if raw_string_len(rest).is_some() => {
                at += raw_string_len(rest).unwrap_or(1);
                None
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                at += rest.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
                Some(&source[start..at])
            }
            b':' if rest.starts_with(b"::") => {
                at += 2;
                Some("::")
            }
            byte if byte.is_ascii_graphic() => {
                at += 1;
                Some(&source[start..at])
            }
            _ => {
                at += 1;
                None
            }
        };
        if let Some(text) = token {
            tokens.push(Token { line, text: text.to_owned() });
        }
        line += bytes[start..at].iter().filter(|&&byte| byte == b'\n').count();
    }
    tokens
}

/// Block comments nest.
fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character literal as a whole; of a lifetime only the quote.
fn quote_len(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|&byte| byte == b'\'').map_or(rest.len(), |n| n + 4);
    }
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(6)]);
    match text.chars().next() {
        Some(c) if rest.get(1 + c.len_utf8()) == Some(&b'\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

/// The length of a string literal with a prefix (`r"`, `r#"`, `b"`, `br#"`, `c"`), if one starts here.
fn raw_string_len(rest: &[u8]) -> Option<usize> {
    let letters = rest.iter().take_while(|byte| b"rbc".contains(byte)).count();
    if letters > 2 {
        return None;
    }
    let raw = rest[..letters].contains(&b'r');
    let hashes = rest[letters..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(letters + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    if !raw {
        return Some(letters + string_len(&rest[letters..]));
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let open = letters + hashes + 1;
    let body = rest[open..].windows(end.len()).position(|window| window == end)?;
    Some(open + body + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
        paths(&tokens(source), &module)
            .into_iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect()
    }

    #[test]
    fn use_trees_are_flattened_with_their_lines() {
        let source = "use std::fmt;\nuse crate::{a::{B, c::*},\n d as e};\nfn f() { crate::g::h(super::i); self::j::<super::super::k::L>() }";
        assert_eq!(
            found(source, &["m", "n"]),
            ["2 a::B", "2 a::c::*", "3 d", "4 g::h", "4 m::i", "4 m::n::j", "4 k::L"]
        );
    }

    #[test]
    fn super_counts_inline_modules() {
        let source = "mod tests { use super::x; mod deep { use super::super::super::y; } use super::super::z; }\nuse super::w;";
        assert_eq!(found(source, &["m", "n"]), ["1 m::n::x", "1 m::y", "1 m::z", "2 m::w"]);
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_hide_nothing_and_show_nothing() {
        let source = "// crate::a\n/* crate::b /* crate::c */ crate::d */ fn f<'a>(x: &'a str) { let _ = ('\"', '\\'', \"crate::e\\\"\", r#\"crate::f\"#, b\"crate::g\"); crate::h }";
        assert_eq!(found(source, &["m"]), ["2 h"]);
    }

    #[test]
    fn words_are_split_at_case_and_punctuation() {
        assert_eq!(words_of("let my_agentId = reAgent(2);"), ["let", "my", "agent", "id", "re", "agent"]);
        assert_eq!(words_of("magenta reagents"), ["magenta", "reagents"]);
    }
}
