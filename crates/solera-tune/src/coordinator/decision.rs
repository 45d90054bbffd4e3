//! What was decided after a window: `Decision`, with its `Order` and the database's `Answer`.
//!
//! An `Order` is a change to ask the database for: to try what an agent wants, to undo it, or to
//! restore older settings (`Purpose`). Its tag leads from the journal to the receipt.
//!
//! What must hold: a decision is a function of all windows and answers before it. After a window it
//! is written down word for word before its order is made. What the answer adds to it is shown, and
//! not written.
//!
//! Callers: `coordinator` makes them, `attach::stepper` carries them out, `journal` and `replay`
//! keep and compare them. `solera explain` tells them; the page `epochs` of `solera-bench` counts
//! them. `solera-sim`'s `tuner` holds them against the manifest.

use crate::agent::{Outcome, Proposal, Set};
use serde::{Deserialize, Serialize};

/// What a change is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// An agent wants it.
    Try,
    /// It takes back what the last change did.
    Undo,
    /// It takes back all that was set since the context cost less.
    Restore,
}

/// What the database is to be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// What for.
    pub purpose: Purpose,
    /// What to set, in one change.
    pub sets: Vec<Set>,
    /// Why, for the receipt.
    pub why: String,
    /// The tag of the receipt: how the journal and the manifest find each other after a crash.
    pub tag: String,
}

/// What the database said to an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It was made, as the change of this number.
    Made(u64),
    /// It was not, because of this.
    Refused(String),
}

/// What was decided after a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Number of the window.
    pub window: u64,
    /// What the window cost, as the goal measures it.
    pub cost: Option<f64>,
    /// The mean cost of its context before.
    pub baseline: Option<f64>,
    /// How much worse than that it could have been without being held against a change, as a share.
    pub tolerance: Option<f64>,
    /// What an agent wanted, if it was asked and wanted something.
    pub proposal: Option<Proposal>,
    /// What became of a proposal: of this window's, or of one that was open.
    pub outcome: Option<Outcome>,
    /// What the database is asked for.
    pub order: Option<Order>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

/// What tags of orders begin with.
const TAG: &str = "tune-";

/// The tag of an order, by its number.
pub(super) fn tag_of(order: u64) -> String {
    format!("{TAG}{order}")
}

/// The number of the order that a tag stands for, if it is one.
pub fn order_of(tag: &str) -> Option<u64> {
    tag.strip_prefix(TAG)?.parse().ok()
}

impl Decision {
    /// Nothing, after this window.
    pub(super) fn after(window: u64) -> Decision {
        Decision {
            window,
            cost: None,
            baseline: None,
            tolerance: None,
            proposal: None,
            outcome: None,
            order: None,
            notes: Vec::new(),
        }
    }
}
