//! Turning knobs as a step of a life: `turn`, `refuse` and `kept`.
//!
//! `turn` sets one knob to a random value that `Control::ranges` calls legal, or resets it;
//! `refuse` sets one to what is not. `kept` is for a database that was opened again. It says
//! whether the changes in its history are the last that were made. It also says whether the
//! database and its default keyspace obey them, as far as other knobs and the open let them.
//!
//! `kept` does not see that a history is too short: `crash` checks that itself.
//!
//! What must hold: what is called legal is taken, what is not is refused and changes nothing. Only
//! a reset may be refused, where it does not suit other knobs (`None`). A change may alter how fast
//! an answer comes, never the answer.
//!
//! Callers: `life::world`, `crash`, `program::isolate`.

use crate::random::Random;
use solera::{
    Db, Error,
    control::{Change, Legal, Range, Ranges, Receipt, Value, knob},
};
use solera_tune::attach::WHO;
use std::collections::BTreeSet;

/// Why a knob is what it would be had it never been set.
const RESET: &str = "reset";

/// Sets one knob to a random legal value. Whatever `Control::ranges` calls legal must be taken.
///
/// `None`: it was to be what it would be had it never been set, and that does not suit what other
/// knobs were set to.
pub fn turn(db: &Db, seed: u32) -> solera::Result<Option<Receipt>> {
    let mut random = Random::new(u64::from(seed) ^ 0x74756e65);
    let knobs: Vec<_> = knob::all().collect();
    let knob = *random.pick(&knobs);
    let mut ranges = db.control().ranges().ranges;
    ranges.retain(|range| range.knob == knob);
    let range = random.pick(&ranges);
    let reset = range.is_set && random.one_in(8);
    let change = Change::new("simulator", if reset { RESET } else { "" });
    let change = change.keyspace(range.keyspace.as_deref().unwrap_or("default"));
    let applied = db.control().apply(match range.level {
        level if reset => change.reset(knob, level),
        None => change.set(knob, value(&range.legal, &mut random)),
        Some(level) => change.set_level(knob, level, value(&range.legal, &mut random)),
    });
    match applied {
        Err(Error::Invalid(_)) if reset => Ok(None),
        applied => applied.map(Some),
    }
}

/// A legal value, mostly a small one.
fn value(legal: &Legal, random: &mut Random) -> Value {
    const STEPS: u64 = 1000;
    let mut between =
        |min: f64, max: f64| Value::Number(min + (max - min) * random.length(STEPS) as f64 / STEPS as f64);
    match legal {
        Legal::Whole { min, max } => Value::Number((min + random.length(max - min)) as f64),
        Legal::Real { min, max } => between(*min, *max),
        Legal::ZeroOr { min, max } => match between(*min, *max) {
            Value::Number(number) if number == *min => Value::Number(0.0),
            value => value,
        },
        Legal::Names(names) => (*random.pick(names)).into(),
    }
}

/// Sets a knob to what is not legal. It must be refused, and nothing be changed.
pub fn refuse(db: &Db, seed: u32) -> Result<(), String> {
    let mut random = Random::new(u64::from(seed) ^ 0x726566);
    let before = db.control().ranges();
    let range = random.pick(&before.ranges);
    let illegal = match &range.legal {
        Legal::Whole { min, max } => *random.pick(&[*min as f64 - 1.0, *max as f64 + 1.0, f64::NAN, 2.5]),
        Legal::Real { min, max } | Legal::ZeroOr { min, max } => {
            *random.pick(&[min - 1e6, max + 101.0, f64::NAN])
        }
        Legal::Names(_) => 0.0,
    };
    let change = Change::new("simulator", "").keyspace(range.keyspace.as_deref().unwrap_or("default"));
    let change = match range.level {
        Some(level) => change.set_level(range.knob, level, illegal),
        None => change.set(range.knob, illegal),
    };
    match db.control().apply(change) {
        Err(Error::Invalid(_)) if db.control().ranges() == before => Ok(()),
        Err(Error::Invalid(what)) => Err(format!("{what}; but something was changed")),
        other => {
            Err(format!("{} of level {:?} was set to {illegal}: {other:?}", range.knob.name, range.level))
        }
    }
}

/// Whether a database that was opened again remembers these changes, and obeys the newest of each
/// knob of the default keyspace and of the database.
pub fn kept(db: &Db, receipts: &[Receipt]) -> Result<(), String> {
    let history = db.control().history();
    let remembered = &receipts[receipts.len() - history.len().min(receipts.len())..];
    if history != remembered {
        return Err(format!("the changes {remembered:?} have become {history:?}"));
    }
    let ranges = db.control().ranges();
    let mut seen = BTreeSet::new();
    for (receipt, changed) in
        history.iter().rev().flat_map(|receipt| receipt.changed.iter().map(move |changed| (receipt, changed)))
    {
        let is_newest = seen.insert((&changed.keyspace, &changed.knob));
        if !is_newest || !["", "default"].contains(&&*changed.keyspace) {
            continue;
        }
        let Some(found) = range_now(&ranges, &changed.knob, changed.level)? else { continue };
        // A tuner's receipt does not say which of its sets was a reset.
        let is_set = if receipt.who == WHO { found.is_set } else { receipt.why != RESET };
        if found.is_set != is_set {
            return Err(format!("{changed:?} was the last change of it, but now: {found:?}"));
        }
        let wanted = Value::parse(&changed.new);
        // What later opens gave may narrow what was set.
        let narrowed = match &*changed.knob {
            name if name == knob::RUN_LIMIT.name => {
                let ratio = range_now(&ranges, knob::SIZE_RATIO.name, None)?;
                ratio.is_some_and(|ratio| ratio.value == found.value)
            }
            name if name == knob::WRITE_BUFFER_PERCENT.name => {
                matches!(found.legal, Legal::Real { min, .. } if found.value == min.into())
            }
            _ => false,
        };
        if is_set && found.value != wanted && !narrowed {
            return Err(format!("{changed:?} was the last change of it, but now: {found:?}"));
        }
    }
    Ok(())
}

/// `None` for a level that the database does not have now.
fn range_now<'r>(ranges: &'r Ranges, name: &str, level: Option<u32>) -> Result<Option<&'r Range>, String> {
    let knob = knob::find(name).map_err(|error| error.to_string())?;
    Ok(ranges.find(knob, "default", level))
}
