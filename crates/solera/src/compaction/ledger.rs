//! What compaction remembers of one tree between decisions: `Ledger`.
//!
//! It owns claims, seals, held limits, damage and overlap, and what reads have paid for level 0 and
//! for surplus levels. `picture` takes what a decision may look at. `start`, `enter` (nothing at
//! level 0) and `finish` keep the claims, `change_limit` a changed run limit, `reshape` a changed
//! shape, `note_damage` an unreadable table. `hurry` says that a user waits for level 0 and surplus
//! levels.
//!
//! What must hold: only the holder of the work lock touches a ledger, and decisions read only the
//! `Picture`. Nothing of it is on disk. After a restart nothing is claimed or sealed, every run
//! limit is the wanted one, and damage is found again.
//!
//! Callers: `engine::work`, one ledger for each tree; the tests `golden`, `job_tests` and
//! `simulation`.

use super::{
    claims::{Claims, Ticket},
    damage::Damage,
    entrance::Entrance,
    horizon::Horizon,
    overlap::Overlap,
    patience::{Level0, Reckoning},
    picture::Picture,
    plan::Plan,
    seals::Seals,
    shape::Shape,
    surplus::Reshaping,
    transition::{HeldLimits, LimitChange, Transition},
};
use crate::{error::Error, key::KeyRange, stats::LevelCounters, version::Version};

/// Claims, seals, run limits that are held, damage, and what reads have paid for level 0.
#[derive(Debug, Default)]
pub struct Ledger {
    claims: Claims,
    seals: Seals,
    held: HeldLimits,
    damage: Damage,
    reckoning: Reckoning,
    reshaping: Reshaping,
    overlap: Overlap,
}

impl Ledger {
    /// Nothing is claimed, nothing is sealed.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// The tree as it is now. `reads` gives all that reads ever did in a level; `patience` is the
    /// runs at which level 0 is merged though they have not paid for it; `horizon` was taken no
    /// later than `version`.
    pub fn picture<'p>(
        &'p mut self,
        version: &'p Version,
        wanted: &'p Shape,
        patience: u32,
        reads: &dyn Fn(u32) -> LevelCounters,
        horizon: &'p Horizon,
    ) -> Picture<'p> {
        self.damage.forget_replaced(version);
        let shape = self.held.in_force(version, wanted);
        let level0 = self.reckoning.look(version, &shape, &self.seals, patience, &reads(0));
        let surplus = self.reshaping.look(version, &shape, reads);
        self.overlap.forget_older(version);
        let Ledger { claims, seals, held, damage, overlap, .. } = self;
        Picture { version, wanted, shape, level0, surplus, claims, seals, held, damage, horizon, overlap }
    }

    /// When level 0 was due when the last picture was taken.
    pub fn level0(&self) -> Level0 {
        self.reckoning.last()
    }

    /// Whether surplus levels waited for reads when the last picture was taken.
    pub fn surplus_waits(&self) -> bool {
        self.reshaping.waits()
    }

    /// Whether nothing is claimed.
    pub fn is_idle(&self) -> bool {
        self.claims.is_empty()
    }

    /// `plan` begins. Until [`Ledger::finish`], no plan is picked that could collide with it.
    pub fn start(&mut self, plan: &Plan) -> Ticket {
        if let (Some(source), Some(run)) = (plan.sources.first(), plan.seals) {
            self.seals.seal(source.level, run);
        }
        self.claims.start(plan)
    }

    /// Tables over `range` are about to enter: their place is kept until [`Ledger::finish`]. Level
    /// 0 takes everything, so nothing is kept there.
    pub fn enter(&mut self, entrance: &Entrance, range: &KeyRange) -> Option<Ticket> {
        (entrance.level > 0).then(|| self.claims.enter(entrance.level, range))
    }

    /// The work is installed, or given up.
    pub fn finish(&mut self, ticket: Ticket) {
        self.claims.finish(ticket);
    }

    /// The run limit of a level was changed, or is about to be.
    pub fn change_limit(&mut self, change: LimitChange) {
        self.held.note(change);
        if change.transition == Transition::Greedy {
            self.seals.seal(change.level, change.newest);
        }
    }

    /// The shape is about to change, so that other levels may be needed.
    pub fn reshape(&mut self, transition: Transition) {
        self.reshaping.begin(transition == Transition::Greedy);
    }

    /// If level 0 has come to its run limit and waits for reads, it is not to wait any longer: a
    /// user waits for it. Nor are surplus levels.
    pub fn hurry(&mut self, version: &Version, shape: &Shape) {
        self.reckoning.hurry(version, shape);
        self.reshaping.hurry();
    }

    /// Notes which keys lie in several runs: the tree rests, and a worker has looked.
    pub fn note_overlap(&mut self, overlap: Overlap) {
        self.overlap = overlap;
    }

    /// Notes that a table of `plan` cannot be read, if `error` says so. From now on plans go around
    /// it.
    pub fn note_damage(&mut self, plan: &Plan, error: &Error) -> bool {
        self.damage.note(plan, error)
    }

    /// What is wrong with the tables of `version` that plans could not read.
    pub fn damage(&mut self, version: &Version) -> &Damage {
        self.damage.forget_replaced(version);
        &self.damage
    }
}
