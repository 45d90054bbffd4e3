//! The second judge of a history, a black box: `judge` finds what must have come before what, from
//! the lists alone.
//!
//! The longest reading of a list tells the order of its appends; every other reading must be a
//! beginning of it. Edges are Elle's. By *ww* an element was appended after another, by *wr* a
//! transaction read it. By *rw* a transaction did not read the element that came next. A thread's
//! transactions follow one another too. It also finds readings that contradict their own
//! transaction, and elements that are refused, half done, lost or of no transaction.
//! What must hold: if all transactions can be put into one order, there is no cycle. Of each
//! strongly connected component one cycle is told, by its lowest name after Adya: G0, G1c,
//! G-single, G2.
//! Caller: `program::isolate`.

use super::{Element, History, Key, Step, graph::Graph};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The other appended behind its element.
    WriteWrite,
    /// The other read its element.
    WriteRead,
    /// It missed an element of the other.
    ReadWrite,
    /// The same thread did the other later.
    Thread,
}

/// What no serializable database shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A list that contradicts the steps of the transaction that read it.
    Internal,
    /// Two readings of one list, neither of which is a beginning of the other.
    IncompatibleOrder,
    /// An element that no transaction appended, or one that is in a list twice.
    Garbage,
    /// An element of a committed transaction that is not in the last reading.
    Lost,
    /// A reading of an aborted transaction's element.
    G1a,
    /// A reading of what a transaction had not finished.
    G1b,
    /// A cycle of writes.
    G0,
    /// A cycle of writes and readings.
    G1c,
    /// A cycle with one missed write.
    GSingle,
    /// A cycle with more.
    G2,
}

/// One of them, with what shows it.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// What it is.
    pub kind: Kind,
    /// The transactions concerned and why, in words.
    pub story: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.story)
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Edges of the graph.
    pub edges: usize,
    /// What is wrong: nothing, if all is well.
    pub anomalies: Vec<Anomaly>,
}

struct Judge<'h> {
    history: &'h History,
    /// Which transaction appended an element.
    writers: HashMap<Element, usize>,
    /// Each list in the order of its appends, as far as any transaction read it.
    lists: BTreeMap<Key, Vec<Element>>,
    anomalies: Vec<Anomaly>,
}

/// Judges a history. Its last transaction should read every list to the end: what was appended and
/// is in no reading is lost only then.
pub fn judge(history: &History) -> Findings {
    let mut judge = Judge { history, writers: HashMap::new(), lists: BTreeMap::new(), anomalies: Vec::new() };
    judge.find_writers();
    judge.find_orders();
    judge.check_readings();
    let graph = judge.graph();
    judge.find_cycles(&graph);
    judge.anomalies.sort_by_key(|anomaly| anomaly.kind);
    Findings { edges: graph.len(), anomalies: judge.anomalies }
}

impl Judge<'_> {
    fn complain(&mut self, kind: Kind, story: String) {
        self.anomalies.push(Anomaly { kind, story });
    }

    fn find_writers(&mut self) {
        for (number, transaction) in self.history.iter().enumerate() {
            for step in &transaction.steps {
                if let Step::Append(key, element) = step
                    && let Some(other) = self.writers.insert(*element, number)
                {
                    let story = format!("{element} is appended to {key} by {number} and by {other}");
                    self.complain(Kind::Garbage, story);
                }
            }
        }
    }

    /// The readings that show a state of the database: what a transaction read before it appended
    /// to the same list itself.
    fn outer_readings(&self) -> impl Iterator<Item = (usize, Key, &Vec<Element>)> {
        self.history.iter().enumerate().flat_map(|(number, transaction)| {
            let steps = &transaction.steps;
            steps.iter().enumerate().filter_map(move |(at, step)| {
                let Step::Read(key, list) = step else { return None };
                let own =
                    steps[..at].iter().any(|step| matches!(step, Step::Append(other, _) if other == key));
                (!own).then_some((number, *key, list))
            })
        })
    }

    fn find_orders(&mut self) {
        let mut lists: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
        for (_, key, list) in self.outer_readings() {
            let longest = lists.entry(key).or_default();
            if list.len() > longest.len() {
                list.clone_into(longest);
            }
        }
        let odd: Vec<_> = self
            .outer_readings()
            .filter(|(_, key, list)| !lists[key].starts_with(list))
            .map(|(number, key, list)| {
                format!("{number} read list {key} as {list:?}, but it is {:?}", lists[&key])
            })
            .collect();
        odd.into_iter().for_each(|story| self.complain(Kind::IncompatibleOrder, story));
        for (key, list) in &lists {
            let mut seen = std::collections::HashSet::new();
            let twice = list.iter().find(|&element| !seen.insert(*element));
            if let Some(twice) = twice {
                self.anomalies
                    .push(Anomaly { kind: Kind::Garbage, story: format!("{twice} is in {key} twice") });
            }
        }
        self.lists = lists;
    }

    fn check_readings(&mut self) {
        let mut found = Vec::new();
        for (number, transaction) in self.history.iter().enumerate() {
            // What the transaction itself knows of a list, once it has read it or appended to it:
            // how it began, if it read it, and what it appended.
            let mut known: HashMap<Key, (Option<Vec<Element>>, Vec<Element>)> = HashMap::new();
            for step in &transaction.steps {
                match step {
                    Step::Append(key, element) => known.entry(*key).or_default().1.push(*element),
                    Step::Read(key, list) => {
                        let (begin, own) = known.entry(*key).or_default();
                        let agrees = match begin {
                            Some(begin) => list.strip_prefix(&begin[..]) == Some(&own[..]),
                            None => list.ends_with(own),
                        };
                        if !agrees {
                            found.push((
                                Kind::Internal,
                                format!("{number} read {list:?} of {key}: {transaction:?}"),
                            ));
                        } else if begin.is_none() {
                            *begin = Some(list[..list.len() - own.len()].to_vec());
                        }
                    }
                }
            }
        }
        for (number, key, list) in self.outer_readings() {
            for (at, element) in list.iter().enumerate() {
                let Some(&writer) = self.writers.get(element) else {
                    found.push((
                        Kind::Garbage,
                        format!("{number} read {element} of {key}, which nobody appended"),
                    ));
                    continue;
                };
                if !self.history[writer].committed() {
                    found
                        .push((Kind::G1a, format!("{number} read {element} of {key}; {writer} was refused")));
                }
                // The end of a reading must be the end of what its writer did to the list.
                if at + 1 == list.len() {
                    let last = self.history[writer].steps.iter().rev().find_map(|step| match step {
                        Step::Append(other, element) if *other == key => Some(*element),
                        _ => None,
                    });
                    if last != Some(*element) && writer != number {
                        found.push((
                            Kind::G1b,
                            format!("{number} read {key} up to {element}, in the middle of {writer}"),
                        ));
                    }
                }
            }
        }
        for (number, transaction) in self.history.iter().enumerate().filter(|(_, one)| one.committed()) {
            for step in &transaction.steps {
                if let Step::Append(key, element) = step
                    && let Some(list) = self.lists.get(key)
                    && !list.contains(element)
                {
                    found.push((
                        Kind::Lost,
                        format!("{element}, appended to {key} by {number}, is in no reading"),
                    ));
                }
            }
        }
        found.into_iter().for_each(|(kind, story)| self.complain(kind, story));
    }

    fn graph(&self) -> Graph<Because> {
        let mut graph = Graph::new(self.history.len());
        let writer = |element: &Element| {
            self.writers.get(element).copied().filter(|&writer| self.history[writer].committed())
        };
        for list in self.lists.values() {
            for pair in list.windows(2) {
                if let (Some(first), Some(then)) = (writer(&pair[0]), writer(&pair[1])) {
                    graph.add(first, then, Because::WriteWrite);
                }
            }
        }
        for (number, key, list) in self.outer_readings() {
            if let Some(writer) = list.last().and_then(writer) {
                graph.add(writer, number, Because::WriteRead);
            }
            if let Some(missed) = self.lists[&key].get(list.len()).and_then(writer) {
                graph.add(number, missed, Because::ReadWrite);
            }
        }
        let mut latest: HashMap<u32, usize> = HashMap::new();
        for (number, transaction) in self.history.iter().enumerate() {
            if let Some(before) = latest.insert(transaction.thread, number) {
                graph.add(before, number, Because::Thread);
            }
        }
        graph
    }

    /// The smallest cycle of the lowest kind in each component.
    fn find_cycles(&mut self, graph: &Graph<Because>) {
        let writes = |because| because == Because::WriteWrite;
        let known = |because| because != Because::ReadWrite;
        for component in graph.components(|_| true) {
            let begin = component[0];
            let inner = |uses: &dyn Fn(Because) -> bool| {
                component.iter().filter_map(|&node| graph.way(node, node, uses)).min_by_key(Vec::len)
            };
            let single = || {
                let missed = component.iter().flat_map(|&node| {
                    graph
                        .edges(node)
                        .iter()
                        .filter(|(_, because)| !known(*because))
                        .map(move |&(to, _)| (node, to))
                });
                let closed = missed.filter_map(|(node, to)| {
                    let mut way = graph.way(to, node, known)?;
                    way.insert(0, (node, Because::ReadWrite));
                    Some(way)
                });
                closed.min_by_key(Vec::len)
            };
            let (kind, way) = if let Some(way) = inner(&writes) {
                (Kind::G0, way)
            } else if let Some(way) = inner(&known) {
                (Kind::G1c, way)
            } else if let Some(way) = single() {
                (Kind::GSingle, way)
            } else {
                (Kind::G2, graph.way(begin, begin, |_| true).unwrap_or_default())
            };
            let story: Vec<_> = way
                .iter()
                .map(|&(node, because)| format!("{node} {:?} -{because:?}->", self.history[node].steps))
                .collect();
            self.complain(kind, story.join(" "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, *};

    fn kinds(history: History) -> Vec<Kind> {
        judge(&history).anomalies.into_iter().map(|anomaly| anomaly.kind).collect()
    }

    #[test]
    fn a_serial_history_is_clean_and_has_edges() {
        let history = vec![
            committed(1, "r1= a1=10 a2=11"),
            committed(2, "r2=11 a2=20 r2=11,20"),
            aborted(3, "r1=10 a1=30"),
            committed(4, "r1=10 r2=11,20"),
        ];
        let findings = judge(&history);
        assert!(findings.anomalies.is_empty(), "{:?}", findings.anomalies);
        assert!(findings.edges >= 4);
    }

    #[test]
    fn each_planted_anomaly_is_found_and_called_by_its_name() {
        for (kind, history) in [
            (Kind::G1a, vec![aborted(1, "a1=10"), committed(2, "r1=10")]),
            (Kind::G1b, vec![committed(1, "a1=10 a1=11"), committed(2, "r1=10"), committed(3, "r1=10,11")]),
            (
                Kind::G0,
                vec![
                    committed(1, "a1=10 a2=11"),
                    committed(2, "a1=20 a2=21"),
                    committed(3, "r1=10,20 r2=21,11"),
                ],
            ),
            (Kind::G1c, vec![committed(1, "a1=10 r2=20"), committed(2, "a2=20 r1=10")]),
            // A lost update shows as one: both read nothing, and then there are two.
            (
                Kind::GSingle,
                vec![committed(1, "r1= a1=10"), committed(2, "r1= a1=20"), committed(3, "r1=10,20")],
            ),
            // A fractured reading: the one append of a transaction, and not the other.
            (
                Kind::GSingle,
                vec![committed(1, "a1=10 a2=11"), committed(2, "r1=10 r2="), committed(3, "r2=11")],
            ),
            // Write skew.
            (
                Kind::G2,
                vec![committed(1, "r1= a2=10"), committed(2, "r2= a1=20"), committed(3, "r1=20 r2=10")],
            ),
            (
                Kind::IncompatibleOrder,
                vec![
                    committed(1, "r1=10,20"),
                    committed(2, "r1=20"),
                    committed(3, "a1=10"),
                    committed(4, "a1=20"),
                ],
            ),
            (Kind::Internal, vec![committed(1, "a1=10 r1=")]),
            (Kind::Internal, vec![committed(1, "a1=10"), committed(2, "r1= r1=10")]),
            (Kind::Garbage, vec![committed(1, "r1=10")]),
            (Kind::Garbage, vec![committed(1, "a1=10"), committed(2, "r1=10,10")]),
            (Kind::Lost, vec![committed(1, "a1=10"), committed(2, "r1=")]),
        ] {
            let found = kinds(history.clone());
            assert!(found.contains(&kind), "{kind:?} in {history:?}: found {found:?}");
        }
    }

    #[test]
    fn a_cycle_is_called_by_its_lowest_name_alone() {
        let skew = vec![committed(1, "r1= a2=10"), committed(2, "r2= a1=20"), committed(3, "r1=20 r2=10")];
        assert_eq!(kinds(skew), [Kind::G2]);
        let lost = vec![committed(1, "r1= a1=10"), committed(2, "r1= a1=20"), committed(3, "r1=10,20")];
        assert_eq!(kinds(lost), [Kind::GSingle]);
        let circular = vec![committed(1, "a1=10 r2=20"), committed(2, "a2=20 r1=10")];
        assert_eq!(kinds(circular), [Kind::G1c]);
    }

    #[test]
    fn a_thread_that_does_not_see_its_own_commit_is_found() {
        let mut history = vec![committed(1, "a1=10"), committed(2, "r1="), committed(3, "r1=10")];
        assert_eq!(kinds(history.clone()), []);
        history[1].thread = history[0].thread;
        assert_eq!(kinds(history), [Kind::GSingle]);
    }

    #[test]
    fn what_an_aborted_transaction_read_counts() {
        // It read half of what the first did.
        let history =
            vec![committed(1, "a1=10 a2=11"), aborted(2, "r1=10 r2= a3=20"), committed(3, "r1=10 r2=11")];
        assert_eq!(kinds(history), [Kind::GSingle]);
    }
}
