//! The rooms of a crate, which may use which.
//!
//! `upward_imports` finds what breaks the order of `lib.rs`. `against_the_page` finds where the
//! code breaks ARCHITECTURE's tables, or these differ from `lib.rs`. `storeys` lists the storeys of
//! `lib.rs`.
//!
//! What must hold: no path leads up, and no type gets methods from another room, unless
//! `extensions` names it. Outside of tests no room knows what ARCHITECTURE says that it may not
//! know. Nothing hides where a path leads (globs, renamed crates, `#[path]`, `include!`, macros in
//! `lib.rs`). ARCHITECTURE's table is the list of `lib.rs`.
//!
//! Caller: `tests/layers.rs`.

use super::{
    Violation,
    order::{Order, Row, rows},
    source::{Inherent, Source},
};
use std::{collections::HashSet, io, path::Path};

/// Everything in the crate under `src` that breaks the order of `lib.rs`'s list. A path that cannot
/// be resolved to a module (a glob, an unknown name, a second name for the crate) is a violation
/// too, so that nothing slips through unread. `extensions` names the types of lower rooms that an
/// upper room may give methods to: (room, type); one that no room needs is a violation.
pub fn upward_imports(src: &Path, extensions: &[(&str, &str)]) -> io::Result<Vec<Violation>> {
    let sources = Source::read_all(src)?;
    let lib = lib(&sources)?;
    let order = Order::read(lib);
    let mut violations = strange_items(lib);
    let mut unused: HashSet<(&str, &str)> = extensions.iter().copied().collect();
    for source in &sources {
        for (line, what) in source.evasions() {
            violations.push(source.violation(line, what));
        }
        let Some(own) = source.module.first() else { continue };
        let Some(rank) = order.rank(own) else {
            violations.push(source.violation(1, format!("module `{own}` is not listed in lib.rs")));
            continue;
        };
        violations.extend(paths_up(source, &order, own, rank));
        for block in source.inherent_impls() {
            let Some(what) = foreign(source, &sources, &order, own, &block) else { continue };
            let name = block.path.last().map_or("", String::as_str);
            if extensions.contains(&(own.as_str(), name)) {
                unused.retain(|extension| *extension != (own.as_str(), name));
            } else {
                violations.push(source.violation(block.line, what));
            }
        }
    }
    for (room, name) in unused {
        violations.push(lib.violation(1, format!("`{room}` is allowed to extend `{name}` and does not")));
    }
    Ok(violations)
}

/// Every path in the crate under `src` that the table in the page `architecture` says its room may
/// not know; and every difference between that table and the list of `lib.rs`: rooms, their order,
/// their storeys.
pub fn against_the_page(src: &Path, architecture: &Path) -> io::Result<Vec<Violation>> {
    let sources = Source::read_all(src)?;
    let order = Order::read(lib(&sources)?);
    let rows = rows(&std::fs::read_to_string(architecture)?);
    let mut violations = Vec::new();
    let of_page = |line: usize, what: String| Violation { file: architecture.to_owned(), line, what };
    let told: Vec<(&str, &str, usize)> = rows
        .iter()
        .flat_map(|row| row.rooms.iter().map(move |room| (row.storey.as_str(), room.as_str(), row.line)))
        .collect();
    for n in 0..told.len().max(order.rooms.len()) {
        let says = told.get(n).map(|(storey, room, _)| (*storey, *room));
        let is = order.rooms.get(n).map(|(room, storey)| (storey.as_str(), room.as_str()));
        if says != is {
            let line = told.get(n).map_or(1, |(.., line)| *line);
            let what = format!("room {n} from the bottom: the page says {says:?}, lib.rs {is:?}");
            violations.push(of_page(line, what));
            break;
        }
    }
    for row in &rows {
        for unknown in &row.unknown {
            if unknown[0] != "std" && order.rank(&unknown[0]).is_none() {
                violations.push(of_page(row.line, format!("`{}` is no room", unknown.join("::"))));
            }
        }
    }
    for source in sources.iter().filter(|source| !source.test_only) {
        for row in rows.iter().filter(|row| source.module.first().is_some_and(|own| row.rooms.contains(own)))
        {
            violations.extend(known(source, row, &order));
        }
    }
    Ok(violations)
}

/// The storeys that `lib.rs` names, bottom to top.
pub fn storeys(src: &Path) -> io::Result<Vec<String>> {
    let sources = Source::read_all(src)?;
    let mut storeys: Vec<String> = Order::read(lib(&sources)?).rooms.into_iter().map(|(_, s)| s).collect();
    storeys.dedup();
    Ok(storeys)
}

pub(super) fn lib(sources: &[Source]) -> io::Result<&Source> {
    sources.iter().find(|source| source.module.is_empty()).ok_or_else(|| io::Error::other("no lib.rs"))
}

impl Source {
    pub(super) fn violation(&self, line: usize, what: String) -> Violation {
        Violation { file: self.file.clone(), line, what }
    }
}

/// What `lib.rs` holds besides modules in files of their own, imports and attributes.
fn strange_items(lib: &Source) -> Vec<Violation> {
    use super::tokens::{after_bracket, attribute};
    let text = |at: usize| lib.tokens.get(at).map_or("", |token| token.text.as_str());
    let mut at = 0;
    while at < lib.tokens.len() {
        if let Some((_, after)) = attribute(&lib.tokens, at) {
            at = after;
        } else if text(at) == "pub" {
            at += 1;
            if text(at) == "(" {
                at = after_bracket(&lib.tokens, at);
            }
        } else if text(at) == "mod" && text(at + 2) == ";" {
            at += 3;
        } else if text(at) == "use" {
            while at < lib.tokens.len() && text(at) != ";" {
                at += 1;
            }
            at += 1;
        } else {
            let what = format!("lib.rs lists modules and what they hand out; `{}` is neither", text(at));
            return vec![lib.violation(lib.tokens[at].line, what)];
        }
    }
    Vec::new()
}

fn paths_up(source: &Source, order: &Order, own: &str, rank: usize) -> Vec<Violation> {
    let mut violations = Vec::new();
    for named in source.named().into_iter().filter(|named| named.absolute) {
        let path = named.path.join("::");
        let what = match named.path.first().and_then(|name| order.module_of(name)) {
            None => format!("`crate::{path}` names no module or re-export of lib.rs"),
            Some(target) if order.rank(target) > Some(rank) => {
                format!("`{own}` uses `{path}`, but `{target}` stands above it")
            }
            Some(_) => continue,
        };
        violations.push(source.violation(named.line, what));
    }
    violations
}

/// Why a block of methods is for a type of another room, if it is.
fn foreign(
    source: &Source,
    sources: &[Source],
    order: &Order,
    own: &str,
    block: &Inherent,
) -> Option<String> {
    let [first, rest @ ..] = &block.path[..] else { return None };
    let written = block.path.join("::");
    if let Some(variable) = first.strip_prefix('$') {
        let defines = source.tokens.windows(3).any(|t| {
            matches!(&*t[0].text, "struct" | "enum" | "union") && t[1].text == "$" && t[2].text == variable
        });
        return (!defines).then(|| format!("methods for `{written}`, which the macro does not define"));
    }
    let imported = source.imports().remove(first);
    let path = match (first.as_str(), imported) {
        ("crate", _) => rest.to_vec(),
        (_, Some(path)) => [path, rest.to_vec()].concat(),
        _ => vec![own.to_owned()],
    };
    let room = path.first().and_then(|name| order.module_of(name)).unwrap_or(own);
    if room != own {
        return Some(format!("`{own}` gives methods to `{written}`, a type of `{room}`"));
    }
    let name = block.path.last()?;
    let in_room = |source: &&Source| source.module.first().is_some_and(|first| first == own);
    let defined = sources.iter().filter(in_room).any(|source| source.definitions().contains(name.as_str()));
    (!defined).then(|| format!("`{own}` gives methods to `{written}`, which it does not define"))
}

/// Where a file names what its row says that it may not know.
fn known(source: &Source, row: &Row, order: &Order) -> Vec<Violation> {
    let own = &source.module[0];
    let mut violations = Vec::new();
    for named in source.named().into_iter().filter(|named| !named.in_test) {
        let mut path = named.path.clone();
        if named.absolute
            && let Some(room) = path.first().and_then(|name| order.module_of(name))
            && room != path[0]
        {
            path.insert(0, room.to_owned());
        }
        let unknown = row
            .unknown
            .iter()
            .filter(|unknown| &unknown[0] != own)
            .find(|unknown| (unknown[0] == "std") != named.absolute && path.starts_with(unknown));
        if let Some(unknown) = unknown {
            let what =
                format!("`{own}` uses `{}`; it may not know `{}`", path.join("::"), unknown.join("::"));
            violations.push(source.violation(named.line, what));
        }
    }
    violations
}
