//! Solera's own learned index: `Learned`, and the choice among its forms by counted cost
//! (docs/decisions/0018).
//!
//! `Nodes` know each separator by its head, perhaps by `Spelling`. `Clusters` tell those that lie
//! close to each other by distances. Long text lies in `FrontCoded` buckets. Where none takes fewer
//! bytes, separators in order are halved. Of many separators, samples say which form is cheapest. A
//! boundary mostly takes 11 to 13 bits.
//!
//! What must hold: `locate` gives how many separators are not above the key, or at most `reach`
//! more. Where last keys are known, it gives more for `astray` of the table's keys, counted: one in
//! a thousand at most. Without them that is estimated. Decoded bytes may give wrong numbers, none
//! above `len`.
//!
//! Caller: `index::mod`, for the kinds `learned` and `auto`.

mod bucket;
mod bucket_of_16;
mod fields;
mod front_coded;
mod letters;
mod spelling;
mod heads;
mod clusters;
mod nodes;

use super::{
    cost::Cost,
    last_keys::LastKeys,
    separators::Separators,
    sorted::{Order, Sorted, shared_prefix},
};
use crate::codec::{DecodeError, Decoder, put_varint};
use bucket::BUCKET;
use clusters::Clusters;
use front_coded::FrontCoded;
use heads::Heads;
use nodes::Nodes;
use solera_model::boundaries::Boundaries;
use spelling::Spelling;
use std::cmp::Ordering;

/// Of separators that have more bytes than this on average, beyond what all share, nodes are
/// compared with other forms however few bytes they take.
const SHORT_BYTES_MAX: usize = 16;
/// Of so many samples of so many neighbours all forms are built, to see which costs least.
/// Building all of everything would be more than compactions are to spend on models.
const SAMPLES: usize = 4;
const NEIGHBOURS: usize = 160;
/// Where the table has more than so many times as many separators.
const PART_OF: usize = 2;
/// A table that has more than so many times as many is glanced at in all the places, not in one.
const GLANCED_OF: usize = 16;
/// Where nodes of a few separators take so many times [`NODES_BYTES`], they are not built of all
/// samples.
const HOPELESS: f64 = 2.0;
/// The same where spelled nodes of a few separators of long text take so many times the bytes of
/// front-coded ones.
const HOPELESS_SPELLED: f64 = 1.5;
/// How letters follow each other is counted around so many separators at least, if there are as
/// many.
const SPELLED: usize = 2048;
/// The largest part of a table's keys that may be sent one block too far.
const ASTRAY_MAX: f64 = 1.0 / 1000.0;
/// Nodes are built so that about one key in so many is sent too far, at most.
const ASTRAY_ONE_IN: f64 = 1150.0;
/// The same of clusters, one after the other until few enough are. Of a boundary that is not told
/// several keys may be sent too far.
const CLUSTERS_ONE_IN: [f64; 3] = [ASTRAY_ONE_IN, 4.0 * ASTRAY_ONE_IN, f64::INFINITY];
/// A part of a table asks for nodes that send so many times fewer keys too far, at most.
const HINT_MAX: f64 = 8.0;
/// Nodes that take more bytes a separator, and beyond them, are compared with other forms.
const NODES_BYTES: f64 = 3.5;
const NODES_BYTES_MIN: f64 = 256.0;
/// A form is large if it takes more than this part of the bytes of separators in their order.
const LARGE: f64 = 0.45;

/// Learned boundaries.
#[derive(Clone, Debug)]
pub struct Learned {
    form: Form,
    /// How many keys of the table are sent to a wrong block, and of how many; `None` if last keys
    /// were not known.
    astray: Option<(u32, u64)>,
}

#[derive(Clone, Debug)]
enum Form {
    /// Of all separators.
    Nodes(Nodes),
    /// All separators, in buckets.
    FrontCoded(FrontCoded),
    /// All separators, in their order.
    Halved(Sorted),
    /// Stems, and all separators by their distance from these.
    Clusters(Box<Clusters>),
}

impl Form {
    fn halved(separators: &Separators) -> Form {
        Form::Halved(Sorted::build(separators, |heads| Order::Halved(heads.into())))
    }

    fn bytes(&self) -> usize {
        match self {
            Form::Nodes(nodes) => nodes.bytes(),
            Form::FrontCoded(text) => text.bytes(),
            Form::Halved(sorted) => sorted.bytes(),
            Form::Clusters(clusters) => size_of::<Clusters>() + clusters.bytes(),
        }
    }

    /// Puts `begin`, which was left out of all separators, before what they begin with.
    fn put_behind(&mut self, begin: &[u8]) {
        match self {
            Form::Nodes(nodes) => nodes.put_behind(begin),
            Form::FrontCoded(text) => text.put_behind(begin),
            Form::Halved(sorted) => sorted.put_behind(begin),
            Form::Clusters(clusters) => clusters.put_behind(begin),
        }
    }

    /// Bytes that do not go by how many separators there are.
    fn bytes_once(&self) -> usize {
        match self {
            Form::Nodes(nodes) => nodes.bytes_once(),
            Form::FrontCoded(_) | Form::Halved(_) => 0,
            Form::Clusters(clusters) => size_of::<Clusters>() + clusters.bytes_once(),
        }
    }

    /// An estimate of the part of keys that are sent one block too far.
    fn ambiguity(&self) -> f64 {
        if let Form::Nodes(nodes) = self { nodes.ambiguity() } else { 0.0 }
    }

    /// Cache lines that a lookup touches, on average over separators.
    fn lines(&self) -> f64 {
        match self {
            Form::Nodes(nodes) => nodes.lines(),
            Form::FrontCoded(text) => text.lines(),
            Form::Halved(sorted) => sorted.lines(),
            Form::Clusters(clusters) => clusters.lines(),
        }
    }
}

/// What an index is built from.
#[derive(Clone, Copy, Debug)]
struct Ground<'s> {
    separators: &'s Separators,
    last_keys: Option<&'s LastKeys>,
    /// Of so many separators these are a part, or all.
    of: usize,
}

/// A form, and how many keys of the table it sends to a wrong block.
struct Trained {
    form: Form,
    astray: u32,
    /// About one key in so many was allowed to be sent too far.
    one_in: f64,
}

/// A form of a part, or of all, and what it costs.
struct Offer {
    way: Way,
    /// Whether it takes much of what separators in their order do.
    is_large: bool,
    /// For each separator.
    bytes: f64,
    price: f64,
    trained: Trained,
}

impl Offer {
    /// The one that costs least is less. Those that take much of what separators in their order do
    /// are more, and of these the one that takes least is less.
    fn compare(&self, other: &Offer) -> Ordering {
        let of_alike = match self.is_large {
            true => self.bytes.total_cmp(&other.bytes),
            false => self.price.total_cmp(&other.price),
        };
        self.is_large.cmp(&other.is_large).then(of_alike)
    }
}

/// The forms that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nodes,
    Spelled,
    FrontCoded,
    Clusters,
    SpelledClusters,
}

impl Way {
    fn is_spelled(self) -> bool {
        matches!(self, Way::Spelled | Way::SpelledClusters)
    }
}

impl Ground<'_> {
    /// The form that costs least. Where there are many separators, a part of them says which.
    fn cheapest(&self) -> Trained {
        if self.separators.len() <= PART_OF * SAMPLES * NEIGHBOURS {
            return self.cheapest_of_few();
        }
        // Of numbers nodes mostly are so little that nothing else is tried: a glance says whether.
        let is_large = self.separators.len() > GLANCED_OF * SAMPLES * NEIGHBOURS;
        let glanced = self.part(if is_large { SAMPLES } else { 1 }, NEIGHBOURS);
        let glance = self.of_part(&glanced);
        let seen = glance.tried(None, ASTRAY_ONE_IN);
        let mut whole = None;
        if self.is_short() && glance.is_little(&seen.form) {
            // To send fewer keys too far takes more bytes, never less.
            let tried = self.tried(None, ASTRAY_ONE_IN);
            if self.is_little(&tried.form) {
                let nodes = self.settled(None, tried);
                if self.is_little(&nodes.form) {
                    return nodes;
                }
                whole = Some(nodes);
            }
        }
        let sampled = self.part(SAMPLES, NEIGHBOURS);
        let part = self.of_part(&sampled);
        let has_whole = whole.is_some();
        let nodes = match whole {
            Some(whole) => self.offer(Way::Nodes, whole),
            None => {
                let hopeless = glance.is_hopeless(&seen.form).then(|| self.hopeless_nodes()).flatten();
                if let Some(nodes) = hopeless {
                    nodes
                } else {
                    let tried = part.settled(None, part.tried(None, ASTRAY_ONE_IN));
                    if self.is_short() && part.is_little(&tried.form) {
                        return self.nodes(None, tried.one_in);
                    }
                    part.offer(Way::Nodes, tried)
                }
            }
        };
        let spelling = self.last_keys.and_then(|last_keys| spelling_of(self.separators, last_keys));
        let offers = part.by_cost(spelling.as_ref(), nodes);
        // What a part can be made of, all mostly can; nodes always.
        let made = offers.into_iter().find_map(|Offer { way, trained, .. }| {
            let spelling = spelling.as_ref().filter(|_| way.is_spelled());
            match way {
                Way::Nodes if has_whole => Some(trained),
                Way::Nodes => Some(self.nodes(None, trained.one_in)),
                Way::Spelled => {
                    let one_in = part.settled(spelling, trained).one_in;
                    Some(self.nodes(spelling, one_in))
                }
                Way::FrontCoded => self.front_coded().map(|form| Trained { form, ..trained }),
                Way::Clusters | Way::SpelledClusters => self.clusters(spelling),
            }
        });
        made.expect("nodes can be made of all")
    }

    /// A few neighbours from everywhere.
    fn few(&self) -> (Separators, Option<LastKeys>) {
        self.part(SAMPLES, NEIGHBOURS / SAMPLES)
    }

    /// Nodes of a few separators, if they take so much that others are sure to cost less.
    fn hopeless_nodes(&self) -> Option<Offer> {
        let few = self.few();
        let few = self.of_part(&few);
        let tried = few.tried(None, ASTRAY_ONE_IN);
        few.is_hopeless(&tried.form).then(|| few.offer(Way::Nodes, tried))
    }

    /// Spelled nodes. None of long text, where front-coded separators are sure to take fewer bytes.
    fn spelled(&self, spelling: &Spelling, front_coded: Option<&Offer>) -> Option<Trained> {
        let few = front_coded.filter(|_| !self.is_short()).map(|front_coded| (self.few(), front_coded.bytes));
        let is_hopeless = few.is_some_and(|(few, bytes)| {
            let few = self.of_part(&few);
            few.bytes_each(&few.tried(Some(spelling), ASTRAY_ONE_IN).form) > HOPELESS_SPELLED * bytes
        });
        (!is_hopeless).then(|| self.tried(Some(spelling), ASTRAY_ONE_IN))
    }

    /// Whether nodes like these of a few separators need not be built of more.
    fn is_hopeless(&self, nodes: &Form) -> bool {
        self.bytes_each(nodes) > HOPELESS * NODES_BYTES
    }

    /// [`Ground::cheapest`] of so few separators that all forms are made of all.
    fn cheapest_of_few(&self) -> Trained {
        let mut tried = self.tried(None, ASTRAY_ONE_IN);
        if self.is_short() && self.is_little(&tried.form) {
            tried = self.settled(None, tried);
            if self.is_little(&tried.form) {
                return tried;
            }
        }
        let spelling = self.last_keys.and_then(|last_keys| spelling_of(self.separators, last_keys));
        let mut offers = self.by_cost(spelling.as_ref(), self.offer(Way::Nodes, tried));
        let Offer { way, trained, .. } = offers.swap_remove(0);
        match way {
            Way::Nodes => self.settled(None, trained),
            Way::Spelled => self.settled(spelling.as_ref(), trained),
            _ => trained,
        }
    }

    /// A form of these separators, and its price.
    fn offer(&self, way: Way, trained: Trained) -> Offer {
        let bytes = self.bytes_each(&trained.form);
        Offer { way, is_large: bytes > self.large(), bytes, price: self.price(&trained.form, bytes), trained }
    }

    /// More bytes for each separator than this are much: so large a part of what separators in
    /// their order take.
    fn large(&self) -> f64 {
        LARGE * Sorted::halved_bytes(self.separators) as f64 / self.separators.len() as f64
    }

    /// These nodes and all other forms, the best first.
    fn by_cost(&self, spelling: Option<&Spelling>, nodes: Offer) -> Vec<Offer> {
        let exact = |form| Trained { form, astray: 0, one_in: ASTRAY_ONE_IN };
        let offer = |way, trained: Option<Trained>| trained.map(|trained| self.offer(way, trained));
        let front_coded = offer(Way::FrontCoded, self.front_coded().map(exact));
        let spelled = spelling.and_then(|spelling| self.spelled(spelling, front_coded.as_ref()));
        let spelled = offer(Way::Spelled, spelled);
        // Long text has no clusters, nor has such that its spelling makes even.
        let may_cluster = self.is_short() && spelled.as_ref().is_none_or(|spelled| spelled.is_large);
        let clusters = |spelling| if may_cluster { self.clusters(spelling) } else { None };
        let forms = [
            Some(nodes),
            offer(Way::Clusters, clusters(None)),
            offer(Way::SpelledClusters, spelling.and_then(|spelling| clusters(Some(spelling)))),
            spelled,
            front_coded,
        ];
        let mut offers: Vec<Offer> = forms.into_iter().flatten().collect();
        offers.sort_by(Offer::compare);
        offers
    }

    /// Clusters, of this spelling if there is one. `None` if there are none, or they send too many
    /// keys too far.
    fn clusters(&self, spelling: Option<&Spelling>) -> Option<Trained> {
        let Ground { separators, last_keys, .. } = *self;
        let last_keys = last_keys?;
        let heads = match spelling {
            Some(spelling) => Heads::Spelling(spelling.clone().into()),
            None => Heads::of(separators, Some(last_keys), ASTRAY_ONE_IN),
        };
        let told = clusters::Told::of(separators, last_keys, heads)?;
        CLUSTERS_ONE_IN.into_iter().find_map(|one_in| {
            let (clusters, missed) = Clusters::build(&told, one_in)?;
            let astray = sent_astray(&missed, |key| clusters.locate(key, |_| {}).0, last_keys);
            let form = Form::Clusters(clusters.into());
            (f64::from(astray) <= self.astray_max()).then_some(Trained { form, astray, one_in })
        })
    }

    /// How many keys may be sent too far.
    fn astray_max(&self) -> f64 {
        self.last_keys.map_or(0.0, |last_keys| last_keys.of() as f64 * ASTRAY_MAX)
    }

    /// Whether separators have few bytes beyond what all share: of such, nodes are mostly best.
    fn is_short(&self) -> bool {
        let count = self.separators.len();
        let same = count * shared_prefix(self.separators).len();
        self.separators.total_bytes() - same <= count * SHORT_BYTES_MAX
    }

    /// Whether a form takes so few bytes that no other need be tried.
    fn is_little(&self, form: &Form) -> bool {
        let count = self.separators.len() as f64;
        self.bytes_each(form) * count <= count * NODES_BYTES + NODES_BYTES_MIN
    }

    /// A part as ground of its own.
    fn of_part<'p>(&self, (separators, last_keys): &'p (Separators, Option<LastKeys>)) -> Ground<'p> {
        Ground { separators, last_keys: last_keys.as_ref(), of: self.of }
    }

    /// So many samples of so many neighbours, each in the middle of its part of the table.
    fn part(&self, samples: usize, neighbours: usize) -> (Separators, Option<LastKeys>) {
        let count = self.separators.len();
        let sample = |number: usize| {
            let (begin, end) = (number * count / samples, (number + 1) * count / samples);
            let first = begin + (end - begin).saturating_sub(neighbours) / 2;
            first..end.min(first + neighbours)
        };
        let tried = || (0..samples).flat_map(sample);
        let last_keys = self.last_keys.map(|last_keys| last_keys.only(tried()));
        (tried().map(|i| self.separators.get(i)).collect(), last_keys)
    }

    /// Nodes, of this spelling if there is one, that send few keys too far: about one key in
    /// `one_in` by the last keys of blocks.
    fn nodes(&self, spelling: Option<&Spelling>, one_in: f64) -> Trained {
        // What was too many of a part is no more than a hint for the whole.
        self.settled(spelling, self.tried(spelling, one_in.min(HINT_MAX * ASTRAY_ONE_IN)))
    }

    /// [`Ground::nodes`], which may send more keys too far than is allowed.
    fn tried(&self, spelling: Option<&Spelling>, one_in: f64) -> Trained {
        let Ground { separators, last_keys, .. } = *self;
        let (nodes, missed) = match spelling.zip(last_keys) {
            Some((spelling, last_keys)) => Nodes::spelled(separators, last_keys, one_in, spelling.clone()),
            None => Nodes::build(separators, last_keys, one_in),
        };
        let locate = |key: &[u8]| nodes.locate(key, |_| {}).0;
        let astray = last_keys.map_or(0, |last_keys| sent_astray(&missed, locate, last_keys));
        Trained { form: Form::Nodes(nodes), astray, one_in }
    }

    /// What was tried, if it sends no more keys too far than is allowed; or what does. Where more
    /// keys of a block are sent so than its last one, fewer blocks may be such.
    fn settled(&self, spelling: Option<&Spelling>, tried: Trained) -> Trained {
        let most = self.astray_max();
        let is_settled =
            |trained: &Trained| f64::from(trained.astray) <= most || trained.one_in.is_infinite();
        if is_settled(&tried) {
            return tried;
        }
        // So many times too many; and if that was not enough, none.
        let fewer = self.tried(spelling, f64::from(tried.astray) / most * tried.one_in);
        if is_settled(&fewer) { fewer } else { self.tried(spelling, f64::INFINITY) }
    }

    /// `None` of separators that take more than 4 GiB, or of a few.
    fn front_coded(&self) -> Option<Form> {
        let separators = self.separators;
        if separators.len() <= BUCKET {
            return None;
        }
        FrontCoded::new(separators, shared_prefix(separators)).map(Form::FrontCoded)
    }

    /// Bytes of a form for each of these separators, if it were one of all.
    fn bytes_each(&self, form: &Form) -> f64 {
        let once = form.bytes_once();
        let each = (form.bytes() - once) as f64 / self.separators.len().max(1) as f64;
        each + once as f64 / self.of.max(1) as f64
    }

    /// What a form costs that takes so many bytes for each separator.
    fn price(&self, form: &Form, bytes: f64) -> f64 {
        Cost { bytes, lines: form.lines(), blocks: 1.0 + form.ambiguity() }.total()
    }
}

/// How many keys of the table are sent one block too far: in each block below one of the separators
/// `missed`, the last ones down to the first that is not, since what the index says ascends with
/// keys. [`Nodes`] and [`Clusters`] see to it that that is one of those that are known.
fn sent_astray(missed: &[u32], locate: impl Fn(&[u8]) -> usize, last_keys: &LastKeys) -> u32 {
    let of_block = |&block: &u32| {
        let block = block as usize;
        let is_astray = |key: &&[u8]| locate(key) > block;
        debug_assert!(
            last_keys.least_of_more(block).is_none_or(|least| least.is_empty() || !is_astray(&least)),
            "the least that is known goes aright, or others may not"
        );
        last_keys.backwards(block).take_while(is_astray).count() as u32
    };
    debug_assert!(
        // A first block's key that begins otherwise counts as empty, and need not be.
        (0..last_keys.blocks() as u32).all(|block| {
            last_keys.last(block as usize).is_empty() || of_block(&block) == 0 || missed.contains(&block)
        }),
        "all boundaries below which keys are sent astray"
    );
    missed.iter().map(of_block).sum()
}

/// How many segments boundaries have, those with positions of 24 bits apart, for people.
fn segments_of<'b>(boundaries: impl Iterator<Item = &'b Boundaries> + Clone) -> String {
    let segments: usize = boundaries.clone().map(Boundaries::segments).sum();
    match boundaries.map(Boundaries::fine_segments).sum() {
        0 => format!("{segments} segments"),
        fine => format!("{segments} segments ({fine} fine)"),
    }
}

/// How letters follow each other in some separators and the last keys around them.
fn spelling_of(separators: &Separators, last_keys: &LastKeys) -> Option<Spelling> {
    let begin = shared_prefix(separators);
    let count = separators.len();
    let asked = (0..count).step_by((count / SPELLED).max(1));
    let keys = asked.flat_map(|i| [last_keys.last(i), last_keys.least(i), separators.get(i)]);
    Spelling::of(keys.filter_map(|key| key.strip_prefix(begin)), count)
}

impl Learned {
    /// The index over these separators, of which there are less than 2^31. Where last keys are
    /// known, the form is exact if too many would be sent one block too far. It takes no more bytes
    /// than the separators in their order.
    pub fn build(separators: &Separators, last_keys: Option<&LastKeys>) -> Learned {
        let count = separators.len();
        let ground = Ground { separators, last_keys, of: count };
        let Trained { mut form, mut astray, .. } = ground.cheapest();
        if Sorted::halved_bytes(separators) < form.bytes() {
            (form, astray) = (Form::halved(separators), 0);
        }
        Learned { form, astray: last_keys.map(|last_keys| (astray, last_keys.of())) }
    }

    /// Nodes of these separators, whether another form costs less or not.
    #[cfg(test)]
    pub fn of_nodes(separators: &Separators, last_keys: Option<&LastKeys>) -> Learned {
        let ground = Ground { separators, last_keys, of: separators.len() };
        let Trained { form, astray, .. } = ground.nodes(None, ASTRAY_ONE_IN);
        Learned { form, astray: last_keys.map(|last_keys| (astray, last_keys.of())) }
    }

    /// Puts `begin`, which was left out of all separators, before what they begin with.
    pub fn put_behind(&mut self, begin: &[u8]) {
        self.form.put_behind(begin);
    }

    /// Appends the form (u8: 0 nodes, 2 separators, 3 clusters, 4 front-coded separators), how many
    /// different keys the table has (varint; 0 if it is not known how many are sent astray), how
    /// many of them are (varint), and what the form consists of. `separators` are those that the
    /// index is of.
    pub fn encode(&self, separators: &Separators, out: &mut Vec<u8>) {
        let number = match &self.form {
            Form::Nodes(_) => 0,
            Form::Halved(_) => 2,
            Form::Clusters(_) => 3,
            Form::FrontCoded(_) => 4,
        };
        out.push(number);
        let (astray, of) = self.astray.unwrap_or_default();
        put_varint(out, of);
        put_varint(out, astray.into());
        match &self.form {
            Form::Nodes(nodes) => nodes.encode(out),
            Form::FrontCoded(text) => text.encode(out),
            Form::Halved(_) => separators.encode(out),
            Form::Clusters(clusters) => clusters.encode(out),
        }
    }

    /// Reads what [`Learned::encode`] wrote. What passes may say wrong numbers, but none above
    /// [`Learned::len`]. `separator_bytes_max` is as in [`Separators::decode`].
    pub fn decode(decoder: &mut Decoder<'_>, separator_bytes_max: u64) -> Result<Learned, DecodeError> {
        let number = decoder.u8("the form of a learned index")?;
        let of = decoder.varint("how many keys there are")?;
        let astray = decoder.varint_up_to(of.min(u32::MAX.into()), "how many keys are sent astray")? as u32;
        let form = match number {
            0 => Form::Nodes(Nodes::decode(decoder)?),
            1 => {
                // Nodes led to buckets once. What buckets begin with does so as well.
                Nodes::decode(decoder)?;
                Form::FrontCoded(FrontCoded::decode_sixteens(decoder, separator_bytes_max)?)
            }
            2 => {
                let separators = Separators::decode(decoder, separator_bytes_max)?;
                let mut form = Form::halved(&separators);
                form.put_behind(separators.begin());
                form
            }
            3 => Form::Clusters(Clusters::decode(decoder)?.into()),
            4 => Form::FrontCoded(FrontCoded::decode(decoder)?),
            _ => return decoder.fail("nodes, front-coded separators, separators or clusters"),
        };
        Ok(Learned { form, astray: (of > 0).then_some((astray, of)) })
    }

    /// How many separators are not above `key`, or up to [`Learned::reach`] more; and how far it is
    /// from the last of them to the next, in 256ths, where that is known and to be `MEASURED`.
    /// `early` is as in [`Index::locate`](super::Index::locate).
    #[inline]
    pub fn locate<const MEASURED: bool>(&self, key: &[u8], early: impl Fn(usize)) -> (usize, Option<u8>) {
        match &self.form {
            Form::Nodes(nodes) => nodes.located::<MEASURED>(key, early),
            Form::FrontCoded(text) => (text.locate(key, early), None),
            Form::Halved(sorted) => (sorted.locate(key, early), None),
            Form::Clusters(clusters) => clusters.locate(key, early),
        }
    }

    /// By how much [`Learned::locate`] may say too much.
    pub fn reach(&self) -> usize {
        usize::from(matches!(self.form, Form::Nodes(_) | Form::Clusters(_)))
    }

    /// How many keys of the table are sent to a wrong block, counted; `None` if last keys were not
    /// known.
    pub fn astray(&self) -> Option<u64> {
        self.astray.map(|(astray, _)| astray.into())
    }

    /// The part of all keys that are sent one block too far: counted, or estimated, rather too
    /// high.
    pub fn ambiguity(&self) -> f64 {
        self.astray.map_or_else(|| self.form.ambiguity(), |(astray, of)| f64::from(astray) / of.max(1) as f64)
    }

    /// Which form it has, for people.
    pub fn describe(&self) -> String {
        match &self.form {
            Form::Nodes(nodes) => format!("segments and codes, {}", nodes.describe()),
            Form::FrontCoded(text) => format!("front-coded separators, {}", text.describe()),
            Form::Clusters(clusters) => format!("clusters, {}", clusters.describe()),
            Form::Halved(_) => "separators in their order, halved: no other form takes less".into(),
        }
    }

    /// Cache lines that a lookup touches, on average over separators.
    pub fn lines(&self) -> f64 {
        self.form.lines()
    }

    /// Separators.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Nodes(nodes) => nodes.len(),
            Form::FrontCoded(text) => text.len(),
            Form::Halved(sorted) => sorted.len(),
            Form::Clusters(clusters) => clusters.len(),
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.form.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{bucket_of_16::SIXTEEN, *};
    use crate::codec::put_bytes;

    fn front_coded(separators: &Separators) -> Form {
        let of = separators.len();
        Ground { separators, last_keys: None, of }.front_coded().unwrap()
    }

    fn scattered(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Keys in blocks, and how many of all are sent to a block that they are not in.
    fn astray(keys: &[Vec<u8>], per_block: usize) -> (Learned, f64) {
        let (mut separators, mut last_keys) = (Separators::new(), LastKeys::new(keys.len() as u64));
        for block in (per_block..keys.len()).step_by(per_block) {
            separators.push_between(&keys[block - 1], &keys[block]);
            last_keys.push(&keys[block - crate::index::last_keys::KEPT_MAX..block]);
        }
        let learned = Learned::build(&separators, Some(&last_keys));
        let is_astray = |(i, key): &(usize, &Vec<u8>)| learned.locate::<true>(key, |_| {}).0 != i / per_block;
        let count = keys.iter().enumerate().filter(is_astray).count();
        (learned, count as f64 / keys.len() as f64)
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn keys_that_are_sent_astray_are_counted_and_few_however_they_crowd_below_boundaries() {
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
        let items =
            (0..150_000u64).map(|i| [(i as u32 / 7).to_be_bytes(), (i as u32 % 7).to_be_bytes()].concat());
        for keys in
            [sorted(&mut words.into_iter()), sorted(&mut numbers.into_iter()), sorted(&mut items.into_iter())]
        {
            let (learned, part) = astray(&keys, 45);
            let counted = learned.astray().unwrap() as f64 / keys.len() as f64;
            assert!(counted == part && part <= ASTRAY_MAX, "{counted} and {part} of {} keys", keys.len());
            assert!(matches!(learned.form, Form::Nodes(_)), "{}", learned.describe());
        }
    }

    /// Only last keys are seen when boundaries are coded. Of absent keys of the same kind no more
    /// may go astray than two in a thousand: those go aright that lie in the gap between two
    /// blocks, whichever of the two is named.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn absent_keys_of_the_same_kind_are_seldom_sent_to_a_block_that_they_do_not_lie_beside() {
        let syllables = ["an", "ber", "da", "el", "fin", "go", "ka", "lund", "mir", "no", "pe", "ros", "ste"];
        let word = |number: u64, count: u64| {
            let syllable = |at: u64| syllables[(number >> (5 * at)) as usize % 13];
            (0..count).map(syllable).collect::<String>()
        };
        let words = (0..200_000u64).map(|i| word(scattered(i) >> 9, 2 + scattered(i + 7) % 5));
        let hosts = ["example.org", "mail.net", "post.de", "web.pl"];
        let addresses = (0..200_000u64).map(|i| {
            let (number, host) = (scattered(i), hosts[(scattered(i + 3) >> 60) as usize % 4]);
            format!("{}.{}{}@{host}", word(number >> 40, 1), word(number >> 20, 2), number % 10_000)
        });
        for keys in [words.collect::<Vec<_>>(), addresses.collect()] {
            let mut keys: Vec<Vec<u8>> = keys.into_iter().map(String::into_bytes).collect();
            keys.sort();
            keys.dedup();
            let (mut present, mut absent) = (Vec::new(), Vec::new());
            for (i, key) in keys.into_iter().enumerate() {
                if scattered(i as u64).is_multiple_of(9) { absent.push(key) } else { present.push(key) }
            }
            let (learned, part) = astray(&present, 45);
            let wrong = absent.iter().filter(|key| {
                let rank = present.partition_point(|present| present < *key);
                let beside = rank.saturating_sub(1) / 45..=rank.min(present.len() - 1) / 45;
                !beside.contains(&learned.locate::<true>(key, |_| {}).0)
            });
            let of_absent = wrong.count() as f64 / absent.len() as f64;
            let form = learned.describe();
            assert!(part <= ASTRAY_MAX && of_absent <= 2.0 * ASTRAY_MAX, "{part}, {of_absent}: {form}");
        }
    }

    /// Of a block with keys that no number tells from the boundary behind them eight were counted.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn keys_astray_are_counted_where_many_of_a_block_have_one_number() {
        let sparse = (0..600u64).flat_map(|run| {
            let step = if run % 30 == 7 { 1 } else { 1 << 20 };
            (0..100 + scattered(run) % 300).map(move |i| scattered(run).wrapping_add(i * step))
        });
        let sparse = sparse.map(|number| number.to_be_bytes().to_vec());
        let alike = (0..2000u64).flat_map(|run| {
            let keys = if run % 50 == 3 { 45 } else { 1 };
            let key = move |i: u64, behind: u8| {
                [&scattered(run).wrapping_add(i).to_be_bytes()[..], &[behind]].concat()
            };
            (0..60).flat_map(move |i| (0..if i == 30 { keys } else { 1 }).map(move |behind| key(i, behind)))
        });
        for mut keys in [sparse.collect::<Vec<_>>(), alike.collect()] {
            keys.sort();
            keys.dedup();
            let (learned, part) = astray(&keys, 50);
            let counted = learned.astray().unwrap() as f64 / keys.len() as f64;
            assert!(counted == part && part <= ASTRAY_MAX, "{counted}, {part}: {}", learned.describe());
        }
    }

    /// Orders and lines took 14.4 bytes a block, an S-tree 9.2: nearly every boundary became a
    /// segment.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn composite_keys_take_few_bytes_by_their_fields() {
        let orders = (0..200_000u64).scan((1u64, 0, 83), |(order, line, lines), i| {
            (*order, *line) = if *line == *lines { (*order + 1, 1) } else { (*order, *line + 1) };
            *lines = if *line == 1 { 1 + scattered(i) % 165 } else { *lines };
            Some((*order << 32 | *line).to_be_bytes().to_vec())
        });
        let (learned, part) = astray(&orders.collect::<Vec<_>>(), 50);
        let bytes = learned.bytes() as f64 / learned.len() as f64;
        assert!(part <= ASTRAY_MAX && bytes < 3.0, "{part}, {bytes} bytes a block: {}", learned.describe());
    }

    /// Symptom: paths took 0.96 of the bytes of separators in their order. Cause: of forms that all
    /// take much, the one with the fewest cache lines was taken. Cure: the one with the fewest
    /// bytes.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn of_forms_that_all_take_much_the_one_with_the_fewest_bytes_is_taken() {
        let name = |number: u64| {
            let syllables = ["ba", "der", "fi", "go", "kul", "lam", "ne", "pro", "ri", "sten", "tu", "wei"];
            let (number, len) = (scattered(number + 1), 1 + number % 3);
            (0..len).map(|at| syllables[(number >> (8 * at + 20)) as usize % 12]).collect::<String>()
        };
        // Most directories lie in old ones, as names of few are in most.
        let mut directories = vec![String::new()];
        let mut keys = Vec::new();
        for i in 0..3000u64 {
            let few =
                |salt: u64, of: u64| (scattered(3 * i + salt) >> 33) % of.min(1 + scattered(i + salt) % of);
            let parent = &directories[few(1, directories.len() as u64) as usize];
            let directory = format!("{parent}{}/", name(few(2, 400)));
            let file = |j: u64| format!("{directory}{}_{}.rs", name(scattered(24 * i + j) % 6000), name(j));
            keys.extend((0..1 + few(3, 48)).map(|j| file(j).into_bytes()));
            directories.push(directory);
        }
        keys.sort();
        keys.dedup();
        let (mut separators, mut last_keys) = (Separators::new(), LastKeys::new(keys.len() as u64));
        for block in (12..keys.len()).step_by(12) {
            separators.push_between(&keys[block - 1], &keys[block]);
            last_keys.push(&keys[block - crate::index::last_keys::KEPT_MAX..block]);
        }
        let ground = Ground { separators: &separators, last_keys: Some(&last_keys), of: separators.len() };
        let spelling = spelling_of(&separators, &last_keys);
        let nodes = ground.offer(Way::Nodes, ground.tried(None, ASTRAY_ONE_IN));
        let mut offers = ground.by_cost(spelling.as_ref(), nodes);
        // Spelled nodes would take far more than front-coded separators, so none are made.
        assert!(offers.iter().all(|offer| offer.way != Way::Spelled) && offers[0].way == Way::FrontCoded);
        offers.push(ground.offer(Way::Spelled, ground.tried(spelling.as_ref(), ASTRAY_ONE_IN)));
        offers.sort_by(Offer::compare);
        let large: Vec<f64> = offers.iter().filter(|offer| offer.is_large).map(|offer| offer.bytes).collect();
        assert!(large.len() >= 2 && large.is_sorted(), "{large:?}");
        assert!(offers.iter().is_sorted_by_key(|offer| offer.is_large));
    }

    /// Files that were written when nodes led to buckets of sixteen stay readable.
    #[test]
    fn front_coded_separators_behind_nodes_of_them_are_read() {
        let text = |i: u64| format!("{:040}{}", i * i, "x".repeat(i as usize % 40)).into_bytes();
        let separators = (0..100).map(text).collect::<Separators>();
        let firsts = (0..100).step_by(SIXTEEN).map(|i| separators.get(i)).collect::<Separators>();
        let mut now = Vec::new();
        Learned { form: front_coded(&separators), astray: None }.encode(&separators, &mut now);
        // The form, no keys, none astray; then what it consists of.
        let mut then = vec![1, 0, 0];
        Nodes::build(&firsts, None, ASTRAY_ONE_IN).0.encode(&mut then);
        let prefix = shared_prefix(&separators);
        put_bytes(&mut then, prefix);
        put_varint(&mut then, 100);
        let rests: Vec<Vec<u8>> =
            separators.iter().map(|separator| separator[prefix.len()..].to_vec()).collect();
        rests.chunks(SIXTEEN).for_each(|bucket| put_bytes(&mut then, &bucket_of_16::written(bucket)));
        let read = |bytes_max: u64| {
            let mut decoder = Decoder::new(&then);
            let read = Learned::decode(&mut decoder, bytes_max)?;
            decoder.finish("the end").map(|()| read)
        };
        assert!(read(100).is_err(), "more bytes than separators may take");
        let read = read(1 << 16).unwrap();
        for (i, separator) in separators.iter().enumerate() {
            assert_eq!(read.locate::<false>(separator, |_| {}).0, i + 1);
        }
        let mut again = Vec::new();
        read.encode(&separators, &mut again);
        assert_eq!(again, now);
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
        assert!(matches!(built.form, Form::Nodes(_)));
        assert!(built.bytes() < front_coded(&behind_prefixes).bytes());
        let built = Learned::build(&paths, None);
        assert!(
            matches!(built.form, Form::FrontCoded(..))
                && built.bytes() < Nodes::build(&paths, None, ASTRAY_ONE_IN).0.bytes()
        );
    }
}
