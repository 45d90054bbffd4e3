//! A source file as the layer check sees it: `Source`.
//!
//! It says which module a file is, which paths it names (`named`), and what it imports under which
//! name. It also says which types it defines, and for which it writes methods. `evasions` lists
//! what the check cannot see through. Use trees are flattened with their lines.
//!
//! What must hold: it finds, and judges nothing. Comments, strings, characters and lifetimes
//! neither hide nor show anything.
//!
//! Callers: `layers::rooms` and `layers::files` judge; `layers::order` reads `lib.rs` through it.

use super::tokens::{Token, after_bracket, attribute, is_name, tokens};
use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

/// One file of a crate.
pub(super) struct Source {
    pub(super) file: PathBuf,
    /// `[table, writer]`; empty for `lib.rs`.
    pub(super) module: Vec<String>,
    /// Whether only tests compile the file.
    pub(super) test_only: bool,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
}

/// A path that a file names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) line: usize,
    /// From the crate's root, without `crate`; for another crate or a module in scope as written.
    pub(super) path: Vec<String>,
    /// Whether `path` begins at the crate's root.
    pub(super) absolute: bool,
    /// The name that the file knows it by afterwards, if this is an import.
    pub(super) import: Option<String>,
    /// Whether this is an import that others may use.
    pub(super) exported: bool,
    /// Whether only tests compile it.
    pub(super) in_test: bool,
}

/// An `impl` block without a trait.
pub(super) struct Inherent {
    pub(super) line: usize,
    /// The type as written, without generic arguments: `[low, Ground]`.
    pub(super) path: Vec<String>,
    /// The methods in it.
    pub(super) methods: Vec<String>,
    pub(super) in_test: bool,
}

impl Source {
    /// Every file under `src`, `lib.rs` first.
    pub(super) fn read_all(src: &Path) -> io::Result<Vec<Source>> {
        let mut sources = Vec::new();
        for file in super::rust_files(src)? {
            let text = std::fs::read_to_string(&file)?;
            let module = module_path(file.strip_prefix(src).unwrap_or(&file));
            sources.push(Source { tokens: tokens(&text), text, file, module, test_only: false });
        }
        let mut test_only: HashSet<Vec<String>> = HashSet::new();
        for source in &sources {
            for (_, name, in_test) in source.submodules() {
                if in_test {
                    test_only.insert([source.module.clone(), vec![name]].concat());
                }
            }
        }
        for source in &mut sources {
            source.test_only = (1..=source.module.len()).any(|n| test_only.contains(&source.module[..n]));
        }
        sources.sort_by_key(|source| !source.module.is_empty());
        Ok(sources)
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    fn before(&self, at: usize, n: usize) -> &str {
        at.checked_sub(n).map_or("", |at| self.text(at))
    }

    /// The modules that the file declares in files of their own: line, name, whether only for
    /// tests.
    pub(super) fn submodules(&self) -> Vec<(usize, String, bool)> {
        (0..self.tokens.len())
            .filter(|&at| self.text(at) == "mod" && self.text(at + 2) == ";")
            .map(|at| (self.tokens[at].line, self.text(at + 1).to_owned(), self.tokens[at].in_test))
            .collect()
    }

    /// The names of the types and traits that the file defines. A macro that defines a type
    /// (`struct $name`) defines those that its calls in the file name.
    pub(super) fn definitions(&self) -> HashSet<&str> {
        let mut names = HashSet::new();
        let mut defining: HashSet<&str> = HashSet::new();
        let mut at = 0;
        while at < self.tokens.len() {
            match self.text(at) {
                "struct" | "enum" | "union" | "trait" if is_name(self.text(at + 1)) => {
                    names.insert(self.text(at + 1));
                }
                "macro_rules" if self.text(at + 1) == "!" => {
                    let body = at + 3..after_bracket(&self.tokens, at + 3);
                    let defines = body.clone().any(|at| {
                        matches!(self.text(at), "struct" | "enum" | "union") && self.text(at + 1) == "$"
                    });
                    if defines {
                        defining.insert(self.text(at + 2));
                    }
                    at = body.end;
                    continue;
                }
                name if defining.contains(name) && self.text(at + 1) == "!" => {
                    let arguments = at + 2..after_bracket(&self.tokens, at + 2);
                    names.extend(arguments.map(|at| self.text(at)).filter(|text| is_name(text)));
                }
                _ => {}
            }
            at += 1;
        }
        names
    }

    /// The absolute path of each name that the file imports.
    pub(super) fn imports(&self) -> HashMap<String, Vec<String>> {
        let named = self.named().into_iter().filter(|named| named.absolute);
        named.filter_map(|named| Some((named.import?, named.path))).collect()
    }

    /// The `impl` blocks without a trait.
    pub(super) fn inherent_impls(&self) -> Vec<Inherent> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            let begins_an_item =
                matches!(self.before(at, 1), "" | ";" | "{" | "}" | "]" | "unsafe" | "default");
            if self.text(at) != "impl" || !begins_an_item {
                continue;
            }
            let mut next = at + 1;
            if self.text(next) == "<" {
                next = self.after_generics(next);
            }
            if let Some((path, body)) = self.inherent_type(next) {
                let end = after_bracket(&self.tokens, body);
                let methods = (body..end).filter(|&at| self.text(at) == "fn" && is_name(self.text(at + 1)));
                let methods = methods.map(|at| self.text(at + 1).to_owned()).collect();
                let Token { line, in_test, .. } = self.tokens[at];
                found.push(Inherent { line, path, methods, in_test });
            }
        }
        found
    }

    /// The type at `at` and where the block's body begins; `None` if it turns out to be a trait's
    /// name.
    fn inherent_type(&self, mut at: usize) -> Option<(Vec<String>, usize)> {
        let mut path = Vec::new();
        let mut whole = false;
        while at < self.tokens.len() {
            match self.text(at) {
                "for" => return None,
                "where" => {
                    while at < self.tokens.len() && self.text(at) != "{" {
                        at += 1;
                    }
                }
                "{" => return Some((path, at)),
                "<" => {
                    at = self.after_generics(at);
                    whole = true;
                }
                "$" if !whole => {
                    path.push("$".to_owned() + self.text(at + 1));
                    at += 2;
                }
                "dyn" | "::" | "&" | "(" | ")" => at += 1,
                text => {
                    if !whole && is_name(text) {
                        path.push(text.to_owned());
                    }
                    at += 1;
                }
            }
        }
        None
    }

    /// The position after the `>` that closes the `<` at `open`.
    fn after_generics(&self, open: usize) -> usize {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            match self.text(at) {
                "<" => depth += 1,
                ">" if self.before(at, 1) != "-" && self.before(at, 1) != "=" => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// What the check cannot see through, wherever it stands: line and what it is.
    pub(super) fn evasions(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let is_visibility = || {
                (self.before(at, 1) == "in" || (self.before(at, 1) == "(" && self.before(at, 2) == "pub"))
                    && self.text(at + 1) == ")"
            };
            let leads_on = || matches!(self.text(at + 1), "::" | "as");
            let what = match token.text.as_str() {
                "crate" if self.before(at, 1) == "extern" => (self.text(at + 1) == "self")
                    .then(|| "`extern crate self` gives the crate a second name".to_owned()),
                word @ ("crate" | "super") if !leads_on() && !is_visibility() => {
                    Some(format!("`{word}` stands alone: where it leads cannot be read"))
                }
                "include" if self.text(at + 1) == "!" => {
                    Some("`include!` brings in source that belongs to no module".to_owned())
                }
                "#" => attribute(&self.tokens, at)
                    .is_some_and(|(inside, _)| {
                        inside.into_iter().any(|at| self.text(at) == "path" && self.text(at + 1) == "=")
                    })
                    .then(|| "`#[path]` puts a module's source elsewhere".to_owned()),
                _ => None,
            };
            found.extend(what.map(|what| (token.line, what)));
        }
        found
    }

    /// Every path that the file names: those that begin with `crate`, `super` or `self`, and every
    /// import.
    pub(super) fn named(&self) -> Vec<Named> {
        let mut found = Vec::new();
        // Inline modules that are open, with the brace depth outside of each.
        let mut inline: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        let mut at = 0;
        while at < self.tokens.len() {
            let here = || -> Vec<String> {
                self.module.iter().cloned().chain(inline.iter().map(|(name, _)| name.clone())).collect()
            };
            match self.text(at) {
                "{" => depth += 1,
                "}" => {
                    depth = usize::saturating_sub(depth, 1);
                    if inline.last().is_some_and(|(_, outside)| *outside == depth) {
                        inline.pop();
                    }
                }
                "mod" if self.text(at + 2) == "{" => {
                    inline.push((self.text(at + 1).to_owned(), depth));
                    depth += 1;
                    at += 3;
                    continue;
                }
                "use" if self.text(at + 1) != "<" => {
                    let exported = self.before(at, 1) == "pub" || self.before(at, 1) == ")";
                    let mut leaves = Vec::new();
                    let first = if self.text(at + 1) == "::" { at + 2 } else { at + 1 };
                    let in_test = self.tokens[at].in_test;
                    at = path_tree(&self.tokens, first, Vec::new(), &mut leaves);
                    for leaf in leaves {
                        found.push(leaf.named(&here(), true, exported, in_test));
                    }
                    continue;
                }
                "crate" | "super" | "self" if self.text(at + 1) == "::" && self.before(at, 1) != "::" => {
                    let mut leaves = Vec::new();
                    let in_test = self.tokens[at].in_test;
                    at = path_tree(&self.tokens, at, Vec::new(), &mut leaves);
                    found.extend(leaves.into_iter().map(|leaf| leaf.named(&here(), false, false, in_test)));
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// Whether the file itself uses what lies in its module `name`, other than to hand it on.
    pub(super) fn enters(&self, name: &str) -> Option<usize> {
        let inside = |path: &[String], absolute: bool| {
            let rest = if absolute { path.strip_prefix(&self.module[..]) } else { Some(path) };
            rest.and_then(|rest| rest.first()).is_some_and(|first| first == name)
        };
        let named = self.named().into_iter().filter(|named| !named.in_test && !named.exported);
        let by_path =
            named.filter(|named| inside(&named.path, named.absolute)).map(|named| named.line).next();
        by_path.or_else(|| {
            (0..self.tokens.len())
                .filter(|&at| !self.tokens[at].in_test && self.text(at) == name && self.text(at + 1) == "::")
                .find(|&at| self.before(at, 1) != "::" && !self.in_use(at))
                .map(|at| self.tokens[at].line)
        })
    }

    /// Whether the token at `at` belongs to an import.
    fn in_use(&self, at: usize) -> bool {
        let begin = (0..at).rev().find(|&at| self.text(at) == ";").map_or(0, |at| at + 1);
        (begin..at).any(|at| self.text(at) == "use")
    }

    /// The lines where the file calls a method or function of this name.
    pub(super) fn calls(&self, name: &str) -> Vec<usize> {
        (1..self.tokens.len())
            .filter(|&at| !self.tokens[at].in_test && self.text(at) == name)
            .filter(|&at| matches!(self.text(at - 1), "." | "::") && self.text(at + 1) == "(")
            .map(|at| self.tokens[at].line)
            .collect()
    }

    /// The names of all functions that the file defines.
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        (0..self.tokens.len()).filter(|&at| self.text(at) == "fn").map(|at| self.text(at + 1))
    }
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

/// A path as written.
struct Leaf {
    line: usize,
    path: Vec<String>,
    name: String,
}

impl Leaf {
    fn named(self, here: &[String], import: bool, exported: bool, in_test: bool) -> Named {
        let absolute = absolute(&self.path, here);
        let name = if self.name == "self" { self.path.iter().nth_back(1).cloned() } else { Some(self.name) };
        Named {
            line: self.line,
            absolute: absolute.is_some(),
            path: absolute.unwrap_or(self.path),
            import: name.filter(|_| import),
            exported,
            in_test,
        }
    }
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

/// Reads the path tree at `at` (`a::b`, `a::{b, c::d as e}`, `a::*`) into leaves; returns the
/// position after it.
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
                leaves.push(Leaf { line, path, name });
                return at;
            }
        }
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("::") => at += 1,
            Some("as") => {
                let name = tokens.get(at + 1).map_or(String::new(), |token| token.text.clone());
                leaves.push(Leaf { line, path, name });
                return at + 2;
            }
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                leaves.push(Leaf { line, path, name });
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
        let source = Source {
            file: PathBuf::new(),
            module,
            test_only: false,
            tokens: tokens(source),
            text: source.to_owned(),
        };
        let named = source.named().into_iter().filter(|named| named.absolute);
        named.map(|named| format!("{} {}", named.line, named.path.join("::"))).collect()
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
    fn what_only_tests_compile_is_marked() {
        let tokens = tokens(
            "#[cfg(test)] mod tests { use a; } mod b; #[cfg(not(test))] mod c; #[cfg(all(test, unix))] use d::{e};",
        );
        let marked: Vec<_> = tokens.iter().filter(|token| token.in_test).map(|token| &*token.text).collect();
        assert_eq!(marked.iter().filter(|text| is_name(text)).count(), 13, "{marked:?}");
        assert!(!marked.contains(&"b") && !marked.contains(&"c") && marked.contains(&"e"));
    }
}
