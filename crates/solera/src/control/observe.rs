//! Observing an open database: `observe`, which makes an `Observation`.
//!
//! It adds up what threads have counted, looks at each tree's present view (levels, layouts,
//! memory), and lists settings by `ranges`. `Decided` takes compaction's `Picture`, so that it
//! shows limits in force beside limits wanted, level 0's rent, and what the bytes of tables are.
//!
//! What must hold: it opens no table and reads no file. It takes the work lock to look at a tree,
//! so it holds up no reader or writer for long. A lookup that runs meanwhile is in the counts or
//! not.
//!
//! Callers: `Control::observe`, and through it `control::publish`.

use super::{
    observation::{
        KeyspaceObservation, LayoutObservation, Level0Observation, LevelObservation, MemoryUse, Observation,
        Setting,
    },
    ranges,
};
use crate::{
    compaction::{Picture, SpaceUse, space_use},
    engine::{Core, Garbage, filter_bits_per_key},
    pool::{BLOCKS, CHUNKS},
    stats::{LEVELS_COUNTED, LayoutCounters},
    table::LayoutTag,
    tree::{Tree, View},
    values::ValueFile,
};

pub(super) fn observe(core: &Core) -> Observation {
    let trees = core.trees();
    let mut memory = MemoryUse {
        budget_bytes: core.memory.budget.bytes,
        cache_bytes: core.memory.cache.used() as u64,
        cache_capacity_bytes: core.memory.cache.capacity() as u64,
        kept_bytes: (BLOCKS.kept_bytes() + CHUNKS.kept_bytes()) as u64,
        lent_bytes: core.memory.lent_bytes(),
        ..MemoryUse::default()
    };
    let garbage = Garbage::new(&core.store, &trees, ValueFile::known_space);
    let mut keyspaces = Vec::with_capacity(trees.len());
    for tree in &trees {
        let view = tree.view_owned();
        add_memory(&mut memory, &view);
        keyspaces.push(observe_keyspace(core, tree, &view, &garbage));
    }
    let settings = ranges::ranges(core).ranges.into_iter().map(|range| Setting {
        knob: range.knob.name.into(),
        keyspace: range.keyspace,
        level: range.level,
        value: range.value,
        is_set: range.is_set,
    });
    let (value_reads, value_bytes_read) = core.store.files.values.reads();
    Observation {
        database: core.store.files.database,
        opened_unix_ms: core.opened_unix_ms,
        unix_ms: core.clock().unix_ms(),
        // A simulated clock may be set back.
        window_us: core.clock().monotonic_ns().saturating_sub(core.opened_ns) / 1000,
        last_seqno: core.visible(),
        snapshots: core.store.snapshots.count(),
        bytes_written_log: core.stats.snapshot().bytes_written_log,
        value_reads,
        value_bytes_read,
        changes: core.store.assignments().history().next_back().map_or(0, |receipt| receipt.number),
        memory,
        background_failure: core.work.failure().err().map(|error| error.to_string()),
        settings: settings.collect(),
        keyspaces,
    }
}

fn add_memory(memory: &mut MemoryUse, view: &View) {
    memory.memtable_bytes += view.memtable_bytes();
    for table in view.version.files().filter_map(|table| table.file().opened()) {
        let (index, filter) = (table.index_bytes(), table.filter_bytes());
        memory.index_bytes += index;
        memory.filter_bytes += filter;
        memory.table_bytes += table.memory_bytes().saturating_sub(index + filter);
    }
}

/// What compaction would decide on, and so would stand by.
#[derive(Default)]
struct Decided {
    running_plans: u64,
    level0: Level0Observation,
    space: SpaceUse,
    /// By level.
    run_limits: Vec<u32>,
}

impl Decided {
    fn new(picture: &Picture<'_>) -> Decided {
        let levels = 0..picture.version.levels().len() as u32;
        let level0 = Level0Observation {
            waits: picture.level0.waits(),
            due_runs: picture.level0.due_at(picture.shape.run_limit(0)),
            rent_ns: picture.level0.rent_ns,
            price_ns: picture.level0.price_ns,
        };
        Decided {
            running_plans: picture.claims.len() as u64,
            level0,
            space: space_use(picture),
            run_limits: levels.map(|level| picture.shape.run_limit(level)).collect(),
        }
    }
}

fn observe_keyspace(core: &Core, tree: &Tree, view: &View, garbage: &Garbage) -> KeyspaceObservation {
    let stats = &tree.context.stats;
    // A keyspace that is being dropped has nothing decided for it.
    let decided = core.work.show(tree, view, &core.horizon(), Decided::new).unwrap_or_default();
    KeyspaceObservation {
        id: tree.id,
        name: tree.name.clone(),
        counters: stats.snapshot(),
        latencies: stats.latencies(),
        memtable_bytes: view.memtable_bytes(),
        memtable_entries: view.memtables().map(|memtable| memtable.entries() as u64).sum(),
        sealed_memtables: view.sealed.len() as u64,
        running_plans: decided.running_plans,
        space: garbage.space(tree, &view.version, Some(decided.space)),
        separated_values: view.version.values().iter().map(|(_, live)| live.values).sum(),
        separated_bytes: view.version.values().bytes(),
        level0: decided.level0,
        levels: observe_levels(tree, view, &decided.run_limits),
        layouts: observe_layouts(tree, view),
    }
}

fn observe_levels(tree: &Tree, view: &View, in_force: &[u32]) -> Vec<LevelObservation> {
    let (reads, merges) = (tree.context.stats.levels(), tree.context.stats.merges());
    let shape = &view.settings.shape;
    let observe = |(number, level): (usize, &crate::version::Level)| LevelObservation {
        level: number as u32,
        runs: level.runs().len() as u64,
        tables: level.runs().iter().map(|run| run.tables().len() as u64).sum(),
        entries: level.runs().iter().map(|run| run.entries()).sum(),
        bytes: level.runs().iter().map(|run| run.bytes()).sum(),
        capacity_bytes: shape.capacity_bytes(number as u32),
        run_limit: in_force.get(number).copied().unwrap_or_else(|| shape.run_limit(number as u32)),
        run_limit_wanted: shape.run_limit(number as u32),
        filter_bits_per_key: filter_bits_per_key(level),
        reads: reads[number.min(LEVELS_COUNTED - 1)],
        merges: merges[number.min(LEVELS_COUNTED - 1)],
    };
    view.version.levels().iter().enumerate().map(observe).collect()
}

/// What was counted by layout, and what tables there are of each.
fn observe_layouts(tree: &Tree, view: &View) -> Vec<LayoutObservation> {
    let mut layouts: Vec<LayoutObservation> = Vec::new();
    let mut add = |tag: Option<LayoutTag>, tables, entries, bytes, reads: LayoutCounters| {
        let number = layouts.iter().position(|layout| layout.tag == tag);
        let number = number.unwrap_or_else(|| {
            layouts.push(LayoutObservation { tag, ..LayoutObservation::default() });
            layouts.len() - 1
        });
        let layout = &mut layouts[number];
        layout.tables += tables;
        layout.entries += entries;
        layout.bytes += bytes;
        layout.reads = layout.reads.plus(&reads);
    };
    for table in view.version.tables() {
        let tag = table.file().layout_tag();
        add(Some(tag), 1, table.entries(), table.bytes(), LayoutCounters::default());
    }
    for (number, reads) in tree.context.stats.layouts() {
        add(number.and_then(LayoutTag::from_number), 0, 0, 0, reads);
    }
    // Nothing is to be said of those that are gone and were of no use; `None` comes last.
    layouts.retain(|layout| layout.tables > 0 || layout.reads != LayoutCounters::default());
    layouts.sort_by_key(|layout| layout.tag.map_or(u64::MAX, LayoutTag::to_number));
    layouts
}
