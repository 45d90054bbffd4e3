//! Phases that go past the engine: `Child::device_reads` and `device_scan`, what the device gives.
//!
//! Both read the database's files with `O_DIRECT`, so the page cache gives nothing. `device_reads`
//! reads 4 KiB at random places of the largest file. `device_scan` reads all files from end to end.
//!
//! What must hold: places lie on multiples of 4 KiB. Clients share the random reads, each with a
//! file and a buffer of its own; one client scans. A load has come before, but what is read is not
//! checked.
//!
//! Caller: `Child::measure`.

use super::{
    Child,
    threads::{Done, random_of, shares, together},
    with_cpu,
};
use crate::{engine::Result, phase::Measured, process};
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// Bytes of a random read: what a block takes, and what the device gives at least.
const READ_BYTES: usize = 4096;
/// Bytes of a read of a scan.
const SCAN_BYTES: usize = 1 << 20;

/// Memory whose address is a multiple of [`READ_BYTES`].
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + READ_BYTES];
        let start = bytes.as_ptr().align_offset(READ_BYTES);
        Aligned { bytes, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

fn open(path: &Path) -> Result<File> {
    Ok(OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?)
}

impl Child<'_> {
    /// Of the largest file.
    pub(super) fn device_reads(&self, seed: u64) -> Result<Measured> {
        self.engine()?;
        process::settle_device();
        let files = process::files(&self.task.directory)?;
        let (path, len) = files.into_iter().max_by_key(|(_, len)| *len).ok_or("there is no file")?;
        let places = (len / READ_BYTES as u64).max(1);
        let (clock, limit_ns) = (&self.clock, self.limit_ns());
        let clients = shares(self.task.operations, self.task.threads);
        with_cpu(|| {
            let done = together(
                clients.into_iter().enumerate().collect(),
                || Ok((open(&path)?, Aligned::new(READ_BYTES))),
                |(client, share), (file, mut buffer)| {
                    let mut random = random_of(seed, client);
                    let mut done = Done::begin_timed(clock);
                    while done.operations < share.len() as u64 && done.ns() < limit_ns {
                        file.read_at(buffer.bytes(), random.below(places) * READ_BYTES as u64)?;
                        done.lap(clock, 1);
                    }
                    Ok(done)
                },
            )?;
            let measured = Done::of_all(done)?.measured();
            Ok(Measured { bytes_read: Some(measured.operations * READ_BYTES as u64), ..measured })
        })
    }

    /// Of all files, by one client.
    pub(super) fn device_scan(&self) -> Result<Measured> {
        self.engine()?;
        process::settle_device();
        let mut buffer = Aligned::new(SCAN_BYTES);
        with_cpu(|| {
            let mut done = Done::begin(&self.clock);
            let mut bytes = 0;
            for (path, _) in process::files(&self.task.directory)? {
                let file = open(&path)?;
                let mut at = 0;
                loop {
                    let read = file.read_at(buffer.bytes(), at)?;
                    at += read as u64;
                    done.lap(&self.clock, 1);
                    if read < SCAN_BYTES {
                        break;
                    }
                }
                bytes += at;
            }
            Ok(Measured { bytes_read: Some(bytes), ..done.measured() })
        })
    }
}
