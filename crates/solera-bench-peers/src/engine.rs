//! What every engine must do to be measured: the traits `Engine`, an open database, and `Reader`.
//! `Setting` is what an engine is opened with, `Asked` what a run sets of it beside that.
//!
//! What must hold:
//! - All engines get the same `Setting`. An adapter leaves out what its engine cannot obey.
//! - The traits are small, so that no adapter can hide work in them.
//! - A reader hands values over where they lie, so the traits ask no engine for a copy.
//!
//! It also has two numbers that adapters share: entries of a transaction, and the length from which
//! values are kept apart.
//!
//! Callers: the files in `engines` implement both traits; the phases in `child` call them. The
//! whole crate uses its `Result`.

use std::{path::PathBuf, str::FromStr};

/// Whatever an engine says went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of a call to an engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Entries of one transaction of an engine that has no cheaper way to write than a transaction.
pub const TRANSACTION_ENTRIES: usize = 1000;

/// What an engine is opened with. The same for all.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A directory that is empty, or has what the same engine left there.
    pub directory: PathBuf,
    /// What caches, write buffers, indexes and filters may take together, in bytes. LMDB keeps its
    /// data in the system's page cache and cannot be told.
    pub memory_bytes: u64,
    /// Bytes of all keys and values that will be loaded.
    pub data_bytes: u64,
    /// Whether tables are read past the system's page cache, by the engines that can.
    pub direct: bool,
    /// Whether data blocks are compressed with LZ4, by the engines that can.
    pub lz4: bool,
    /// At most so many readers are there at the same time.
    pub readers: usize,
    /// Whether it is opened to be scanned from end to end. An engine may tell the system.
    pub to_scan: bool,
    /// Settings of the engine's own that this run asks for, by name; see [`Asked`].
    pub asked: Asked,
}

/// Settings of an engine's own that a run asks for instead of what its adapter would set. Which
/// there are is the adapter's to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked(Vec<(String, String)>);

impl Asked {
    /// An engine's name, and what is asked for: `NAME`, or `NAME:SETTING=VALUE+SETTING=VALUE`.
    pub fn of(text: &str) -> Result<(&str, Asked)> {
        let Some((name, settings)) = text.split_once(':') else { return Ok((text, Asked::default())) };
        let one = |setting: &str| -> Result<(String, String)> {
            let (name, value) =
                setting.split_once('=').ok_or_else(|| format!("{setting:?} is no NAME=VALUE"))?;
            Ok((name.into(), value.into()))
        };
        Ok((name, Asked(settings.split('+').map(one).collect::<Result<_>>()?)))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    /// The value of this one, if it is asked for.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some((_, value)) = self.all().find(|(asked, _)| *asked == name) else { return Ok(None) };
        Ok(Some(value.parse().map_err(|_| format!("{value:?} cannot be the value of {name}"))?))
    }

    /// Refuses what is not among these.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        match self.all().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(format!("no setting {name:?} here; there are {known:?}").into()),
            None => Ok(()),
        }
    }
}

/// Arms that keep values apart from keys do so with values of so many bytes or more, all alike: the
/// engines' own defaults differ, and some would leave values of 1 KiB where they are.
pub const VALUES_APART_BYTES: u32 = 256;

/// An open database.
pub trait Engine: Send + Sync {
    /// Writes one pair. A process that is killed right after does not lose it; a machine that loses
    /// power may.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes one key.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Writes many pairs in this order. Where the only way to write is a transaction, it may write
    /// [`TRANSACTION_ENTRIES`] in one.
    fn put_all(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        for (key, value) in pairs {
            self.put(key, value)?;
        }
        Ok(())
    }
    /// Something to read with. It may see the moment of its making for ever.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;
    /// Whether a reader sees what is written after its making.
    fn reader_is_live(&self) -> bool {
        true
    }
    /// Returns when flushes and compactions that are due are done.
    fn settle(&self) -> Result<()>;
    /// Bytes that indexes and filters take, if the engine tells: (indexes, filters).
    fn index_and_filter_bytes(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Reads one database. Values are handed over where they lie: no engine is charged for a copy.
pub trait Reader {
    /// Hands over the value of `key`; false if there is none.
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool>;
    /// Hands over the values of those of the `keys` that are there, with their places among them.
    fn multi_get(&mut self, keys: &[&[u8]], value: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            self.get(key, &mut |bytes| value(i, bytes))?;
        }
        Ok(())
    }
    /// Hands over up to `limit` entries from `from` on, ascending; or, backwards, from the last key
    /// on, descending. Returns how many there were.
    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_may_be_asked_for_with_settings_of_its_own() {
        let (name, asked) = Asked::of("rocksdb-blob:cutoff=0.1+buffer=2097152").unwrap();
        assert_eq!(name, "rocksdb-blob");
        assert_eq!(asked.get::<f64>("cutoff").unwrap(), Some(0.1));
        assert_eq!(asked.get::<usize>("buffer").unwrap(), Some(2 << 20));
        assert_eq!(asked.get::<usize>("other").unwrap(), None);
        assert!(asked.get::<usize>("cutoff").is_err());
        assert!(asked.only(&["cutoff", "buffer", "more"]).is_ok());
        assert!(asked.only(&["cutoff"]).is_err());
        assert_eq!(Asked::of("fjall").unwrap(), ("fjall", Asked::default()));
        assert!(Asked::of("fjall:").is_err() && Asked::of("fjall:a=1+b").is_err());
    }
}
