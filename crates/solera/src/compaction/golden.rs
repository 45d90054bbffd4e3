//! Golden tests: compaction's decisions as texts, compared with the files of `testdata`.
//!
//! A case begins with `== TITLE`. Each line after it is a step on a tree of pretended tables, and
//! lines that begin with `> ` are what the step printed. The comment of `Tree` lists the steps.
//! Single tests: a plan that is not sound, or not sound any more, panics; so do two that claim the
//! same keys.
//!
//! What must hold: there are at least 40 cases, and each step prints what stands in the file.
//!
//! ```text
//! cargo test -p soleradb --lib compaction::golden                    compares
//! cargo test -p soleradb --lib compaction::golden -- --ignored      writes the texts anew
//! ```

use super::*;
use crate::{
    cache::Cache,
    error::Error,
    ids::{DatabaseId, FileId, RunId},
    key::KeyRange,
    stats::{LevelCounters, Stats},
    table::{
        Layout, TableContext, TableDescriptor, TableFile,
        waste::{Cover, Expiring, Held, Waste},
    },
    version::{Added, TreeEdit, Version},
    vfs::mem::MemFs,
};
use std::{fmt::Write, path::Path, sync::Arc};

const TEXTS: [(&str, &str); 9] = [
    ("level0.txt", include_str!("testdata/level0.txt")),
    ("levels.txt", include_str!("testdata/levels.txt")),
    ("pieces.txt", include_str!("testdata/pieces.txt")),
    ("transitions.txt", include_str!("testdata/transitions.txt")),
    ("surplus.txt", include_str!("testdata/surplus.txt")),
    ("damage.txt", include_str!("testdata/damage.txt")),
    ("manual.txt", include_str!("testdata/manual.txt")),
    ("entrance.txt", include_str!("testdata/entrance.txt")),
    ("space.txt", include_str!("testdata/space.txt")),
];

/// A tree of tables that are only pretended, and what compaction remembers of it.
///
/// | step | what it does |
/// |---|---|
/// | `shape T=10 K=4,1 buffer=1000 table=1000` | what is wanted |
/// | `patience 9` | runs at which level 0 is merged though reads have not paid; 0 at first |
/// | `run 1.3: 7 [a d] 500; 8 [f k] 500 deletes` | run 3 of level 1: first key, last key, bytes; `describe` has the other words |
/// | `limit 1 4 lazy` | the run limit of level 1 becomes 4, by this transition |
/// | `reshape T=10 K=4,1 buffer=1000 table=1000` | what is wanted from now on, by a flexible transition |
/// | `vain 100` | lookups have asked so many more tables of each level in vain |
/// | `reads 100` | lookups have asked so many more tables of level 0 |
/// | `damage 7` | table 7 cannot be read |
/// | `hurry` | a user waits for level 0 |
/// | `overlap 7=0.8 8=0.5` | the tree rests; so much of the keys of these tables is in older runs too |
/// | `flushed 9` | everything up to this number is in tables |
/// | `picture`, `wants`, `urgency` | print what there is, what levels want, how urgently |
/// | `pick` | prints the next plan |
/// | `start` | prints the next plan and begins it |
/// | `finish` | the plan that began first ends; its outputs are one table |
/// | `settle` | plans are carried out until nothing is due |
/// | `compact [a d]` | the plans of a manual compaction are carried out |
/// | `snapshots 5 7`, `visible 9`, `now 100` | what may be seen: live snapshots, what is visible, the time |
/// | `awaited` | prints which release and which moment may make something droppable |
/// | `space` | prints what the bytes are |
/// | `entrance [a d]`, `enter [a d]` | print where such tables enter; the second keeps the place |
struct Tree {
    context: Arc<TableContext>,
    version: Version,
    shape: Shape,
    patience: u32,
    reads: LevelCounters,
    horizon: Horizon,
    ledger: Ledger,
    running: Vec<(Plan, Ticket)>,
    next_file: u64,
}

impl Tree {
    fn new() -> Tree {
        let context = TableContext {
            fs: Arc::new(MemFs::new()),
            dir: "/pretended".into(),
            database: DatabaseId(1),
            direct_reads: false,
            cache: Cache::new(0),
            stats: Arc::new(Stats::new()),
            wanted: Arc::default(),
        };
        Tree {
            context: Arc::new(context),
            version: Version::new(),
            shape: Shape::default(),
            patience: 0,
            reads: LevelCounters::default(),
            horizon: Horizon::default(),
            ledger: Ledger::new(),
            running: Vec::new(),
            next_file: 100,
        }
    }

    fn picture(&mut self) -> Picture<'_> {
        self.ledger.picture(&self.version, &self.shape, self.patience, &|_| self.reads, &self.horizon)
    }

    fn apply(&mut self, edit: &TreeEdit) {
        let handle = |table: &Arc<TableDescriptor>| TableFile::new(&self.context, table.clone());
        self.version = self.version.apply(edit, handle).unwrap().version;
    }

    /// One step; returns what it prints.
    fn step(&mut self, line: &str) -> String {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut out = String::new();
        match command {
            "shape" => self.shape = shape(rest),
            "patience" => self.patience = rest.parse().unwrap(),
            "run" => self.add_run(rest),
            "limit" => self.limit(rest),
            "snapshots" => {
                self.horizon.snapshots =
                    rest.split_whitespace().map(|seqno| seqno.parse().unwrap()).collect();
            }
            "visible" => self.horizon.visible = rest.parse().unwrap(),
            "now" => self.horizon.now_ms = rest.parse().unwrap(),
            "awaited" => {
                let Awaited { snapshot, moment_ms } = awaited(&self.picture());
                let snapshot = snapshot.map_or("no snapshot".into(), |seqno| format!("snapshot {seqno}"));
                let moment = moment_ms.map_or("no moment".into(), |moment| format!("moment {moment}"));
                writeln!(out, "{snapshot}, {moment}").unwrap();
            }
            "space" => {
                let uses = space_use(&self.picture());
                let SpaceUse { live_bytes, old_version_bytes, tombstone_bytes, .. } = uses;
                let SpaceUse { expired_bytes, unmerged_bytes, debt_bytes, .. } = uses;
                writeln!(
                    out,
                    "live {live_bytes}, old versions {old_version_bytes}, tombstones {tombstone_bytes}, \
                     expired {expired_bytes}, unmerged {unmerged_bytes}; debt {debt_bytes}"
                )
                .unwrap();
            }
            "reads" => {
                // A first look knows what there is to be paid for before any read.
                self.picture();
                self.reads.unfiltered += rest.parse::<u64>().unwrap();
            }
            "reshape" => {
                let wanted = shape(rest);
                if changes_depth(&self.shape, &wanted) {
                    self.ledger.reshape(Transition::Flexible);
                }
                self.shape = wanted;
            }
            "vain" => {
                self.picture();
                self.reads.filter_negatives += rest.parse::<u64>().unwrap();
            }
            "damage" => self.damage(FileId(rest.parse().unwrap())),
            "hurry" => {
                self.picture();
                self.ledger.hurry(&self.version, &self.shape);
            }
            "overlap" => {
                let share = |word: &str| {
                    let (file, share) = word.split_once('=').unwrap();
                    (FileId(file.parse().unwrap()), share.parse().unwrap())
                };
                let shares = rest.split_whitespace().map(share).collect();
                self.ledger.note_overlap(Overlap::new(&self.version, shares));
            }
            "flushed" => {
                let flushed_seqno = Some(rest.parse().unwrap());
                self.apply(&TreeEdit { flushed_seqno, ..TreeEdit::default() });
            }
            "picture" => return self.picture().to_string(),
            "wants" => {
                let print = |Want { score, level, reason }| format!("level {level}: {score:.3}, {reason}\n");
                return wants(&self.picture()).into_iter().map(print).collect();
            }
            "urgency" => writeln!(out, "{}", urgency(&self.picture())).unwrap(),
            "pick" => match pick(&self.picture()) {
                Some(plan) => writeln!(out, "{plan}").unwrap(),
                None => out += "nothing\n",
            },
            "start" => {
                let plan = pick(&self.picture()).expect("something is due");
                writeln!(out, "{plan}").unwrap();
                let ticket = self.ledger.start(&plan);
                self.running.push((plan, ticket));
            }
            "finish" => {
                let (plan, ticket) = self.running.remove(0);
                self.finish(&plan, ticket);
            }
            "settle" => {
                while let Some(plan) = pick(&self.picture()) {
                    writeln!(out, "{plan}").unwrap();
                    self.carry_out(&plan);
                    assert!(out.len() < 10_000, "plans go on for ever:\n{out}");
                }
                write!(out, "{}", self.version).unwrap();
            }
            "compact" => self.compact(range(rest), &mut out),
            "entrance" => writeln!(out, "{}", entrance(&self.picture(), &range(rest))).unwrap(),
            "enter" => {
                let entrance = entrance(&self.picture(), &range(rest));
                writeln!(out, "{entrance}").unwrap();
                self.ledger.enter(&entrance, &range(rest));
            }
            other => panic!("no step is called {other:?}"),
        }
        out
    }

    fn carry_out(&mut self, plan: &Plan) {
        let ticket = self.ledger.start(plan);
        self.finish(plan, ticket);
    }

    fn finish(&mut self, plan: &Plan, ticket: Ticket) {
        self.ledger.finish(ticket);
        let tables = plan.sources.iter().flat_map(|source| &source.tables).chain(&plan.target.tables);
        let range = tables.clone().map(|table| table.clip().clone()).reduce(|all, clip| all.hull(&clip));
        let deletes = tables.map(|table| table.descriptor().deletes).sum::<u64>();
        let deletes = if plan.drops_tombstones { 0 } else { deletes };
        let output = |range| descriptor(self.next_file, range, plan.work_bytes(), deletes);
        let outputs = match plan.work {
            Work::Move | Work::Drop => Vec::new(),
            Work::Merge => range.map(output).into_iter().collect(),
        };
        self.next_file += outputs.len() as u64;
        let edit = plan.edit(&self.version, &outputs);
        self.apply(&edit);
    }

    fn compact(&mut self, range: KeyRange, out: &mut String) {
        let mut compaction = ManualCompaction::new(&self.version, range);
        loop {
            match compaction.next(&self.picture()) {
                Step::Run(plan) => {
                    writeln!(out, "{plan}").unwrap();
                    self.carry_out(&plan);
                }
                Step::Wait => return *out += "wait\n",
                Step::Done => return write!(out, "done\n{}", self.version).unwrap(),
            }
        }
    }

    /// `LEVEL.RUN: FILE [FIRST LAST] BYTES [deletes]; ...`
    fn add_run(&mut self, text: &str) {
        let (place, tables) = text.split_once(": ").unwrap();
        let (level, run) = place.split_once('.').unwrap();
        let (level, run) = (level.parse().unwrap(), RunId(run.parse().unwrap()));
        let table = |text: &str| {
            let (file, rest) = text.trim().split_once(' ').unwrap();
            let (keys, rest) = rest.split_at(rest.find(']').unwrap() + 1);
            let mut words = rest.split_whitespace();
            let bytes = words.next().unwrap().parse().unwrap();
            let mut table = descriptor(file.parse().unwrap(), range(keys), bytes, 0);
            words.for_each(|word| describe(&mut table, word));
            Added::whole(level, run, table)
        };
        let added = tables.split(';').map(table).collect();
        self.apply(&TreeEdit { added, ..TreeEdit::default() });
    }

    /// `LEVEL LIMIT TRANSITION`.
    fn limit(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let mut shape = self.shape.clone();
        shape.set_run_limit(Some(words[0].parse().unwrap()), words[1].parse().unwrap());
        for change in limit_changes(&self.version, &self.shape, &shape, words[2].parse().unwrap()) {
            self.ledger.change_limit(change);
        }
        self.shape = shape;
    }

    fn damage(&mut self, file: FileId) {
        let table =
            self.version.tables().find(|table| table.id() == file).expect("the table is there").clone();
        let error = Error::corrupt(table.file().path(), 0, "damaged");
        let target = Target { level: 0, run: RunId(1), tables: vec![table.clone()] };
        let plan = Plan {
            range: table.clip().clone(),
            sources: Vec::new(),
            target,
            work: Work::Merge,
            drops_tombstones: false,
            seals: None,
            reason: Reason::Requested,
        };
        assert!(self.ledger.note_damage(&plan, &error));
    }
}

/// `T=10 K=4,1 buffer=1000 table=1000`. Sizes are smaller than any that could be set, so that texts
/// stay short.
fn shape(text: &str) -> Shape {
    let value = |name: &str| {
        let word = text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.unwrap_or_else(|| panic!("{name} of {text:?}"))
    };
    Shape {
        size_ratio: value("T").parse().unwrap(),
        run_limits: value("K").split(',').map(|limit| limit.parse().unwrap()).collect(),
        write_buffer_bytes: value("buffer").parse().unwrap(),
        table_bytes: value("table").parse().unwrap(),
    }
}

/// `deletes`, `deletes=20`, `covers=a-d@9`, `held=5-8:300` (bytes), `expiring=100:300` (moment,
/// bytes), `waits=5-8`, `seqnos=3-9`, `repeated=40`.
fn describe(table: &mut TableDescriptor, word: &str) {
    let (name, value) = word.split_once('=').unwrap_or((word, "1"));
    let number = |text: &str| text.parse::<u64>().unwrap();
    let pair = |text: &str, by: char| text.split_once(by).map(|(a, b)| (number(a), number(b))).unwrap();
    let waste = &mut table.waste;
    match name {
        "deletes" => table.deletes = number(value),
        "seqnos" => (table.seqno_min, table.seqno_max) = pair(value, '-'),
        "repeated" => waste.repeated = number(value),
        "waits" => waste.tombstones_held = Some(pair(value, '-')),
        "held" => {
            let (snapshots, bytes) = value.split_once(':').unwrap();
            let (from, to) = pair(snapshots, '-');
            waste.held.push(Held { from, to, entries: number(bytes) / 10, bytes: number(bytes), apart: 0 });
        }
        "expiring" => {
            let (until_ms, bytes) = pair(value, ':');
            waste.expiring.push(Expiring { until_ms, entries: bytes / 10, bytes, apart: 0 });
        }
        "covers" => {
            let (keys, seqno) = value.split_once('@').unwrap();
            let (start, end) = keys.split_once('-').unwrap();
            let [start, end] = [start, end].map(|key| key.as_bytes().into());
            table.range_tombstones = 1;
            waste.covers.push(Cover { start, end, seqno: number(seqno) });
        }
        _ => panic!("no table has {word:?}"),
    }
}

/// `[FIRST LAST]`.
fn range(text: &str) -> KeyRange {
    let keys = text.trim().strip_prefix('[').and_then(|keys| keys.strip_suffix(']'));
    let (first, last) = keys.and_then(|keys| keys.split_once(' ')).unwrap_or_else(|| panic!("{text:?}"));
    KeyRange::closed(first.as_bytes(), last.as_bytes())
}

fn descriptor(file: u64, range: KeyRange, bytes: u64, deletes: u64) -> TableDescriptor {
    // Ten bytes for an entry, as the writer counts them.
    TableDescriptor {
        file: FileId(file),
        bytes,
        entries: bytes / 10,
        deletes,
        merges: 0,
        range_tombstones: 0,
        range,
        seqno_min: 1,
        seqno_max: 1,
        elided_seqno: 0,
        blocks: 1,
        index_bytes: 0,
        filter_bytes: 0,
        key_bytes: bytes / 10 * 2,
        value_bytes: bytes / 10 * 4,
        filter: Layout::default().filter.mean(),
        layout: Layout::default(),
        waste: Waste::default(),
    }
}

/// The text with what every step prints now.
fn rewritten(text: &str) -> String {
    let mut out = String::new();
    let mut tree = Tree::new();
    for line in text.lines().filter(|line| !line.starts_with('>')) {
        out += line;
        out.push('\n');
        if line.starts_with("== ") {
            tree = Tree::new();
        } else if !line.is_empty() && !line.starts_with('#') {
            tree.step(line).lines().for_each(|printed| writeln!(out, "> {printed}").unwrap());
        }
    }
    out
}

#[test]
fn decisions_are_those_of_the_texts() {
    let mut cases = 0;
    for (name, text) in TEXTS {
        let now = rewritten(text);
        for (line, (was, is)) in text.lines().zip(now.lines()).enumerate() {
            assert_eq!(is, was, "{name}, line {}: left is now, right is the text", line + 1);
        }
        assert_eq!(now.lines().count(), text.lines().count(), "{name}: lines");
        cases += text.lines().filter(|line| line.starts_with("== ")).count();
    }
    assert!(cases >= 40, "{cases} cases");
}

#[test]
#[ignore = "writes the texts anew; look at the difference before you commit it"]
#[expect(clippy::disallowed_methods, reason = "writes source files")]
fn write_the_texts_anew() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compaction/testdata");
    for (name, text) in TEXTS {
        std::fs::write(dir.join(name), rewritten(text)).unwrap();
    }
}

/// Level 0 is due, with four runs, and the plan takes a table of level 1 along.
fn due() -> (Tree, Plan) {
    let mut tree = Tree::new();
    tree.step("shape T=10 K=4,1 buffer=1000 table=1000");
    tree.step("run 1.1: 9 [a z] 5000");
    (1..=4).for_each(|run| drop(tree.step(&format!("run 0.{run}: {run} [a m] 900"))));
    let plan = pick(&tree.picture()).unwrap();
    (tree, plan)
}

#[test]
#[should_panic(expected = "a plan is not sound: run 3 of level 0 is left alone")]
fn a_plan_that_passes_over_a_run_is_not_installed() {
    let (tree, mut plan) = due();
    plan.sources.retain(|source| source.run != RunId(3));
    plan.edit(&tree.version, &[]);
}

#[test]
#[should_panic(expected = "a plan is not sound: the target run 4 is newer than a source")]
fn a_plan_into_a_run_that_is_newer_than_a_source_is_not_installed() {
    let (tree, mut plan) = due();
    plan.target = Target { level: 0, run: RunId(4), tables: Vec::new() };
    plan.edit(&tree.version, &[]);
}

#[test]
#[should_panic(expected = "the target of a plan has changed")]
fn a_plan_whose_target_was_written_anew_meanwhile_is_not_installed() {
    let (mut tree, plan) = due();
    let output = descriptor(100, plan.hull(), 8600, 0);
    let edit = plan.edit(&tree.version, &[output]);
    tree.apply(&edit);
    plan.edit(&tree.version, &[]);
}

#[test]
#[should_panic(expected = "a plan needs what another one has claimed")]
fn two_plans_do_not_begin_with_the_same_keys() {
    let (mut tree, plan) = due();
    tree.ledger.start(&plan);
    tree.ledger.start(&plan);
}
