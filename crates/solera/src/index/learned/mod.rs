//! Solera's own way to a block: 11 to 13 bits for each boundary, and, of long text, one exact copy without repetitions.
//!
//! Owns [`Learned`]. Where separators are short, [`Nodes`] know each of them. Where they are long, what heads cannot tell may be
//! most of their bytes: if it is, or if nodes would send too many keys astray, the nodes know every sixteenth only, and all lie
//! [front-coded](front_coded) in buckets that begin with those (docs/decisions/0007).
//!
//! What must hold: [`Learned::locate`] gives how many separators are not above the key, or at most [`Learned::reach`]
//! more.

mod bucket;
mod front_coded;
mod letters;
mod nodes;

use super::{LastKeys, separators::Separators, sorted::shared_prefix};
use crate::codec::{DecodeError, Decoder};
use bucket::BUCKET;
use front_coded::FrontCoded;
use nodes::Nodes;

/// Separators that have more bytes than this on average, beyond what all share, may be front-coded. Less is a head and what nodes
/// keep of a separator that its head does not tell.
const SHORT_BYTES_MAX: usize = 16;
/// Of long separators, both forms are built of so many stretches of so many neighbours, to see which takes less. Building both of
/// all, wherever they are long, would be more than compactions are to spend on models.
const STRETCHES: usize = 4;
const STRETCH: usize = 128;
/// What has no more letters than these is taken for text. Of 512 random bytes 221 are different.
const LETTERS_MAX: usize = 128;
/// The largest part of a table's keys that may be sent one block too far; where more are, the index is exact.
const ASTRAY_MAX: f64 = 1.0 / 1000.0;
/// Cache lines of a bucket: where it begins, two of its own, and now and then those of the one before.
const BUCKET_LINES: f64 = 3.25;

/// Learned boundaries.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Of all separators, or of every sixteenth.
    nodes: Nodes,
    /// All separators, if nodes do not know them all.
    text: Option<FrontCoded>,
}

impl Learned {
    /// The index over these separators, of which there are less than 2^31. Where last keys are known and too many would be sent one block
    /// too far, it is the exact form, if there are separators enough for it.
    pub fn build(separators: &Separators, last_keys: Option<LastKeys<'_>>) -> Learned {
        let count = separators.len();
        let prefix = shared_prefix(separators);
        let long = separators.total_bytes() - count * prefix.len() > count * SHORT_BYTES_MAX;
        let front_coded = if long && count > BUCKET && Learned::front_coding_pays(separators) {
            Learned::front_coded(separators, prefix)
        } else {
            None
        };
        let built = front_coded.unwrap_or_else(|| Learned { nodes: Nodes::build(separators), text: None });
        match last_keys {
            Some(last_keys) if count > BUCKET && built.sends_too_many_astray(last_keys) => {
                Learned::front_coded(separators, prefix).unwrap_or(built)
            }
            _ => built,
        }
    }

    /// Whether so many last keys are sent one block too far that [`ASTRAY_MAX`] is exceeded by them alone, and not by chance. Boundaries bound
    /// what is ambiguous by how far they are from each other, and do not know how close keys crowd below them: words crowd more than numbers.
    fn sends_too_many_astray(&self, last_keys: LastKeys<'_>) -> bool {
        if self.text.is_some() {
            return false;
        }
        let is_astray = |(block, key): &(usize, &[u8])| self.locate(key, |_| {}).0 > *block;
        let astray = last_keys.keys.iter().enumerate().filter(is_astray).count() as f64;
        let most = last_keys.of as f64 * ASTRAY_MAX;
        // A count of so few among so many scatters by its square root.
        astray > most + 3.0 * most.sqrt()
    }

    /// The form for long separators, which all begin with `prefix`. `None` if they take more than 4 GiB.
    fn front_coded(separators: &Separators, prefix: &[u8]) -> Option<Learned> {
        let text = FrontCoded::new(separators, prefix)?;
        let anchors: Separators = (0..separators.len()).step_by(BUCKET).map(|i| separators.get(i)).collect();
        Some(Learned { nodes: Nodes::build(&anchors), text: Some(text) })
    }

    /// Appends whether separators are front-coded (u8: 0 or 1), the nodes, and if so, the separators.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.text.is_some().into());
        self.nodes.encode(out);
        self.text.iter().for_each(|text| text.encode(out));
    }

    /// Reads what [`Learned::encode`] wrote. What passes may say wrong numbers, but none above [`Learned::len`].
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Learned, DecodeError> {
        let is_text = match decoder.u8("whether separators are front-coded")? {
            0 => false,
            1 => true,
            _ => return decoder.fail("nodes alone or front-coded separators"),
        };
        let nodes = Nodes::decode(decoder)?;
        let text = if is_text { Some(FrontCoded::decode(decoder)?) } else { None };
        if text.as_ref().is_some_and(|text| text.buckets() != nodes.len()) {
            return decoder.fail("a boundary for each bucket");
        }
        Ok(Learned { nodes, text })
    }

    /// Whether these long separators are to be front-coded: if they are text, of which heads of bytes send many keys astray, or take
    /// less so than in nodes. They do not where few prefixes have many numbers each, which the eight bytes behind them tell apart.
    fn front_coding_pays(separators: &Separators) -> bool {
        let count = separators.len();
        // Each in the middle of its part of the table.
        let stretch = |number: usize| {
            let (begin, end) = (number * count / STRETCHES, (number + 1) * count / STRETCHES);
            let first = begin + (end - begin).saturating_sub(STRETCH) / 2;
            first..end.min(first + STRETCH)
        };
        let tried: Separators = (0..STRETCHES).flat_map(stretch).map(|i| separators.get(i)).collect();
        // A separator ends with the byte by which it is above the key before it.
        let mut letters = [false; 256];
        tried.iter().filter_map(<[u8]>::last).for_each(|&byte| letters[usize::from(byte)] = true);
        if letters.into_iter().filter(|is_letter| *is_letter).count() <= LETTERS_MAX {
            return true;
        }
        let coded = Learned::front_coded(&tried, shared_prefix(&tried));
        coded.is_some_and(|coded| coded.bytes() < Nodes::build(&tried).bytes())
    }

    /// How many separators are not above `key`, or up to [`Learned::reach`] more; and how far it is from the last of them to the next, in
    /// 256ths, where that is known. `early` is as in
    /// [`Index::locate`](super::Index::locate).
    #[inline]
    pub fn locate(&self, key: &[u8], early: impl Fn(usize)) -> (usize, Option<u8>) {
        let Some(text) = &self.text else { return self.nodes.locate(key, early) };
        let (buckets, _) = self.nodes.locate(key, |_| {});
        early((buckets * BUCKET).saturating_sub(BUCKET / 2));
        (text.locate(key, buckets), None)
    }

    /// By how much [`Learned::locate`] may say too much.
    pub fn reach(&self) -> usize {
        usize::from(self.text.is_none())
    }

    /// An estimate, rather too high, of the part of all keys that are sent one block too far.
    pub fn ambiguity(&self) -> f64 {
        if self.text.is_some() { 0.0 } else { self.nodes.ambiguity() }
    }

    /// Cache lines that a lookup touches, on average over separators.
    pub fn lines(&self) -> f64 {
        self.nodes.lines() + if self.text.is_some() { BUCKET_LINES } else { 0.0 }
    }

    /// Separators.
    pub fn len(&self) -> usize {
        self.text.as_ref().map_or(self.nodes.len(), FrontCoded::len)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes() + self.text.as_ref().map_or(0, FrontCoded::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scattered(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Keys in blocks, and how many of all are sent to a block that they are not in.
    fn astray(keys: &[Vec<u8>], per_block: usize) -> (Learned, f64) {
        let (mut separators, mut last) = (Separators::new(), Separators::new());
        for block in (per_block..keys.len()).step_by(per_block) {
            separators.push_between(&keys[block - 1], &keys[block]);
            last.push(&keys[block - 1]);
        }
        let last_keys = LastKeys { keys: &last, of: keys.len() as u64 };
        let learned = Learned::build(&separators, Some(last_keys));
        let is_astray = |(i, key): &(usize, &Vec<u8>)| learned.locate(key, |_| {}).0 != i / per_block;
        let count = keys.iter().enumerate().filter(is_astray).count();
        (learned, count as f64 / keys.len() as f64)
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn words_that_crowd_below_boundaries_are_front_coded_and_numbers_are_not() {
        let syllables =
            ["ba", "be", "do", "fi", "ga", "ka", "lo", "mi", "no", "pe", "ra", "so", "ti", "u", "ve", "zo"];
        let words = (0..150_000u64).map(|i| {
            let (number, len) = (scattered(i), 2 + scattered(i + 1) % 4);
            let syllable = |at: u64| syllables[(number >> (4 * at + 7)) as usize % 16];
            [(0..len).map(syllable).collect::<String>(), format!("/{}", syllable(len))].concat().into_bytes()
        });
        let numbers = (0..150_000u64).map(|i| scattered(i).to_be_bytes().to_vec());
        let sorted = |keys: &mut dyn Iterator<Item = Vec<u8>>| {
            let mut keys: Vec<Vec<u8>> = keys.collect();
            keys.sort();
            keys.dedup();
            keys
        };
        for (keys, is_text) in
            [(sorted(&mut words.into_iter()), true), (sorted(&mut numbers.into_iter()), false)]
        {
            let (learned, part) = astray(&keys, 45);
            assert_eq!(learned.text.is_some(), is_text, "{part} of {} keys", keys.len());
            assert!(part < ASTRAY_MAX && (part > 0.0) != is_text, "{part} of {} keys", keys.len());
        }
    }

    #[test]
    fn front_coded_separators_behind_boundaries_of_others_are_refused() {
        let separators =
            |count: u64| (0..count).map(|i| format!("{i:060}").into_bytes()).collect::<Separators>();
        let of = |count: u64| Learned::front_coded(&separators(count), b"").unwrap();
        let stored = |nodes: Nodes, text: Option<FrontCoded>| {
            let mut bytes = Vec::new();
            Learned { nodes, text }.encode(&mut bytes);
            Learned::decode(&mut Decoder::new(&bytes)).map(|learned| learned.len())
        };
        assert_eq!(stored(of(100).nodes, of(100).text), Ok(100));
        assert_eq!(stored(of(100).nodes, of(97).text), Ok(97));
        assert!(stored(of(100).nodes, of(96).text).is_err());
        assert!(stored(of(100).nodes, of(113).text).is_err());
    }

    #[test]
    fn long_text_is_front_coded_and_numbers_behind_few_long_prefixes_are_not() {
        let separators = |make: fn(u64) -> Vec<u8>| {
            let mut all: Vec<Vec<u8>> = (0..2000).map(make).collect();
            all.sort();
            all.iter().collect::<Separators>()
        };
        let behind_prefixes = separators(|i| {
            let prefix = format!("tenant {:02}, and much more that all its keys have in common, ", i % 8);
            [prefix.as_bytes(), &scattered(i).to_be_bytes()[..4]].concat()
        });
        let paths = separators(|i| {
            let number = scattered(i);
            let names = [0, 16, 32, 48].map(|bits| format!("directory-{:02}", number >> bits & 31));
            format!("{}/file-{i}", names.join("/")).into_bytes()
        });
        let built = Learned::build(&behind_prefixes, None);
        assert!(built.text.is_none());
        let front_coded = Learned::front_coded(&behind_prefixes, shared_prefix(&behind_prefixes)).unwrap();
        assert!(built.bytes() < front_coded.bytes());
        let built = Learned::build(&paths, None);
        assert!(built.text.is_some() && built.bytes() < Nodes::build(&paths).bytes());
    }
}
