//! Solera with the settings that users get by default, under the comparison's memory budget:
//! `Solera`, an `Engine`.
//!
//! It is two engines: `solera` keeps values in tables, `solera-values` keeps large values apart.
//!
//! What must hold: nothing is tuned for the loads. Beside the budget only what `Setting` says is
//! set: direct reads, and LZ4 or no compression (a user's default is LZ4).
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting, VALUES_APART_BYTES};
use solera::{Compression, Db, Layout, Options};

pub struct Solera(Db);

impl Solera {
    /// Opens a database; `values_apart`: large values stay in the log, and are moved to files of
    /// their own range by range.
    pub fn open(setting: &Setting, values_apart: bool) -> Result<Self> {
        let compression = if setting.lz4 { Compression::Lz4 } else { Compression::None };
        let layout = Layout { compression, ..Layout::default() };
        let mut options = Options::new().memory(setting.memory_bytes).layout(layout);
        if values_apart {
            options = options.separate_values_from(VALUES_APART_BYTES.into());
        }
        Ok(Solera(options.direct_reads(setting.direct).open(&setting.directory)?))
    }
}

impl Engine for Solera {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.0.delete(key)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(&self.0)))
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.wait_idle()?)
    }

    fn index_and_filter_bytes(&self) -> Option<(u64, u64)> {
        let stats = self.0.default().stats();
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
