//! The process that is killed: `live`, which writes through the public API from several threads and
//! says what was acknowledged.
//!
//! It dies at a moment that its parent chooses, or at a named point of its own file calls (`fatal`,
//! `site`). `told` and `spaces` are what its parent needs to judge the remains.
//!
//! What must hold: a line of the pipe is written in one call. It follows the acknowledgement that
//! it tells of, or goes before the act that it announces (`Checkpointing`, `Dropping`). A thread
//! that the engine fails ends the process, which its parent does not forgive.
//!
//! Caller: `program::kill9`.

mod fatal;
mod site;
mod spaces;
mod told;

pub use fatal::Fate;
pub use site::{Moment, Role, SITES, Site};
pub use spaces::{Spaces, WRITERS};
pub use told::{Found, Told, Word, whole};

use fatal::FatalFs;
use solera::vfs::{Fs, posix::PosixFs};
use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};
use told::checkpoint_dir;

/// Lives until killed. The database is in `dir`, its checkpoints are in `checkpoints`; `kind` is
/// the one of [`Spaces::open`].
pub fn live(dir: &Path, checkpoints: &Path, kind: usize, fate: Option<Fate>) -> Result<(), String> {
    let files: Arc<dyn Fs> = Arc::new(PosixFs::new());
    let fatal = fate.map(|fate| FatalFs::new(files.clone(), fate));
    let fs = fatal.clone().map_or(files, |fatal| Arc::new(fatal));
    let spaces = Spaces::open(dir, fs, kind).map_err(|error| error.to_string())?;
    say(Word::Opened).map_err(|error| error.to_string())?;
    if let Some(fatal) = fatal {
        fatal.arm();
    }
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let spaces = &spaces;
            scope.spawn(move || or_die(&format!("writer {writer}"), write(spaces, writer)));
        }
        scope.spawn(|| or_die("keeper", keep(&spaces, checkpoints)));
    });
    Ok(())
}

/// Says a line, in one call, so that lines of threads do not mix.
fn say(word: Word) -> io::Result<()> {
    let line = format!("{word}\n");
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// A thread that fails ends the process, which its parent does not forgive. If the parent listens
/// no more, it ends too.
fn or_die(who: &str, done: Result<(), Failure>) {
    match done {
        Ok(()) | Err(Failure::Pipe) => std::process::exit(0),
        Err(Failure::Engine(what)) => {
            eprintln!("{who}: {what}");
            std::process::exit(1);
        }
    }
}

enum Failure {
    /// The parent is gone.
    Pipe,
    Engine(String),
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Failure {
        Failure::Pipe
    }
}

impl From<solera::Error> for Failure {
    fn from(error: solera::Error) -> Failure {
        Failure::Engine(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Failure {
        Failure::Engine(what)
    }
}

fn write(spaces: &Spaces, writer: usize) -> Result<(), Failure> {
    for number in spaces.commits(writer)?.. {
        spaces.commit(writer, number)?;
        say(Word::Committed(writer, number + 1))?;
    }
    Ok(())
}

fn keep(spaces: &Spaces, checkpoints: &Path) -> Result<(), Failure> {
    let drop_passing = |round| -> Result<(), Failure> {
        say(Word::Dropping(round))?;
        spaces.drop_passing(round)?;
        Ok(say(Word::Dropped(round))?)
    };
    // A life before was killed between the two.
    for round in spaces.passing() {
        drop_passing(round)?;
    }
    for round in spaces.round()? + 1.. {
        spaces.load(round)?;
        say(Word::Loaded(round))?;
        spaces.create_passing(round)?;
        say(Word::Created(round))?;
        let dir = checkpoint_dir(checkpoints, round);
        say(Word::Checkpointing(round))?;
        spaces.db.checkpoint(&dir)?;
        say(Word::Checkpointed(round))?;
        drop_passing(round)?;
        spaces.merge_loads()?;
        remove_older(checkpoints, round).map_err(|error| Failure::Engine(error.to_string()))?;
    }
    Ok(())
}

/// Removes the checkpoints of the rounds before.
fn remove_older(checkpoints: &Path, round: u64) -> io::Result<()> {
    for entry in std::fs::read_dir(checkpoints)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .is_some_and(|other: u64| other < round)
        {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
