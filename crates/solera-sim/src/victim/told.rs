//! What the victim says over its pipe, and what must be true of its database because of it: `Word`,
//! `Told`, `Found`.
//!
//! A `Word` is a line: something has happened, or is about to. `Told` has all lines of all lives of
//! one database. `judge` holds the database against them, `judge_checkpoints` its checkpoints.
//! `Found` counts acknowledged and lost commits, and checkpoints that are right. `whole` verifies
//! all tables.
//!
//! What must hold: what was acknowledged is there, what was under way may be, and nothing else is.
//! A line that the kill cut short says nothing.
//!
//! Callers: `victim::live` says words; `program::kill9` hears them and judges.

use super::spaces::{Spaces, WRITERS};
use solera::{Error, dir::FileName};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// A line: what has happened, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The database is open.
    Opened,
    /// A writer has had so many commits acknowledged.
    Committed(usize, u64),
    /// The bulk load of a round was acknowledged.
    Loaded(u64),
    /// The keyspace of a round was created and written to.
    Created(u64),
    /// The checkpoint of a round begins now.
    Checkpointing(u64),
    /// It was acknowledged.
    Checkpointed(u64),
    /// The keyspace of a round is about to be dropped.
    Dropping(u64),
    /// That was acknowledged.
    Dropped(u64),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Opened => write!(f, "opened"),
            Word::Committed(writer, commits) => write!(f, "committed {writer} {commits}"),
            Word::Loaded(round) => write!(f, "loaded {round}"),
            Word::Created(round) => write!(f, "created {round}"),
            Word::Checkpointing(round) => write!(f, "checkpointing {round}"),
            Word::Checkpointed(round) => write!(f, "checkpointed {round}"),
            Word::Dropping(round) => write!(f, "dropping {round}"),
            Word::Dropped(round) => write!(f, "dropped {round}"),
        }
    }
}

impl Word {
    /// A line, with its end; `None` if the kill cut it short.
    pub fn parse(line: &str) -> Option<Word> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let what = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(match what {
            "opened" => Word::Opened,
            "committed" => Word::Committed(number()? as usize, number()?),
            "loaded" => Word::Loaded(number()?),
            "created" => Word::Created(number()?),
            "checkpointing" => Word::Checkpointing(number()?),
            "checkpointed" => Word::Checkpointed(number()?),
            "dropping" => Word::Dropping(number()?),
            "dropped" => Word::Dropped(number()?),
            _ => return None,
        })
    }
}

/// What the lives of a database have said.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The last life opened the database.
    pub opened: bool,
    /// Lives since the database was looked at.
    lives: u64,
    commits: [u64; WRITERS],
    /// Those that the last look found.
    commits_found: [u64; WRITERS],
    loaded: u64,
    created: u64,
    dropping: u64,
    dropped: u64,
    /// The commits that were acknowledged when the checkpoint of a round began.
    floors: BTreeMap<u64, [u64; WRITERS]>,
    checkpointed: u64,
    /// The last checkpoint that was looked at.
    checked: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Acknowledged commits since the last look.
    pub acknowledged: u64,
    /// Acknowledged commits that are not there.
    pub lost: u64,
    /// Checkpoints opened and found right.
    pub checkpoints: u64,
}

impl Told {
    /// A new life begins.
    pub fn begin_life(&mut self) {
        self.opened = false;
        self.lives += 1;
    }

    /// The victim said this.
    pub fn hear(&mut self, word: Word) {
        match word {
            Word::Opened => self.opened = true,
            Word::Committed(writer, commits) => self.commits[writer] = commits.max(self.commits[writer]),
            Word::Loaded(round) => self.loaded = round,
            Word::Created(round) => self.created = round,
            Word::Checkpointing(round) => {
                self.floors.insert(round, self.commits);
            }
            Word::Checkpointed(round) => self.checkpointed = round,
            Word::Dropping(round) => self.dropping = round,
            Word::Dropped(round) => self.dropped = round,
        }
    }

    /// Holds the database against what was said.
    pub fn judge(&mut self, spaces: &Spaces, found: &mut Found) -> Result<(), String> {
        for writer in 0..WRITERS {
            let commits = spaces.commits(writer).map_err(|error| error.to_string())?;
            let acknowledged = self.commits[writer];
            found.lost += acknowledged.saturating_sub(commits);
            // In each life a writer has one commit under way at most.
            if !(acknowledged..=acknowledged + self.lives).contains(&commits) {
                return Err(format!(
                    "writer {writer}: {commits} commits are there, {acknowledged} were acknowledged, in {} lives",
                    self.lives
                ));
            }
            spaces.check(writer, commits)?;
            found.acknowledged += acknowledged - self.commits_found[writer];
            self.commits[writer] = commits;
            self.commits_found[writer] = commits;
        }
        let round = spaces.round()?;
        if !(self.loaded..=self.loaded + self.lives).contains(&round) {
            return Err(format!("the bulk load of round {round} is there, of {} acknowledged", self.loaded));
        }
        self.loaded = round;
        self.judge_passing(spaces)?;
        self.lives = 0;
        Ok(())
    }

    fn judge_passing(&self, spaces: &Spaces) -> Result<(), String> {
        let passing = spaces.passing();
        if let Some(back) = passing.iter().find(|round| **round <= self.dropped) {
            return Err(format!("the keyspace of round {back} is there, which was dropped"));
        }
        if self.created > self.dropping {
            if !passing.contains(&self.created) {
                return Err(format!("the keyspace of round {} is not there", self.created));
            }
            if !spaces.passing_is_whole(self.created).map_err(|error| error.to_string())? {
                return Err(format!("the keyspace of round {} is empty", self.created));
            }
        }
        Ok(())
    }

    /// Looks at the checkpoints in `place` that were begun and not looked at yet. One that was
    /// acknowledged must be there, one that was not may be missing; none may be wrong.
    pub fn judge_checkpoints(&mut self, place: &Path, kind: usize, found: &mut Found) -> Result<(), String> {
        // The keeper removes a round's when it has made the next one.
        let floors = self.floors.split_off(&self.checkpointed.max(self.checked + 1));
        for (round, floor) in floors {
            let wrong = |what: String| format!("the checkpoint of round {round}: {what}");
            match Spaces::checkpoint(&checkpoint_dir(place, round), kind) {
                Ok(spaces) => {
                    judge_checkpoint(&spaces, round, floor).map_err(wrong)?;
                    found.checkpoints += 1;
                }
                Err(error) if round > self.checkpointed && is_unfinished(&error) => {}
                Err(error) => return Err(wrong(format!("cannot open: {error}"))),
            }
            self.checked = round;
        }
        self.floors.clear();
        Ok(())
    }
}

/// Whether `error` says that a checkpoint has no CURRENT: that is written last.
fn is_unfinished(error: &Error) -> bool {
    match error {
        Error::NotADatabase { .. } => true,
        Error::Corrupt { file, what, .. } => {
            file.ends_with(FileName::Current.to_string()) && what.starts_with("the file is missing")
        }
        _ => false,
    }
}

fn judge_checkpoint(spaces: &Spaces, round: u64, floor: [u64; WRITERS]) -> Result<(), String> {
    for (writer, floor) in floor.into_iter().enumerate() {
        let commits = spaces.commits(writer).map_err(|error| error.to_string())?;
        if commits < floor {
            return Err(format!("writer {writer}: {commits} commits of the {floor} acknowledged before it"));
        }
        spaces.check(writer, commits)?;
    }
    if spaces.round()? != round || spaces.passing() != [round] {
        return Err(format!("load {} and keyspaces {:?}", spaces.round()?, spaces.passing()));
    }
    whole(spaces)
}

/// Whether every table is undamaged.
pub fn whole(spaces: &Spaces) -> Result<(), String> {
    let report = spaces.db.verify().map_err(|error| error.to_string())?;
    if report.problems.is_empty() { Ok(()) } else { Err(format!("damaged: {:?}", report.problems)) }
}

/// The directory of a round's checkpoint.
pub fn checkpoint_dir(place: &Path, round: u64) -> PathBuf {
    place.join(round.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera::vfs::mem::MemFs;
    use std::sync::Arc;

    fn spaces() -> Spaces {
        Spaces::open(Path::new("db"), Arc::new(MemFs::new()), 0).unwrap()
    }

    /// What a life that said these words is judged to have left.
    fn judged(spaces: &Spaces, words: &[Word]) -> Result<Found, String> {
        let (mut told, mut found) = (Told::default(), Found::default());
        told.begin_life();
        words.iter().for_each(|word| told.hear(*word));
        told.judge(spaces, &mut found).map(|()| found)
    }

    #[test]
    fn what_was_acknowledged_and_what_was_under_way_is_right_and_nothing_else() {
        let spaces = spaces();
        (0..5).for_each(|number| spaces.commit(1, number).unwrap());
        assert_eq!(judged(&spaces, &[Word::Committed(1, 5)]).unwrap().acknowledged, 5);
        assert!(judged(&spaces, &[Word::Committed(1, 4)]).is_ok());
        assert!(judged(&spaces, &[Word::Committed(1, 3)]).is_err(), "two that nobody acknowledged");
        assert!(judged(&spaces, &[Word::Committed(1, 6)]).is_err(), "one is lost");
        assert!(judged(&spaces, &[Word::Committed(1, 5), Word::Committed(0, 1)]).is_err());
    }

    #[test]
    fn loads_and_keyspaces_are_there_as_acknowledged() {
        let spaces = spaces();
        spaces.load(1).unwrap();
        spaces.create_passing(1).unwrap();
        let (loaded, created) = (Word::Loaded(1), Word::Created(1));
        assert!(judged(&spaces, &[loaded, created]).is_ok());
        assert!(judged(&spaces, &[Word::Loaded(2), created]).is_err(), "a load is lost");
        assert!(judged(&spaces, &[loaded, Word::Dropped(1)]).is_err(), "a dropped keyspace is back");
        assert!(judged(&spaces, &[loaded, Word::Created(2)]).is_err(), "a keyspace is lost");
        assert!(judged(&spaces, &[loaded, Word::Created(2), Word::Dropping(2)]).is_ok());
    }

    #[test]
    fn a_line_that_was_cut_short_says_nothing() {
        for word in [Word::Opened, Word::Committed(2, 117), Word::Checkpointing(30), Word::Dropped(1)] {
            assert_eq!(Word::parse(&format!("{word}\n")), Some(word));
            assert_eq!(Word::parse(&word.to_string()), None);
        }
        assert_eq!(Word::parse("committed 2\n"), None);
    }
}
