//! Which key ranges are converted next, and which values move: `victims` and `convert`, pure, over
//! `Cell`s and value files (`Space`).
//!
//! A conversion takes a key range out of all levels. It writes values of chosen files, the victims,
//! to sorted value files, and the entries to the last level that has such keys. `conversion` is its
//! plan. `cells` divides a keyspace: a `Cell` is a table of the oldest run, or a part where walks
//! read, with all above it. `convert` ranks cells by what they give back for the bytes they cost,
//! and adds neighbours. It also puts values into order that walks have paid for. `emptied_by` is
//! for a `compact_range`, `revealing` for a way that empties file by file, `small_logs` for a
//! database that is opened often. `headroom` says how much writers may write meanwhile.
//!
//! What must hold: conversions never let value files exceed live values, what is allowed besides
//! (`Allowance`) and an eighth of all live data. Where nothing else moves, one file is always
//! allowed.
//!
//! Callers: in `engine`, `convert`, `reclaim`, `reclaiming`, `rewrite` and `census`; `tree::heat`
//! says what walks have read (`WalkReads`).

use super::{
    cut::{Cut, Intent},
    horizon::Horizon,
    picture::Picture,
    plan::{Plan, Reason},
    reclaim::{Allowance, LIVE_PARTS, Part, Space, Victims, by_waste, by_worth},
};
use crate::{
    canary::{Bug, planted},
    ids::{FileId, KeyspaceId},
    key::{KeyEnd, KeyRange},
    table::waste::Waste,
    values::{Live, LiveValues},
    version::{Run, TableRef, Version},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    sync::Arc,
};

/// Of the live data, at most one part in so many is moved by one conversion, if it concerns more
/// than one cell.
const PLAN_PARTS: u64 = 16;
/// Of the live data, files with garbage of one part in so many are emptied together, more than
/// has to be given back: less often, so that tables are written less often.
const FREED_PARTS: u64 = 8;
/// Files are chosen when one part in so many of the live data is taken besides what is allowed:
/// what is taken swings around that.
const SWING_PARTS: u64 = 32;
/// Writers are slowed down while what they may write is less than one part in so many of the live
/// data.
const RAMP_PARTS: u64 = 32;
/// A cell is merged for the values that are hidden in it, if they are more than one part in so many
/// of those that count as live.
const HIDDEN_PARTS: u64 = 16;
/// Where walks read, a keyspace has about so many cells at least: values are put into order within
/// the little room that giving back space leaves.
const CELLS_READ: usize = 64;
/// A walk reads so many sorted files side by side without much loss.
const SCATTERED_MIN: usize = 4;
/// Out of sorted files values move by stretches: one short read pays for so many bytes.
const BYTES_PER_READ: u64 = 8 << 10;
/// A `compact_range`, which is to give everything back, empties files of which one part in so many
/// is garbage.
const EMPTIED_PARTS: u64 = 16;
/// A log that takes less than one part in so many of a write buffer is small: the database was
/// closed soon after it was opened.
const SMALL_LOG_PARTS: u64 = 16;
/// So many small logs are emptied together, into few sorted files.
const SMALL_LOGS_MIN: usize = 64;
/// A neighbour takes part in a conversion if it is worth one part in so many of the best cell.
const NEIGHBOUR_SHARE: f64 = 2.0;

/// What a table points to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TablePointers {
    /// How much of which value file.
    pub live: LiveValues,
    /// Bytes of the values that its entries hide in older runs, about, by stretches of its keys
    /// that begin with these: no reader sees them, and they count as live until both are merged.
    pub hides: Vec<(Box<[u8]>, u64)>,
}

/// What walks have lately read by short reads in one keyspace.
pub trait WalkReads {
    /// How many such reads were in `range`.
    fn reads_in(&self, range: &KeyRange) -> u64;

    /// Keys inside `range`, ascending, that divide its reads into about so many `parts`: fewer if
    /// little was read.
    fn dividing(&self, range: &KeyRange, parts: usize) -> Vec<Box<[u8]>>;
}

/// A piece of a keyspace: a table of its last level or, where walks read, a part of one, with all
/// that lies above it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Whose it is.
    pub keyspace: KeyspaceId,
    /// Its keys.
    pub range: KeyRange,
    /// Bytes of its tables.
    pub table_bytes: u64,
    /// What its tables point to, by file. Estimated for tables that reach beyond the cell.
    pub live: BTreeMap<FileId, Live>,
    /// Bytes of its values that no reader sees, about: newer entries hide them, they have expired,
    /// or a snapshot held them that is released.
    pub hidden: u64,
    /// How many short reads of values walks have lately needed here.
    pub reads: u64,
}

impl Cell {
    fn live_bytes(&self) -> u64 {
        self.live.values().map(|live| live.bytes).sum()
    }

    /// Whether so much is hidden that a merge is worth it.
    fn is_revealing(&self) -> bool {
        self.hidden > self.live_bytes() / HIDDEN_PARTS
    }
}

/// What a conversion is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// In which keyspace.
    pub keyspace: KeyspaceId,
    /// For which keys.
    pub range: KeyRange,
    /// The files whose values move.
    pub victims: Victims,
    /// Bytes of the values that move, about.
    pub moved: u64,
    /// Whether walks have paid for it: it puts into order what they have read.
    pub is_paid: bool,
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conversion { keyspace, range, victims, moved, .. } = self;
        write!(f, "convert {range} of keyspace {}, {moved} bytes: {victims}", keyspace.0)
    }
}

/// What the cells of one decision are weighed by.
struct Scales<'s> {
    spaces: BTreeMap<FileId, &'s Space>,
    /// The files that are to be emptied.
    victims: &'s BTreeSet<FileId>,
    /// Whether hidden values have to be given back that victims do not hold.
    reveals: bool,
    /// Bytes that may be written besides for walks.
    room: u64,
}

impl Scales<'_> {
    /// What it is worth to move the victims' values out of `cell`, in bytes. A file goes when all
    /// its values have left, so each cell has its share of what the file gives back. An old file
    /// counts up to twice: it has been held back for long.
    fn gain(&self, cell: &Cell) -> f64 {
        let count = self.victims.len().max(1) as f64;
        let gain = |(nth, file): (usize, &FileId)| {
            let share = cell.live.get(file).map_or(0, |live| live.bytes) as f64;
            let space = self.spaces[file];
            let age = 1.0 + (count - nth as f64) / count;
            space.garbage() as f64 * share / space.live.max(1) as f64 * age
        };
        self.victims.iter().enumerate().map(gain).sum()
    }

    /// The files whose values in `cell` walks have paid for, by as many short reads as it takes to
    /// move them: of a log one for each value, of sorted files one for some kilobytes. Logs; and
    /// where values are scattered over many sorted files, these but the largest. None if there is
    /// no room for them.
    fn paid(&self, cell: &Cell) -> BTreeSet<FileId> {
        let others = || {
            let is_other = |file: &FileId| self.spaces.contains_key(file) && !self.victims.contains(file);
            cell.live.iter().filter(move |(file, _)| is_other(file))
        };
        let mut paid: BTreeSet<FileId> =
            others().filter(|(_, live)| !live.sorted).map(|(file, _)| *file).collect();
        let mut sorted: Vec<(u64, FileId)> =
            others().filter(|(_, live)| live.sorted).map(|(file, live)| (live.bytes, *file)).collect();
        if sorted.len() > SCATTERED_MIN {
            sorted.sort_unstable();
            sorted.pop();
            paid.extend(sorted.into_iter().map(|(_, file)| file));
        }
        let price = |live: &Live| match live.sorted {
            true => live.values.min(live.bytes.div_ceil(BYTES_PER_READ)),
            false => live.values,
        };
        let price: u64 = paid.iter().map(|file| price(&cell.live[file])).sum();
        let is_paid = price > 0 && cell.reads >= price && bytes_in(cell, &paid) <= self.room;
        if is_paid { paid } else { BTreeSet::new() }
    }

    /// What is weighed of `cell`; `None`: nothing leaves it.
    fn weigh(&self, cell: &Cell) -> Option<Weighed> {
        let paid = self.paid(cell);
        let paid_bytes = bytes_in(cell, &paid);
        let moved = paid_bytes + bytes_in(cell, self.victims);
        let is_merged = moved > 0 || self.reveals && cell.is_revealing();
        let revealed = if is_merged { cell.hidden } else { 0 };
        let gain = self.gain(cell) + (paid_bytes + revealed) as f64;
        let worth = gain / (moved + cell.table_bytes).max(1) as f64;
        (moved > 0 || revealed > 0).then_some(Weighed { paid, paid_bytes, moved, worth })
    }
}

/// Bytes of the values of `cell` in `files`.
fn bytes_in(cell: &Cell, files: &BTreeSet<FileId>) -> u64 {
    cell.live.iter().filter(|(file, _)| files.contains(file)).map(|(_, live)| live.bytes).sum()
}

/// Cells that are converted together, from the first to the last.
struct Group {
    first: usize,
    last: usize,
    /// As of [`Weighed`].
    moved: u64,
    paid_bytes: u64,
    /// Bytes of their tables, which are written anew.
    table_bytes: u64,
}

/// What is decided by, of a cell.
struct Weighed {
    /// Files beside the victims.
    paid: BTreeSet<FileId>,
    /// Bytes of the values that leave these.
    paid_bytes: u64,
    /// Bytes of the values that leave.
    moved: u64,
    /// What that is worth for each byte written.
    worth: f64,
}

/// The files that are to be emptied now. Those of `present`, which were chosen before, are emptied
/// first: each range is then converted once for all of them. When none of these is left and files
/// take too much, others are chosen, none of those in `stuck`. `hidden` are bytes that count as
/// live and that newer entries hide; `moving` are the bytes that running conversions are about to
/// write.
pub fn victims(
    spaces: &[Space],
    hidden: u64,
    allowance: Allowance,
    moving: u64,
    present: &BTreeSet<FileId>,
    stuck: &BTreeSet<FileId>,
) -> BTreeSet<FileId> {
    let is_left = |space: &&Space| space.live > 0 && present.contains(&space.file);
    let left: BTreeSet<FileId> = spaces.iter().filter(is_left).map(|space| space.file).collect();
    if !left.is_empty() {
        return left;
    }
    let Sums { live, bytes } = Sums::of(spaces, hidden);
    let (data, allowed, taken) = (allowance.data(live), allowance.bytes(live), bytes + moving);
    // What values take besides, until their files are empty. Writers need some of it, too.
    let mut room = (allowed + data / LIVE_PARTS).saturating_sub(taken).min(data / PLAN_PARTS);
    if moving == 0 {
        // Where writers were faster than conversions, files with few live values still go together.
        room = room.max(data / PLAN_PARTS);
    }
    let (mut victims, mut left) = (BTreeSet::new(), taken);
    for space in by_worth(spaces).into_iter().filter(|space| !stuck.contains(&space.file)) {
        let fits = space.live <= room || (victims.is_empty() && moving == 0);
        let is_enough = left <= allowed - (data / FREED_PARTS).min(allowed);
        if taken <= allowed + data / SWING_PARTS || is_enough || !fits {
            break;
        }
        left -= space.garbage();
        room = room.saturating_sub(space.live);
        victims.insert(space.file);
    }
    victims
}

/// The small logs among the files, if they are many: a database that is opened often would else
/// have a file for each time. `sorted` files are never among them, so that no value moves twice for
/// this.
pub fn small_logs(spaces: &[Space], sorted: &BTreeSet<FileId>, write_buffer_bytes: u64) -> BTreeSet<FileId> {
    let is_small =
        |space: &&Space| space.bytes < write_buffer_bytes / SMALL_LOG_PARTS && !sorted.contains(&space.file);
    let small: BTreeSet<FileId> = spaces.iter().filter(is_small).map(|space| space.file).collect();
    if small.len() < SMALL_LOGS_MIN { BTreeSet::new() } else { small }
}

/// The files that a `compact_range` of `range` of `keyspace` empties next. They hold garbage, and
/// of what is live only values of that range. So many that their live values are few of all.
pub fn emptied_by(
    spaces: &[Space],
    cells: &[Cell],
    keyspace: KeyspaceId,
    range: &KeyRange,
) -> BTreeSet<FileId> {
    let is_within = |cell: &&Cell| cell.keyspace == keyspace && range.covers(&cell.range);
    let beside: BTreeSet<FileId> =
        cells.iter().filter(|cell| !is_within(cell)).flat_map(|cell| cell.live.keys().copied()).collect();
    let live: u64 = cells.iter().map(Cell::live_bytes).sum();
    let mut room = live / LIVE_PARTS;
    let mut emptied = BTreeSet::new();
    for space in by_waste(spaces) {
        let is_worth_it = space.garbage() >= space.bytes / EMPTIED_PARTS;
        if !is_worth_it || space.live == 0 || beside.contains(&space.file) {
            continue;
        }
        if space.live > room && !emptied.is_empty() {
            break;
        }
        room = room.saturating_sub(space.live);
        emptied.insert(space.file);
    }
    emptied
}

/// The conversions that are worth it now, the best first: usually the first one is carried out, and
/// another only if other work is under way there. `spaces` are the value files that recovery does
/// not need, and `victims` those of them that are to be emptied; `cells` are those of all
/// keyspaces, in order; `moving` are the bytes that running conversions are about to write. None
/// while nothing has to be given back and no walk has paid for order.
pub fn convert(
    spaces: &[Space],
    cells: &[Cell],
    victims: &BTreeSet<FileId>,
    allowance: Allowance,
    moving: u64,
) -> Vec<Conversion> {
    let Sums { live, bytes } = Sums::of(spaces, cells.iter().map(|cell| cell.hidden).sum());
    let (data, allowed) = (allowance.data(live), allowance.bytes(live));
    let known = |space: &&Space| victims.contains(&space.file);
    let of_victims: u64 = spaces.iter().filter(known).map(Space::garbage).sum();
    let to_move: u64 = spaces.iter().filter(known).map(|space| space.live).sum();
    // The rest is left to conversions that give space back.
    let room = (allowed + data / LIVE_PARTS).saturating_sub(bytes + moving + to_move + data / PLAN_PARTS);
    let scales = Scales {
        spaces: spaces.iter().map(|space| (space.file, space)).collect(),
        victims,
        reveals: bytes + moving > allowed + data / SWING_PARTS + of_victims,
        room,
    };
    let old = old(spaces);
    let weighed: Vec<_> = cells.iter().map(|cell| scales.weigh(cell)).collect();
    let mut best: Vec<(usize, &Weighed)> =
        weighed.iter().enumerate().filter_map(|(at, weighed)| Some((at, weighed.as_ref()?))).collect();
    best.sort_by(|(_, a), (_, b)| b.worth.total_cmp(&a.worth));
    let with_neighbours = |(at, of_cell): (usize, &Weighed)| {
        let keyspace = cells[at].keyspace;
        let is_paid = !of_cell.paid.is_empty();
        // `group`: the cells that go together so far.
        let joining = |group: &Group, at: usize| -> Option<Group> {
            let other = weighed.get(at)?.as_ref()?;
            let moved = group.moved + other.moved;
            let paid_bytes = group.paid_bytes + other.paid_bytes;
            let table_bytes = group.table_bytes + cells[at].table_bytes;
            let takes_part = cells[at].keyspace == keyspace
                && other.paid.is_empty() != is_paid
                && other.worth >= of_cell.worth / NEIGHBOUR_SHARE
                && moved <= data / PLAN_PARTS
                && table_bytes <= data / LIVE_PARTS
                && paid_bytes <= room;
            let (first, last) = (group.first.min(at), group.last.max(at));
            takes_part.then_some(Group { first, last, moved, paid_bytes, table_bytes })
        };
        let Weighed { moved, paid_bytes, .. } = *of_cell;
        let mut group = Group { first: at, last: at, moved, paid_bytes, table_bytes: cells[at].table_bytes };
        while let Some(wider) = joining(&group, group.last + 1) {
            group = wider;
        }
        while let Some(wider) = group.first.checked_sub(1).and_then(|before| joining(&group, before)) {
            group = wider;
        }
        let part = |at: usize| {
            let paid = weighed[at].iter().flat_map(|weighed| &weighed.paid);
            Part { range: cells[at].range.clone(), files: victims.iter().chain(paid).copied().collect() }
        };
        // Where walks pay, values lie in one file: a walk reads it by one stretch after the other.
        let old = if is_paid { FileId(0) } else { old };
        Conversion {
            keyspace,
            range: cells[group.first].range.hull(&cells[group.last].range),
            victims: Victims::of_parts((group.first..=group.last).map(part).collect(), old),
            moved: group.moved,
            is_paid,
        }
    };
    best.into_iter().map(with_neighbours).collect()
}

/// The last of the older half of the files, by number. What is still live in these has outlived
/// most of what was written with it, so it will live longer than what leaves the others.
fn old(spaces: &[Space]) -> FileId {
    let numbers = || spaces.iter().map(|space| space.file.0);
    let (oldest, newest) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    FileId(oldest + (newest - oldest) / 2)
}

/// What value files come to.
struct Sums {
    /// Bytes of values that a reader may see.
    live: u64,
    /// Bytes of the files.
    bytes: u64,
}

impl Sums {
    /// So many bytes of what counts as live are `hidden`.
    fn of(spaces: &[Space], hidden: u64) -> Sums {
        let live: u64 = spaces.iter().map(|space| space.live).sum();
        let bytes = spaces.iter().map(|space| space.bytes).sum();
        Sums { live: live - hidden.min(live), bytes }
    }
}

/// The cells of one keyspace: the tables of the oldest run of its last level divide its keys, and
/// so does what walks have `read`. `pointers` says what the part of a table points to that counts,
/// `horizon` which readers there are.
///
/// # Errors
/// What `pointers` returns.
pub fn cells<E>(
    keyspace: KeyspaceId,
    version: &Version,
    read: &dyn WalkReads,
    horizon: &Horizon,
    mut pointers: impl FnMut(&Run, &TableRef) -> Result<Arc<TablePointers>, E>,
) -> Result<Vec<Cell>, E> {
    let Some(last) = version.runs().last() else { return Ok(Vec::new()) };
    let extent = version.runs().iter().map(|run| run.range());
    let extent = extent.reduce(|all, range| all.hull(&range)).unwrap_or_else(KeyRange::all);
    let parts = CELLS_READ.div_ceil(last.tables().len());
    let mut starts: Vec<Box<[u8]>> = Vec::new();
    for table in last.tables().iter() {
        starts.push(table.clip().start.clone());
        starts.extend(read.dividing(table.clip(), parts));
    }
    starts[0] = extent.start.clone();
    let end = |at: usize| starts.get(at + 1).map_or(extent.end.clone(), |end| KeyEnd::Excluded(end.clone()));
    let ranges = (0..starts.len()).map(|at| KeyRange { start: starts[at].clone(), end: end(at) });
    let mut cells: Vec<Cell> = ranges
        .map(|range| {
            let (reads, live) = (read.reads_in(&range), BTreeMap::new());
            Cell { keyspace, range, table_bytes: 0, live, hidden: 0, reads }
        })
        .collect();
    // Stretches of cells, and what is hidden in them.
    let mut hidden: Vec<(Range<usize>, u64)> = Vec::new();
    for (run, table) in
        version.runs().iter().flat_map(|run| run.tables().iter().map(move |table| (run, table)))
    {
        let first = cells.partition_point(|cell| !cell.range.end.admits(&table.clip().start));
        let TablePointers { live, hides } = &*pointers(run, table)?;
        // Of no cell beyond the table: to merge that would change nothing, and be asked for again.
        let reached = cells[first..].iter().take_while(|cell| cell.range.overlaps(table.clip())).count();
        let at = |key: &[u8]| cells.partition_point(|cell| !cell.range.end.admits(key));
        let stretches = hides.iter().enumerate().map(|(number, (key, bytes))| {
            let end = hides.get(number + 1).map_or(usize::MAX, |(next, _)| at(next) + 1);
            (at(key).max(first)..end.min(first + reached), *bytes)
        });
        hidden.extend(stretches.filter(|(reached, _)| !reached.is_empty()));
        // One that cannot be read points nowhere.
        let unread = if live.is_empty() { 0 } else { unread_bytes(table, horizon) };
        for cell in cells[first..].iter_mut().take_while(|cell| cell.range.overlaps(table.clip())) {
            let share = share(table, &cell.range);
            cell.table_bytes += (table.bytes() as f64 * share) as u64;
            // At least one, so that what a cell may hold is looked at.
            let part = |number: u64| ((number as f64 * share).ceil() as u64).max(number.min(1));
            cell.hidden = cell.hidden.saturating_add(part(unread));
            for (file, of_table) in live.iter() {
                let of_cell =
                    cell.live.entry(file).or_insert(Live { sorted: of_table.sorted, ..Live::default() });
                of_cell.values += part(of_table.values);
                of_cell.bytes += part(of_table.bytes);
            }
        }
    }
    let live: Vec<u64> = cells.iter().map(Cell::live_bytes).collect();
    cells.iter_mut().zip(&live).for_each(|(cell, live)| cell.hidden = cell.hidden.min(*live));
    for (reached, mut bytes) in hidden {
        // What exceeds the first cell of a stretch lies in those behind it.
        for (cell, live) in cells[reached.clone()].iter_mut().zip(&live[reached]) {
            let part = bytes.min(live - cell.hidden);
            (cell.hidden, bytes) = (cell.hidden + part, bytes - part);
        }
    }
    Ok(cells)
}

/// Bytes of values that the part of `table` that counts points to and no reader sees, since they
/// have expired, or since the snapshots that held them are released.
fn unread_bytes(table: &TableRef, horizon: &Horizon) -> u64 {
    let descriptor = table.descriptor();
    let Waste { held, expiring, .. } = &descriptor.waste;
    let released = held.iter().filter(|held| !horizon.is_read(held.from, held.to)).map(|held| held.apart);
    let expired = expiring.iter().take_while(|expiring| expiring.until_ms <= horizon.now_ms);
    let bytes = released.chain(expired.map(|expiring| expiring.apart)).fold(0, u64::saturating_add);
    match table.is_whole() {
        true => bytes,
        false => (bytes as f64 * table.bytes() as f64 / descriptor.bytes.max(1) as f64) as u64,
    }
}

/// Which share of `table` lies in `range`: by its index, if it is open.
fn share(table: &TableRef, range: &KeyRange) -> f64 {
    if range.covers(table.clip()) {
        return 1.0;
    }
    let of_open = table.file().opened().map(|open| {
        let within = open.share(&table.clip().intersection(range));
        (within, open.share(table.clip()))
    });
    match of_open {
        Some((within, all)) if all > 0.0 => (within / all).min(1.0),
        _ => table.bytes_within(range) as f64 / table.bytes().max(1) as f64,
    }
}

/// Whether there can be anything to give back, if at most so many bytes are hidden.
pub fn can_be_over(allowance: Allowance, spaces: &[Space], hidden_max: u64) -> bool {
    let live: u64 = spaces.iter().map(|space| space.live).sum();
    let bytes: u64 = spaces.iter().map(|space| space.bytes).sum();
    bytes > allowance.bytes(live - hidden_max.min(live))
}

/// Whether more is taken than conversions leave in the end, `hidden` bytes of what counts as live
/// being not.
pub fn is_too_much(allowance: Allowance, spaces: &[Space], hidden: u64) -> bool {
    let Sums { live, bytes } = Sums::of(spaces, hidden);
    bytes > allowance.bytes(live) + allowance.data(live) / SWING_PARTS
}

/// What writers may do to the disk before space is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Bytes that they may write. Below 0: they have written too much.
    pub bytes: i64,
    /// From so many bytes left on they are slowed down.
    pub ramp: u64,
}

/// What is left to writers so that value files never take more than the live values, what is
/// allowed besides, and an eighth of the live data. `hidden` bytes of what counts as live are not.
/// `promised` are bytes that conversions write before they give anything back; what the next ones
/// write is kept free before they are chosen. `in_logs` are those of logs that recovery needs;
/// up to `in_logs_max` they count as live.
pub fn headroom(
    allowance: Allowance,
    spaces: &[Space],
    hidden: u64,
    promised: u64,
    in_logs: u64,
    in_logs_max: u64,
) -> Headroom {
    let Sums { live, bytes } = Sums::of(spaces, hidden);
    let data = allowance.data(live);
    let most = allowance.bytes(live) + data / LIVE_PARTS + in_logs_max;
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX / 2);
    let bytes = signed(most) - signed(bytes + promised.max(data / PLAN_PARTS) + in_logs);
    Headroom { bytes, ramp: data / RAMP_PARTS }
}

/// Bytes of values in `version` that no reader may see, at most: what is not in the oldest run may
/// hide all, however little it is, since values differ in length.
pub fn hidden_max(version: &Version, horizon: &Horizon) -> u64 {
    match version.runs().len() {
        0 | 1 => unread(version, horizon),
        _ => version.values().bytes(),
    }
}

/// Bytes of values in `version` that no reader sees, since they have expired, or since the
/// snapshots that held them are released.
fn unread(version: &Version, horizon: &Horizon) -> u64 {
    version.tables().map(|table| unread_bytes(table, horizon)).fold(0, u64::saturating_add)
}

/// The cells that are merged so that hidden values show, the best first: for a way of giving back
/// that empties files without regard to ranges.
pub fn revealing<'c>(spaces: &[Space], cells: &'c [Cell], allowance: Allowance) -> Vec<&'c Cell> {
    let hidden = cells.iter().map(|cell| cell.hidden).sum();
    if !can_be_over(allowance, spaces, hidden) {
        return Vec::new();
    }
    let mut best: Vec<&Cell> = cells.iter().filter(|cell| cell.is_revealing()).collect();
    let worth = |cell: &Cell| cell.hidden as f64 / cell.table_bytes.max(1) as f64;
    best.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    best
}

/// The plan that takes `range` out of all levels into the last one that has keys of it. `None`: it
/// holds nothing, or a running plan or damage stands in the way.
pub fn conversion(picture: &Picture<'_>, range: &KeyRange) -> Option<Plan> {
    let bottom = picture.version.deepest_level(range)?.max(1);
    let mut sources: Vec<&Arc<Run>> = (0..bottom).flat_map(|level| picture.runs(level)).collect();
    let target = match picture.runs(bottom).split_last() {
        Some((oldest, newer)) => {
            sources.extend(newer);
            (bottom, oldest.id())
        }
        None => (bottom, picture.target_run(bottom)),
    };
    if planted(Bug::StaleAboveTier) {
        sources.retain(|run| !run.overlapping(range).is_empty());
        sources.truncate(1);
    }
    let cut = Cut::new(picture, sources, target).around_damage();
    let intent = Intent { reason: Reason::Reclaim, seals: None, may_move: false };
    (!cut.blocked(range)).then(|| cut.plan(range.clone(), intent))
}

#[cfg(test)]
mod tests;
