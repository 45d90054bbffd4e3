//! Solera's own way to a block: 11 to 13 bits for each boundary, and, of long text, one exact copy without repetitions.
//!
//! Owns [`Learned`]. Where separators are short, [`Nodes`] know each of them. Where they are long, what heads cannot tell may be
//! most of their bytes: if it is, the nodes know every sixteenth only, and all lie [front-coded](front_coded) in
//! buckets that begin with those (docs/decisions/0007).
//!
//! What must hold: [`Learned::locate`] gives how many separators are not above the key, or at most [`Learned::reach`]
//! more.

mod bucket;
mod front_coded;
mod letters;
mod nodes;

use super::{separators::Separators, sorted::shared_prefix};
use crate::codec::{DecodeError, Decoder};
use bucket::BUCKET;
use front_coded::FrontCoded;
use nodes::Nodes;

/// Separators that have more bytes than this on average, beyond what all share, may be front-coded. Less is a head and what nodes
/// keep of a separator that its head does not tell.
const SHORT_BYTES_MAX: usize = 16;
/// Of long separators, both forms are built of so many stretches of so many neighbours, to see which takes less. Building both of
/// all would be more than compactions are to spend on models.
const STRETCHES: usize = 4;
const STRETCH: usize = 128;
/// What has no more letters than these is taken for text. Of 512 random bytes 221 are different.
const LETTERS_MAX: usize = 128;
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
    /// The index over these separators, of which there are less than 2^31.
    pub fn build(separators: &Separators) -> Learned {
        let count = separators.len();
        let prefix = shared_prefix(separators);
        let long = separators.total_bytes() - count * prefix.len() > count * SHORT_BYTES_MAX;
        let front_coded = if long && count > BUCKET && Learned::front_coding_pays(separators) {
            Learned::front_coded(separators, prefix)
        } else {
            None
        };
        front_coded.unwrap_or_else(|| Learned { nodes: Nodes::build(separators), text: None })
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
        let built = Learned::build(&behind_prefixes);
        assert!(built.text.is_none());
        let front_coded = Learned::front_coded(&behind_prefixes, shared_prefix(&behind_prefixes)).unwrap();
        assert!(built.bytes() < front_coded.bytes());
        let built = Learned::build(&paths);
        assert!(built.text.is_some() && built.bytes() < Nodes::build(&paths).bytes());
    }
}
