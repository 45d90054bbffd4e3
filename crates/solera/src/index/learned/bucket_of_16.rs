//! Buckets of sixteen separators, as they were written before [`bucket`](super::bucket): `append`
//! reads one.
//!
//! ```text
//! bucket = 0 shared[1..16] first[16] tail length[16] tail*   a byte each
//!        | 1 (shared length rest[length])*                   varints
//! rest   = first tail
//! ```
//!
//! What must hold: any bytes are separators or `None`. These may be far longer than the bucket,
//! which says only how much each shares; so there is a limit for them.
//!
//! Caller: `index::learned::front_coded`, when it reads a file of that time.

use crate::codec::Decoder;

/// Separators of a bucket.
pub(super) const SIXTEEN: usize = 16;

/// Appends the `count` separators of a bucket to others. They take `bytes_left` bytes at most, and
/// what they take is taken off. `None` if these are none.
pub(super) fn append(
    separators: &mut Vec<Vec<u8>>,
    bucket: &[u8],
    count: usize,
    bytes_left: &mut u64,
) -> Option<()> {
    let (&form, mut rest) = bucket.split_first()?;
    let mut separator = |shared: usize, own: &[&[u8]], before: &[u8]| {
        let separator = [&[before.get(..shared)?], own].concat().concat();
        *bytes_left = bytes_left.checked_sub(separator.len() as u64)?;
        Some(separator)
    };
    let mut before = Vec::new();
    if form == 1 {
        let mut decoder = Decoder::new(rest);
        for _ in 0..count {
            let shared = decoder.varint_up_to(u32::MAX.into(), "a shared length").ok()?;
            let own = decoder.bytes("the rest of a separator").ok()?;
            before = separator(shared as usize, &[own], &before)?;
            separators.push(before.clone());
        }
        return (decoder.remaining() == 0).then_some(());
    }
    let lanes;
    (lanes, rest) = bucket.split_first_chunk::<{ 3 * SIXTEEN }>()?;
    for lane in 0..count {
        let tail;
        (tail, rest) = rest.split_at_checked(lanes[2 * SIXTEEN + lane].into())?;
        before = separator(lanes[lane].into(), &[&lanes[SIXTEEN + lane..][..1], tail], &before)?;
        separators.push(before.clone());
    }
    rest.is_empty().then_some(())
}

/// Writes a bucket as it was written then.
#[cfg(test)]
pub(super) fn written(separators: &[Vec<u8>]) -> Vec<u8> {
    use crate::{codec::put_varint, key::common_prefix_len};

    let shared = |i: usize| if i == 0 { 0 } else { common_prefix_len(&separators[i - 1], &separators[i]) };
    let own = |i: usize| &separators[i][shared(i)..];
    if (0..separators.len()).any(|i| own(i).is_empty() || separators[i].len() >= 255) {
        let mut bytes = vec![1];
        for i in 0..separators.len() {
            put_varint(&mut bytes, shared(i) as u64);
            put_varint(&mut bytes, own(i).len() as u64);
            bytes.extend(own(i));
        }
        return bytes;
    }
    let mut bytes = [[255; SIXTEEN], [0; SIXTEEN], [0; SIXTEEN]].concat();
    for i in 0..separators.len() {
        let (first, tail) = own(i).split_first().expect("it is not empty");
        (bytes[i], bytes[SIXTEEN + i], bytes[2 * SIXTEEN + i]) = (shared(i) as u8, *first, tail.len() as u8);
        bytes.extend(tail);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_and_other_bytes_are_refused_or_read(
            mut separators in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..=SIXTEEN),
            far: bool,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            separators.sort();
            if far {
                separators.iter_mut().for_each(|separator| *separator = [&[7; 300][..], separator].concat());
            }
            let mut bytes = written(&separators);
            let of: u64 = separators.iter().map(|separator| separator.len() as u64).sum();
            let (mut read, mut left) = (Vec::new(), of);
            prop_assert!(append(&mut read, &bytes, separators.len(), &mut left).is_some());
            prop_assert_eq!((&read, left), (&separators, 0));
            if of > 0 {
                prop_assert!(append(&mut Vec::new(), &bytes, separators.len(), &mut (of - 1)).is_none());
            }
            for (at, byte) in changes {
                *at.get_mut(&mut bytes) = byte;
            }
            let (mut read, mut left) = (Vec::new(), 1000);
            let _ = append(&mut read, &bytes, separators.len(), &mut left);
            prop_assert!(read.iter().map(Vec::len).sum::<usize>() <= 1000);
        }
    }
}
