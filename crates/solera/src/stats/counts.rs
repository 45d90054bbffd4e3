//! What is counted: the names of the counters, and the counts as plain data.
//!
//! The macro `counts` makes of each list an enum to count by and a struct to show. They are
//! `Counter` and `Counters` (keyspace), `LevelCounter(s)`, `MergeCounter(s)` (work of flushes and
//! merges by level) and `LayoutCounter(s)`. `since` takes a difference, `plus` a sum, `named` gives
//! names.
//! What must hold: counts only grow, so a difference tells what happened in between. But a largest
//! time (`stall_us_max`) has no difference, and a layout's counts can begin anew. A name is never
//! given to another count, since counts are written to files in the order of the lists.
//! Callers: `stats::mod` keeps sums of them; `table`, `db`, `engine` and `compaction::plan` count
//! by the enums. `control` shows and stores the structs; `solera-tune` and `solera-bench` read
//! them.

/// A list of counters, and the plain data that they are shown as. What is `derived` is computed
/// where the counters are read.
macro_rules! counts {
    (
        $(#[$counter_doc:meta])*
        enum $Counter:ident, $COUNT:ident;
        $(#[$counts_doc:meta])*
        struct $Counts:ident;
        counted { $($(#[$doc:meta])* $name:ident => $field:ident,)* }
        derived { $($(#[$derived_doc:meta])* $derived:ident,)* }
    ) => {
        $(#[$counter_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Counter { $($(#[$doc])* $name,)* }

        pub(super) const $COUNT: usize = [$($Counter::$name),*].len();

        $(#[$counts_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $Counts {
            $($(#[$doc])* pub $field: u64,)*
            $($(#[$derived_doc])* pub $derived: u64,)*
        }

        impl $Counts {
            /// The counts that `sums` of the counters are.
            pub(super) fn from_sums(sums: &[u64; $COUNT]) -> Self {
                $Counts { $($field: sums[$Counter::$name as usize],)* ..$Counts::default() }
            }

            /// What was counted since `before`, an earlier moment. No difference is below 0: what
            /// is worked out from several counts may fall back, as they are read while other
            /// threads count.
            pub fn since(&self, before: &Self) -> Self {
                $Counts {
                    $($field: self.$field.saturating_sub(before.$field),)*
                    $($derived: self.$derived.saturating_sub(before.$derived),)*
                }
            }

            /// Whether no count is less than `before`: else what counts began anew in between.
            #[allow(dead_code, reason = "not all counts can begin anew")]
            pub(crate) fn may_follow(&self, before: &Self) -> bool {
                true $(&& self.$field >= before.$field)*
            }

            /// What both counted together.
            pub fn plus(&self, other: &Self) -> Self {
                $Counts {
                    $($field: self.$field.wrapping_add(other.$field),)*
                    $($derived: self.$derived.wrapping_add(other.$derived),)*
                }
            }

            /// Every count with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field),)* $((stringify!($derived), self.$derived),)*].into_iter()
            }

            /// Counts from the numbers that [`Self::named`] gave; those that are missing are 0.
            pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
                let mut numbers = numbers.iter().copied();
                let mut next = || numbers.next().unwrap_or(0);
                // Fields are given their values in the order in which they are written here.
                $Counts { $($field: next(),)* $($derived: next(),)* }
            }
        }
    };
}

counts! {
    /// What is counted for a keyspace as a whole.
    enum Counter, COUNTERS;
    /// The counters of a keyspace at one moment, as plain data.
    struct Counters;
    counted {
        /// Point lookups.
        Gets => gets,
        /// Point lookups that found a value.
        GetsFound => gets_found,
        /// Ends of iterators that were placed: by their first step, or by a seek.
        Scans => scans,
        /// Calls that write, whether they failed or not: single operations, batches, commits of
        /// transactions.
        Writes => writes,
        /// Entries that iterators came to.
        EntriesScanned => entries_scanned,
        /// Bytes read from table files.
        BytesRead => bytes_read,
        /// Entries written by users.
        EntriesWritten => entries_written,
        /// Table bytes written by flushes.
        BytesWrittenFlush => bytes_written_flush,
        /// Table bytes written by compactions.
        BytesWrittenCompaction => bytes_written_compaction,
        /// Log bytes written.
        BytesWrittenLog => bytes_written_log,
        /// Time that writes waited for background work, in microseconds, summed over writes.
        StallUsTotal => stall_us_total,
        /// Writes that waited for background work. One may wait for what many small ones owe.
        Stalls => stalls,
        /// Compactions finished.
        Compactions => compactions,
        /// Flushes finished.
        Flushes => flushes,
        /// Files no longer needed that could not be removed; the next open of the database tries
        /// again.
        FilesNotRemoved => files_not_removed,
        /// Keys that iterators passed because they were gone: deleted, expired, or covered. And
        /// entries that commits passed in ranges that their transactions had read.
        EntriesPassed => entries_passed,
    }
    derived {
        /// Lookups in which a model was of no use and a plain search was made.
        index_fallbacks,
        /// Data blocks whose line was of no use when they were read from a file. Their lookups
        /// search by halving.
        lines_dropped,
        /// Data blocks that lookups and scans had to look into beyond the one where an index's
        /// answer began.
        index_steps,
        /// Data blocks read from a file by lookups and scans.
        blocks_read,
        /// Data blocks found in the cache.
        blocks_hit,
        /// Data blocks that lookups searched.
        blocks_probed,
        /// Filters asked.
        filter_probes,
        /// Filters that said no.
        filter_negatives,
        /// Filters that said yes for a key that the table does not hold.
        filter_false_positives,
        /// Longest time that one write waited for background work, in microseconds. Of no meaning
        /// in a difference.
        stall_us_max,
    }
}

impl Counters {
    /// With the sums of what is counted level by level.
    pub(super) fn with_levels(self, levels: &LevelCounters, stall_us_max: u64) -> Self {
        Counters {
            index_fallbacks: levels.index_fallbacks,
            lines_dropped: levels.lines_dropped,
            index_steps: levels.index_steps,
            blocks_read: levels.blocks_read(),
            blocks_hit: levels.blocks_hit(),
            blocks_probed: levels.blocks_probed(),
            filter_probes: levels.filter_probes(),
            filter_negatives: levels.filter_negatives,
            filter_false_positives: levels.filter_false_positives,
            stall_us_max,
            ..self
        }
    }
}

counts! {
    /// What reads are counted for level by level.
    enum LevelCounter, LEVEL_COUNTERS;
    /// What reads did in one level, as plain data.
    struct LevelCounters;
    counted {
        /// Filters that said no.
        FilterNegatives => filter_negatives,
        /// Filters that said yes.
        FilterPasses => filter_passes,
        /// Filters that said yes for a key that the table does not hold.
        FilterFalsePositives => filter_false_positives,
        /// Lookups in tables without a filter.
        Unfiltered => unfiltered,
        /// Lookups in tables without a filter that found no such key.
        UnfilteredMisses => unfiltered_misses,
        /// Data blocks that a lookup in a table searched beyond its first.
        BlocksBeyond => blocks_beyond,
        /// Data blocks read from a file by lookups.
        LookupBlocksRead => lookup_blocks_read,
        /// Data blocks that scans came to.
        ScanBlocks => scan_blocks,
        /// Data blocks read from a file by scans.
        ScanBlocksRead => scan_blocks_read,
        /// Data blocks that lookups and scans had to look into beyond the one where an index's
        /// answer began.
        IndexSteps => index_steps,
        /// Lookups in which a model was of no use and a plain search was made.
        IndexFallbacks => index_fallbacks,
        /// Data blocks whose line was of no use when they were read from a file.
        LinesDropped => lines_dropped,
    }
    derived {}
}

impl LevelCounters {
    /// Filters asked.
    pub fn filter_probes(&self) -> u64 {
        self.filter_negatives + self.filter_passes
    }

    /// Tables asked: one at most in each run that a lookup came to.
    pub fn tables_probed(&self) -> u64 {
        self.filter_probes() + self.unfiltered
    }

    /// Tables asked for a key that they do not hold: the occasions at which a filter can be of use.
    pub fn misses(&self) -> u64 {
        self.filter_negatives + self.filter_false_positives + self.unfiltered_misses
    }

    /// Tables asked for a key that they hold, in whatever version: at which the lookup usually
    /// ends.
    pub fn hits(&self) -> u64 {
        self.tables_probed().saturating_sub(self.misses())
    }

    /// Data blocks that lookups searched.
    pub fn blocks_probed(&self) -> u64 {
        self.filter_passes + self.unfiltered + self.blocks_beyond
    }

    /// Data blocks read from a file by lookups and scans.
    pub fn blocks_read(&self) -> u64 {
        self.lookup_blocks_read + self.scan_blocks_read
    }

    /// Data blocks that lookups and scans found in the cache, or, of many keys at once, had from
    /// the key before.
    pub fn blocks_hit(&self) -> u64 {
        // Counts are read while other threads count: one that is ahead of the other is no reason to
        // go below 0.
        (self.blocks_probed() + self.scan_blocks).saturating_sub(self.blocks_read())
    }
}

counts! {
    /// What flushes, ingestion and compactions are counted for level by level.
    enum MergeCounter, MERGE_COUNTERS;
    /// What went into one level and out of it, as plain data. Sizes are those of table files; of
    /// tables that count in part they are estimated.
    struct MergeCounters;
    counted {
        /// Bytes written to this level: by flushes, ingestion, and merges that end here.
        BytesIn => bytes_in,
        /// Entries written to this level.
        EntriesIn => entries_in,
        /// Bytes that merges read from this level: those that leave it, and those that are written
        /// anew in it.
        BytesOut => bytes_out,
        /// Entries that merges read from this level.
        EntriesOut => entries_out,
        /// Bytes of tables that came from the level above as they were, neither read nor written.
        BytesMovedIn => bytes_moved_in,
    }
    derived {}
}

counts! {
    /// What reads are counted for layout by layout.
    enum LayoutCounter, LAYOUT_COUNTERS;
    /// What reads did in tables of one layout, as plain data.
    struct LayoutCounters;
    counted {
        /// Lookups that looked into a table: its filter said yes, or it has none.
        Searches => searches,
        /// Data blocks read from a file by lookups and scans.
        BlocksRead => blocks_read,
        /// Data blocks looked into beyond the one where an index's answer began.
        IndexSteps => index_steps,
        /// Searches in which a model was of no use.
        IndexFallbacks => index_fallbacks,
    }
    derived {}
}
