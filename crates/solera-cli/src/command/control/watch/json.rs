//! A look as JSON: every number under its name, units in the names.

use serde_json::{Map, Value as Json, json};
use solera::control::{
    Histogram, KeyspaceObservation, LayoutObservation, LevelObservation, OBSERVATION_VERSION, Observation,
    Setting, Value,
};
use std::time::Duration;

/// The observation, with how old it is if it is too old to be true any more.
pub(super) fn observation(window: &Observation, stale: Option<Duration>) -> Json {
    json!({
        "version": OBSERVATION_VERSION,
        "database": window.database.0,
        "opened_unix_ms": window.opened_unix_ms,
        "unix_ms": window.unix_ms,
        "window_us": window.window_us,
        "stale_ms": stale.map(|age| age.as_millis() as u64),
        "last_seqno": window.last_seqno,
        "snapshots": window.snapshots,
        "bytes_written_log": window.bytes_written_log,
        "changes": window.changes,
        "memory": named(window.memory.named()),
        "background_failure": window.background_failure,
        "settings": window.settings.iter().map(setting).collect::<Vec<_>>(),
        "keyspaces": window.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
    })
}

fn named(numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Json {
    numbers.into_iter().map(|(name, number)| (name.to_owned(), number.into())).collect::<Map<_, _>>().into()
}

fn setting(setting: &Setting) -> Json {
    let value = match &setting.value {
        Value::Name(name) => json!(name),
        number => number.whole().map_or_else(|| json!(number.number()), |whole| json!(whole)),
    };
    json!({
        "knob": setting.knob,
        "keyspace": setting.keyspace,
        "level": setting.level,
        "value": value,
        "is_set": setting.is_set,
    })
}

fn keyspace(keyspace: &KeyspaceObservation) -> Json {
    let mix = keyspace.mix();
    let latencies = keyspace.latencies.named().map(|(name, times)| (name.to_owned(), histogram(times)));
    json!({
        "keyspace": keyspace.name,
        "mix": {
            "absent_lookups": mix.absent_lookups,
            "found_lookups": mix.found_lookups,
            "scans": mix.scans,
            "entries_written": mix.entries_written,
        },
        "latencies": latencies.into_iter().collect::<Map<_, _>>(),
        "counters": named(keyspace.counters.named()),
        "memtable_bytes": keyspace.memtable_bytes,
        "memtable_entries": keyspace.memtable_entries,
        "sealed_memtables": keyspace.sealed_memtables,
        "levels": keyspace.levels.iter().map(level).collect::<Vec<_>>(),
        "layouts": keyspace.layouts.iter().map(layout).collect::<Vec<_>>(),
    })
}

/// How many were timed, three quantiles, and the buckets that hold any: first value, first value beyond, count.
fn histogram(times: &Histogram) -> Json {
    json!({
        "timed": times.count(),
        "p50": times.quantile(0.5),
        "p99": times.quantile(0.99),
        "p999": times.quantile(0.999),
        "buckets": times.buckets().map(|(values, count)| [values.start, values.end, count]).collect::<Vec<_>>(),
    })
}

fn level(level: &LevelObservation) -> Json {
    json!({
        "level": level.level,
        "runs": level.runs,
        "run_limit": level.run_limit,
        "tables": level.tables,
        "entries": level.entries,
        "bytes": level.bytes,
        "capacity_bytes": level.capacity_bytes,
        "filter_bits_per_key": level.filter_bits_per_key,
        "tables_probed": level.reads.tables_probed(),
        "hits": level.reads.hits(),
        "blocks_hit": level.reads.blocks_hit(),
        "blocks_read": level.reads.blocks_read(),
        "reads": named(level.reads.named()),
        "merges": named(level.merges.named()),
    })
}

fn layout(layout: &LayoutObservation) -> Json {
    json!({
        "index": layout.tag.map(|tag| tag.index.name()),
        "block_bytes": layout.tag.map(|tag| tag.block_bytes),
        "filter": layout.tag.map(|tag| tag.filter.name()),
        "filter_bits_per_key": layout.tag.map(|tag| tag.filter_bits_per_key),
        "tables": layout.tables,
        "entries": layout.entries,
        "bytes": layout.bytes,
        "reads": named(layout.reads.named()),
    })
}
