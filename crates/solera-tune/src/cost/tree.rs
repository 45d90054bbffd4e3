//! The tree that this engine keeps, as its expectation: `Tree`, how many entries each `Run` holds,
//! range by range.
//!
//! A run is a density over the key space, in `CELLS` equal cells; merges take keys as random and
//! evenly used. `flush` and `settle` follow `wants` and `pick` of `solera::compaction` and count
//! what merges read and write (`Work`). Level 0 is due at its run limit; patience is not modelled
//! here. `of` builds a tree from runs that were seen. `skewed` only keeps a `Skew`, for `reads`.
//! `lift` is for callers that know whether reads have paid for it; `owed` is work that is to come.
//!
//! What must hold: no steady state is assumed. A tree of a few data sizes' writes is far from one
//! where the last level holds many runs.
//!
//! Callers: `cost::model`, `cost::reads`, `steward::foresight`, the tests' `agent::imagined` and
//! `tests/engine.rs`; the pages `camal` and `missions` and the opponent `arce` of `solera-bench`.

use super::skew::Skew;
use solera::Shape;

/// Parts of the key space.
pub const CELLS: usize = 32;
/// A plan concerns about this many tables' bytes: `compaction::cut`.
const PLAN_TABLES: f64 = 25.0;
/// Tables of the target that a plan of the cheapest piece rewrites beyond those that it must: its
/// range does not end where they do. A table picked at random would have one; the cheapest has
/// less.
const EDGE_TABLES: f64 = 0.8;
/// Fewer entries than this in a cell are rounding.
const NOTHING: f64 = 1e-9;

/// Entries of one run in one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Entries whose key lies nowhere deeper.
    pub first: f64,
    /// Entries that hide an older one of a deeper run.
    pub newer: f64,
    /// What all of them take beyond as many of the mean size, in entries of that size: exactly 0
    /// where all are alike.
    pub beyond: f64,
}

impl Cell {
    /// All entries.
    pub fn entries(&self) -> f64 {
        self.first + self.newer
    }

    /// What all entries take, in entries of the mean size.
    pub fn size(&self) -> f64 {
        self.entries() + self.beyond
    }

    fn is_empty(&self) -> bool {
        self.entries() <= NOTHING
    }

    /// What a merge of this, the newer one, with `older` leaves, where `keys` keys are in use.
    fn over(self, older: Cell, keys: f64) -> Cell {
        let met = if keys > 0.0 { self.newer * (older.entries() / keys).min(1.0) } else { 0.0 };
        // The older ones of those that are met are gone.
        let stays = if older.is_empty() { 1.0 } else { 1.0 - (met / older.entries()).min(1.0) };
        Cell {
            first: self.first + older.first,
            newer: self.newer - met + older.newer,
            beyond: self.beyond + stays * older.beyond,
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its entries, by cell.
    pub cells: Vec<Cell>,
    /// It takes no more and is being moved down.
    sealed: bool,
}

impl Run {
    fn empty() -> Run {
        Run { cells: vec![Cell::default(); CELLS], sealed: false }
    }

    /// Entries of all keys alike, each so many times as large as the mean.
    fn even(first: f64, newer: f64, times: f64) -> Run {
        let cells = CELLS as f64;
        let beyond = (times - 1.0) * (first + newer) / cells;
        let cell = Cell { first: first / cells, newer: newer / cells, beyond };
        Run { cells: vec![cell; CELLS], sealed: false }
    }

    /// All its entries.
    pub fn entries(&self) -> f64 {
        self.cells.iter().map(Cell::entries).sum()
    }

    /// What all its entries take, in entries of the mean size.
    pub fn size(&self) -> f64 {
        self.cells.iter().map(Cell::size).sum()
    }

    /// Entries that hide older ones.
    pub fn newer(&self) -> f64 {
        self.cells.iter().map(|cell| cell.newer).sum()
    }

    /// The share of the key space in which it has entries.
    pub fn coverage(&self) -> f64 {
        self.cells.iter().filter(|cell| !cell.is_empty()).count() as f64 / CELLS as f64
    }

    /// The share of the key space at or after which it has entries: where a walk upwards must look
    /// at it.
    pub fn reach(&self) -> f64 {
        let last = self.cells.iter().rposition(|cell| !cell.is_empty());
        last.map_or(0.0, |last| (last + 1) as f64 / CELLS as f64)
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(Cell::is_empty)
    }
}

/// Entries that flushes and merges read and wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Written by flushes.
    pub flushed: f64,
    /// Read by merges into each level.
    pub read: Vec<f64>,
    /// Written by merges into each level.
    pub written: Vec<f64>,
    /// What flushed, read and written entries take, each in entries of the mean size.
    pub sizes: [f64; 3],
    /// Tables that merges read: each begins with a read of its own.
    pub tables: f64,
}

impl Work {
    /// Read by merges, over all levels.
    pub fn read_total(&self) -> f64 {
        self.read.iter().sum()
    }

    /// Written by merges, over all levels.
    pub fn written_total(&self) -> f64 {
        self.written.iter().sum()
    }

    fn add(&mut self, level: usize, read: Moved, written: Moved) {
        if self.read.len() <= level {
            self.read.resize(level + 1, 0.0);
            self.written.resize(level + 1, 0.0);
        }
        self.read[level] += read.entries;
        self.written[level] += written.entries;
        self.sizes[1] += read.size;
        self.sizes[2] += written.size;
    }
}

/// What a merge moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Entries.
    pub entries: f64,
    /// What they take, in entries of the mean size.
    pub size: f64,
}

impl Moved {
    fn of(run: &Run) -> Moved {
        Moved { entries: run.entries(), size: run.size() }
    }

    /// This and `share` times another.
    #[must_use]
    pub fn and(self, other: Moved, share: f64) -> Moved {
        Moved { entries: self.entries + share * other.entries, size: self.size + share * other.size }
    }
}

/// Levels that the shape does not need, with the last that it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Surplus {
    /// The last level that it needs.
    pub last: usize,
    /// What lies from that level on.
    pub moved: Moved,
    /// Runs of each level from that one on.
    pub runs: Vec<usize>,
}

/// The tree.
///
/// What differs from the papers' tree, and is the reason for this module (docs/decisions/0012):
/// * level 0 holds up to K₀ runs of one write buffer and is emptied as a whole into level 1, which
///   is (T−1)T write buffers large: level 1 takes (T−1)T/(K₀K₁) arrivals, not T;
/// * a level of K > 1 fills up and is drained, so that it is half full on average; a level of K = 1
///   stays full and gives up the piece that is cheapest, so that what arrives in a level is merged
///   with twice as dense a source (a sweep leaves behind what it emptied last) but with a full
///   target;
/// * run and level capacities are looked at before every piece, so runs may end in the middle of
///   the key space.
#[derive(Clone, Debug)]
pub struct Tree {
    shape: Shape,
    /// Bytes of a table file per entry.
    stored_bytes: f64,
    /// Runs of each level, newest first.
    levels: Vec<Vec<Run>>,
    /// Keys in it.
    keys: f64,
    /// How many times as large as the mean the entries are that come in.
    arriving: f64,
    /// How unevenly they are used.
    skew: Skew,
    /// What was done since it was made.
    pub work: Work,
}

impl Tree {
    /// An empty tree of entries that take `stored_bytes` each in a table.
    pub fn new(shape: Shape, stored_bytes: f64) -> Tree {
        let (levels, skew, work) = (Vec::new(), Skew::EVEN, Work::default());
        Tree { shape, stored_bytes, levels, keys: 0.0, arriving: 1.0, skew, work }
    }

    /// The same tree where the entries of each level are so many times as large as the mean, and
    /// those that come in `arriving` times.
    #[must_use]
    pub fn sized(mut self, levels: &[f64], arriving: f64) -> Tree {
        for (runs, times) in self.levels.iter_mut().zip(levels) {
            let cells = runs.iter_mut().flat_map(|run| &mut run.cells);
            cells.for_each(|cell| cell.beyond = (times - 1.0) * cell.entries());
        }
        self.arriving = arriving;
        self
    }

    /// The same tree where keys are used so unevenly.
    #[must_use]
    pub fn skewed(self, skew: Skew) -> Tree {
        Tree { skew, ..self }
    }

    /// How unevenly its keys are used.
    pub fn skew(&self) -> Skew {
        self.skew
    }

    /// How many times as large as the mean the entries are that come in.
    pub fn arriving(&self) -> f64 {
        self.arriving
    }

    /// What the entries of `level` take, in entries of the mean size.
    pub fn size(&self, level: usize) -> f64 {
        self.levels.get(level).map_or(0.0, |runs| runs.iter().map(Run::size).sum())
    }

    /// The tree as `levels` says it is: entries of every run of every level, newest first, in which
    /// `keys` keys have entries. What lies deepest is taken to be the oldest version of its keys.
    pub fn of(shape: Shape, stored_bytes: f64, keys: f64, levels: &[Vec<f64>]) -> Tree {
        let mut tree = Tree::new(shape, stored_bytes);
        let mut unknown = keys;
        tree.keys = keys;
        tree.levels = levels.iter().map(|_| Vec::new()).collect();
        for (level, runs) in levels.iter().enumerate().rev() {
            for &entries in runs.iter().rev() {
                let first = entries.min(unknown);
                unknown -= first;
                tree.levels[level].insert(0, Run::even(first, entries - first, 1.0));
            }
        }
        tree
    }

    /// Its runs, newest first, with the number of their level.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &Run)> {
        self.levels.iter().enumerate().flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)))
    }

    /// How many levels there are.
    pub fn depth(&self) -> usize {
        self.levels.iter().rposition(|runs| !runs.is_empty()).map_or(0, |last| last + 1)
    }

    /// Entries in `level`.
    pub fn entries(&self, level: usize) -> f64 {
        self.levels.get(level).map_or(0.0, |runs| runs.iter().map(Run::entries).sum())
    }

    /// Bytes of a table file per entry.
    pub fn stored_bytes(&self) -> f64 {
        self.stored_bytes
    }

    /// Keys in it.
    pub fn keys(&self) -> f64 {
        self.keys
    }

    /// The shape that it obeys.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Obeys another shape from now on.
    pub fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// Writes a memtable out: `new` keys that were not there, `again` other versions of random keys
    /// that were.
    pub fn flush(&mut self, new: f64, again: f64) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.keys += new;
        // A memtable is written with one version of each key.
        let again = again.min(self.keys - new);
        self.work.flushed += new + again;
        self.work.sizes[0] += self.arriving * (new + again);
        self.levels[0].insert(0, Run::even(new, again, self.arriving));
    }

    /// Does all that is due, the most urgent first.
    pub fn settle(&mut self) {
        while let Some(level) = self.due() {
            if self.levels.len() == level + 1 {
                self.levels.push(Vec::new());
            }
            let leveled = level > 0
                && self.shape.run_limit(level as u32) == 1
                && matches!(&self.levels[level][..], [run] if !run.sealed);
            if leveled { self.move_cheapest(level) } else { self.drain(level) }
        }
    }

    /// What would be merged if levels that the shape does not need were lifted; `None` if there are
    /// none.
    pub fn surplus(&self) -> Option<Surplus> {
        let depth = self.depth();
        let mut size = 0.0;
        let fits = |level: &usize| {
            size += self.size(*level);
            size < self.capacity(*level)
        };
        let last = (1..depth).rev().take_while(fits).last()?;
        let levels = self.levels.get(last..depth).filter(|levels| levels.len() > 1)?;
        let moved = levels.iter().flatten().fold(Moved::default(), |sum, run| sum.and(Moved::of(run), 1.0));
        Some(Surplus { last, moved, runs: levels.iter().map(Vec::len).collect() })
    }

    /// Merges all levels that the shape does not need into the last one that it does
    /// (docs/decisions/0024).
    pub fn lift(&mut self) {
        let Some(Surplus { last, moved, runs }) = self.surplus() else { return };
        let keys = self.keys / CELLS as f64;
        let mut target = Run::empty();
        for run in self.levels.drain(last..).collect::<Vec<_>>().iter().flatten().rev() {
            let cells = target.cells.iter_mut().zip(&run.cells);
            cells.for_each(|(older, newer)| *older = newer.over(*older, keys));
        }
        let count = runs.iter().sum::<usize>();
        if count > 1 {
            self.work.tables += (moved.size / self.table_size().max(1.0)).max(count as f64);
            self.work.add(last, moved, Moved::of(&target));
        }
        self.levels.push(vec![target]);
    }

    /// Entries that merges will read and write which come when a level is full, as far as it is:
    /// what a walk that ends before them leaves to be paid. A level of one run is full all the time
    /// and owes nothing.
    pub fn owed(&self) -> Moved {
        let of = |(level, runs): (usize, &Vec<Run>)| {
            let limit = self.shape.run_limit(level as u32);
            if runs.is_empty() || (level > 0 && limit == 1) {
                return Moved::default();
            }
            let own = runs.iter().fold(Moved::default(), |sum, run| sum.and(Moved::of(run), 1.0));
            let full = match level {
                0 => runs.len() as f64 / f64::from(limit),
                _ => own.size / self.capacity(level),
            };
            let next = self.shape.run_limit(level as u32 + 1);
            let room = self.shape.run_capacity_bytes(level as u32 + 1) as f64 / self.stored_bytes;
            let takes = |run: &&Run| !run.sealed && (next == 1 || run.size() < room);
            let target = self.levels.get(level + 1).and_then(|runs| runs.first()).filter(takes);
            own.and(target.map(Moved::of).unwrap_or_default(), full.min(1.0))
        };
        self.levels.iter().enumerate().map(of).fold(Moved::default(), |sum, moved| sum.and(moved, 1.0))
    }

    fn capacity(&self, level: usize) -> f64 {
        self.shape.capacity_bytes(level as u32) as f64 / self.stored_bytes
    }

    /// What a table holds, in entries of the mean size.
    fn table_size(&self) -> f64 {
        self.shape.table_bytes as f64 / self.stored_bytes
    }

    /// The level with the highest score of at least 1.
    fn due(&self) -> Option<usize> {
        let score = |level: usize| {
            let runs = &self.levels[level];
            let sealed = runs.last().is_some_and(|run| run.sealed);
            let full = match level {
                0 => runs.len() as f64 / f64::from(self.shape.run_limit(0)),
                _ => self.size(level) / self.capacity(level),
            };
            if sealed { full.max(1.0) } else { full }
        };
        let scores = (0..self.levels.len()).map(|level| (score(level), level));
        scores.filter(|(score, _)| *score >= 1.0).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, level)| level)
    }

    /// The place of the run of `level` that takes arrivals; a new one where the newest is sealed or
    /// full.
    fn target(&mut self, level: usize) -> usize {
        let limit = self.shape.run_limit(level as u32);
        let run_capacity = self.shape.run_capacity_bytes(level as u32) as f64 / self.stored_bytes;
        let has_room = |run: &Run| !run.sealed && (limit == 1 || run.size() < run_capacity);
        if !self.levels[level].first().is_some_and(has_room) {
            self.levels[level].insert(0, Run::empty());
        }
        0
    }

    /// Merges the cells of `from` and, if they are there, of the runs of `level` beyond, into the
    /// next level.
    fn merge(&mut self, level: usize, cells: std::ops::Range<usize>, sealed_only: bool, edge: f64) {
        let at = self.target(level + 1);
        let keys = self.keys / CELLS as f64;
        let mut target = std::mem::replace(&mut self.levels[level + 1][at], Run::empty());
        let (mut read, mut written) = (Moved::default(), Moved::default());
        // What a merge reads of each run, the target's last.
        let mut of_runs = vec![0.0; self.levels[level].len() + 1];
        for cell in cells {
            let (mut sources, mut newest) = (0, 0);
            let mut merged = Cell::default();
            let mut moves = Moved::default();
            let runs = self.levels[level].iter_mut().enumerate().rev();
            for (at, run) in runs.filter(|(_, run)| run.sealed || !sealed_only) {
                let source = std::mem::take(&mut run.cells[cell]);
                if !source.is_empty() {
                    (sources, newest) = (sources + 1, at);
                    moves = moves.and(Moved { entries: source.entries(), size: source.size() }, 1.0);
                    of_runs[at] += source.size();
                    merged = source.over(merged, keys);
                }
            }
            let older = target.cells[cell];
            let moved = sources <= 1 && older.is_empty();
            target.cells[cell] = merged.over(older, keys);
            if moved {
                of_runs[newest] -= moves.size;
            } else {
                let [older, after] = [older, target.cells[cell]]
                    .map(|cell| Moved { entries: cell.entries(), size: cell.size() });
                read = read.and(moves, 1.0).and(older, 1.0);
                written = written.and(after, 1.0);
                *of_runs.last_mut().expect("the target's") += older.size;
            }
        }
        let table = self.table_size().max(1.0);
        let tables = of_runs.iter().filter(|size| **size > NOTHING);
        self.work.tables += tables.map(|size| (size / table).max(1.0)).sum::<f64>();
        if read.entries > 0.0 {
            // The target's entries at the edges are of its own size.
            let share = edge / target.size().max(NOTHING);
            let edges = Moved::default().and(Moved::of(&target), share.min(1.0));
            (read, written) = (read.and(edges, 1.0), written.and(edges, 1.0));
        }
        self.levels[level + 1][at] = target;
        self.levels[level].retain(|run| !run.is_empty());
        self.levels[level + 1].retain(|run| !run.is_empty());
        self.work.add(level + 1, read, written);
    }

    /// The next piece of the sealed runs; seals all if none is.
    fn drain(&mut self, level: usize) {
        if !self.levels[level].iter().any(|run| run.sealed) {
            self.levels[level].iter_mut().for_each(|run| run.sealed = true);
        }
        let target = self.target(level + 1);
        let limit = PLAN_TABLES * self.table_size();
        let size = |cell: usize| {
            let sources: f64 =
                self.levels[level].iter().filter(|run| run.sealed).map(|run| run.cells[cell].size()).sum();
            (sources, self.levels[level + 1][target].cells[cell].size())
        };
        let Some(first) = (0..CELLS).find(|&cell| size(cell).0 > NOTHING) else {
            self.levels[level].retain(|run| !run.sealed);
            return;
        };
        let (mut last, mut sum) = (first, 0.0);
        for cell in first..CELLS {
            let (sources, older) = size(cell);
            sum += sources + older;
            if cell > first && sum > limit {
                break;
            }
            last = cell;
        }
        self.merge(level, first..last + 1, true, 0.0);
    }

    /// A table's worth of the only run of `level`, from where it meets least in the next.
    fn move_cheapest(&mut self, level: usize) {
        let target = self.target(level + 1);
        let wanted = self.table_size().min(self.levels[level][0].size());
        let (source, older) = (&self.levels[level][0].cells, &self.levels[level + 1][target].cells);
        // Of the shortest ranges that hold a table's worth, the one that meets least for what it
        // moves.
        let (mut end, mut sum, mut met) = (0, 0.0, 0.0);
        let mut best = (f64::INFINITY, 0..CELLS, 0.0);
        for start in 0..CELLS {
            while end < CELLS && (sum < wanted * (1.0 - 1e-6) || end == start) {
                sum += source[end].size();
                met += older[end].size();
                end += 1;
            }
            if sum < wanted * (1.0 - 1e-6) {
                break;
            }
            if met / sum < best.0 {
                best = (met / sum, start..end, sum);
            }
            sum -= source[start].size();
            met -= older[start].size();
        }
        let (_, range, sum) = best;
        self.merge(level, range, false, EDGE_TABLES * sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level is full by what its entries take. Where those that come in are four times as large,
    /// a quarter as many fill it; what they hide is gone at its own size.
    #[test]
    fn levels_are_full_by_what_entries_take_and_not_by_how_many_they_are() {
        let shape = Shape {
            size_ratio: 4,
            run_limits: vec![1, 1],
            write_buffer_bytes: 100_000,
            table_bytes: 100_000,
        };
        let fill = |times: f64| {
            let mut tree = Tree::of(shape.clone(), 100.0, 10_000.0, &[vec![], vec![1000.0]]);
            tree = tree.sized(&[1.0, 1.0], times);
            let mut entries = 0.0;
            while tree.depth() < 3 {
                tree.flush(1000.0 / times, 0.0);
                tree.settle();
                entries += 1000.0 / times;
            }
            (entries, tree.work.sizes[0])
        };
        let (small, large) = (fill(1.0), fill(4.0));
        assert_eq!(small.0, 4.0 * large.0);
        assert!((small.1 / large.1 - 1.0).abs() < 1e-9, "{small:?} {large:?}");

        let old = Tree::of(shape, 100.0, 1000.0, &[vec![], vec![1000.0]]);
        let mut tree = old.sized(&[1.0, 1.0], 4.0);
        tree.flush(0.0, 500.0);
        tree.settle();
        let (entries, size) = (tree.entries(1), tree.size(1));
        assert!((entries - 1000.0).abs() < 1e-6, "half of the keys have another version: {entries}");
        assert!((size - 2500.0).abs() < 1e-6, "500 of four times the size, 500 old ones: {size}");
    }

    /// Symptom: of two plans that cost the same, the one whose next merge lay just behind the
    /// walk's end seemed cheaper by a third. Cause: merges come in lumps. Cure: what a level has of
    /// its next merge counts.
    #[test]
    fn what_was_merged_and_what_is_owed_grow_evenly_though_merges_come_in_lumps() {
        let (shape, memtable) = (
            Shape {
                size_ratio: 10,
                run_limits: vec![8, 1],
                write_buffer_bytes: 1 << 20,
                table_bytes: 1 << 20,
            },
            1000.0,
        );
        let mut tree = Tree::of(shape, 1000.0, 20_000.0, &[vec![], vec![20_000.0]]);
        let mut shares = Vec::new();
        for flush in 1..=16 {
            tree.flush(0.0, memtable);
            tree.settle();
            shares.push((tree.work.read_total() + tree.owed().entries) / f64::from(flush));
        }
        let (least, most) = (
            shares.iter().copied().fold(f64::INFINITY, f64::min),
            shares.iter().copied().fold(0.0, f64::max),
        );
        assert!(most / least < 1.1, "{shares:?}");
        assert!(tree.work.tables > 16.0, "each run and each table below is read: {}", tree.work.tables);
    }
}
