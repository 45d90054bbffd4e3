//! Which keys of which level are being worked on: `Claims`, and `Ticket`, the name of one claim.
//!
//! `start` claims a plan's range in the levels of its sources, and the plan's hull in the level of
//! its target. `enter` claims the place of ingested tables. `finish` ends a claim. `overlaps`
//! answers whether a range of a level is taken; `leaving_bytes` says what running plans take out of
//! a level.
//!
//! What must hold: claims of different tickets never overlap in one level. `start` and `enter`
//! assert it. The keys of one plan may overlap each other.
//!
//! Callers: `ledger` changes claims; `picture` lends them to `cut`, `entrance`, `space`, `want` and
//! `key_list`, which decide around them. `engine::work` keeps the tickets; `control::observe`
//! counts the claims.

use super::plan::Plan;
use crate::key::KeyRange;

/// Names a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The claims of one tree.
#[derive(Debug, Default)]
pub struct Claims {
    running: Vec<Claim>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Claim {
    ticket: Ticket,
    keys: Vec<(u32, KeyRange)>,
    source_level: Option<u32>,
    source_bytes: u64,
}

impl Claims {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// `plan` begins.
    pub(super) fn start(&mut self, plan: &Plan) -> Ticket {
        let is_free = |(level, range): (u32, KeyRange)| !self.overlaps(level, &range);
        assert!(plan.claims().all(is_free), "a plan needs what another one has claimed: {plan}");
        self.add(plan.claims().collect(), plan.source_level(), plan.source_bytes())
    }

    /// Tables with keys of `range` are about to enter `level` from outside.
    pub(super) fn enter(&mut self, level: u32, range: &KeyRange) -> Ticket {
        assert!(
            !self.overlaps(level, range),
            "tables enter {range} of level {level}, which a plan has claimed"
        );
        self.add(vec![(level, range.clone())], None, 0)
    }

    fn add(&mut self, keys: Vec<(u32, KeyRange)>, source_level: Option<u32>, source_bytes: u64) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.running.push(Claim { ticket, keys, source_level, source_bytes });
        ticket
    }

    /// The work is installed, or given up.
    pub(super) fn finish(&mut self, ticket: Ticket) {
        self.running.retain(|claim| claim.ticket != ticket);
    }

    /// Bytes that running plans are taking out of `level`.
    pub(super) fn leaving_bytes(&self, level: u32) -> u64 {
        let from = self.running.iter().filter(|claim| claim.source_level == Some(level));
        from.map(|claim| claim.source_bytes).sum()
    }

    /// Whether a claim holds keys of `range` in `level`.
    pub(super) fn overlaps(&self, level: u32, range: &KeyRange) -> bool {
        self.of(level).any(|claim| claim.overlaps(range))
    }

    /// What is claimed of `level`.
    pub(super) fn of(&self, level: u32) -> impl Iterator<Item = &KeyRange> {
        let keys = self.running.iter().flat_map(|claim| &claim.keys);
        keys.filter(move |(at, _)| *at == level).map(|(_, range)| range)
    }

    /// All that is claimed: level and keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(u32, KeyRange)> {
        self.running.iter().flat_map(|claim| &claim.keys)
    }
}
