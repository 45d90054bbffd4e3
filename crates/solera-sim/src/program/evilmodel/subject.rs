//! A table, what it holds, and whether a forged form of it keeps the promises: `Subject`.
//!
//! `new` makes the table of a seed by the engine. `try_out` opens a `Forged` one as the engine
//! does, and asks for keys by lookup and by cursor. It says how many blocks beyond the first the
//! dearest lookup took, and counts the rest in a `Tally`.
//!
//! What must hold: an answer is right, or a clear error (`Error::Corrupt`). The table may also be
//! refused with one when it is opened. A bad hint (`Part::is_a_hint`) must not make a lookup fail.
//! Two wrong answers are only counted: keys that a lying filter hides, and what lying fences lead
//! astray among several blocks. A lookup's extra blocks are bounded here, as the comment of
//! `evilmodel::run` says. Of `BadLine`, each block's line that was loaded is counted as dropped.
//!
//! Callers: `evilmodel::mod`; `evilmodel::search` draws keys by `key`.

use super::{
    Tally,
    model::{Forged, Part},
};
use crate::{forge::Forge, random::Random};
use solera::{
    Db, Error, FilterKind, Filters, IndexKind, KeyspaceOptions, Layout, Options,
    cache::Cache,
    cursor::{Cursor, Probe},
    dir::FileName,
    ids::SEQNO_MAX,
    key::{KeyRange, hash},
    stats::Stats,
    table::{Access, TableContext, TableDescriptor, TableFile, WALK_MAX},
    vfs::mem::MemFs,
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Keys of a subject, and how many kinds of them there are.
const KEYS: u64 = 700;
const FAMILIES: u64 = 7;

/// A table and what it holds.
pub(super) struct Subject {
    /// The table taken apart.
    pub(super) forge: Forge,
    path: std::path::PathBuf,
    truth: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys to ask for: those that are there, and as many beside them.
    pub(super) probes: Vec<Vec<u8>>,
}

impl Subject {
    /// The table of `seed`.
    pub(super) fn new(seed: u64) -> Result<Subject, String> {
        let text = |error: Error| error.to_string();
        let mut random = Random::new(seed);
        let index = IndexKind::ALL[(seed % IndexKind::ALL.len() as u64) as usize];
        let family = seed / IndexKind::ALL.len() as u64 % FAMILIES;
        let truth: BTreeMap<_, _> = (0..KEYS)
            .map(|n| (key(family, n, &mut random), n.to_le_bytes().repeat(1 + n as usize % 4)))
            .collect();
        let fs = MemFs::new();
        let db: Db = Options::new()
            .fs(Arc::new(fs.clone()))
            .seed(seed)
            .background_threads(0)
            .open("/db")
            .map_err(text)?;
        let layout = Layout {
            block_bytes: *random.pick(&[256, 512, 1024]),
            index,
            epsilon: *random.pick(&[1, 4, 64]),
            filter: Filters::default().with_last_level(*random.pick(&FilterKind::ALL)),
            ..Layout::default()
        };
        let space = db.keyspace_with("subject", KeyspaceOptions::new().layout(layout)).map_err(text)?;
        space.ingest(truth.iter()).map_err(text)?;
        let path = fs.files().into_iter().find(|path| path.extension().is_some_and(|end| end == "table"));
        let path = path.ok_or("there is no table")?;
        let forge = Forge::new(&fs.content(&path).map_err(text)?)?;
        let mut probes: Vec<Vec<u8>> = truth.keys().cloned().collect();
        for at in 0..probes.len() {
            let mut near = probes[at].clone();
            match at % 3 {
                0 => near.push(random.next() as u8),
                1 => near.truncate(random.index(near.len())),
                _ => near[random.index(probes[at].len())] ^= 1 << random.below(8),
            }
            probes.push(near);
        }
        probes.extend([vec![], vec![0], vec![0xff; 40]]);
        Ok(Subject { forge, path, truth, probes })
    }

    /// Opens the forged table, asks for keys, some by lookup and some by a cursor, and says how
    /// many blocks beyond the first the dearest lookup looked into.
    pub(super) fn try_out(
        &self,
        forged: &Forged,
        looked_up: &[&Vec<u8>],
        sought: &[&Vec<u8>],
        tally: &mut Tally,
    ) -> Result<u64, String> {
        let part = forged.model.part;
        let (bytes, descriptor) = forged.forge.table(&forged.index());
        let file = self.file(&bytes, descriptor)?;
        let stats = &file.1;
        let table = match file.0.table() {
            Ok(table) => table,
            Err(error) => {
                tally.refused += 1;
                return clear(&error).map(|()| 0);
            }
        };
        let guard = crossbeam_epoch::pin();
        let log2 = forged.forge.blocks.len().ilog2() as u64;
        let mut dearest = 0;
        for &key in looked_up {
            tally.lookups += 1;
            let before = stats.snapshot().blocks_probed;
            let probe = Probe { key, hash: hash(key), snapshot: SEQNO_MAX };
            let found = table.lookup(0, &probe, &guard, |hit| hit.value().to_vec());
            let extra = (stats.snapshot().blocks_probed - before).saturating_sub(1);
            dearest = dearest.max(extra);
            let near = table.index().map_or(0, |index| beside(index, key));
            let search = if part.is_a_hint() && near <= WALK_MAX as u64 { 0 } else { log2 + 2 };
            let most = near.min(WALK_MAX as u64) + search;
            if extra > most {
                let key = key.escape_ascii();
                return Err(format!("key {key}: {extra} extra blocks, at most {most} are allowed"));
            }
            let expected = self.truth.get(key);
            match found {
                Ok(found) if found.as_ref() == expected => {}
                Ok(None) if part == Part::Filter => tally.hidden += 1,
                // Away from the key's block, and there it is not.
                Ok(None) if part == Part::Fences && near > 0 => tally.astray += 1,
                Ok(found) => {
                    let key = key.escape_ascii();
                    return Err(format!("key {key}: {found:?}, expected {expected:?}"));
                }
                Err(error) => {
                    tally.detected += 1;
                    if part.is_a_hint() {
                        let key = key.escape_ascii();
                        return Err(format!("key {key}: an error where a hint was bad: {error}"));
                    }
                    clear(&error)?;
                }
            }
        }
        for &key in sought {
            tally.lookups += 1;
            if let Err(what) = self.seek(&file.0, key) {
                let near = table.index().map_or(0, |index| beside(index, key));
                if part != Part::Fences || near == 0 {
                    return Err(what);
                }
                tally.astray += 1;
            }
        }
        let counters = stats.snapshot();
        let mut forge = forged.forge.clone();
        let blocks = forge.blocks.len();
        let lined = (0..blocks).filter(|&block| forge.buckets_mut(block).is_none()).count();
        let (dropped, read) = (counters.lines_dropped, counters.blocks_read);
        // Where some blocks have lines and others hash indexes, how often each was loaded is not
        // known.
        let is_right = match lined {
            0 => dropped == 0,
            _ if lined == blocks => dropped == read,
            _ => dropped <= read,
        };
        if part == Part::BadLine && !is_right {
            return Err(format!(
                "{lined} of {blocks} blocks have bad lines, {read} were loaded, {dropped} counted as dropped"
            ));
        }
        if part == Part::BadLine {
            tally.dropped += counters.lines_dropped;
        }
        let at = Part::ALL.iter().position(|one| *one == part).unwrap_or(0);
        tally.extra_blocks[at] = tally.extra_blocks[at].max(dearest);
        Ok(dearest)
    }

    /// The first entry from `key` on, by a cursor.
    fn seek(&self, file: &Arc<TableFile>, key: &[u8]) -> Result<(), String> {
        let sought = file.cursor(&KeyRange::all(), Access::Cached(0)).and_then(|mut cursor| {
            cursor.seek(key)?;
            Ok(cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec())))
        });
        match sought {
            Ok(found) => {
                let expected = self.truth.range(key.to_vec()..).next();
                let same = found.as_ref().map(|(key, value)| (key, value)) == expected;
                if same { Ok(()) } else { Err(format!("seek {}: {found:?}", key.escape_ascii())) }
            }
            Err(error) => clear(&error),
        }
    }

    fn file(
        &self,
        bytes: &[u8],
        descriptor: TableDescriptor,
    ) -> Result<(Arc<TableFile>, Arc<Stats>), String> {
        let fs = MemFs::new();
        let path = FileName::Table(descriptor.file).in_dir(Path::new(""));
        debug_assert_eq!(path.file_name(), self.path.file_name());
        fs.set_content(&path, bytes).map_err(|error| error.to_string())?;
        let stats = Arc::new(Stats::new());
        let context = TableContext {
            fs: Arc::new(fs),
            dir: "".into(),
            database: self.forge.database,
            direct_reads: false,
            cache: Cache::new(1 << 22),
            stats: stats.clone(),
            wanted: Arc::default(),
        };
        Ok((TableFile::new(&Arc::new(context), Arc::new(descriptor)), stats))
    }
}

/// How many blocks beside the first an honest index may make a lookup try.
fn beside(index: &solera::index::Index, key: &[u8]) -> u64 {
    let span = index.locate(key, |_| {});
    (span.last() - span.first() + index.reach()) as u64
}

fn clear(error: &Error) -> Result<(), String> {
    match error {
        Error::Corrupt { .. } => Ok(()),
        other => Err(format!("not a clear error: {other:?}")),
    }
}

/// The `n`-th key of a family.
pub(super) fn key(family: u64, n: u64, random: &mut Random) -> Vec<u8> {
    match family {
        0 => (n * 7).to_be_bytes().to_vec(),
        1 => (1_u64 << 40 | (n * n * n)).to_be_bytes().to_vec(),
        2 => random.next().to_be_bytes().to_vec(),
        // Runs of keys that are far from each other, as (hash, line).
        4 => [((n / 40) as u32).wrapping_mul(0x9e37_79b9).to_be_bytes(), (n as u32 % 40).to_be_bytes()]
            .concat(),
        // Gaps of all sizes, each octave equally likely, as in words: positions of 24 bits.
        6 => {
            let gap = |at: u64| 1 << (Random::new(at).next() % 20);
            (0..=n).map(gap).sum::<u64>().to_be_bytes().to_vec()
        }
        3 => format!("a long common beginning, then a number: {:09}", n * 13).into_bytes(),
        _ => format!("user/{}/{}/{}", n % 7, "x".repeat((n % 30) as usize), random.below(1000)).into_bytes(),
    }
}
