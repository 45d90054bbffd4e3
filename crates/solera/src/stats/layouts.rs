//! Which layouts reads are counted for: `Layouts`, which gives each layout of open tables a row of
//! counters.
//!
//! There are 16 rows: 15 for a layout each, and the last for all that come when those are taken.
//! `enter` gives an open table its row, `leave` takes the table back, `counts` subtracts what a row
//! had when it was given out. A layout is a number here, made by `table::counted`.
//!
//! What must hold: a row of its own goes to another layout only once no open table has the one
//! before. It then begins at 0 again.
//!
//! Caller: `Stats` (`enter_layout`, `leave_layout`, `layouts`).

use super::counts::{LAYOUT_COUNTERS, LayoutCounters};
use parking_lot::Mutex;

/// Layouts that are counted for themselves; those that come when all rows are taken are counted
/// together, in the last. A level rarely has tables of more than two.
pub const LAYOUTS_COUNTED: usize = 16;
/// The row of layouts that found no other.
const OTHERS: usize = LAYOUTS_COUNTED - 1;

/// A row, and whose it is.
#[derive(Debug)]
struct Row {
    layout: u64,
    /// Open tables of the layout.
    tables: u64,
    /// What the counters said when the layout was given the row.
    before: LayoutCounters,
}

/// Whose the rows are.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    rows: Mutex<Vec<Row>>,
}

/// What the counters of all rows say.
pub(super) type Sums = [[u64; LAYOUT_COUNTERS]; LAYOUTS_COUNTED];

impl Layouts {
    /// One more open table of `layout`: its row.
    pub(super) fn enter(&self, layout: u64, sums: impl FnOnce() -> Sums) -> usize {
        let mut rows = self.rows.lock();
        if let Some(number) = rows.iter().position(|row| row.layout == layout) {
            rows[number].tables += 1;
            return number;
        }
        let mut row = Row { layout, tables: 1, before: LayoutCounters::default() };
        if rows.len() < OTHERS {
            // Mostly there is one layout, and of ten thousand keyspaces each has its rows.
            rows.reserve_exact(1);
            rows.push(row);
            return rows.len() - 1;
        }
        let Some(number) = rows.iter().position(|row| row.tables == 0) else { return OTHERS };
        row.before = LayoutCounters::from_sums(&sums()[number]);
        rows[number] = row;
        number
    }

    /// One table less in row `number`.
    pub(super) fn leave(&self, number: usize) {
        if let Some(row) = self.rows.lock().get_mut(number) {
            row.tables -= 1;
        }
    }

    /// What was counted for each layout; `None` is all that found no row.
    pub(super) fn counts(&self, sums: &Sums) -> Vec<(Option<u64>, LayoutCounters)> {
        let rows = self.rows.lock();
        let of_rows = rows.iter().zip(sums).map(|(row, sums)| {
            let now = LayoutCounters::from_sums(sums);
            (Some(row.layout), now.since(&row.before))
        });
        let others = LayoutCounters::from_sums(&sums[OTHERS]);
        of_rows.chain((others != LayoutCounters::default()).then_some((None, others))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_to_another_layout_when_no_table_has_it_and_begins_at_nothing() {
        let layouts = Layouts::default();
        let mut sums: Sums = Default::default();
        for layout in 0..OTHERS as u64 {
            assert_eq!(layouts.enter(layout, || unreachable!()), layout as usize);
        }
        assert_eq!(layouts.enter(3, || unreachable!()), 3);
        assert_eq!(layouts.enter(100, || sums), OTHERS);
        sums[OTHERS][0] = 9;
        sums[3][0] = 7;
        layouts.leave(3);
        assert_eq!(layouts.enter(101, || sums), OTHERS, "a table of layout 3 is still open");
        layouts.leave(OTHERS);
        layouts.leave(3);
        assert_eq!(
            layouts.counts(&sums)[3].1.searches,
            7,
            "what was counted is not lost with the last table"
        );
        assert_eq!(layouts.enter(101, || sums), 3);
        sums[3][0] = 12;
        let counts = layouts.counts(&sums);
        assert_eq!((counts[3].0, counts[3].1.searches), (Some(101), 5));
        let last = counts.last().unwrap();
        assert_eq!((last.0, last.1.searches), (None, 9));
    }
}
