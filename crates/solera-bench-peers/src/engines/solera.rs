//! Solera with the settings that users get by default, under the comparison's memory budget:
//! `Solera`, an `Engine`.
//!
//! It is three engines (`Way`): `solera` keeps values in tables, `solera-values` keeps large values
//! apart, and `solera-owned` reads the other way: into a buffer, and by the ordinary iterator.
//!
//! What must hold: nothing is tuned for the loads. Beside the budget only direct reads and
//! compression are set, as `Setting` says: LZ4 or none (a user's default is LZ4). `solera-values`
//! also sets from which length values are kept apart.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting, VALUES_APART_BYTES};
use solera::{Compression, Db, Layout, Options, Reclaim};

/// How it keeps values, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A get returns a slice, and a walk lends entries.
    Plain,
    /// [`Way::Plain`]; large values stay in the log, and are moved to files of their own range by
    /// range.
    ValuesApart,
    /// A get fills a buffer, and a walk is the ordinary iterator, whose entries are the caller's.
    Owned,
}

pub struct Solera {
    db: Db,
    way: Way,
}

impl Solera {
    pub fn open(setting: &Setting, way: Way) -> Result<Self> {
        let compression = if setting.lz4 { Compression::Lz4 } else { Compression::None };
        let layout = Layout { compression, ..Layout::default() };
        let mut options = Options::new().memory(setting.memory_bytes).layout(layout);
        if way == Way::ValuesApart {
            options = options.separate_values_from(VALUES_APART_BYTES.into());
        }
        setting.asked.only(&["reclaim", "background_threads"])?;
        if let Some(name) = setting.asked.get::<String>("reclaim")? {
            let named = Reclaim::ALL.into_iter().find(|way| way.name() == name);
            options = options.reclaim(named.ok_or_else(|| format!("no way to reclaim is called {name:?}"))?);
        }
        if let Some(threads) = setting.asked.get("background_threads")? {
            options = options.background_threads(threads);
        }
        Ok(Solera { db: options.direct_reads(setting.direct).open(&setting.directory)?, way })
    }
}

impl Engine for Solera {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(match self.way {
            Way::Owned => Box::new(Owning { db: &self.db, value: Vec::new() }),
            _ => Box::new(Reading(&self.db)),
        })
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_idle()?)
    }

    fn index_and_filter_bytes(&self) -> Option<(u64, u64)> {
        let stats = self.db.default().stats();
        Some((stats.index_bytes, stats.filter_bytes))
    }
}

struct Reading<'a>(&'a Db);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.0.get(key)?;
        found.iter().for_each(|slice| value(slice));
        Ok(found.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], value: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, found) in self.0.multi_get(keys)?.iter().enumerate() {
            found.iter().for_each(|slice| value(i, slice));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut count = 0;
        if backwards {
            let mut entries = self.0.iter();
            while count < limit && entries.advance_back()? {
                entry(entries.key(), entries.value());
                count += 1;
            }
        } else {
            let mut entries = self.0.range(from..);
            while count < limit && entries.advance()? {
                entry(entries.key(), entries.value());
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Reads by the calls whose results are the caller's own.
struct Owning<'a> {
    db: &'a Db,
    value: Vec<u8>,
}

impl Reader for Owning<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.db.get_into(key, &mut self.value)?;
        if found {
            value(&self.value);
        }
        Ok(found)
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut count = 0;
        let mut take = |pair: solera::Result<(solera::Slice, solera::Slice)>| -> Result<()> {
            let (key, value) = pair?;
            entry(&key, &value);
            count += 1;
            Ok(())
        };
        if backwards {
            self.db.iter().rev().take(limit).try_for_each(&mut take)?;
        } else {
            self.db.range(from..).take(limit).try_for_each(&mut take)?;
        }
        Ok(count)
    }
}
