//! Tells the program which commit it was built from, as the environment variable that
//! `machine::commit` reads.
//!
//! A report names what was measured, not what happens to lie in the source tree when it is read.
//!
//! What must hold: outside a repository, or without git, there is no commit, and the build goes on.
//! It runs again after a commit, a checkout, or a change of the engine's sources. Other changes
//! that are not committed may stay unseen.
//!
//! Caller: cargo, when it builds this package.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]) {
        println!("cargo::rustc-env=SOLERA_COMMIT={commit}");
    }
    // Every commit and every checkout writes there. Changes to files that are not committed are
    // seen when this package is built again for another reason.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=../solera/src");
    println!("cargo::rerun-if-changed=../solera-model/src");
}
