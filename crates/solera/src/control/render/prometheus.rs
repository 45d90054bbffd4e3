//! An observation in the text format that Prometheus scrapes (version 0.0.4):
//! `Observation::to_prometheus`.
//!
//! A count is a counter (`solera_gets_total{keyspace="default"}`), with its unit before the end
//! (`solera_read_bytes_total`). Times are seconds, latencies are histograms. Labels tell levels,
//! layouts and keyspaces apart. `Families` gathers the samples of one name.
//!
//! What must hold: samples of a name stand together and have one type. Scrape an observation of the
//! whole opening, not a difference: Prometheus takes differences itself.
//!
//! Callers: applications that serve metrics, and `solera control watch`.

use crate::{
    control::{KeyspaceObservation, LayoutObservation, LevelObservation, Observation, Setting},
    knob::Value,
    stats::Histogram,
    table::LayoutTag,
};
use std::fmt::Write;

/// Bounds of the buckets of latencies, as powers of two of a nanosecond: 256 ns to 17 s, each twice
/// the one before.
const BUCKET_BITS: std::ops::RangeInclusive<u32> = 8..=34;
const NS: f64 = 1e-9;
const US: f64 = 1e-6;
const MS: f64 = 1e-3;

impl Observation {
    /// The observation in Prometheus's text format. Latencies are of one operation in 128; their
    /// sums are taken from the middles of fine buckets, and are true to 1/32.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.get(b"key")?;
    /// let text = db.control().observe().to_prometheus();
    /// assert!(text.contains("\nsolera_gets_total{keyspace=\"default\"} 1\n"));
    /// # Ok(()) }
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut families = Families::default();
        families.gauge("solera_opened_timestamp_seconds", &[], self.opened_unix_ms as f64 * MS);
        families.gauge("solera_observed_timestamp_seconds", &[], self.unix_ms as f64 * MS);
        families.gauge("solera_database_info", &[("database", &self.database.to_string())], 1.0);
        families.gauge("solera_last_sequence_number", &[], self.last_seqno as f64);
        families.gauge("solera_snapshots", &[], self.snapshots as f64);
        families.counter("solera_log_written_bytes_total", &[], self.bytes_written_log as f64);
        families.counter("solera_value_reads_total", &[], self.value_reads as f64);
        families.counter("solera_value_read_bytes_total", &[], self.value_bytes_read as f64);
        families.counter("solera_knob_changes_total", &[], self.changes as f64);
        let failed = f64::from(u8::from(self.background_failure.is_some()));
        families.gauge("solera_background_failed", &[], failed);
        for (name, bytes) in self.memory.named() {
            families.gauge(&format!("solera_memory_{name}"), &[], bytes as f64);
        }
        self.settings.iter().for_each(|setting| families.setting(setting));
        self.keyspaces.iter().for_each(|keyspace| families.keyspace(keyspace));
        families.to_text()
    }
}

/// The samples of one name, which have to stand together.
struct Family {
    name: String,
    kind: &'static str,
    /// What stands behind the name, its labels among it, and the value.
    samples: Vec<(String, f64)>,
}

/// All families, in the order in which they were first named.
#[derive(Default)]
struct Families {
    families: Vec<Family>,
}

type Labels<'l> = [(&'static str, &'l str)];

impl Families {
    fn sample(&mut self, name: &str, kind: &'static str, sample: String, value: f64) {
        let at = self.families.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.families.push(Family { name: name.to_owned(), kind, samples: Vec::new() });
            self.families.len() - 1
        });
        assert_eq!(self.families[at].kind, kind, "{name} has two types");
        self.families[at].samples.push((sample, value));
    }

    fn gauge(&mut self, name: &str, labels: &Labels<'_>, value: f64) {
        self.sample(name, "gauge", braced(labels), value);
    }

    fn counter(&mut self, name: &str, labels: &Labels<'_>, value: f64) {
        self.sample(name, "counter", braced(labels), value);
    }

    /// Counts under the names that [`metric`] makes of theirs.
    fn counts(
        &mut self,
        prefix: &str,
        labels: &Labels<'_>,
        counts: impl Iterator<Item = (&'static str, u64)>,
    ) {
        for (name, count) in counts {
            let (name, kind, unit) = metric(prefix, name);
            self.sample(&name, kind, braced(labels), count as f64 * unit);
        }
    }

    fn histogram(&mut self, name: &str, labels: &Labels<'_>, times: &Histogram) {
        let below = |bound: u64| {
            let whole = times.buckets().filter(|(values, _)| values.end <= bound);
            whole.map(|(_, count)| count).sum::<u64>()
        };
        for bits in BUCKET_BITS {
            let bound = format!("{}", (1u64 << bits) as f64 * NS);
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            let count = below(1 << bits) as f64;
            self.sample(name, "histogram", format!("_bucket{}", braced(&labels)), count);
        }
        let all = times.count() as f64;
        let rest: Vec<_> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.sample(name, "histogram", format!("_bucket{}", braced(&rest)), all);
        let sum = times.mean().unwrap_or(0.0) * all * NS;
        self.sample(name, "histogram", format!("_sum{}", braced(labels)), sum);
        self.sample(name, "histogram", format!("_count{}", braced(labels)), all);
    }

    fn setting(&mut self, setting: &Setting) {
        let level = setting.level.map_or(String::new(), |level| level.to_string());
        let keyspace = setting.keyspace.as_deref().unwrap_or("");
        let labels = [("knob", &*setting.knob), ("keyspace", keyspace), ("level", &*level)];
        match &setting.value {
            Value::Number(number) => self.gauge("solera_setting", &labels, *number),
            Value::Name(name) => {
                let labels: Vec<_> = labels.into_iter().chain([("value", &**name)]).collect();
                self.gauge("solera_setting_info", &labels, 1.0);
            }
        }
    }

    fn keyspace(&mut self, keyspace: &KeyspaceObservation) {
        let labels = [("keyspace", &*keyspace.name)];
        self.counts("solera", &labels, keyspace.counters.named());
        for (name, times) in keyspace.latencies.named() {
            let name = name.strip_suffix("_ns").unwrap_or(name);
            self.histogram(&format!("solera_{name}_seconds"), &labels, times);
        }
        let level0 = &keyspace.level0;
        for (name, value) in [
            ("solera_memtable_bytes", keyspace.memtable_bytes as f64),
            ("solera_memtable_entries", keyspace.memtable_entries as f64),
            ("solera_sealed_memtables", keyspace.sealed_memtables as f64),
            ("solera_running_plans", keyspace.running_plans as f64),
            ("solera_separated_values", keyspace.separated_values as f64),
            ("solera_separated_bytes", keyspace.separated_bytes as f64),
            ("solera_level0_waits", f64::from(u8::from(level0.waits))),
            ("solera_level0_due_runs", f64::from(level0.due_runs)),
            ("solera_level0_rent_seconds", level0.rent_ns as f64 * NS),
            ("solera_level0_price_seconds", level0.price_ns as f64 * NS),
        ] {
            self.gauge(name, &labels, value);
        }
        for (name, bytes) in keyspace.space.named() {
            self.gauge(&format!("solera_space_{name}"), &labels, bytes as f64);
        }
        if let Some(seconds) = keyspace.space.drain_seconds() {
            self.gauge("solera_drain_seconds", &labels, seconds);
        }
        keyspace.levels.iter().for_each(|level| self.level(&keyspace.name, level));
        keyspace.layouts.iter().for_each(|layout| self.layout(&keyspace.name, layout));
    }

    fn level(&mut self, keyspace: &str, level: &LevelObservation) {
        let number = level.level.to_string();
        let labels = [("keyspace", keyspace), ("level", &*number)];
        for (name, value) in [
            ("solera_level_runs", level.runs as f64),
            ("solera_level_run_limit", f64::from(level.run_limit)),
            ("solera_level_run_limit_wanted", f64::from(level.run_limit_wanted)),
            ("solera_level_tables", level.tables as f64),
            ("solera_level_entries", level.entries as f64),
            ("solera_level_bytes", level.bytes as f64),
            ("solera_level_capacity_bytes", level.capacity_bytes as f64),
            ("solera_level_filter_bits_per_key", level.filter_bits_per_key),
        ] {
            self.gauge(name, &labels, value);
        }
        self.counts("solera_level", &labels, level.reads.named());
        self.counts("solera_level_merge", &labels, level.merges.named());
    }

    fn layout(&mut self, keyspace: &str, layout: &LayoutObservation) {
        let number = |of: fn(LayoutTag) -> u32| layout.tag.map_or(String::new(), |tag| of(tag).to_string());
        let (block_bytes, epsilon) = (number(|tag| tag.block_bytes), number(|tag| tag.epsilon));
        let bits = number(|tag| tag.filter_bits_per_key.into());
        let labels = [
            ("keyspace", keyspace),
            ("index", layout.tag.map_or("other", |tag| tag.index.name())),
            ("block_bytes", &*block_bytes),
            ("epsilon", &*epsilon),
            ("filter", layout.tag.map_or("", |tag| tag.filter.name())),
            ("filter_bits_per_key", &*bits),
        ];
        for (name, value) in [
            ("solera_layout_tables", layout.tables),
            ("solera_layout_entries", layout.entries),
            ("solera_layout_bytes", layout.bytes),
        ] {
            self.gauge(name, &labels, value as f64);
        }
        self.counts("solera_layout", &labels, layout.reads.named());
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for Family { name, kind, samples } in &self.families {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for (sample, value) in samples {
                let _ = writeln!(text, "{name}{sample} {value}");
            }
        }
        text
    }
}

/// The name, type and unit of a count: `bytes_read` is the counter `PREFIX_read_bytes_total`, and
/// `stall_us_total` is `PREFIX_stall_seconds_total`. What only ever is the largest so far is a
/// gauge.
fn metric(prefix: &str, name: &str) -> (String, &'static str, f64) {
    if let Some(of) = name.strip_prefix("bytes_") {
        (format!("{prefix}_{of}_bytes_total"), "counter", 1.0)
    } else if let Some(of) = name.strip_suffix("_us_total") {
        (format!("{prefix}_{of}_seconds_total"), "counter", US)
    } else if let Some(of) = name.strip_suffix("_us_max") {
        (format!("{prefix}_{of}_max_seconds"), "gauge", US)
    } else {
        (format!("{prefix}_{name}_total"), "counter", 1.0)
    }
}

/// `{name="value",...}`; nothing if there are no labels.
fn braced(labels: &Labels<'_>) -> String {
    let label = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.iter().map(label).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let name = |name| metric("solera", name).0;
        assert_eq!(name("gets"), "solera_gets_total");
        assert_eq!(name("bytes_written_flush"), "solera_written_flush_bytes_total");
        assert_eq!(name("stall_us_total"), "solera_stall_seconds_total");
        assert_eq!(metric("solera", "stall_us_max"), ("solera_stall_max_seconds".into(), "gauge", US));
    }

    #[test]
    fn buckets_of_a_histogram_add_up() {
        let mut times = Histogram::default();
        [100, 300, 300, 5000, 1 << 40].into_iter().for_each(|ns| times.record(ns));
        let mut families = Families::default();
        families.histogram("solera_scan_seconds", &[("keyspace", "a\"b\\c\nd")], &times);
        let text = families.to_text();
        let of = r#"keyspace="a\"b\\c\nd""#;
        assert!(text.starts_with("# TYPE solera_scan_seconds histogram\n"));
        for (bound, count) in [("0.000000256", 1), ("0.000000512", 3), ("0.000008192", 4), ("+Inf", 5)] {
            let line = format!("solera_scan_seconds_bucket{{{of},le=\"{bound}\"}} {count}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains(&format!("solera_scan_seconds_count{{{of}}} 5\n")));
    }
}
