//! Tickets, which tell when what was written is durable: `Ticket`, `Db::ticket` and
//! `Db::ticket_of`.
//!
//! A ticket stands for everything written up to a sequence number. That can be read already;
//! `is_durable` tells whether it survives a power failure by now, and `wait` syncs the log if no
//! other thread does.
//!
//! What must hold: it is honest in both directions. What it calls durable survives, and what was
//! written after the last sync is not called so.
//!
//! Callers: applications that write without waiting for the disk, and sync for many writes at once.

use super::{Db, Handle};
use crate::{error::Result, ids::Seqno};
use std::{fmt, sync::Arc};

/// Stands for everything that was written up to a moment of the commit order. It was acknowledged
/// and can be read; the ticket tells whether it survives a power failure, and waits until it does.
/// Many tickets that are waited for together cost one sync of the log.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = solera::Db::open(dir.path())?;
/// db.put("order", "42")?; // can be read from here on
/// let ticket = db.ticket();
/// // Other work, other writes.
/// ticket.wait()?; // now it survives a power failure
/// assert!(ticket.is_durable());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Ticket {
    handle: Arc<Handle>,
    seqno: Seqno,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.seqno)
    }
}

impl Ticket {
    /// The moment: the ticket stands for operations up to this number.
    pub fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// Whether all of it is durable by now: because a thread waited, synced or wrote durably, or
    /// because the log came to its end since.
    pub fn is_durable(&self) -> bool {
        self.handle.is_durable(self.seqno)
    }

    /// Waits until all of it is durable, and syncs the log if no other thread does.
    ///
    /// # Errors
    /// As [`Db::sync`].
    pub fn wait(&self) -> Result<()> {
        if self.is_durable() { Ok(()) } else { self.handle.make_durable(self.seqno) }
    }
}

impl Db {
    /// A ticket for everything that was written before this call: [`Ticket::wait`] makes it
    /// durable.
    pub fn ticket(&self) -> Ticket {
        self.ticket_of(self.last_seqno())
    }

    /// As [`Db::ticket`], for everything up to `seqno`, as [`Db::write`] and
    /// [`Transaction::commit`](crate::Transaction::commit) return it. A number that was not given
    /// out yet counts as the newest.
    pub fn ticket_of(&self, seqno: Seqno) -> Ticket {
        Ticket { handle: self.handle.clone(), seqno: seqno.min(self.last_seqno()) }
    }
}
