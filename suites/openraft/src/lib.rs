//! A Raft log and a state machine in one Solera database, for openraft: an example of embedding.
//!
//! It owns the layout: five keyspaces, whose writes share one commit order. What must hold:
//! - A vote, and entries whose callback came, survive a power failure.
//! - A crash leaves a prefix of the commit order. So what was written first is there if what came
//!   later is, without a sync between them. An entry comes before its effect, a snapshot before the
//!   entries that it stands for are purged.
//!
//! `tests/suite.rs` runs openraft's suite for storages, `tests/crash.rs` what that leaves out.

mod log;
mod machine;

pub use log::Log;
pub use machine::{Machine, Snapshots};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use solera::Db;
use std::io::{self, Cursor};

/// What clients ask of the replicated map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Sets a value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

openraft::declare_raft_types!(
    /// Nodes are numbers, commands change a map, and an answer is the value that was there before.
    pub Types:
        D = Command,
        R = Option<Vec<u8>>,
);

/// The parts that openraft asks for, over the keyspaces of one database. Other keyspaces of it stay
/// free for the application.
///
/// # Errors
/// As [`Db::keyspace`].
pub fn storage(db: &Db) -> solera::Result<(Log, Machine)> {
    Ok((Log::new(db)?, Machine::new(db)?))
}

/// A value as it is stored.
fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// What [`encode`] made.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Runs what may wait for the disk on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(io::Error::other(panic)),
    }
}
