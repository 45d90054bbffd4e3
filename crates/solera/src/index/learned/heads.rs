//! Texts as numbers that ascend with them: `Heads`, by which boundaries are learned.
//!
//! A head is the first eight bytes of a text, or a number by `Letters`, `Fields` or `Spelling`.
//! `of` chooses for some separators: letters where these are few, fields where many bits are never
//! used, bytes elsewhere. Who wants a spelling makes one.
//!
//! What must hold: heads ascend with texts, whatever bytes these have, also heads that were
//! decoded.
//!
//! Callers: `index::learned::nodes` and `clusters`.

use super::{
    super::{
        last_keys::LastKeys,
        separators::Separators,
        sorted::{shared_prefix, told_by_head},
    },
    fields::Fields,
    letters::Letters,
    spelling::Spelling,
};
use crate::{
    codec::{DecodeError, Decoder},
    key::head,
};
use solera_model::boundaries::AMBIGUITY_MEAN_MAX;

/// How much less may be ambiguous of numbers that letters write.
const LETTERS_AMBIGUITY: f64 = 2.0 / 3.0;
/// Fewer separators than this are not worth their fields.
const FIELDS_MIN: usize = 32;
/// Of the boundaries that may be taken to lie below a last key, so many may be so because their
/// heads are the same.
const UNTOLD: f64 = 0.25;
/// Cache lines of fields: two.
const FIELDS_LINES: f64 = 2.0;
/// Cache lines of letters: two of digits, one or two of what they are worth.
const LETTERS_LINES: f64 = 3.5;
/// The same of a spelling: a few rows, which most lookups use.
const SPELLING_LINES: f64 = 2.5;
/// So much of a separator a spelling tells at least.
const SPELLING_TOLD: usize = 4;

/// What the head of a piece of text is: a number that the order of texts agrees with.
#[derive(Clone, Debug)]
pub(super) enum Heads {
    /// Its first eight bytes.
    Bytes,
    /// Its first letters.
    Letters(Box<Letters>),
    /// The bits that are used.
    Fields(Box<Fields>),
    /// What is likely to be below.
    Spelling(Box<Spelling>),
}

impl Heads {
    /// The heads for these separators, above these last keys.
    pub(super) fn of(separators: &Separators, last_keys: Option<&LastKeys>, one_in: f64) -> Heads {
        let prefix = shared_prefix(separators).len();
        let rests = || (0..separators.len()).map(|i| &separators.get(i)[prefix..]);
        if let Some(letters) = Letters::of(rests()) {
            return Heads::Letters(letters.into());
        }
        let fields = last_keys.and_then(|last_keys| Heads::fields_of(separators, last_keys, one_in));
        fields.map_or(Heads::Bytes, |fields| Heads::Fields(fields.into()))
    }

    /// The fields of these separators and last keys, if a separator's number is mostly above that
    /// of the last key below it.
    fn fields_of(separators: &Separators, last_keys: &LastKeys, one_in: f64) -> Option<Fields> {
        if separators.len() < FIELDS_MIN {
            return None;
        }
        let prefix = shared_prefix(separators);
        let below = |i: usize| last_keys.last(i).strip_prefix(prefix);
        let pairs = || (0..separators.len()).map(|i| (&separators.get(i)[prefix.len()..], below(i)));
        let fields = Fields::of(pairs().flat_map(|(rest, below)| [Some(rest), below]).flatten())?;
        let told = |(rest, below): (&[u8], Option<&[u8]>)| {
            below.is_none_or(|below| fields.number(below) < fields.number(rest))
        };
        let untold = pairs().filter(|pair| !told(*pair)).count() as f64;
        (untold <= untold_max(last_keys, one_in, separators.len())).then_some(fields)
    }

    #[inline]
    pub(super) fn head(&self, rest: &[u8]) -> u64 {
        match self {
            Heads::Bytes => head(rest),
            Heads::Letters(letters) => letters.number(rest),
            Heads::Fields(fields) => fields.number(rest),
            Heads::Spelling(spelling) => spelling.number(rest),
        }
    }

    /// How much may be [ambiguous](Boundaries::ambiguity) where codes have 10 bits. Of the same
    /// ambiguity more keys go astray where separators are written in few letters: each goes on with
    /// one of sixteen, and not of 256, and so is more often right above the key below it. Of
    /// hexadecimal keys it is 1.4 times as many (docs/decisions/0007 "How many bits").
    pub(super) fn ambiguity_max(&self) -> f64 {
        match self {
            Heads::Bytes | Heads::Fields(_) | Heads::Spelling(_) => AMBIGUITY_MEAN_MAX,
            Heads::Letters(_) => AMBIGUITY_MEAN_MAX * LETTERS_AMBIGUITY,
        }
    }

    /// How much of a separator its head tells.
    pub(super) fn bytes_told(&self) -> usize {
        match self {
            Heads::Bytes => size_of::<u64>(),
            Heads::Letters(letters) => letters.told(),
            Heads::Fields(fields) => fields.told(),
            Heads::Spelling(_) => SPELLING_TOLD,
        }
    }

    /// Whether the head of a separator says enough of it: of keys with the same head, so few are
    /// below it that they may be sent one block too far. Of bytes that is none. Of letters it is
    /// those that end where it goes on with the lowest letter, and those with bytes that are no
    /// letters.
    pub(super) fn tell(&self, rest: &[u8]) -> bool {
        match self {
            Heads::Bytes => told_by_head(rest),
            Heads::Letters(letters) => rest.len() <= letters.told(),
            // Only made where last keys are known, which say it themselves.
            Heads::Fields(_) | Heads::Spelling(_) => false,
        }
    }

    /// Appends what heads are (u8: 0 bytes; 1 letters, 2 fields, 3 a spelling, which follow).
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Heads::Bytes => out.push(0),
            Heads::Letters(letters) => {
                out.push(1);
                letters.encode(out);
            }
            Heads::Fields(fields) => {
                out.push(2);
                fields.encode(out);
            }
            Heads::Spelling(spelling) => {
                out.push(3);
                spelling.encode(out);
            }
        }
    }

    /// Reads what [`Heads::encode`] wrote. Any heads ascend with texts.
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Heads, DecodeError> {
        Ok(match decoder.u8("what heads are")? {
            0 => Heads::Bytes,
            1 => Heads::Letters(Letters::decode(decoder)?.into()),
            2 => Heads::Fields(Fields::decode(decoder)?.into()),
            3 => Heads::Spelling(Spelling::decode(decoder)?.into()),
            _ => return decoder.fail("heads of bytes, letters, fields or a spelling"),
        })
    }

    /// Cache lines that [`Heads::head`] touches.
    pub(super) fn lines(&self) -> f64 {
        match self {
            Heads::Bytes => 0.0,
            Heads::Letters(_) => LETTERS_LINES,
            Heads::Fields(_) => FIELDS_LINES,
            Heads::Spelling(_) => SPELLING_LINES,
        }
    }

    /// What heads are, for people.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Heads::Bytes => "bytes",
            Heads::Letters(_) => "letters",
            Heads::Fields(_) => "fields",
            Heads::Spelling(_) => "a spelling",
        }
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Heads::Bytes => 0,
            Heads::Letters(letters) => letters.bytes(),
            Heads::Fields(fields) => fields.bytes(),
            Heads::Spelling(spelling) => spelling.bytes(),
        }
    }
}

/// How many of so many boundaries may have the heads of last keys below them.
pub(super) fn untold_max(last_keys: &LastKeys, one_in: f64, boundaries: usize) -> f64 {
    last_keys.part(one_in) * UNTOLD * boundaries as f64
}
