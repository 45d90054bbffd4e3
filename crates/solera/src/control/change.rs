//! A change of knobs, put together by the user or tuner that wants it: `Change`, which is only
//! words.
//!
//! It has who, why, a tag, and items: a knob, a keyspace or level, and a value or a reset.
//! `only_if_newest` makes it conditional on the number of the newest change.
//!
//! What must hold: nothing is checked here. `control::check` says whether it is legal; then all of
//! it is made, or nothing. Texts have limits (`WHO_BYTES_MAX`, `WHY_BYTES_MAX`, `TAG_BYTES_MAX`).
//!
//! Callers: applications, `solera control set`, the tuners of `solera-tune`, `solera-bench` and
//! `solera-sim` build one, and hand it to `Control::apply`.

use crate::{engine::DEFAULT_KEYSPACE, knob::Value};

/// Longest name of a change's author, in bytes.
pub const WHO_BYTES_MAX: usize = 64;
/// Longest reason, in bytes: the history is part of every manifest.
pub const WHY_BYTES_MAX: usize = 400;
/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;

/// What to set, and why. Made by [`Control::apply`](super::Control::apply).
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub(super) who: String,
    pub(super) why: String,
    pub(super) tag: String,
    /// Number of the change that has to be the newest; `None`: whichever is.
    pub(super) newest: Option<u64>,
    keyspace: String,
    pub(super) items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) keyspace: String,
    pub(super) knob: String,
    pub(super) level: Option<u32>,
    /// `None`: what it would be had it never been set.
    pub(super) value: Option<Value>,
}

impl Change {
    /// A change that sets nothing yet, by `who` (at most 64 bytes), because `why` (at most 400
    /// bytes).
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Change {
        Change {
            who: who.into(),
            why: why.into(),
            tag: String::new(),
            newest: None,
            keyspace: DEFAULT_KEYSPACE.into(),
            items: Vec::new(),
        }
    }

    /// Gives the receipt a tag (at most 64 bytes), by which its author finds it again in the
    /// history.
    pub fn tag(mut self, tag: impl Into<String>) -> Change {
        self.tag = tag.into();
        self
    }

    /// Makes the change only if change `number` is still the newest one when it is made; 0: if
    /// there is none yet. Else it is refused with [`Error::Outdated`](crate::Error::Outdated).
    /// [`Observation::changes`](super::Observation::changes) is the newest number when an
    /// observation was made, so that no user or tuner decides on settings that have gone.
    pub fn only_if_newest(mut self, number: u64) -> Change {
        self.newest = Some(number);
        self
    }

    /// What follows concerns this keyspace; without it, the default one.
    pub fn keyspace(mut self, name: &str) -> Change {
        self.keyspace = name.into();
        self
    }

    /// Sets `knob`, one of [`control::knob`](super::knob) or the name of one, for the database or
    /// the keyspace. For a knob that levels have, this ends what was set for single levels.
    pub fn set(self, knob: impl AsRef<str>, value: impl Into<Value>) -> Change {
        self.with(knob.as_ref(), None, Some(value.into()))
    }

    /// Sets `knob` for one level.
    pub fn set_level(self, knob: impl AsRef<str>, level: u32, value: impl Into<Value>) -> Change {
        self.with(knob.as_ref(), Some(level), Some(value.into()))
    }

    /// Makes `knob`, for one level or in all, what it would be had it never been set.
    pub fn reset(self, knob: impl AsRef<str>, level: Option<u32>) -> Change {
        self.with(knob.as_ref(), level, None)
    }

    fn with(mut self, knob: &str, level: Option<u32>, value: Option<Value>) -> Change {
        self.items.push(Item { keyspace: self.keyspace.clone(), knob: knob.into(), level, value });
        self
    }
}
