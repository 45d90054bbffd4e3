//! Looking at a whole table: `Table::check`, which gives a `TableCheck`, and `Table::dump`, text
//! for people.
//!
//! A check reads the file of an open table past the cache. It checks every checksum, the order of
//! keys, and each block's line and fences. It checks where the index leads, and that the filter
//! admits every key. Only if all that is right, it checks the descriptor's sums and range.
//!
//! What must hold: a check believes nothing. It goes on after a problem and lists it, and ends
//! after 100 or so, so that one bad block does not hide the next. An error that is no damage ends
//! it.
//!
//! Callers: `engine::report` (`Db::verify`), `inspect` and `fuzz`.

use super::{
    descriptor::hull,
    fences::Fences,
    reader::{Table, read_footer, read_header},
};
use crate::{
    block::{Block, open},
    error::{Error, Result},
    key::{KeyRange, Kind, hash},
    vfs::read_exact_at,
};
use std::io;

/// A table with more problems than this is not looked at further.
const PROBLEMS_MAX: usize = 100;

/// An index that may name the block behind the right one does so for one key in a thousand; where
/// it does for one in so many, or for more than [`ASTRAY_MIN`] of few keys, it is not what it
/// should be.
const ASTRAY_ONE_IN: u64 = 20;
const ASTRAY_MIN: u64 = 16;

/// What [`Table::check`] found.
#[derive(Clone, Debug, Default)]
pub struct TableCheck {
    /// Data blocks read.
    pub blocks: u64,
    /// Entries looked at.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// What is wrong, in the order of the file; empty if the table is sound.
    pub problems: Vec<Error>,
}

/// What the entries add up to, to be compared with the descriptor.
#[derive(Default)]
struct Sums {
    entries: u64,
    deletes: u64,
    merges: u64,
    key_bytes: u64,
    value_bytes: u64,
    first_key: Vec<u8>,
    /// Of the block before: its last key, and whether its versions are said to go on.
    last_key: Vec<u8>,
    continues: bool,
    /// And its upper fence, if it has one and could be read. Of the block itself, while its fences
    /// are checked.
    upper_fence: Option<Vec<u8>>,
    /// Different keys; and those that the index sends first to a block that is not theirs.
    keys: u64,
    astray: u64,
}

impl Table {
    /// Reads the whole file, past the cache, and checks every checksum, that keys ascend within and
    /// between blocks, that lines are within their error bounds, that index and filter lead to
    /// every key, and that the descriptor's numbers are right.
    ///
    /// # Errors
    /// Only what kept the check from being made; what it finds is in the result.
    pub fn check(&self) -> Result<TableCheck> {
        let mut check = TableCheck { bytes: self.descriptor().bytes, ..TableCheck::default() };
        check.note(read_header(&*self.file).map(drop))?;
        check.note(read_footer(&*self.file, self.binding).map(drop))?;
        check.note(self.check_sections())?;
        let mut sums = Sums::default();
        for number in 0..self.blocks() {
            if check.problems.len() >= PROBLEMS_MAX {
                return Ok(check);
            }
            match self.read(number) {
                Ok(block) => self.check_block(number, &block, &mut sums, &mut check)?,
                Err(error) => check.note(Err(error))?,
            }
            check.blocks += 1;
        }
        check.entries = sums.entries;
        if check.problems.is_empty() {
            check.note(self.check_sums(&sums))?;
        }
        Ok(check)
    }

    fn check_sections(&self) -> Result<()> {
        let footer = &self.footer;
        let starts = [footer.tombstones, footer.filter, footer.index, footer.properties, footer.offset()];
        for section in starts.windows(2) {
            let mut stored = vec![0; (section[1] - section[0]) as usize];
            read_exact_at(&*self.file, &mut stored, section[0])?;
            open(&stored, self.binding, section[0], self.file.path())?;
        }
        Ok(())
    }

    fn check_block(
        &self,
        number: usize,
        block: &Block,
        sums: &mut Sums,
        check: &mut TableCheck,
    ) -> Result<()> {
        let damage = |what: &str| Err(self.damage(number, what));
        if let Err(error) = block.check() {
            check.note(damage(&format!("block {number}: expected {}", error.what)))?;
        }
        let mut key = Vec::new();
        block.key_into(0, &mut key);
        if number > 0 {
            let order = sums.last_key.cmp(&key);
            if order.is_gt() || order.is_eq() != sums.continues {
                check.note(damage(&format!("block {number} does not follow the block before it")))?;
            }
        } else {
            sums.first_key.clone_from(&key);
        }
        let before = std::mem::take(&mut sums.upper_fence);
        match self.fences(number, block) {
            Ok(fences) => {
                let mut upper = Vec::new();
                sums.upper_fence = fences.upper(block, &mut upper).then_some(upper);
                check.note(self.check_fences(number, block, fences, before.as_deref(), sums))?;
            }
            Err(error) => check.note(Err(error))?,
        }
        for i in 0..block.len() {
            block.key_into(i, &mut key);
            if sums.entries == 0 || key != sums.last_key {
                sums.last_key.clone_from(&key);
                if !self.filter().may_contain(hash(&key)) {
                    check.note(damage(&format!("the filter denies key {}", key.escape_ascii())))?;
                }
                sums.keys += 1;
                match self.led_to(&key, number) {
                    Some(begin) => sums.astray += u64::from(begin != number),
                    None => {
                        let key = key.escape_ascii();
                        check.note(damage(&format!("the index does not lead to key {key}")))?;
                    }
                }
            }
            sums.entries += 1;
            sums.deletes += u64::from(block.kind(i) == Kind::Delete);
            sums.merges += u64::from(block.kind(i) == Kind::Merge);
            sums.key_bytes += key.len() as u64;
            sums.value_bytes += block.value(i).len() as u64;
        }
        sums.continues = block.continues();
        Ok(())
    }

    /// The block that a lookup of `key` looks into first, if the index leads it on to block
    /// `number`.
    fn led_to(&self, key: &[u8], number: usize) -> Option<usize> {
        let index = self.index()?;
        let span = index.locate(key, |_| {});
        (span.first() <= number + index.reach() && number <= span.last()).then_some(span.begin)
    }

    /// The fences of a block hold for its keys, and the lower one is above all keys of the block
    /// before, and not above that one's upper fence, if that is known; the first block and the last
    /// have none on their outer side.
    fn check_fences(
        &self,
        number: usize,
        block: &Block,
        fences: Fences,
        before: Option<&[u8]>,
        sums: &Sums,
    ) -> Result<()> {
        let (mut lower, mut last_key) = (Vec::new(), Vec::new());
        if fences.lower(block, &mut lower) != (number > 0) {
            return Err(self.damage(number, "a lower fence before the first block, or none behind another"));
        }
        if number > 0 && lower <= sums.last_key {
            let what = "the block's lower fence is not above the last key of the block before";
            return Err(self.damage(number, what));
        }
        if before.is_some_and(|before| *before < *lower) {
            let what = "the block's lower fence is above the upper one of the block before";
            return Err(self.damage(number, what));
        }
        if sums.upper_fence.is_some() != (number + 1 < self.blocks()) {
            return Err(self.damage(number, "an upper fence that no block follows, or none where one does"));
        }
        block.key_into(block.len() - 1, &mut last_key);
        if sums.upper_fence.as_ref().is_some_and(|upper| last_key >= *upper) {
            return Err(self.damage(number, "the block's last key is not below its upper fence"));
        }
        Ok(())
    }

    fn check_sums(&self, sums: &Sums) -> Result<()> {
        // What was counted when the table was written is what is counted now.
        let counted = self.index().and_then(crate::index::Index::astray);
        if let Some(counted) = counted.filter(|counted| *counted != sums.astray) {
            let astray = sums.astray;
            let what = format!("the index sends {astray} keys to a wrong block first, and says {counted}");
            return Err(Error::corrupt(self.file.path(), self.footer.index, what));
        }
        // An index may name a few blocks, or the one behind; but not of most keys the wrong one.
        let by_one = self.index().is_some_and(|index| index.reach() > 0);
        if by_one && sums.astray > ASTRAY_MIN + sums.keys / ASTRAY_ONE_IN {
            let (astray, keys) = (sums.astray, sums.keys);
            let what = format!("the index sends lookups of {astray} of {keys} keys to a wrong block first");
            return Err(Error::corrupt(self.file.path(), self.footer.index, what));
        }
        let descriptor = self.descriptor();
        let entries = (sums.entries > 0).then(|| KeyRange::closed(&sums.first_key, &sums.last_key));
        let range = hull(entries, self.tombstones().span());
        let found = (sums.entries, sums.deletes, sums.merges, sums.key_bytes, sums.value_bytes);
        let said = (
            descriptor.entries,
            descriptor.deletes,
            descriptor.merges,
            descriptor.key_bytes,
            descriptor.value_bytes,
        );
        if found != said || range.as_ref() != Some(&descriptor.range) {
            return Err(Error::corrupt(
                self.file.path(),
                self.footer.properties,
                "the table's contents are not what its descriptor says",
            ));
        }
        Ok(())
    }

    /// Writes what the table is made of, for people: its descriptor, its range tombstones, and
    /// every entry of every block.
    pub fn dump(&self, out: &mut dyn io::Write) -> Result<()> {
        let failed = |error| Error::io("print", self.file.path(), error);
        let descriptor = self.descriptor();
        let layout = &descriptor.layout;
        (|| {
            writeln!(out, "table {} in {}", descriptor.file, self.file.path().display())?;
            writeln!(
                out,
                "  {} bytes, {} blocks, {} entries ({} deletes, {} merges), {} range tombstones",
                descriptor.bytes,
                descriptor.blocks,
                descriptor.entries,
                descriptor.deletes,
                descriptor.merges,
                descriptor.range_tombstones
            )?;
            writeln!(
                out,
                "  keys {}, sequence numbers {} to {}, elided ones stand for {}",
                descriptor.range, descriptor.seqno_min, descriptor.seqno_max, descriptor.elided_seqno
            )?;
            writeln!(
                out,
                "  index {} (ε {}), {} bytes in the file, {} in memory; filter {}, {} bytes; blocks of {} bytes, {}",
                layout.index,
                layout.epsilon,
                descriptor.index_bytes,
                self.index_bytes(),
                descriptor.filter,
                descriptor.filter_bytes,
                layout.block_bytes,
                layout.compression
            )?;
            if let Some((index, form)) = self.index().and_then(|index| Some((index, index.describe()?))) {
                let astray = index.astray().map_or("not counted".into(), |astray| astray.to_string());
                writeln!(out, "  index form: {form}; keys sent to a wrong block first: {astray}")?;
            }
            let waste = &descriptor.waste;
            for held in &waste.held {
                let (entries, bytes, from, to) = (held.entries, held.bytes, held.from, held.to);
                writeln!(out, "  {entries} old versions, {bytes} bytes, for snapshots from {from} to {to}")?;
            }
            for expiring in &waste.expiring {
                let (entries, bytes, moment) = (expiring.entries, expiring.bytes, expiring.until_ms);
                writeln!(out, "  {entries} entries, {bytes} bytes, expire by {moment} ms")?;
            }
            if let Some((from, to)) = waste.tombstones_held {
                writeln!(out, "  tombstones wait for snapshots from {from} to {to}")?;
            }
            if let Some((index, reason)) = self.index().and_then(|index| Some((index, index.reason()?))) {
                writeln!(out, "  index chosen: {} of {}", index.kind(), reason.escape_debug())?;
            }
            self.tombstones().iter().try_for_each(|tombstone| {
                writeln!(
                    out,
                    "  delete [{} .. {}) @{}",
                    tombstone.start.escape_ascii(),
                    tombstone.end.escape_ascii(),
                    tombstone.seqno
                )
            })
        })()
        .map_err(failed)?;
        for number in 0..self.blocks() {
            let place = self.handles.range(number);
            writeln!(out, "block {number} at {}, {} bytes", place.start, place.end - place.start)
                .map_err(failed)?;
            self.read(number)?.dump(out).map_err(failed)?;
        }
        Ok(())
    }
}

impl TableCheck {
    /// Keeps what is damage; what is not keeps the check from going on.
    fn note(&mut self, found: Result<()>) -> Result<()> {
        match found {
            Err(error @ (Error::Corrupt { .. } | Error::NewerFormat { .. })) => {
                self.problems.push(error);
                Ok(())
            }
            other => other,
        }
    }
}
