//! Histories of concurrent transactions over lists, and two judges of them that know nothing of
//! each other: `History`.
//!
//! A history is what every transaction read and appended, as its thread saw it. `replay` repeats
//! the transactions in the order that the engine claims, and compares every answer. `cycles`
//! believes the engine nothing: it infers from the lists alone which transaction came before which
//! (Kingsbury and Alvaro, "Elle", VLDB 2020), and looks for cycles.
//!
//! What must hold: every element is appended once, so a list tells which transactions wrote it and
//! in which order.
//!
//! Caller: `program::isolate`.

pub mod cycles;
mod graph;
pub mod replay;

/// A list's number.
pub type Key = u64;
/// An element of a list; no two appends have the same one.
pub type Element = u64;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The list was read, and was this.
    Read(Key, Vec<Element>),
    /// The element was appended to the list.
    Append(Key, Element),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Committed; the engine says that it took place at this number. With no appends: right after
    /// the transaction that has that number.
    Committed(u64),
    /// Refused. What it read counts all the same, for it read one snapshot; what it appended must
    /// never show.
    Aborted,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The thread that did it. A thread does one after the other.
    pub thread: u32,
    /// What it did, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub end: End,
}

impl Transaction {
    /// Whether it committed.
    pub fn committed(&self) -> bool {
        matches!(self.end, End::Committed(_))
    }

    /// Whether it appended nothing.
    pub fn only_reads(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Read(..)))
    }
}

/// All transactions; those of one thread in the order in which it did them.
pub type History = Vec<Transaction>;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `r1=2,3` reads list 1 as [2, 3], `a1=4` appends 4 to it.
    fn steps(text: &str) -> Vec<Step> {
        text.split_whitespace()
            .map(|word| {
                let (key, elements) = word[1..].split_once('=').unwrap();
                let mut elements = elements.split(',').filter(|e| !e.is_empty()).map(|e| e.parse().unwrap());
                let key = key.parse().unwrap();
                match &word[..1] {
                    "r" => Step::Read(key, elements.collect()),
                    _ => Step::Append(key, elements.next().unwrap()),
                }
            })
            .collect()
    }

    /// Committed at `at` by a thread of its own.
    pub(crate) fn committed(at: u64, text: &str) -> Transaction {
        Transaction { thread: at as u32, steps: steps(text), end: End::Committed(at) }
    }

    pub(crate) fn aborted(thread: u32, text: &str) -> Transaction {
        Transaction { thread, steps: steps(text), end: End::Aborted }
    }
}
