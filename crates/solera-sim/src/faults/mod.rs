//! Failing calls: `live`, a script lived on a file system of which a call fails, once or all until
//! it heals.
//!
//! A `Plan` says which call and how; `Failing::ALL` are the ways, named as systems name them
//! (`EIO`, `ENOSPC`). An `Outcome` is what the life came to. `with_reads` mixes reads into a
//! script.
//!
//! What must hold:
//! - An error leaves nothing half done. An injected error is never taken for damage.
//! - What was acknowledged is there, at once and after a reopening. After a power cut what was
//!   acknowledged as durable is.
//! - A commit that failed is not there while the database is open. If the database then refuses all
//!   writes, it may be found at the next open.
//! - What failed works again once the calls do, unless the database refuses writes. It may after a
//!   sync, a truncation or a renaming that failed, but not where space alone was lacking.
//! - A failed iterator yields no more, unless a value kept apart failed.
//!
//! Callers: `program::faultloop`; `main.rs` (`replay --fault`); `tests/lives.rs`.

pub mod clock;
mod world;

use crate::{
    digest::Digest,
    life::caught,
    script::{Operation, Script},
};
use solera::vfs::fault::{Call, Effect};
use std::{fmt, str::FromStr};
use world::World;

/// Calls that need space.
const SPACE: &[Call] = &[Call::Create, Call::Append, Call::Link, Call::CreateDir, Call::Rename];
/// Calls that need a file descriptor.
const DESCRIPTORS: &[Call] = &[Call::Open, Call::Create, Call::List, Call::Lock, Call::SyncDir];
/// Calls that the owner of a directory may be denied.
const NAMES: &[Call] = &[Call::Open, Call::Create, Call::Rename, Call::Remove, Call::Link, Call::Lock];

/// One way for calls to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// What the system calls it.
    pub name: &'static str,
    /// What a call that is hit does.
    pub effect: Effect,
    /// The calls that may be hit; none: any.
    pub calls: &'static [Call],
    /// Whether the disk or the quota is full: then nothing else may be needed than space.
    pub space: bool,
}

impl Failing {
    /// Every way.
    pub const ALL: [Failing; 9] = [
        Failing { name: "EIO", effect: Effect::FailOs(5), calls: &[], space: false },
        Failing { name: "EINTR", effect: Effect::FailOs(4), calls: &[], space: false },
        Failing { name: "ENOSPC", effect: Effect::FailOs(28), calls: SPACE, space: true },
        Failing { name: "EDQUOT", effect: Effect::FailOs(122), calls: SPACE, space: true },
        Failing {
            name: "ENOSPC-at-sync",
            effect: Effect::FailOs(28),
            calls: &[Call::Sync, Call::SyncDir],
            space: false,
        },
        Failing { name: "EMFILE", effect: Effect::FailOs(24), calls: DESCRIPTORS, space: false },
        Failing { name: "EACCES", effect: Effect::FailOs(13), calls: NAMES, space: false },
        Failing { name: "short-read", effect: Effect::Short, calls: &[Call::Read], space: false },
        Failing { name: "short-write", effect: Effect::Short, calls: &[Call::Append], space: true },
    ];
}

/// What fails in a life, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How.
    pub failing: Failing,
    /// How many of the calls concerned pass before the first that fails.
    pub skip: u64,
    /// Whether all of them fail from then on, until the calls heal a few operations later.
    pub sticky: bool,
    /// Threads of the database; 0: its work is done by the operations, and the life is a function
    /// of its plan.
    pub background_threads: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { failing, skip, sticky, background_threads } = self;
        let how = if *sticky { "until healed" } else { "once" };
        write!(f, "{} at call {skip}, {how}, {background_threads} background threads", failing.name)
    }
}

impl FromStr for Plan {
    type Err = String;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<Plan, String> {
        let parse = || {
            let (name, rest) = text.split_once(" at call ")?;
            let failing = Failing::ALL.into_iter().find(|failing| failing.name == name)?;
            let (skip, rest) = rest.split_once(", ")?;
            let (how, rest) = rest.split_once(", ")?;
            let sticky = match how {
                "once" => false,
                "until healed" => true,
                _ => return None,
            };
            let background_threads = rest.strip_suffix(" background threads")?.parse().ok()?;
            Some(Plan { failing, skip: skip.parse().ok()?, sticky, background_threads })
        };
        parse().ok_or_else(|| {
            let names = Failing::ALL.map(|failing| failing.name).join(", ");
            format!(
                "{text:?} is no fault; one is written like \"EIO at call 30, once, 0 background threads\", or with \
                 \"until healed\" instead of \"once\", or with another of {names}"
            )
        })
    }
}

/// What a life with failing calls came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether any call failed.
    pub hit: bool,
    /// Operations that reported an error.
    pub errors: u64,
    /// Whether the database refused writes until it was reopened.
    pub poisoned: bool,
    /// Whether a write was tried after the calls had healed, without a reopening.
    pub probed: bool,
    /// Whether it was acknowledged.
    pub resumed: bool,
    /// Of what it ended with.
    pub digest: Digest,
}

/// Lives the script with calls failing by plan; `None`: none. An error says what promise was
/// broken.
pub fn live(script: &Script, plan: Option<Plan>) -> Result<Outcome, String> {
    let mut at = None;
    let lived = caught(|| {
        let mut world = World::new(script, plan);
        world.open()?;
        for (nth, operation) in script.operations.iter().enumerate() {
            at = Some(nth);
            world.apply(operation)?;
        }
        at = None;
        world.finish()
    });
    lived.map_err(|what| match at.and_then(|at| script.operations.get(at)) {
        Some(operation) => format!("in `{operation}`: {what}"),
        None => format!("at the begin or the end: {what}"),
    })
}

/// The script with its keyspaces created by operations, so that creating may fail too, and with
/// reads in between.
pub fn with_reads(script: &Script) -> Script {
    use crate::script::{Bounds, View, text::Bytes};
    let spaces = script.setting.spaces.len() as u8;
    let mut operations: Vec<Operation> = (1..spaces).map(|space| Operation::CreateSpace { space }).collect();
    for (at, operation) in script.operations.iter().enumerate() {
        operations.push(operation.clone());
        let space = (at / 5) as u8 % spaces;
        match at % 5 {
            2 => operations.push(Operation::Scan {
                view: View::Live {},
                space,
                bounds: Bounds::All {},
                backward: at % 2 == 1,
                keys_only: false,
                limit: u16::MAX,
            }),
            4 => operations.push(Operation::Get {
                view: View::Live {},
                space,
                key: Bytes(format!("key{:03}", at * 7 % 40).into_bytes()),
            }),
            _ => {}
        }
    }
    Script { setting: script.setting.clone(), operations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_is_written() {
        for failing in Failing::ALL {
            for (sticky, background_threads) in [(false, 0), (true, 2)] {
                let plan = Plan { failing, skip: 30, sticky, background_threads };
                assert_eq!(plan.to_string().parse(), Ok(plan));
            }
        }
        for text in
            ["", "EIO at call 3", "E at call 3, once, 0 background threads", "EIO at call 3, twice, 0 x"]
        {
            assert!(text.parse::<Plan>().unwrap_err().contains("EMFILE"), "{text}");
        }
    }
}
