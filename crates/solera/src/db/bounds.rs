//! Ranges of keys as calls take them, `KeyBounds`, and as the engine needs them.
//!
//! `KeyBounds` is implemented for `..`, `a..b`, `a..=b` and the others, of anything that can be
//! seen as bytes. `key_range` and `prefix_range` make a `KeyRange` for readers. `deleted` and
//! `deleted_prefix` give a range deletion's first key and the first key behind it.
//!
//! What must hold: both forms hold exactly the keys that the bounds say, also where a bound is the
//! longest key. Only deletions refuse bounds longer than a key; reads take them.
//!
//! Callers: `db::keyspace`, `db::snapshot`, `db::transaction` and `db::batch`, in every call that
//! takes a range.

use super::check_sizes;
use crate::{
    error::Result,
    key::{self, KeyEnd, KeyRange},
};
use std::{
    borrow::Cow,
    ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive},
};

/// A range of keys: `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b`, or a pair of
/// [`Bound`]s, of anything that can be seen as bytes.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = solera::Db::open(dir.path())?;
/// db.put("b", "2")?;
/// assert_eq!(db.range(..).count(), 1);
/// assert_eq!(db.range("a".."b").count(), 0);
/// assert_eq!(db.range("a"..="b").count(), 1);
/// assert_eq!(db.range(b"b".as_slice()..).count(), 1);
/// # Ok(()) }
/// ```
pub trait KeyBounds {
    /// Where the range begins, and where it ends.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<R: KeyBounds> KeyBounds for &R {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (**self).key_bounds()
    }
}

macro_rules! of_bounds {
    ($($range:ty),*) => {
        $(impl<K: AsRef<[u8]>> KeyBounds for $range {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let (start, end): (Bound<&K>, Bound<&K>) = (self.start_bound(), self.end_bound());
                (start.map(AsRef::as_ref), end.map(AsRef::as_ref))
            }
        })*
    };
}

of_bounds!(Range<K>, RangeFrom<K>, RangeInclusive<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));

/// The range of a reader. An excluded start `k` becomes an included `k` + zero byte, its immediate
/// successor.
pub(super) fn key_range((start, end): (Bound<&[u8]>, Bound<&[u8]>)) -> KeyRange {
    let start = match start {
        Bound::Included(key) => key.into(),
        Bound::Excluded(key) => [key, &[0]].concat().into(),
        Bound::Unbounded => Box::default(),
    };
    let end = match end {
        Bound::Included(key) => KeyEnd::Included(key.into()),
        Bound::Excluded(key) => KeyEnd::Excluded(key.into()),
        Bound::Unbounded => KeyEnd::Unbounded,
    };
    KeyRange { start, end }
}

/// The keys that start with `prefix`.
pub(super) fn prefix_range(prefix: &[u8]) -> KeyRange {
    let end = match key::prefix_end(prefix) {
        Some(end) => KeyEnd::Excluded(end.into()),
        None => KeyEnd::Unbounded,
    };
    KeyRange { start: prefix.into(), end }
}

/// A range to delete: its first key, and the first key behind it. `None`: no key can be in it.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge) if a bound is longer than a key may be.
pub(super) fn deleted<'r>(
    (start, end): (Bound<&'r [u8]>, Bound<&'r [u8]>),
) -> Result<Option<(Cow<'r, [u8]>, Cow<'r, [u8]>)>> {
    for bound in [start, end] {
        if let Bound::Included(key) | Bound::Excluded(key) = bound {
            check_sizes(key, 0)?;
        }
    }
    let start = match start {
        Bound::Included(key) => Cow::Borrowed(key),
        Bound::Excluded(key) => key::successor(key),
        Bound::Unbounded => Cow::Borrowed(&[][..]),
    };
    let end = match end {
        Bound::Included(key) => key::successor(key),
        Bound::Excluded(key) => Cow::Borrowed(key),
        Bound::Unbounded => Cow::Borrowed(&key::END_OF_KEYS[..]),
    };
    Ok((start < end).then_some((start, end)))
}

/// As [`deleted`], of the keys that start with `prefix`.
pub(super) fn deleted_prefix(prefix: &[u8]) -> Result<Option<(Cow<'_, [u8]>, Cow<'static, [u8]>)>> {
    check_sizes(prefix, 0)?;
    let end = key::prefix_end(prefix).map_or(Cow::Borrowed(&key::END_OF_KEYS[..]), Cow::Owned);
    Ok(Some((Cow::Borrowed(prefix), end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{END_OF_KEYS, KEY_BYTES_MAX};

    #[test]
    fn a_deleted_range_holds_the_keys_that_its_bounds_say() {
        let longest = vec![7; KEY_BYTES_MAX];
        let largest = vec![u8::MAX; KEY_BYTES_MAX];
        let below = [&largest[..KEY_BYTES_MAX - 1], &[u8::MAX - 1]].concat();
        let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"b", &longest, &below, &largest];
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        for (start, end) in keys.iter().flat_map(|start| keys.iter().map(move |end| (*start, *end))) {
            for (start, end) in
                bounds(start).into_iter().flat_map(|start| bounds(end).map(|end| (start, end)))
            {
                let range = deleted((start, end)).unwrap();
                for key in keys {
                    let found = range.as_ref().is_some_and(|(start, end)| **start <= *key && *key < **end);
                    assert_eq!(found, (start, end).contains::<[u8]>(key));
                }
            }
        }
        assert!(END_OF_KEYS[..] > largest[..]);
    }

    #[test]
    fn bounds_longer_than_a_key_are_refused() {
        let long = vec![0; KEY_BYTES_MAX + 1];
        assert!(deleted((long.as_slice()..).key_bounds()).is_err());
        assert!(deleted((..&long).key_bounds()).is_err());
        assert!(deleted_prefix(&long).is_err());
    }
}
