//! What may be changed while the database runs: `KnobId`, `Knob` (its description), `Value`, and
//! `Legal` values. `Scope` says what one setting concerns: the database, a keyspace or a level.
//!
//! `TreeKnob`, `LayoutKnob` and `MemoryKnob` say which part keeps the value. The macro `numbers`
//! gives each knob its number on disk; the comment of `KnobId` lists the files that a knob
//! concerns. A change goes one way: control, check, record, obey.
//!
//! What must hold: a knob may change the speed of answers, never the answers. A number is never
//! given to another knob.
//! Callers: `engine::descriptions` describes; `tree::settings`, `table::layout` and
//! `engine::memory` obey; `control` and `engine::assignments` set; `inspect` prints.
//! `solera-tune`, `solera-bench`, `solera-sim` and `solera-cli` name them.

use std::{fmt, ops::RangeInclusive};

/// A knob that a tree obeys. `tree::Settings` keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeKnob {
    /// T.
    SizeRatio,
    /// K_i.
    RunLimit,
    /// Runs at which level 0 is merged though reads have not paid for it.
    Level0Patience,
    /// How a level comes to a new run limit.
    Transition,
    /// From how many bytes on values are kept apart from their entries.
    SeparateFrom,
    /// How tables are written.
    Layout(LayoutKnob),
}

/// A knob of how tables are written, which every level may have otherwise. `table::Layout` keeps
/// its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayoutKnob {
    /// B.
    BlockBytes,
    /// How the block of a key is found.
    Index,
    /// ε.
    Epsilon,
    /// Bits of filter for a key.
    FilterBitsPerKey,
}

/// A knob of how the memory is split. `engine::Split` keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKnob {
    /// M_b.
    WriteBufferPercent,
    /// M_f.
    FilterPercent,
    /// M_c.
    CachePercent,
}

/// A knob.
///
/// | file | what it says of a knob |
/// |---|---|
/// | `knob.rs` | that it exists, and its number |
/// | `engine/descriptions.rs` | its name, range, default and meaning, for the user |
/// | `tree/settings.rs`, `table/layout.rs`, `engine/memory.rs` | its value: one `get`, one `set` |
/// | `control/change.rs` | what a user or tuner wants to be changed |
/// | `control/check.rs` | whether that is legal |
/// | `engine/assignments.rs` | what was set: recorded, then obeyed |
/// | `control/ranges.rs` | what is, and what may be, for the user |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KnobId {
    /// One of every keyspace.
    Tree(TreeKnob),
    /// One of the database.
    Memory(MemoryKnob),
}

/// All knobs with their numbers on disk. A knob that is not in the list does not compile.
macro_rules! numbers {
    ($($number:literal => $group:ident($($knob:tt)+),)*) => {
        impl KnobId {
            /// All knobs.
            pub const ALL: &'static [KnobId] = &[$(KnobId::$group($($knob)+)),*];

            /// Its number on disk.
            pub const fn number(self) -> u32 {
                match self {
                    $(KnobId::$group($($knob)+) => $number,)*
                }
            }
        }
    };
}

numbers! {
    1 => Tree(TreeKnob::SizeRatio),
    2 => Tree(TreeKnob::RunLimit),
    3 => Tree(TreeKnob::Level0Patience),
    4 => Tree(TreeKnob::Layout(LayoutKnob::BlockBytes)),
    5 => Tree(TreeKnob::Layout(LayoutKnob::Index)),
    6 => Tree(TreeKnob::Layout(LayoutKnob::Epsilon)),
    7 => Tree(TreeKnob::Layout(LayoutKnob::FilterBitsPerKey)),
    8 => Tree(TreeKnob::Transition),
    9 => Memory(MemoryKnob::WriteBufferPercent),
    10 => Memory(MemoryKnob::FilterPercent),
    11 => Memory(MemoryKnob::CachePercent),
    12 => Tree(TreeKnob::SeparateFrom),
}

impl KnobId {
    /// The knob of this number; `None` if this release has none.
    pub fn from_number(number: u32) -> Option<KnobId> {
        KnobId::ALL.iter().copied().find(|knob| knob.number() == number)
    }
}

/// What one setting of a knob concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The database.
    Database,
    /// One keyspace.
    Keyspace,
    /// One level of a keyspace, or all of its levels that are meant when none is named.
    Level,
}

impl Scope {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Database => "database",
            Scope::Keyspace => "keyspace",
            Scope::Level => "level",
        }
    }
}

/// What a knob is called, means, and may be set to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Knob {
    /// Which knob it is.
    pub id: KnobId,
    /// Its name: never given to another knob.
    pub name: &'static str,
    /// What it is set for.
    pub scope: Scope,
    /// Unit of its numbers; empty for counts and names.
    pub unit: &'static str,
    /// What it may ever be set to; what it may be set to now can be less.
    pub legal: Legal,
    /// What it is when it has not been set.
    pub default: &'static str,
    /// When a change is felt.
    pub effect: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Whether it stands for alternatives that experiments compare, of which users need only the
    /// default.
    pub experiment: bool,
}

impl Knob {
    /// A knob that is described by [`Knob::with`] and its fellows.
    pub(crate) const fn new(id: KnobId, name: &'static str, scope: Scope, legal: Legal) -> Knob {
        Knob { id, name, scope, unit: "", legal, default: "", effect: "", help: "", experiment: false }
    }

    /// With this unit.
    pub(crate) const fn unit(self, unit: &'static str) -> Knob {
        Knob { unit, ..self }
    }

    /// With this default, moment of effect, and meaning.
    pub(crate) const fn with(self, default: &'static str, effect: &'static str, help: &'static str) -> Knob {
        Knob { default, effect, help, ..self }
    }

    /// As one for experiments.
    pub(crate) const fn experiment(self) -> Knob {
        Knob { experiment: true, ..self }
    }
}

impl PartialEq for Knob {
    fn eq(&self, other: &Knob) -> bool {
        self.id == other.id
    }
}

impl AsRef<str> for Knob {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// What a knob may be set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Legal {
    /// A whole number from `min` to `max`.
    Whole {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A number from `min` to `max`.
    Real {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// 0, or a number from `min` to `max`.
    ZeroOr {
        /// The smallest but 0.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// One of these names.
    Names(&'static [&'static str]),
}

impl Legal {
    /// Whether `value` is legal. What is not a number never is.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Legal::Whole { min, max }, value) => {
                value.whole().is_some_and(|whole| (*min..=*max).contains(&whole))
            }
            (Legal::Real { min, max }, Value::Number(number)) => (*min..=*max).contains(number),
            (Legal::ZeroOr { min, max }, Value::Number(number)) => {
                *number == 0.0 || (*min..=*max).contains(number)
            }
            (Legal::Names(names), Value::Name(name)) => names.contains(&name.as_str()),
            _ => false,
        }
    }
}

impl fmt::Display for Legal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Legal::Whole { min, max } if min == max => write!(f, "{min}"),
            Legal::Whole { min, max } => write!(f, "a whole number from {min} to {max}"),
            Legal::Real { min, max } => write!(f, "{min} to {max}"),
            Legal::ZeroOr { min, max } => write!(f, "0, or {min} to {max}"),
            Legal::Names(names) => write!(f, "one of {}", names.join(", ")),
        }
    }
}

/// Numbers of which all digits are written.
const PLAIN: RangeInclusive<f64> = 1e-6..=1e15;

/// What a knob is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// The name of an alternative.
    Name(String),
}

impl Value {
    /// The value if it is a whole number of at least 0.
    pub fn whole(&self) -> Option<u64> {
        // Every whole number up to here is exact.
        const EXACT: f64 = (1u64 << 53) as f64;
        match self {
            Value::Number(number) if (0.0..=EXACT).contains(number) && number.fract() == 0.0 => {
                Some(*number as u64)
            }
            _ => None,
        }
    }

    /// The value if it is a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Name(_) => None,
        }
    }

    /// The value if it is a name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Value::Number(_) => None,
            Value::Name(name) => Some(name),
        }
    }

    /// The whole number that a legal value of such a knob is.
    pub(crate) fn to_u32(&self) -> u32 {
        self.whole().and_then(|whole| whole.try_into().ok()).expect("a legal value is a whole number")
    }

    /// The number that a legal value of such a knob is.
    pub(crate) fn to_f64(&self) -> f64 {
        self.number().expect("a legal value is a number")
    }

    /// The name that a legal value of such a knob is.
    pub(crate) fn to_name(&self) -> &str {
        self.name().expect("a legal value is a name")
    }

    /// Reads what [`fmt::Display`] wrote: a number, or else a name.
    pub fn parse(text: &str) -> Value {
        text.parse::<f64>().map_or_else(|_| Value::Name(text.to_owned()), Value::from)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Short also where it is far from 1.
            Value::Number(number) if *number != 0.0 && !PLAIN.contains(&number.abs()) => {
                write!(f, "{number:e}")
            }
            Value::Number(number) => write!(f, "{number}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        // Zero has no sign.
        Value::Number(number + 0.0)
    }
}

impl From<f32> for Value {
    /// By the shortest decimal number that is this `f32`.
    fn from(number: f32) -> Self {
        Value::parse(&number.to_string())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(name: &str) -> Self {
        Value::Name(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_the_range_is_legal() {
        let whole = Legal::Whole { min: 2, max: 100 };
        for legal in [2.0, 10.0, 100.0] {
            assert!(whole.admits(&Value::Number(legal)));
        }
        for illegal in [1.0, 101.0, 2.5, -2.0, 1e300, f64::NAN, f64::INFINITY] {
            assert!(!whole.admits(&Value::Number(illegal)), "{illegal}");
        }
        let real = Legal::Real { min: 0.5, max: 80.0 };
        assert!(real.admits(&Value::Number(0.5)) && real.admits(&Value::Number(80.0)));
        let zero_or = Legal::ZeroOr { min: 1.0, max: 64.0 };
        assert!(zero_or.admits(&Value::Number(0.0)) && !zero_or.admits(&Value::Number(0.5)));
        for range in [&whole, &real, &zero_or] {
            assert!(!range.admits(&Value::Number(f64::NAN)) && !range.admits(&"lots".into()));
        }
        let names = Legal::Names(&["greedy", "lazy"]);
        assert!(names.admits(&"lazy".into()) && !names.admits(&"Lazy".into()));
        assert!(!names.admits(&Value::Number(0.0)));
    }

    #[test]
    fn every_knob_has_a_number_of_its_own() {
        for knob in KnobId::ALL {
            assert_eq!(KnobId::from_number(knob.number()), Some(*knob));
        }
        assert_eq!((KnobId::from_number(0), KnobId::from_number(u32::MAX)), (None, None));
    }

    #[test]
    fn values_come_back_from_their_text() {
        let values = [0.0, 0.1, 12.5, 4096.0, 1099511627776.0, 1e-300, 1e300].map(Value::Number);
        for value in values.into_iter().chain([Value::from("s-tree"), Value::from(7.3f32)]) {
            assert_eq!(Value::parse(&value.to_string()), value);
            assert!(value.to_string().len() < 16, "{value}");
        }
        assert_eq!(Value::parse("-0").to_string(), "0");
        assert_eq!(Value::from(7.3f32).to_string(), "7.3");
    }
}
