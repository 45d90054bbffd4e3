//! What plans are priced at for one window: `Prices`, as shares of what staying costs.
//!
//! `allowed` prices a plan for `wishes::search`. It refuses one that is not cheaper, that the
//! agent's record does not dare, or that a later workload suffers from. One that makes a level is
//! for contexts that last. It leaves alone what others have set. `ratio` is the price alone. Where
//! contexts come and go fast, it is none for a plan that makes a context that was back lately worse
//! than by default. `undone` prices a plan that is tried and taken back.
//!
//! What must hold: a plan is walked once for each workload, however often it is asked for, because
//! groups of knobs have plans in common.
//!
//! Caller: `steward`, for its wishes and for the way home (`ratio`).

use super::{
    DWELL, LASTS, Steward, apart,
    foresight::Walk,
    plan::Plan,
    wishes::{self, Group},
};
use crate::{agent::Set, sight::Window};
use std::cell::RefCell;

/// How much worse reads of a workload to come may be at first, as a share: until its first window
/// has ended, or reads have paid for the merge of level 0.
const FIRST_HAZARD_MAX: f64 = 1.0;
/// How much more later hazards may be for each window that the context has lasted, as a share, as
/// far as those are few: what has lasted will last, and another workload comes the later.
const HAZARD_MORE: f64 = 0.1;
/// Windows that levels which leave at once may take to do so: a change that is still paying for it
/// when it is judged looks as if it hurt.
const LEAVING_WINDOWS_MAX: f64 = 1.0;
/// Of these, how much must be gained in each window once they have left, unless they are set aside:
/// the windows that judge the change have their part of its merges.
const LEAVING_GAIN: f64 = 0.25;
/// How much worse than by default a context that was seen lately may become, as a share.
const OTHERS_LOSS_MAX: f64 = 0.03;

/// Prices of plans, as shares of what staying costs.
pub(super) struct Prices<'a> {
    steward: &'a Steward,
    stay: &'a Plan,
    dwell: f64,
    own: Asked,
    /// The contexts that were back lately and may come back soon, with their weights.
    others: Vec<(Asked, f64)>,
    /// Plans that were priced as tried and taken back.
    ways_back: RefCell<Vec<(Plan, Walk)>>,
}

/// One workload on the tree as it is now, and the walks that it was priced by.
struct Asked {
    window: Window,
    /// How many times what the model says reads read and merges move.
    residual: (f64, f64),
    walks: RefCell<Vec<(Plan, Walk)>>,
}

impl Asked {
    fn new(steward: &Steward, window: Window) -> Asked {
        let reads = steward.memory.known.get(&window.context).map_or(1.0, |known| known.reads);
        Asked { window, residual: (reads, steward.memory.merges()), walks: RefCell::default() }
    }
}

impl<'a> Prices<'a> {
    /// Of plans for `window`, which has `stay`.
    pub(super) fn new(steward: &'a Steward, window: &Window, stay: &'a Plan) -> Prices<'a> {
        let (dwell, mean) = (steward.dwell(), steward.memory.dwell);
        // Contexts that last have settings of their own.
        let lasts = mean >= LASTS || mean == 0.0;
        let others = if lasts { Vec::new() } else { steward.others(window.context) };
        let others = others.into_iter().map(|(id, share)| {
            let other = &steward.memory.known[&id].window;
            // Data and tree are those of now; what is asked for is the other's.
            let other = Window {
                operations: other.operations,
                scanned: other.scanned,
                context: id,
                ..window.clone()
            };
            // A context that comes back soon counts as much as it takes of the time.
            let weight = share / (1.0 - share).max(0.1) * (1.0 - dwell / DWELL.2).max(0.0);
            (Asked::new(steward, other), weight)
        });
        let others = others.collect();
        Prices {
            steward,
            stay,
            dwell,
            own: Asked::new(steward, window.clone()),
            others,
            ways_back: RefCell::default(),
        }
    }

    fn walk(&self, asked: &Asked, plan: &Plan) -> Walk {
        let known = asked.walks.borrow().iter().find(|(known, _)| known == plan).map(|(_, walk)| *walk);
        known.unwrap_or_else(|| {
            let walk = self.steward.foresight(asked.window.context).walk(&asked.window, plan, self.dwell);
            asked.walks.borrow_mut().push((plan.clone(), walk));
            walk
        })
    }

    fn price(&self, asked: &Asked, plan: &Plan) -> f64 {
        self.steward.foresight(asked.window.context).price(&self.walk(asked, plan), asked.residual)
    }

    /// What `plan` costs of what staying does, over a while, in the context of the window and in
    /// those that were seen lately; `None` if one of those would become worse than by default.
    pub(super) fn ratio(&self, plan: &Plan) -> Option<f64> {
        // The log takes as much of every plan. It counts where a plan concerns what is written to
        // it.
        let log = if self.moves_values(plan) { self.steward.log_ns(&self.own.window) } else { 0.0 };
        let of = |asked: &Asked| {
            (self.price(asked, plan) + log) / (self.price(asked, self.stay) + log).max(f64::MIN_POSITIVE)
        };
        let (mut sum, mut weights) = (of(&self.own), 1.0);
        for (other, weight) in &self.others {
            let default = self.price(other, &Plan::by_default(&other.window));
            let ratio = of(other);
            if self.price(other, plan) > (1.0 + OTHERS_LOSS_MAX) * default && ratio > 1.01 {
                return None;
            }
            sum += weight * ratio;
            weights += weight;
        }
        Some(sum / weights)
    }

    /// What `plan` is priced at, if `group` may be changed to it.
    pub(super) fn allowed(&self, plan: &Plan, group: Group) -> Option<f64> {
        if !wishes::dares(&self.steward.memory.credit, self.stay, plan) || self.is_foreign(plan) {
            return None;
        }
        if self.is_early(plan) {
            return None;
        }
        let ratio = self.ratio(plan).filter(|ratio| *ratio < 1.0)?;
        let once = self.walk(&self.own, plan).once;
        let (leaving, gained) = (once * self.dwell, 1.0 - ratio + once);
        let is_set_aside = leaving <= self.steward.once_most;
        if self.has_once(plan)
            && (leaving > LEAVING_WINDOWS_MAX || (!is_set_aside && gained < LEAVING_GAIN * leaving))
        {
            return None;
        }
        let stays = self.walk(&self.own, self.stay);
        let is_safe = |hazards: [f64; 3], most: f64| hazards.iter().all(|hazard| *hazard <= 1.0 + most);
        let seldom = 1.0 + HAZARD_MORE * self.steward.lasted().min(DWELL.0);
        let (most, walk) = (group.hazard_max() * seldom, self.walk(&self.own, plan));
        let is_allowed = is_safe(walk.hazards(&stays), FIRST_HAZARD_MAX)
            && is_safe(walk.hazards_below(&stays), most)
            && is_safe(self.walk_back(plan).hazards_below(&stays), most);
        is_allowed.then_some(ratio)
    }

    /// What `plan` takes once to have levels or values leave, in windows and as a share of its
    /// price, where the coordinator can set it aside; else nothing.
    pub(super) fn once(&self, plan: &Plan) -> (f64, f64) {
        let share =
            if self.has_once(plan) { self.walk(&self.own, plan).once * self.price_of(plan) } else { 0.0 };
        let windows = share * self.dwell;
        if windows <= self.steward.once_most { (windows, share) } else { (0.0, 0.0) }
    }

    /// Whether `plan` has work that is done once and at once: levels or values leave.
    fn has_once(&self, plan: &Plan) -> bool {
        plan.at_once || self.moves_values(plan)
    }

    /// Whether under `plan` other values are kept apart.
    fn moves_values(&self, plan: &Plan) -> bool {
        plan.separate_from != self.stay.separate_from
    }

    /// What `plan` costs of what staying does.
    fn price_of(&self, plan: &Plan) -> f64 {
        self.price(&self.own, plan) / self.price(&self.own, self.stay).max(f64::MIN_POSITIVE)
    }

    /// Whether `plan` makes a level or moves values, which stays when its context is gone, before
    /// the context has lasted.
    pub(super) fn is_early(&self, plan: &Plan) -> bool {
        let lasted = self.steward.lasted();
        (lasted < LASTS && wishes::makes_levels(&self.own.window, self.stay, plan))
            || (lasted < apart::LASTS && self.moves_values(plan))
    }

    /// Whether `plan` would change what a person or another program has set.
    fn is_foreign(&self, plan: &Plan) -> bool {
        let foreign = &self.steward.foreign;
        let touches = |set: &Set| foreign.iter().any(|(knob, level)| set.touches(knob, *level));
        !foreign.is_empty() && wishes::sets(self.stay, plan).0.iter().any(touches)
    }

    /// What trying `plan` and taking it back costs of what staying does, over the same while.
    pub(super) fn undone(&self, plan: &Plan) -> f64 {
        let stays = self.price(&self.own, self.stay).max(f64::MIN_POSITIVE);
        let foresight = self.steward.foresight(self.own.window.context);
        foresight.price(&self.walk_back(plan), self.own.residual) / stays
    }

    fn walk_back(&self, plan: &Plan) -> Walk {
        let known = self.ways_back.borrow().iter().find(|(known, _)| known == plan).map(|(_, walk)| *walk);
        known.unwrap_or_else(|| {
            let foresight = self.steward.foresight(self.own.window.context);
            let walk = foresight.walk_back(&self.own.window, plan, self.stay, self.dwell);
            self.ways_back.borrow_mut().push((plan.clone(), walk));
            walk
        })
    }
}
