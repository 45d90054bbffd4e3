//! What a power cut may keep of changes that no sync made durable: `Persist`; `ALL` lists fifteen
//! ways.
//!
//! Some keep nothing, everything, names before content, or content before names. Others tear
//! writes, show zeros, garbage or stale blocks, or lose truncations, files' content or names.
//! `is_random` says whether the seed decides a part.
//!
//! What must hold: every way is legal for a POSIX disk, and keeps all that was synced. A way that
//! is not `is_random` gives one image, whatever the seed: `solera-sim` draws it once.
//!
//! Callers: `vfs::mem::content` and `names` apply a way; `MemFs::crash` takes one; tests and
//! `solera-sim` go through all.

/// What a power cut keeps of the changes that no sync made durable.
///
/// Where a variant speaks of content alone, every changed name is kept, and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Nothing.
    Nothing,
    /// Everything, as after the death of the process alone.
    Everything,
    /// Of content, random pages of this many bytes (4096: pages, 512: sectors), the others old or
    /// zero, and a random length; of changed names, a random subset of the changes.
    RandomPages(usize),
    /// Every file up to a random byte, a random prefix of each directory's changed names.
    Torn,
    /// Everything but the end of each file's last write, from a random byte of it on.
    TornLastWrite,
    /// Every length; unsynced bytes are zero.
    ZeroFilled,
    /// Every length; unsynced bytes are garbage.
    Garbage,
    /// Every length; unsynced bytes are what a file, another one or one that is gone, has at that
    /// offset: blocks that were given to the file but not written yet.
    Stale,
    /// Of unsynced content the rest of its first sector of 512 bytes: the front of a file was
    /// written, its new size was not.
    FirstSector,
    /// Of each file, all unsynced content or none: writes to two files came to the disk in the
    /// other order.
    SomeFiles,
    /// Everything, but truncations did not happen: what was cut off is there again, as far as
    /// nothing was written over it.
    LostTruncation,
    /// Every name but no unsynced content: renamed before it was written.
    NamesBeforeContent,
    /// All content but no unsynced name: created files are lost, removed ones back.
    ContentBeforeNames,
    /// Everything but one of each directory's changes of names.
    LostName,
}

impl Persist {
    /// One of each.
    pub const ALL: [Persist; 15] = [
        Persist::Nothing,
        Persist::Everything,
        Persist::RandomPages(4096),
        Persist::RandomPages(512),
        Persist::Torn,
        Persist::TornLastWrite,
        Persist::ZeroFilled,
        Persist::Garbage,
        Persist::Stale,
        Persist::FirstSector,
        Persist::SomeFiles,
        Persist::LostTruncation,
        Persist::NamesBeforeContent,
        Persist::ContentBeforeNames,
        Persist::LostName,
    ];

    /// Whether the seed decides about a part of what is kept.
    pub fn is_random(self) -> bool {
        match self {
            Persist::RandomPages(_)
            | Persist::Torn
            | Persist::TornLastWrite
            | Persist::Garbage
            | Persist::Stale
            | Persist::SomeFiles
            | Persist::LostName => true,
            Persist::Nothing
            | Persist::Everything
            | Persist::ZeroFilled
            | Persist::FirstSector
            | Persist::LostTruncation
            | Persist::NamesBeforeContent
            | Persist::ContentBeforeNames => false,
        }
    }
}
