//! The layer check as part of the test command: the engine's module list is its architecture, and no
//! import points up.

use solera_sim::layers::{Violation, forbidden_words, upward_imports};
use std::path::{Path, PathBuf};

fn crate_src(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

fn report(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("{violation}\n")).collect()
}

#[test]
fn no_module_of_the_engine_uses_one_above_it() {
    let violations = upward_imports(&crate_src("solera")).unwrap();
    assert!(violations.is_empty(), "imports that point up:\n{}", report(&violations));
}

#[test]
fn the_engine_does_not_know_that_it_is_being_tuned() {
    for name in ["solera", "solera-model"] {
        let violations = forbidden_words(&crate_src(name), &["agent", "reward", "episode"]).unwrap();
        assert!(violations.is_empty(), "words of the tuner in {name}:\n{}", report(&violations));
    }
}

/// A small crate on disk.
fn plant(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "plants source files for the check to read")]
        std::fs::write(path, content).unwrap();
    }
    dir
}

#[test]
fn a_planted_upward_import_is_found_in_each_of_its_forms() {
    let lib = "pub mod low;\npub mod mid;\npub mod high;\npub use high::{Top, deep::Well as Spring};\npub use low::Ground;\n";
    for (name, planted, line) in [
        ("low.rs", "use crate::high::Top;", 1),
        ("low.rs", "\nuse crate::{low::Ground,\n    high::Top};", 3),
        ("low.rs", "fn f() -> usize {\n    crate::mid::count()\n}", 2),
        ("low.rs", "use crate::Spring;", 1),
        ("low.rs", "macro_rules! m { () => { $crate::mid::X } }", 1),
        ("low.rs", "#[cfg(test)]\nmod tests {\n    use crate::mid::X;\n}", 3),
        ("mid/mod.rs", "use super::high;", 1),
        ("mid/part.rs", "\n\nuse super::super::high::Top;", 3),
        ("mid/part.rs", "mod inside { use super::super::super::high; }", 1),
        ("mid/part.rs", "use crate::*;", 1),
        ("mid/part.rs", "use crate::{self as everything};", 1),
        ("mid/part.rs", "use crate::nowhere::X;", 1),
        ("stray.rs", "", 1),
    ] {
        let dir = plant(&[
            ("lib.rs", lib),
            ("high/mod.rs", "use crate::{low, mid::X, Ground}; pub mod deep;"),
            ("high/deep.rs", "use super::Top; use crate::high::deep::Well;"),
            (name, planted),
        ]);
        let violations = upward_imports(dir.path()).unwrap();
        let [found] = &violations[..] else {
            panic!("{planted:?} in {name}: found {}\n{}", violations.len(), report(&violations));
        };
        assert_eq!((found.file.as_path(), found.line), (&*dir.path().join(name), line), "{planted:?}");
    }
}

#[test]
fn imports_that_point_down_or_sideways_pass() {
    let dir = plant(&[
        ("lib.rs", "mod low;\npub(crate) mod mid;\npub mod high;\npub use crate::low::Ground;"),
        ("low.rs", "// use crate::high;\nuse std::fmt; fn f() { \"crate::high::X\"; self::g() }"),
        ("mid/mod.rs", "mod part; use crate::low::{self, Ground}; use self::part::P;"),
        ("mid/part.rs", "use super::super::low; use super::Q; use crate::{Ground, mid::part::R};"),
    ]);
    assert_eq!(upward_imports(dir.path()).unwrap(), []);
}

#[test]
fn a_planted_word_is_found() {
    let dir = plant(&[(
        "lib.rs",
        "fn a() {}\n/// Called by the tuning_agents.\nstruct EpisodeLog;\nlet magenta = 1;",
    )]);
    let violations = forbidden_words(dir.path(), &["agent", "reward", "episode"]).unwrap();
    assert_eq!(violations.iter().map(|violation| violation.line).collect::<Vec<_>>(), [2, 3]);
}
