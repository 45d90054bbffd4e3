//! Arms that do the same missions in turns, and what became of each: `Contest`, `Arm`, `Role`.
//!
//! `missions` lets every arm do so many missions of a mix, another one first each time. An `Arm`
//! keeps time, blocks and level 1's run limit of each mission. `us` is microseconds of an operation
//! over a range of missions; `best_fixed` the fixed arm that costs least, `as_good` those near it.
//!
//! What must hold: all arms do as many operations of the same mixes on the same data.
//!
//! Callers: `paper::lerp`; `camal_learned`, `camal_dynamic` and `together` take `mean`.

use super::{
    learning::{Hand, Learner},
    missions::{Site, Tenant},
};
use crate::runner::{Error, Progress, Result};
use solera_tune::cost::Mix;

/// What an arm is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// One K in all levels, for good.
    Fixed(u32),
    /// Another setting, for good.
    Set,
    /// The paper's agent, with whatever seed.
    Lerp,
    /// The tuner that users get.
    Steward,
    /// Whatever else learns or plans.
    Opponent,
}

/// One arm.
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) learner: Learner,
    /// Microseconds of an operation, mission by mission.
    pub(super) missions: Vec<f64>,
    /// Blocks read and merged per operation, mission by mission.
    pub(super) blocks: Vec<f64>,
    /// K of level 1 after each mission.
    pub(super) limits: Vec<u32>,
}

impl Arm {
    pub(super) fn new(name: impl Into<String>, role: Role, tenant: Tenant, hand: Hand) -> Arm {
        Arm {
            name: name.into(),
            role,
            learner: Learner::new(tenant, hand),
            missions: Vec::new(),
            blocks: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// Microseconds of an operation in these missions.
    pub(super) fn us(&self, missions: std::ops::Range<usize>) -> f64 {
        mean(&self.missions[missions])
    }

    /// Microseconds of an operation in all of them.
    pub(super) fn us_of_all(&self) -> f64 {
        mean(&self.missions)
    }
}

/// The mean of what there is.
pub(super) fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// Arms in turns.
pub(super) struct Contest<'a> {
    pub(super) site: &'a Site,
    pub(super) operations: u64,
    pub(super) arms: Vec<Arm>,
}

impl Contest<'_> {
    /// Every arm does so many missions of a mix, another one first each time.
    pub(super) fn missions(
        &mut self,
        mix: &Mix,
        count: usize,
        stage: &str,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let (turns, clock) = (self.arms.len(), self.site.clock.clone());
        for mission in 0..count {
            progress.at(stage, mission as u64, count as u64);
            for turn in 0..turns {
                let arm = &mut self.arms[(turn + mission) % turns];
                let (did, _) = arm.learner.mission(&*clock, mix, self.operations)?;
                arm.missions.push(did.us());
                arm.blocks.push(did.blocks(&self.site.data));
                arm.limits.push(arm.learner.run_limits().first().copied().unwrap_or(1));
            }
        }
        Ok(())
    }

    /// Arms with a role.
    pub(super) fn having(&self, is: impl Fn(Role) -> bool) -> impl Iterator<Item = &Arm> {
        self.arms.iter().filter(move |arm| is(arm.role))
    }

    /// The fixed arm that costs least in these missions, and its K.
    pub(super) fn best_fixed(&self, missions: std::ops::Range<usize>) -> (&Arm, u32) {
        let fixed = self.arms.iter().filter_map(|arm| match arm.role {
            Role::Fixed(limit) => Some((arm, limit)),
            _ => None,
        });
        let least = fixed.min_by(|a, b| a.0.us(missions.clone()).total_cmp(&b.0.us(missions.clone())));
        least.expect("there are fixed arms")
    }

    /// K of the fixed arms that take at most `times` what the best takes in these missions.
    pub(super) fn as_good(&self, missions: std::ops::Range<usize>, times: f64) -> Vec<u32> {
        let most = times * self.best_fixed(missions.clone()).0.us(missions.clone());
        let mut limits: Vec<u32> = self
            .arms
            .iter()
            .filter(|arm| arm.us(missions.clone()) <= most)
            .filter_map(|arm| if let Role::Fixed(limit) = arm.role { Some(limit) } else { None })
            .collect();
        limits.sort_unstable();
        limits
    }

    /// The arm of this name.
    pub(super) fn arm(&self, name: &str) -> Result<&Arm> {
        let found = self.arms.iter().find(|arm| arm.name == name);
        found.ok_or_else(|| Error::Config(format!("there is no arm {name:?}")))
    }
}
