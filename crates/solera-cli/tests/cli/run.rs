//! Running the binary in a directory of its own: `Solera`, the directory, and `Run`, what a run
//! gave.
//!
//! `ok` and `fails` look at exit status and lines; `files` lists what is there, to see that nothing
//! changed.
//!
//! Callers: all files of these tests.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A directory in which the command is run, with a database in `db`.
pub(crate) struct Solera {
    dir: tempfile::TempDir,
}

/// What a run of the command gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Run {
    /// The output as text, after seeing that the command succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        assert_eq!(self.err, "");
        String::from_utf8(self.out).unwrap()
    }

    /// The message, after seeing that the command failed with this status and one line.
    #[track_caller]
    pub(crate) fn fails(self, status: i32) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.err.starts_with("solera: ") && self.err.lines().count() == 1, "{}", self.err);
        assert!(self.out.is_empty(), "{self:?}");
        self.err
    }
}

impl Solera {
    pub(crate) fn new() -> Self {
        Solera { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory of the database.
    pub(crate) fn db(&self) -> PathBuf {
        self.path("db")
    }

    /// The notes of loads that were stopped, or work.
    pub(crate) fn notes(&self) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(self.db()) else { return Vec::new() };
        let files = files.map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|end| end == "progress")).collect()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `solera ARGS..` with SOLERA_DIR naming the database.
    pub(crate) fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        self.run_with_input(args, b"")
    }

    /// As [`Solera::run`], with `input` on standard input.
    pub(crate) fn run_with_input(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: &[u8],
    ) -> Run {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that fails early does not read its input.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Run {
            status: output.status.code().unwrap(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The command, not yet started.
    pub(crate) fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_solera"));
        command.args(args).current_dir(self.dir.path()).env("SOLERA_DIR", self.db());
        command
    }

    /// The names in the working directory and below, with sizes: to see that nothing changed.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        fn walk(dir: &Path, found: &mut Vec<(PathBuf, u64)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                found.push((entry.path(), if metadata.is_dir() { 0 } else { metadata.len() }));
                if metadata.is_dir() {
                    walk(&entry.path(), found);
                }
            }
        }
        let mut found = Vec::new();
        walk(self.dir.path(), &mut found);
        found.sort();
        found
    }
}
