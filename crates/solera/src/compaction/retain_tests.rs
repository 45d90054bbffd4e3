//! Tests of `retain` against brute force: no reader can tell that a job ran.
//!
//! A property makes every kind of history (puts, deletes, operands, expiries, range deletes), cuts
//! it into sources, and lets a job merge some of them. What each snapshot reads before and after
//! must be equal, with operators that combine, refuse to combine, or refuse to merge. Each entry is
//! kept or dropped once. Regression tests: elided numbers above older range tombstones, long chains
//! of operands, deletes at the bottom that an open transaction needs.

use super::retain::{Entry, Readers, Retain, Sink, Why};
use crate::{
    error::Result,
    ids::{SEQNO_MAX, Seqno},
    key::{Kind, split_expiry},
    operator::{Append, Max, MergeOperator},
    pin::Slice,
    sight::Reader,
    tombstone::{RangeTombstone, RangeTombstones},
};
use proptest::prelude::*;
use std::sync::Arc;

const KEYS: u8 = 5;

#[derive(Clone, Debug)]
enum Op {
    Put(u8),
    Expiring(u8, u64),
    Delete(u8),
    Merge(u8),
    DeleteRange(u8, u8),
}

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    key: u8,
    seqno: Seqno,
    kind: Kind,
    value: Vec<u8>,
}

/// Entries by key, newest first, and tombstones.
#[derive(Clone, Debug, Default)]
struct Source {
    entries: Vec<Owned>,
    tombstones: Vec<RangeTombstone>,
}

/// What a reader gets: a value, or, if no operator can merge, what there is to merge.
#[derive(Debug, PartialEq)]
enum View {
    Value(Option<Vec<u8>>),
    Unmerged(Option<Vec<u8>>, Vec<Vec<u8>>),
}

/// Appends, but cannot combine operands.
struct Reluctant;
impl MergeOperator for Reluctant {
    fn name(&self) -> &str {
        "reluctant"
    }
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Append.merge(key, base, operands)
    }
}

/// Never merges.
struct Refusing;
impl MergeOperator for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }
    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>, String> {
        Err("no".into())
    }
}

type Operator = Option<Arc<dyn MergeOperator>>;

fn operators() -> impl Strategy<Value = Operator> {
    let some = |operator: Arc<dyn MergeOperator>| Just(Some(operator));
    prop_oneof![
        1 => Just(None),
        3 => some(Arc::new(Append)),
        1 => some(Arc::new(Reluctant)),
        1 => some(Arc::new(Refusing)),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..KEYS;
    let op = prop_oneof![
        3 => key.clone().prop_map(Op::Put),
        1 => (key.clone(), 0u64..40).prop_map(|(key, moment)| Op::Expiring(key, moment)),
        2 => key.clone().prop_map(Op::Delete),
        4 => key.clone().prop_map(Op::Merge),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::DeleteRange(a.min(b), a.max(b) + 1)),
    ];
    prop::collection::vec(op, 1..40)
}

/// The history as sources. `cuts[key]` are the sequence numbers at which the key's versions pass
/// from one source to the next older one, descending.
fn sources(ops: &[Op], cuts: &[Vec<Seqno>]) -> Vec<Source> {
    let mut sources = vec![Source::default(); cuts[0].len() + 1];
    let rank = |key: u8, seqno: Seqno| cuts[key as usize].partition_point(|&cut| cut >= seqno);
    for (at, op) in ops.iter().enumerate().rev() {
        let seqno = at as Seqno + 1;
        let value = vec![at as u8];
        let (key, kind, value) = match *op {
            Op::Put(key) => (key, Kind::Put, value),
            Op::Expiring(key, moment) => {
                (key, Kind::PutExpiring, [&moment.to_be_bytes()[..], &value].concat())
            }
            Op::Delete(key) => (key, Kind::Delete, vec![]),
            Op::Merge(key) => (key, Kind::Merge, value),
            Op::DeleteRange(a, b) => {
                let keys: Vec<u8> = (a..b).collect();
                for same in keys.chunk_by(|&a, &b| rank(a, seqno) == rank(b, seqno)) {
                    let end = same[same.len() - 1] + 1;
                    let tombstone = RangeTombstone { start: [same[0]].into(), end: [end].into(), seqno };
                    sources[rank(same[0], seqno)].tombstones.push(tombstone);
                }
                continue;
            }
        };
        sources[rank(key, seqno)].entries.push(Owned { key, seqno, kind, value });
    }
    for source in &mut sources {
        source.entries.sort_by_key(|entry| entry.key);
    }
    sources
}

/// No entry and no range tombstone is older. Elided numbers read as 0, which stands for the oldest.
fn oldest_of(sources: &[Source]) -> Seqno {
    let entries = sources.iter().flat_map(|source| &source.entries).map(|entry| entry.seqno);
    let tombstones = sources.iter().flat_map(|source| &source.tombstones).map(|tombstone| tombstone.seqno);
    entries.chain(tombstones).min().unwrap_or(0)
}

/// What a writer does to a source without range tombstones.
fn elide(source: &mut Source, oldest: Seqno) {
    if source.tombstones.is_empty() {
        source.entries.iter_mut().filter(|entry| entry.seqno <= oldest).for_each(|entry| entry.seqno = 0);
    }
}

fn view(
    sources: &[Source],
    key: u8,
    snapshot: Seqno,
    now: u64,
    operator: Option<&dyn MergeOperator>,
) -> View {
    let mut operands = Vec::new();
    let mut base = None;
    let mut hidden = false;
    'search: for source in sources {
        let cover = source.tombstones.iter().filter(|t| t.seqno <= snapshot && t.contains(&[key]));
        let cover = cover.map(|t| t.seqno).max();
        for entry in source.entries.iter().filter(|entry| entry.key == key && entry.seqno <= snapshot) {
            if hidden || cover.is_some_and(|seqno| seqno > entry.seqno) {
                break 'search;
            }
            match entry.kind {
                Kind::Merge => operands.push(entry.value.clone()),
                Kind::Delete => break 'search,
                Kind::Put => {
                    base = Some(entry.value.clone());
                    break 'search;
                }
                Kind::PutExpiring => {
                    let (moment, value) = split_expiry(&entry.value).unwrap();
                    base = (moment > now).then(|| value.to_vec());
                    break 'search;
                }
                Kind::PutSeparated | Kind::PutExpiringSeparated => unreachable!("none is written"),
            }
        }
        hidden |= cover.is_some();
    }
    if operands.is_empty() {
        return View::Value(base);
    }
    operands.reverse();
    let slices: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
    match operator.map(|operator| operator.merge(&[key], base.as_deref(), &slices)) {
        Some(Ok(value)) => View::Value(Some(value)),
        _ => View::Unmerged(base, operands),
    }
}

/// What a job says of its entries and range tombstones.
#[derive(Debug, Default)]
struct Told {
    /// All that comes out, in its order.
    out: Vec<Owned>,
    /// What of it was made.
    made: Vec<Owned>,
    dropped: Vec<(Owned, Why)>,
    dropped_tombstones: Vec<(RangeTombstone, Why)>,
}

impl Sink for Told {
    fn keep(&mut self, entry: Entry<'_>) -> Result<()> {
        self.out.push(owned(entry));
        Ok(())
    }
    fn made(&mut self, entry: Entry<'_>) -> Result<()> {
        self.made.push(owned(entry));
        self.keep(entry)
    }
    fn dropped(&mut self, entry: Entry<'_>, why: Why) -> Result<()> {
        self.dropped.push((owned(entry), why));
        Ok(())
    }
    fn next_key(&mut self) {}
    fn dropped_tombstone(&mut self, tombstone: &RangeTombstone, why: Why) {
        self.dropped_tombstones.push((tombstone.clone(), why));
    }
}

fn owned(entry: Entry<'_>) -> Owned {
    let Entry { key, seqno, kind, value } = entry;
    Owned { key: key[0], seqno, kind, value: value.to_vec() }
}

fn reader(now_ms: u64, operator: &Operator) -> Reader {
    Reader { snapshot: SEQNO_MAX, now_ms, operator: operator.clone(), values: None }
}

/// The job: merge by (key, rank, position), retain. Also what it said.
fn told_job(inputs: &[Source], readers: Readers<'_>, reader: &Reader) -> (Source, Told) {
    let tombstones =
        inputs.iter().map(|source| Arc::new(RangeTombstones::new(source.tombstones.clone()))).collect();
    let mut retain = Retain::new(readers, reader, tombstones, Told::default());
    for key in 0..KEYS {
        for (rank, source) in inputs.iter().enumerate() {
            for entry in source.entries.iter().filter(|entry| entry.key == key) {
                let Owned { seqno, kind, value, .. } = entry;
                let entry = Entry { key: &[key], seqno: *seqno, kind: *kind, value };
                retain.add(rank, entry, || Slice::copy_from(value)).unwrap();
            }
        }
    }
    let tombstones = retain.take_tombstones().iter().collect();
    let told = retain.finish().unwrap();
    (Source { entries: told.out.clone(), tombstones }, told)
}

fn job(inputs: &[Source], readers: Readers<'_>, operator: &Operator) -> Source {
    told_job(inputs, readers, &reader(0, operator)).0
}

/// What an entry is, but for its number, which a job may raise.
fn content(entry: &Owned) -> (u8, u8, Vec<u8>) {
    (entry.key, entry.kind as u8, entry.value.clone())
}

/// Every entry that went in was kept or dropped, once, and every range tombstone is left in part or
/// was dropped.
fn accounts(inputs: &[Source], output: &Source, told: &Told, now: u64) -> Result<(), TestCaseError> {
    let mut went_in: Vec<_> = inputs.iter().flat_map(|source| &source.entries).map(content).collect();
    let mut accounted: Vec<_> = told.out.iter().map(content).collect();
    for made in told.made.iter().map(content) {
        let at = accounted.iter().position(|kept| *kept == made);
        accounted.remove(at.expect("what was made comes out"));
    }
    accounted.extend(told.dropped.iter().map(|(entry, _)| content(entry)));
    went_in.sort();
    accounted.sort();
    prop_assert_eq!(accounted, went_in, "{:#?}", told);
    for (entry, why) in &told.dropped {
        let expired = split_expiry(&entry.value).is_some_and(|(moment, _)| moment <= now);
        let possible = match why {
            Why::Expired => entry.kind == Kind::PutExpiring && expired,
            Why::Folded => entry.kind != Kind::PutExpiring,
            Why::Bottom => entry.kind == Kind::Delete,
            Why::Shadowed | Why::Covered => true,
        };
        prop_assert!(possible, "{:?} is {:?}", entry, why);
    }
    let folded = told.dropped.iter().any(|(entry, why)| *why == Why::Folded && entry.kind == Kind::Merge);
    let expired = told.dropped.iter().any(|(_, why)| *why == Why::Expired);
    for made in &told.made {
        prop_assert!(if made.kind == Kind::Delete { expired } else { folded }, "{:?} of nothing", made);
    }
    for tombstone in inputs.iter().flat_map(|source| &source.tombstones) {
        let left = output.tombstones.iter().any(|left| {
            left.seqno == tombstone.seqno && left.start < tombstone.end && tombstone.start < left.end
        });
        let dropped = told.dropped_tombstones.iter().filter(|(dropped, _)| dropped == tombstone).count();
        let same = inputs.iter().flat_map(|source| &source.tombstones).filter(|same| *same == tombstone);
        prop_assert_eq!(dropped, if left { 0 } else { same.count() }, "{:?}", tombstone);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_reader_can_tell_that_a_job_ran(
        ops in ops(),
        cuts in prop::collection::vec(prop::collection::vec(0u64..40, 4), KEYS as usize),
        snapshots in prop::collection::btree_set(0u64..40, 0..4),
        first in 0usize..5,
        count in 1usize..6,
        elided: [bool; 5],
        elided_output: bool,
        now in 0u64..40,
        operator in operators(),
        has_transaction: bool,
    ) {
        let visible = ops.len() as Seqno;
        let snapshots: Vec<Seqno> = snapshots.into_iter().filter(|&s| s < visible).collect();
        let oldest = snapshots.first().copied().unwrap_or(visible);
        let mut cuts = cuts;
        cuts.iter_mut().for_each(|cuts| cuts.sort_by(|a, b| b.cmp(a)));

        let truth = sources(&ops, &vec![vec![]; KEYS as usize]);
        let mut before = sources(&ops, &cuts);
        for (source, _) in before.iter_mut().zip(elided).filter(|(_, elided)| *elided) {
            elide(source, oldest);
        }
        let last = (first + count).min(before.len());
        let is_empty = |source: &Source| source.entries.is_empty() && source.tombstones.is_empty();
        let drops_tombstones = before[last..].iter().all(is_empty);
        let readers = Readers {
            snapshots: &snapshots,
            drops_tombstones,
            oldest_transaction: if has_transaction { oldest } else { visible },
            oldest_input: oldest_of(&before[first..last]),
        };
        let (mut output, told) = told_job(&before[first..last], readers, &reader(now, &operator));
        accounts(&before[first..last], &output, &told, now)?;
        let whole = output.clone();
        if elided_output {
            elide(&mut output, oldest);
        }
        let after = [&before[..first], &[output], &before[last..]].concat();

        for &snapshot in snapshots.iter().chain([&visible]) {
            for key in 0..KEYS {
                for now in [now, now + 1, 100] {
                    let expected = view(&truth, key, snapshot, now, operator.as_deref());
                    prop_assert_eq!(&view(&before, key, snapshot, now, operator.as_deref()), &expected, "the model");
                    let found = view(&after, key, snapshot, now, operator.as_deref());
                    prop_assert_eq!(&found, &expected, "key {} at {}: {:#?}", key, snapshot, &after);
                }
            }
        }

        let descend = |pair: &[Owned]| pair[0].key < pair[1].key || pair[0].seqno >= pair[1].seqno;
        prop_assert!(whole.entries.windows(2).all(descend), "{:#?}", whole.entries);

        // And it kept no more than it must.
        if snapshots.is_empty() && drops_tombstones {
            prop_assert_eq!(whole.tombstones.len(), 0);
            let merges = operator.is_some_and(|operator| operator.name() != "refusing");
            for key in 0..KEYS {
                let kinds: Vec<Kind> =
                    whole.entries.iter().filter(|entry| entry.key == key).map(|entry| entry.kind).collect();
                let expires = kinds.last() == Some(&Kind::PutExpiring);
                prop_assert!(kinds.len() <= 1 || expires || !merges, "{:?}", kinds);
                prop_assert!(!kinds.contains(&Kind::Delete) || !merges, "{:?}", kinds);
            }
        }
    }
}

fn entry(key: u8, seqno: Seqno, kind: Kind, value: &[u8]) -> Owned {
    Owned { key, seqno, kind, value: value.to_vec() }
}

fn delete_range(start: u8, end: u8, seqno: Seqno) -> RangeTombstone {
    RangeTombstone { start: [start].into(), end: [end].into(), seqno }
}

const ALONE: Readers<'static> =
    Readers { snapshots: &[], drops_tombstones: false, oldest_transaction: SEQNO_MAX, oldest_input: 0 };

/// Symptom: a key written after a range delete vanished when its level was merged into the one
/// below. Cause: its number had been elided to 0 before, and the range tombstone of the older input
/// looked newer than it in the common output. Cure: such an entry takes the tombstone's number.
#[test]
fn an_elided_entry_stays_above_the_range_tombstone_of_an_older_source() {
    let newer = Source { entries: vec![entry(1, 0, Kind::Put, b"new")], tombstones: vec![] };
    let older = Source { entries: vec![], tombstones: vec![delete_range(0, 4, 50)] };
    let output = job(&[newer, older], ALONE, &None);
    assert_eq!(output.entries, [entry(1, 50, Kind::Put, b"new")]);
    assert_eq!(view(&[output], 1, 100, 0, None), View::Value(Some(b"new".to_vec())));
}

#[test]
fn a_long_chain_of_operands_is_combined_into_one() {
    let chain: Vec<Owned> = (0..1000).rev().map(|i| entry(1, i + 1, Kind::Merge, &[i as u8])).collect();
    let input = Source { entries: chain, tombstones: vec![] };
    let output = job(&[input], ALONE, &Some(Arc::new(Append)));
    let whole: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    assert_eq!(output.entries, [entry(1, 1000, Kind::Merge, &whole)]);
}

/// Symptom: 64 operands of 8 MiB of one key took 1.8 GiB in a merge. Cause: all of them were held,
/// combined in pairs, folded, and written as one value. Cure: no more wait than are worth it; older
/// ones are folded by themselves, and newer ones stay above.
#[test]
fn large_operands_are_not_all_held_at_once_and_say_the_same() {
    let large = |n: u8| vec![n; 8 << 20];
    let mut chain: Vec<Owned> =
        (1..=6).rev().map(|n| entry(1, 10 + n, Kind::Merge, &large(n as u8))).collect();
    chain.push(entry(1, 5, Kind::Put, b"base"));
    let output = job(&[Source { entries: chain, tombstones: vec![] }], ALONE, &Some(Arc::new(Append)));
    let made: Vec<_> = output.entries.iter().map(|entry| (entry.seqno, entry.kind)).collect();
    assert_eq!(made, [(16, Kind::Merge), (14, Kind::Merge), (12, Kind::Put)]);
    assert!(output.entries.iter().all(|entry| entry.value.len() <= (16 << 20) + 4));
    let whole: Vec<u8> = output.entries.iter().rev().flat_map(|entry| entry.value.iter().copied()).collect();
    assert!(whole == [&b"base"[..], &(1..=6).flat_map(large).collect::<Vec<_>>()].concat());
    // What was made is too large to be folded onto again.
    let again = [&output.entries[..1], &output.entries[2..]].concat();
    let output = job(&[Source { entries: again, tombstones: vec![] }], ALONE, &Some(Arc::new(Append)));
    assert_eq!(output.entries.len(), 2);
}

/// Symptom: 64 operands of 8 MiB of which the largest counts took 122 MiB under 64. Cause: a job
/// held two of them and what they amount to while it wrote that. Cure: two become one as they are
/// met.
#[test]
fn of_large_operands_of_which_the_largest_counts_a_job_holds_one() {
    let operator: Operator = Some(Arc::new(Max));
    for base in [None, Some(b"\x01")] {
        let reader = reader(0, &operator);
        let mut retain = Retain::new(ALONE, &reader, vec![Arc::default()], Told::default());
        for n in (1..=6u8).rev() {
            let value = vec![n ^ 3; 2 << 20];
            let entry = Entry { key: &[1], seqno: Seqno::from(10 + n), kind: Kind::Merge, value: &value };
            retain.add(0, entry, || Slice::copy_from(&value)).unwrap();
            let told = if n == 6 { 0 } else { usize::from(7 - n) };
            assert_eq!(retain.sink().dropped.len(), told, "those before became part of one");
        }
        if let Some(base) = base {
            let entry = Entry { key: &[1], seqno: 5, kind: Kind::Put, value: base };
            retain.add(0, entry, || Slice::copy_from(base)).unwrap();
        }
        let told = retain.finish().unwrap();
        let kind = if base.is_some() { Kind::Put } else { Kind::Merge };
        assert!(told.out == [entry(1, 16, kind, &[7; 2 << 20])] && told.made == told.out);
        assert_eq!(told.dropped.len(), 6 + usize::from(base.is_some()), "each is accounted for once");
    }
}

/// Symptom: a transaction committed although a key that it had found absent was written meanwhile
/// (`solera-sim diffmodel`, seed 11). Cause: the write was a delete, and a compaction to the bottom
/// dropped it together with its number. Cure: a delete goes only if every open transaction is
/// newer.
#[test]
fn a_delete_at_the_bottom_goes_unless_a_transaction_is_older() {
    let input = || Source { entries: vec![entry(1, 9, Kind::Delete, b"")], tombstones: vec![] };
    let bottom = Readers { drops_tombstones: true, ..ALONE };
    let since = |oldest_transaction| {
        let readers = Readers { snapshots: &[oldest_transaction], oldest_transaction, ..bottom };
        job(&[input()], readers, &None).entries
    };
    assert_eq!(since(5), input().entries);
    assert_eq!(since(9), []);
}

/// Symptom: 1,000 puts and 1,000 deletes after them left 1,000 entries at the bottom as long as a
/// snapshot lived that was older than both. Cause: a delete newer than any snapshot stayed, though
/// only a transaction asks for it. Cure: only those that are newer than an open transaction stay,
/// and those that hide something.
#[test]
fn a_delete_goes_together_with_the_put_that_it_hides_though_a_snapshot_is_older_than_both() {
    let input = Source {
        entries: vec![entry(1, 9, Kind::Delete, b""), entry(1, 7, Kind::Put, b"x")],
        tombstones: vec![delete_range(0, 4, 8)],
    };
    let bottom = Readers { drops_tombstones: true, snapshots: &[5], oldest_input: 6, ..ALONE };
    let output = job(std::slice::from_ref(&input), bottom, &None);
    assert_eq!((output.entries, output.tombstones), (vec![], vec![]));

    // A snapshot between the two sees the put: both stay, and the range tombstone hides nothing
    // older.
    let output = job(&[input], Readers { snapshots: &[5, 7], ..bottom }, &None);
    assert_eq!(output.entries.len(), 2, "{output:?}");
}
