//! The files of a room, which may use which: `upward_files`, for rooms that declare an order with
//! the line `DECLARATION`.
//!
//! The order is that of the room's `mod` list, bottom to top. It follows paths, re-exported names,
//! and calls of methods that an upper file gives to a type of a lower one. `ordered_rooms` lists
//! the rooms that declare one.
//!
//! What must hold: no file uses one that stands above it. The room's own file may stand at the top,
//! and use its files, or at the bottom, and be used by them; not both. Tests may use everything.
//!
//! Caller: `tests/layers.rs`.

use super::{Violation, source::Source};
use std::{collections::HashMap, io, path::Path};

/// The line with which a room declares that its files are in order.
pub const DECLARATION: &str = "//! Files, bottom to top; each uses only those above it.";

/// The rooms under `src` that declare an order of their files, as paths: `table`, `index::learned`.
pub fn ordered_rooms(src: &Path) -> io::Result<Vec<String>> {
    let sources = Source::read_all(src)?;
    Ok(sources.iter().filter(|source| declares(source)).map(|source| source.module.join("::")).collect())
}

/// Every use of a file that stands above, in the rooms that declare an order of their files.
pub fn upward_files(src: &Path) -> io::Result<Vec<Violation>> {
    let sources = Source::read_all(src)?;
    let mut functions: HashMap<&str, usize> = HashMap::new();
    for name in sources.iter().filter(|source| !source.test_only).flat_map(Source::functions) {
        *functions.entry(name).or_default() += 1;
    }
    let rooms = sources.iter().filter(|source| declares(source));
    Ok(rooms.flat_map(|room| Room::new(room, &sources).check(&functions)).collect())
}

fn declares(source: &Source) -> bool {
    source.text.lines().take_while(|line| line.starts_with("//!")).any(|line| line == DECLARATION)
}

/// A room whose files are in order.
struct Room<'a> {
    own: &'a Source,
    /// The files and directories of the room, bottom to top.
    units: Vec<String>,
    /// Names that the room's own file hands on, with the place of the unit each comes from.
    exports: HashMap<String, usize>,
    /// The files of each unit, tests left out.
    files: Vec<(usize, &'a Source)>,
}

impl<'a> Room<'a> {
    fn new(own: &'a Source, sources: &'a [Source]) -> Room<'a> {
        let submodules = own.submodules().into_iter().filter(|(.., in_test)| !in_test);
        let units: Vec<String> = submodules.map(|(_, name, _)| name).collect();
        let place = |name: &String| units.iter().position(|unit| unit == name);
        let mut exports = HashMap::new();
        for named in own.named() {
            let rest =
                if named.absolute { named.path.strip_prefix(&own.module[..]) } else { Some(&named.path[..]) };
            let unit = rest.and_then(|rest| rest.first()).and_then(place);
            if let (Some(name), Some(unit)) = (named.import, unit) {
                exports.insert(name, unit);
            }
        }
        let files = sources.iter().filter(|source| !source.test_only).filter_map(|source| {
            let inside = source.module.strip_prefix(&own.module[..])?;
            Some((place(inside.first()?)?, source))
        });
        Room { own, exports, files: files.collect(), units: units.clone() }
    }

    fn check(&self, functions: &HashMap<&str, usize>) -> Vec<Violation> {
        let mut violations = Vec::new();
        let entered = self.units.iter().find_map(|unit| Some((unit, self.own.enters(unit)?)));
        for &(place, source) in &self.files {
            for named in source.named().into_iter().filter(|named| named.absolute && !named.in_test) {
                let Some(rest) = named.path.strip_prefix(&self.own.module[..]) else { continue };
                let what = match rest.first().map(String::as_str) {
                    None | Some("*") => "names the room as a whole".to_owned(),
                    Some(name) => match (self.place(name), entered) {
                        (Some(target), _) if target > place => {
                            format!("uses `{}`, which stands above it", self.units[target])
                        }
                        (None, Some((unit, line))) => {
                            let file = self.own.file.display();
                            format!("uses `{name}` of {file}, which uses `{unit}` itself (line {line})")
                        }
                        _ => continue,
                    },
                };
                violations.push(source.violation(named.line, what));
            }
            violations.extend(self.calls_up(place, source, functions));
        }
        violations
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.units.iter().position(|unit| unit == name).or_else(|| self.exports.get(name).copied())
    }

    /// Calls from below of a method that the file at `place` gives to a type of a lower file. Only
    /// a name that no other function of the crate has can be told.
    fn calls_up(&self, place: usize, source: &Source, functions: &HashMap<&str, usize>) -> Vec<Violation> {
        let own = source.definitions();
        let mut violations = Vec::new();
        for block in source.inherent_impls().iter().filter(|block| !block.in_test) {
            if block.path.last().is_none_or(|name| own.contains(name.as_str())) {
                continue;
            }
            for method in block.methods.iter().filter(|method| functions.get(method.as_str()) == Some(&1)) {
                for (_, below) in self.files.iter().filter(|(at, _)| *at < place) {
                    violations.extend(below.calls(method).into_iter().map(|line| {
                        let above = &self.units[place];
                        below.violation(line, format!("calls `{method}`, which `{above}` above it defines"))
                    }));
                }
            }
        }
        violations
    }
}
