//! The order of the rooms: `Order`, read from `lib.rs`, and `rows`, the lines of ARCHITECTURE's
//! tables.
//!
//! `rank` is the place of a room from the bottom, `module_of` the room that a name at the crate's
//! root comes from. A `Row` has rooms, and what they may not know.
//!
//! What must hold: storeys come from comments that begin with `// Storey:`. A row counts if its
//! first column holds rooms between backticks, in a table of three columns whose last is "may not
//! know".
//!
//! Caller: `layers::rooms`, which compares the two.

use super::source::Source;
use std::collections::HashMap;

/// What a comment in `lib.rs` begins with that opens a storey.
const STOREY: &str = "// Storey: ";

/// What `lib.rs` says: the place of each module, and which module each re-exported name comes from.
pub(super) struct Order {
    /// The rooms, bottom to top, each with its storey (empty if `lib.rs` names none).
    pub(super) rooms: Vec<(String, String)>,
    exports: HashMap<String, String>,
}

impl Order {
    pub(super) fn read(lib: &Source) -> Order {
        let storeys: Vec<(usize, &str)> = lib
            .text
            .lines()
            .enumerate()
            .filter_map(|(at, line)| {
                Some((at + 1, line.strip_prefix(STOREY)?.split([' ', '.', ',', ':']).next()?))
            })
            .collect();
        let storey_of = |line: usize| {
            let above = storeys.iter().rev().find(|(at, _)| *at < line);
            above.map_or(String::new(), |(_, name)| (*name).to_owned())
        };
        let rooms = lib.submodules().into_iter().map(|(line, name, _)| (name, storey_of(line))).collect();
        let mut exports = HashMap::new();
        for named in lib.named() {
            if let (Some(name), Some(first)) = (named.import, named.path.first()) {
                exports.insert(name, first.clone());
            }
        }
        Order { rooms, exports }
    }

    /// The place of a room, from the bottom.
    pub(super) fn rank(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|(name, _)| name == room)
    }

    /// The room that a name at the crate's root comes from.
    pub(super) fn module_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if self.rank(name).is_some() {
            return Some(name);
        }
        self.exports.get(name).map(String::as_str).filter(|room| self.rank(room).is_some())
    }
}

/// One line of ARCHITECTURE's table of rooms.
pub(super) struct Row {
    pub(super) line: usize,
    /// The heading above the table.
    pub(super) storey: String,
    /// The rooms that the row is about.
    pub(super) rooms: Vec<String>,
    /// What it says they may not know: paths in the crate (`version::manifest`) or in `std`.
    pub(super) unknown: Vec<Vec<String>>,
}

/// The rows of the tables whose first column holds rooms and whose third says what they may not
/// know.
pub(super) fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut storey = String::new();
    let mut in_table = false;
    for (at, line) in page.lines().enumerate() {
        if let Some(heading) = line.strip_prefix('#') {
            storey = heading.trim_matches(['#', ' ']).to_lowercase();
        }
        let inside = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or_default();
        let columns: Vec<&str> = inside.split('|').collect();
        in_table =
            line.starts_with('|') && (in_table || columns.last().is_some_and(|c| c.trim() == "may not know"));
        let [rooms, _, unknown] = &columns[..] else { continue };
        if in_table && rooms.contains('`') {
            rows.push(Row {
                line: at + 1,
                storey: storey.clone(),
                rooms: quoted(rooms).flat_map(str::split_whitespace).map(str::to_owned).collect(),
                unknown: quoted(unknown).map(|path| path.split("::").map(str::to_owned).collect()).collect(),
            });
        }
    }
    rows
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
