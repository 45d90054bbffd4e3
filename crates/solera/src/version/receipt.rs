//! What was changed while the database ran: `Receipt` (by whom, when, why) and `Assignment` (a
//! knob's value).
//!
//! A receipt is history and has no effect. It names knobs by text (`Changed`), so that it can be
//! read whatever becomes of them. An assignment has an effect from then on, and names a knob by its
//! number. Both are fields of an edit, with `encode` and `decode`.
//!
//! What must hold: an assignment whose number or value this release does not know has no effect,
//! and is kept.
//! Callers: `control::check` makes both from a change; `engine::change` records them;
//! `engine::assignments` obeys and keeps them; `inspect::edits` prints them; `Control::history`
//! shows receipts, to `solera-cli`, `solera-tune` and `solera-sim` too.

use super::level::LEVELS_MAX;
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    ids::KeyspaceId,
};

/// What a change changed. Kept in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Its number: changes of a database count from 1.
    pub number: u64,
    /// When it was made, in Unix milliseconds.
    pub unix_ms: u64,
    /// Who made it.
    pub who: String,
    /// Why.
    pub why: String,
    /// A mark of its author's, for its author: no other reader knows what it means. Often empty.
    pub tag: String,
    /// What was set.
    pub changed: Vec<Changed>,
}

/// One knob that was set, or a level's own value of it that this ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Name of the keyspace; empty for a knob of the database.
    pub keyspace: String,
    /// Name of the knob.
    pub knob: String,
    /// The level, if it was set for one.
    pub level: Option<u32>,
    /// What it was before.
    pub old: String,
    /// What it is now.
    pub new: String,
}

/// What a knob was last set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The keyspace; `None` for a knob of the database.
    pub keyspace: Option<KeyspaceId>,
    /// Number of the knob ([`KnobId::number`](crate::knob::KnobId::number)).
    pub knob: u32,
    /// The level, if it was set for one.
    pub level: Option<u32>,
    /// Its value; `None` if it is again what it would be had it never been set.
    pub value: Option<String>,
}

impl Receipt {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, self.unix_ms);
        put_bytes(out, self.who.as_bytes());
        put_bytes(out, self.why.as_bytes());
        put_bytes(out, self.tag.as_bytes());
        put_varint(out, self.changed.len() as u64);
        for changed in &self.changed {
            put_bytes(out, changed.keyspace.as_bytes());
            put_bytes(out, changed.knob.as_bytes());
            put_level(out, changed.level);
            put_bytes(out, changed.old.as_bytes());
            put_bytes(out, changed.new.as_bytes());
        }
    }

    pub(super) fn decode(body: &mut Decoder<'_>) -> Result<Receipt, DecodeError> {
        let number = body.varint("the number of a change")?;
        let unix_ms = body.varint("the time of a change")?;
        let (who, why) = (text(body, "who made a change")?, text(body, "why a change was made")?);
        let tag = text(body, "the tag of a change")?;
        let mut changed = Vec::new();
        // Counts are not trusted with memory: the list grows by what is really there.
        for _ in 0..body.varint("a count of knobs")? {
            changed.push(Changed {
                keyspace: text(body, "a keyspace's name")?,
                knob: text(body, "a knob's name")?,
                level: level(body)?,
                old: text(body, "a knob's old value")?,
                new: text(body, "a knob's new value")?,
            });
        }
        Ok(Receipt { number, unix_ms, who, why, tag, changed })
    }
}

impl Assignment {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.keyspace.map_or(0, |id| u64::from(id.0) + 1));
        put_varint(out, self.knob.into());
        put_level(out, self.level);
        match &self.value {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                put_bytes(out, value.as_bytes());
            }
        }
    }

    pub(super) fn decode(body: &mut Decoder<'_>) -> Result<Assignment, DecodeError> {
        let keyspace = body.varint_up_to(u64::from(u32::MAX) + 1, "a keyspace")?;
        let knob = body.varint_up_to(u32::MAX.into(), "a knob's number")? as u32;
        let level = level(body)?;
        let value = match body.u8("whether a knob is set")? {
            0 => None,
            1 => Some(text(body, "a knob's value")?),
            _ => return body.fail("whether a knob is set"),
        };
        let keyspace = keyspace.checked_sub(1).map(|id| KeyspaceId(id as u32));
        Ok(Assignment { keyspace, knob, level, value })
    }
}

fn put_level(out: &mut Vec<u8>, level: Option<u32>) {
    put_varint(out, level.map_or(0, |level| u64::from(level) + 1));
}

fn level(body: &mut Decoder<'_>) -> Result<Option<u32>, DecodeError> {
    let level = body.varint_up_to(LEVELS_MAX.into(), "a level")?;
    Ok(level.checked_sub(1).map(|level| level as u32))
}

fn text(body: &mut Decoder<'_>, what: &'static str) -> Result<String, DecodeError> {
    let at = body.clone();
    match String::from_utf8(body.bytes(what)?.to_vec()) {
        Ok(text) => Ok(text),
        Err(_) => at.fail("text in UTF-8"),
    }
}
