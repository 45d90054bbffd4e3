//! An observation as one JSON object: `Observation::to_json`.
//!
//! `Json` is text that grows, field by field; one function writes each part (keyspace, level,
//! layout, histogram, setting).
//!
//! What must hold: numbers keep the names and units that they have in `Observation`. The text has
//! no line break, so that a stream of observations has one a line. A number that is not finite is
//! `null`. Any name yields valid JSON.
//!
//! Callers: `solera control watch`, and applications (servers, bindings).

use crate::{
    control::{
        KeyspaceObservation, LayoutObservation, LevelObservation, OBSERVATION_VERSION, Observation, Setting,
    },
    knob::Value,
    stats::Histogram,
};
use std::fmt::{Display, Write};

impl Observation {
    /// The observation as one JSON object on one line.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// assert!(db.control().observe().to_json().starts_with(r#"{"version":"#));
    /// # Ok(()) }
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.number("version", OBSERVATION_VERSION);
            json.number("database", self.database.0);
            json.number("opened_unix_ms", self.opened_unix_ms);
            json.number("unix_ms", self.unix_ms);
            json.number("window_us", self.window_us);
            json.number("last_seqno", self.last_seqno);
            json.number("snapshots", self.snapshots);
            json.number("bytes_written_log", self.bytes_written_log);
            json.number("value_reads", self.value_reads);
            json.number("value_bytes_read", self.value_bytes_read);
            json.number("changes", self.changes);
            json.named("memory", self.memory.named());
            json.text("background_failure", self.background_failure.as_deref());
            json.list("settings", &self.settings, setting);
            json.list("keyspaces", &self.keyspaces, keyspace);
        });
        json.text
    }
}

fn setting(json: &mut Json, setting: &Setting) {
    json.text("knob", Some(&setting.knob));
    json.text("keyspace", setting.keyspace.as_deref());
    json.optional("level", setting.level);
    match &setting.value {
        Value::Name(name) => json.text("value", Some(name)),
        Value::Number(number) => json.real("value", *number),
    }
    json.boolean("is_set", setting.is_set);
}

fn keyspace(json: &mut Json, keyspace: &KeyspaceObservation) {
    let mix = keyspace.mix();
    json.text("keyspace", Some(&keyspace.name));
    json.named(
        "mix",
        [
            ("absent_lookups", mix.absent_lookups),
            ("found_lookups", mix.found_lookups),
            ("scans", mix.scans),
            ("entries_written", mix.entries_written),
        ],
    );
    json.field("latencies");
    json.object(|json| {
        for (name, times) in keyspace.latencies.named() {
            json.field(name);
            json.object(|json| histogram(json, times));
        }
    });
    json.named("counters", keyspace.counters.named());
    json.number("memtable_bytes", keyspace.memtable_bytes);
    json.number("memtable_entries", keyspace.memtable_entries);
    json.number("sealed_memtables", keyspace.sealed_memtables);
    json.number("running_plans", keyspace.running_plans);
    json.number("separated_values", keyspace.separated_values);
    json.number("separated_bytes", keyspace.separated_bytes);
    json.named("space", keyspace.space.named());
    json.maybe_real("drain_seconds", keyspace.space.drain_seconds());
    json.field("level0");
    json.object(|json| {
        json.boolean("waits", keyspace.level0.waits);
        json.number("due_runs", keyspace.level0.due_runs);
        json.number("rent_ns", keyspace.level0.rent_ns);
        json.number("price_ns", keyspace.level0.price_ns);
    });
    json.list("levels", &keyspace.levels, level);
    json.list("layouts", &keyspace.layouts, layout);
}

/// How many were timed, three quantiles, and the buckets that hold any: first value, first value
/// beyond, count.
fn histogram(json: &mut Json, times: &Histogram) {
    json.number("timed", times.count());
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        json.optional(name, times.quantile(quantile));
    }
    let buckets: Vec<_> = times.buckets().collect();
    json.field("buckets");
    json.items(&buckets, |json, (values, count)| {
        json.items(&[values.start, values.end, *count], |json, number| json.put(number));
    });
}

fn level(json: &mut Json, level: &LevelObservation) {
    json.number("level", level.level);
    json.number("runs", level.runs);
    json.number("run_limit", level.run_limit);
    json.number("run_limit_wanted", level.run_limit_wanted);
    json.number("tables", level.tables);
    json.number("entries", level.entries);
    json.number("bytes", level.bytes);
    json.number("capacity_bytes", level.capacity_bytes);
    json.real("filter_bits_per_key", level.filter_bits_per_key);
    json.number("tables_probed", level.reads.tables_probed());
    json.number("hits", level.reads.hits());
    json.number("blocks_hit", level.reads.blocks_hit());
    json.number("blocks_read", level.reads.blocks_read());
    json.named("reads", level.reads.named());
    json.named("merges", level.merges.named());
}

fn layout(json: &mut Json, layout: &LayoutObservation) {
    json.text("index", layout.tag.map(|tag| tag.index.name()));
    json.optional("block_bytes", layout.tag.map(|tag| tag.block_bytes));
    json.optional("epsilon", layout.tag.map(|tag| tag.epsilon));
    json.text("filter", layout.tag.map(|tag| tag.filter.name()));
    json.optional("filter_bits_per_key", layout.tag.map(|tag| tag.filter_bits_per_key));
    json.number("tables", layout.tables);
    json.number("entries", layout.entries);
    json.number("bytes", layout.bytes);
    json.named("reads", layout.reads.named());
}

/// JSON text that grows. A caller writes a field of an object as its name, then its value.
#[derive(Default)]
struct Json {
    text: String,
}

impl Json {
    fn put(&mut self, value: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// A comma, unless this is the first of its list or object.
    fn part(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(['{', '[', ':']) {
            self.text.push(',');
        }
    }

    fn object(&mut self, fields: impl FnOnce(&mut Json)) {
        self.text.push('{');
        fields(self);
        self.text.push('}');
    }

    /// A list, each item written by `item`.
    fn items<T>(&mut self, items: &[T], item: impl Fn(&mut Json, &T)) {
        self.text.push('[');
        for one in items {
            self.part();
            item(self, one);
        }
        self.text.push(']');
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for char in text.chars() {
            match char {
                '"' | '\\' => self.text.extend(['\\', char]),
                '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                    self.put(format_args!("\\u{:04x}", u32::from(char)));
                }
                char => self.text.push(char),
            }
        }
        self.text.push('"');
    }

    fn field(&mut self, name: &str) {
        self.part();
        self.string(name);
        self.text.push(':');
    }

    fn number(&mut self, name: &str, number: impl Into<u64>) {
        self.field(name);
        self.put(number.into());
    }

    fn real(&mut self, name: &str, number: f64) {
        self.field(name);
        match number.is_finite() {
            true => self.put(number),
            false => self.text.push_str("null"),
        }
    }

    fn maybe_real(&mut self, name: &str, number: Option<f64>) {
        self.real(name, number.unwrap_or(f64::NAN));
    }

    fn optional(&mut self, name: &str, number: Option<impl Into<u64>>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.text(name, None),
        }
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        self.field(name);
        match text {
            Some(text) => self.string(text),
            None => self.text.push_str("null"),
        }
    }

    fn boolean(&mut self, name: &str, is: bool) {
        self.field(name);
        self.put(is);
    }

    fn named(&mut self, name: &str, numbers: impl IntoIterator<Item = (&'static str, u64)>) {
        self.field(name);
        self.object(|json| numbers.into_iter().for_each(|(name, number)| json.number(name, number)));
    }

    /// A list of objects, the fields of each written by `fields`.
    fn list<T>(&mut self, name: &str, items: &[T], fields: impl Fn(&mut Json, &T)) {
        self.field(name);
        self.items(items, |json, item| json.object(|json| fields(json, item)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_holds_the_text_is_one_line_of_json() {
        let failure = "a \"quoted\" \\ line\nand \u{1}\u{7f}\u{2028} ☃";
        let mut observation = Observation { background_failure: Some(failure.into()), ..Default::default() };
        observation.keyspaces.push(KeyspaceObservation { name: "ключ".into(), ..Default::default() });
        observation.settings.push(Setting {
            knob: "cache_percent".into(),
            keyspace: None,
            level: Some(0),
            value: Value::Number(f64::NAN),
            is_set: true,
        });
        let text = observation.to_json();
        let failure = r#""background_failure":"a \"quoted\" \\ line\u000aand \u0001\u007f\u2028 ☃""#;
        assert!(text.contains(failure), "{text}");
        assert!(
            text.contains(r#"{"knob":"cache_percent","keyspace":null,"level":0,"value":null,"is_set":true}"#)
        );
        assert!(text.contains(r#"{"keyspace":"ключ","mix":{"absent_lookups":0,"#), "{text}");
        assert!(text.ends_with(r#""levels":[],"layouts":[]}]}"#), "{text}");
        assert!(!text.contains('\n') && !text.contains(",,") && !text.contains("{,") && !text.contains("[,"));
    }
}
