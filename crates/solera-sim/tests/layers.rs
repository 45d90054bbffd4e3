//! Tests of the layer check: the engine's module list is its architecture, and no import points up.
//!
//! They run `layers` over the engine: rooms, storeys, ARCHITECTURE's table, files of ordered rooms,
//! and words that the engine may not say. Then they plant violations in small crates, every detour
//! included, and each must be found at its line. What points down or sideways passes. One test
//! looks for a "Safety" section above each `unsafe fn`.

use solera_sim::{
    layers::{
        Violation,
        files::{DECLARATION, ordered_rooms, upward_files},
        forbidden_words,
        rooms::{against_the_page, storeys, upward_imports},
    },
    pages::files,
};
use std::path::{Path, PathBuf};

/// Types that a room above may give methods to: the room and the type.
const EXTENSIONS: &[(&str, &str)] = &[("control", "Db"), ("db", "Options")];

/// The rooms whose files are in order. Each says so in its head; none may stop to.
const ROOMS_IN_ORDER: &[&str] = &["index", "table", "version", "compaction", "engine"];

/// The storeys of the engine, bottom to top.
const STOREYS: &[&str] = &["words", "files", "tables", "tree", "database"];

fn crate_src(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

fn report(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("{violation}\n")).collect()
}

#[test]
fn no_module_of_the_engine_uses_one_above_it() {
    let violations = upward_imports(&crate_src("solera"), EXTENSIONS).unwrap();
    assert!(violations.is_empty(), "imports that point up:\n{}", report(&violations));
}

#[test]
fn the_table_in_architecture_is_the_list_in_lib_rs_and_rooms_do_not_know_what_it_says_they_may_not() {
    let page = crate_src("solera").join("../../../docs/ARCHITECTURE.md");
    let violations = against_the_page(&crate_src("solera"), &page).unwrap();
    assert!(violations.is_empty(), "ARCHITECTURE says otherwise:\n{}", report(&violations));
    assert_eq!(storeys(&crate_src("solera")).unwrap(), STOREYS);
}

#[test]
fn no_file_of_an_ordered_room_uses_one_above_it() {
    let rooms = ordered_rooms(&crate_src("solera")).unwrap();
    for room in ROOMS_IN_ORDER {
        assert!(rooms.iter().any(|ordered| ordered == room), "`{room}` does not say {DECLARATION:?}");
    }
    let violations = upward_files(&crate_src("solera")).unwrap();
    assert!(violations.is_empty(), "files that use files above them:\n{}", report(&violations));
}

/// The lines of a source where an `unsafe fn` begins whose comment does not say what a caller owes.
fn without_safety(source: &str) -> Vec<usize> {
    let (mut is_told, mut found) = (false, Vec::new());
    for (number, line) in source.lines().map(str::trim_start).enumerate() {
        if line.starts_with("//") || line.starts_with("#[") {
            is_told |= line == "/// # Safety";
            continue;
        }
        if line.contains("unsafe fn ") && !is_told {
            found.push(number + 1);
        }
        is_told = false;
    }
    found
}

#[test]
fn every_unsafe_function_says_what_its_caller_owes() {
    let mut seen = 0;
    for path in ["solera", "solera-model"].map(|name| files(&crate_src(name), &["rs"]).unwrap()).concat() {
        let source = std::fs::read_to_string(&path).unwrap();
        seen += source.matches("unsafe fn ").count();
        assert_eq!(without_safety(&source), [0; 0], "{}: no # Safety", path.display());
    }
    assert!(seen > 20, "{seen} were seen");
    let planted =
        "/// # Safety\n/// Much.\n#[inline]\nunsafe fn told() {}\n\n/// Little.\npub unsafe fn bare() {}\n";
    assert_eq!(without_safety(planted), [7], "and one that does not is found");
}

/// Each part of the engine owns its methods. What the core has beside them joins the parts.
#[test]
fn the_core_has_thirty_methods_of_its_own_at_most() {
    let is_method = |line: &&str| {
        line.strip_prefix("    ").is_some_and(|rest| !rest.starts_with([' ', '/']) && rest.contains("fn "))
    };
    let mut methods = 0;
    for entry in std::fs::read_dir(crate_src("solera").join("engine")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let blocks = source.split("\nimpl Core {\n").skip(1);
        methods += blocks
            .map(|rest| rest[..rest.find("\n}").unwrap()].lines().filter(is_method).count())
            .sum::<usize>();
    }
    assert!((10..=30).contains(&methods), "{methods} methods in `impl Core`");
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

/// That `planted` in the file `name` is found once, at this line.
fn assert_found(violations: &[Violation], dir: &Path, name: &str, planted: &str, line: usize) {
    let [found] = violations else {
        panic!("{planted:?} in {name}: found {}\n{}", violations.len(), report(violations));
    };
    assert_eq!((found.file.as_path(), found.line), (&*dir.join(name), line), "{planted:?}: {found}");
}

const LIB: &str = "pub mod low;\npub mod mid;\npub mod high;\npub use high::{Top, deep::Well as Spring};\npub use low::Ground;\n";

#[test]
fn a_planted_upward_import_is_found_in_each_of_its_forms() {
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
            ("lib.rs", LIB),
            ("high/mod.rs", "use crate::{low, mid::X, Ground}; pub mod deep;"),
            ("high/deep.rs", "use super::Top; use crate::high::deep::Well;"),
            (name, planted),
        ]);
        assert_found(&upward_imports(dir.path(), &[]).unwrap(), dir.path(), name, planted, line);
    }
}

#[test]
fn a_planted_detour_around_the_check_is_found() {
    for (name, planted, line) in [
        // A second name for the crate or for the room above.
        ("low.rs", "use crate as c;\nuse c::high::Top;", 1),
        ("low.rs", "use {crate as c};", 1),
        ("mid/mod.rs", "use super as s;\nfn f() { s::high::f() }", 1),
        ("mid/part.rs", "use super::super as s;", 1),
        ("mid/part.rs", "use super::{super as s};", 1),
        ("low.rs", "extern crate self as me;\nuse me::high::Top;", 1),
        ("low.rs", "macro_rules! m { ($c:tt, $r:ident) => { $c::$r::f() } }\nfn f() { m!(crate, high) }", 2),
        ("low.rs", "macro_rules! m { ($r:ident) => { crate::$r::f() } }\nfn f() { m!(high) }", 1),
        ("mid/mod.rs", "fn f() { m!(super, high) }", 1),
        // Source from elsewhere.
        ("low.rs", "#[path = \"high/deep.rs\"]\nmod deep;", 1),
        ("low.rs", "#[cfg_attr(unix, path = \"high/deep.rs\")]\nmod deep;", 1),
        ("low.rs", "\ninclude!(\"high/mod.rs\");", 2),
        ("low.rs", "mod inside { std::include!(\"high/mod.rs\"); }", 1),
        // Methods for a type of a lower room, which lower rooms could call.
        ("mid/mod.rs", "use crate::low::Ground;\nimpl Ground { fn f(&self) { crate::mid::g() } }", 2),
        ("mid/mod.rs", "impl crate::low::Ground { fn f(&self) {} }", 1),
        ("mid/mod.rs", "use crate::low::Ground as G;\n\nimpl G {}", 3),
        ("mid/mod.rs", "use crate::low;\nimpl<T: Fn() -> u8> low::Ground<T> where T: Copy {}", 2),
        ("mid/mod.rs", "type G = crate::low::Ground;\nimpl G {}", 2),
        ("mid/mod.rs", "use crate::low::Open;\nimpl dyn Open {}", 2),
        ("mid/mod.rs", "macro_rules! m { ($t:ident) => { impl $t { fn f() {} } } }\nm!(Ground);", 1),
        ("mid/mod.rs", "struct Ground; mod part { use crate::low::Ground;\nimpl Ground {} }", 2),
    ] {
        let dir = plant(&[
            ("lib.rs", LIB),
            ("low.rs", "pub struct Ground; pub trait Open {}"),
            ("high/mod.rs", "use crate::low::Ground; impl Ground {}"),
            (name, planted),
        ]);
        let allowed = [("high", "Ground")];
        assert_found(&upward_imports(dir.path(), &allowed).unwrap(), dir.path(), name, planted, line);
    }
    for planted in [
        "macro_rules! m { () => {} }",
        "mod inline { use super::high; }",
        "fn f() {}",
        "pub use low::{\n    Ground,\n}; impl Ground {}",
    ] {
        let lib = format!("{planted}\n{LIB}");
        let dir = plant(&[("lib.rs", lib.as_str()), ("low.rs", ""), ("high/mod.rs", "")]);
        let violations = upward_imports(dir.path(), &[]).unwrap();
        assert_eq!(violations.len(), 1, "{planted:?}:\n{}", report(&violations));
    }
    let dir = plant(&[("lib.rs", LIB), ("low.rs", "pub struct Ground;")]);
    let violations = upward_imports(dir.path(), &[("mid", "Ground")]).unwrap();
    assert!(report(&violations).contains("`mid` is allowed to extend `Ground` and does not"));
}

#[test]
fn imports_that_point_down_or_sideways_pass() {
    let dir = plant(&[
        ("lib.rs", "mod low;\npub(crate) mod mid;\npub mod high;\npub use crate::low::Ground;"),
        (
            "low.rs",
            "// use crate::high;\nuse std::fmt; fn f() { \"crate::high::X\"; self::g() }\npub struct Ground;\nimpl Ground { pub(crate) fn path(&self) { let path = 1; } }",
        ),
        (
            "mid/mod.rs",
            "mod part; use crate::low::{self, Ground}; use self::part::P; struct M<T>(T); impl<T> M<T> {} impl fmt::Debug for Ground {}\nmacro_rules! id { ($n:ident) => { struct $n; impl $n {} } } id!(Id); impl Id {}",
        ),
        (
            "mid/part.rs",
            "use super::super::low; use super::Q; use crate::{Ground, mid::part::R}; use super as s; impl super::M {} fn f() -> impl Fn() { x }\npub(in crate::mid) fn g(&self) {} pub(super) fn h() {}",
        ),
    ]);
    assert_eq!(upward_imports(dir.path(), &[]).unwrap(), []);
}

#[test]
fn what_a_room_may_not_know_is_found_and_a_table_that_differs_from_the_list() {
    let lib = "// Storey: words, what all say.\npub mod low;\npub mod mid;\n// Storey: tree\npub mod high;\npub use low::Ground;";
    let table = "# Words\n\n| room | owns | may not know |\n|---|---|---|\n| `low` | | |\n| `mid` | x | where: `low::deep`, `std::thread` |\n\n## Tree\n\n| room | owns | may not know |\n|---|---|---|\n| `high` | | grounds: `low` |\n";
    let check = |page: &str, name: &str, planted: &str| {
        let dir = plant(&[
            ("lib.rs", lib),
            ("low.rs", ""),
            (
                "mid.rs",
                "use crate::{low::shallow, mid::low}; use std::thread_local;\n#[cfg(test)] mod tests { use crate::low::deep; }",
            ),
            ("high.rs", "use crate::mid;"),
            ("page.md", page),
            (name, planted),
        ]);
        let violations = against_the_page(dir.path(), &dir.path().join("page.md")).unwrap();
        violations.iter().map(|v| v.line).collect::<Vec<_>>()
    };
    assert!(check(table, "low.rs", "").is_empty());
    for (name, planted, line) in [
        ("high.rs", "use crate::low;", 1),
        ("high.rs", "\nuse crate::Ground;", 2),
        ("mid.rs", "\nfn f() { crate::low::deep::g() }", 2),
        ("mid.rs", "use std::{fmt,\n thread::spawn};", 2),
    ] {
        assert_eq!(check(table, name, planted), [line], "{planted:?}");
    }
    for (from, to, line) in [
        ("| `low` | | |\n", "", 5),
        ("| `low` | | |\n", "| `mid low` | | |\n", 5),
        ("## Tree\n", "## Files\n", 12),
        ("| `high`", "| `highest`", 12),
        ("grounds: `low`", "grounds: `cellar`", 12),
    ] {
        assert_eq!(check(&table.replace(from, to), "low.rs", ""), [line], "{to:?}");
    }
}

#[test]
fn a_file_that_uses_one_above_it_is_found_in_rooms_that_declare_an_order() {
    let head = format!("//! Parts.\n{DECLARATION}\nmod first;\npub mod second;\n#[cfg(test)]\nmod tests;\n");
    let check = |room: &str, first: &str, second: &str| {
        let dir = plant(&[
            ("lib.rs", "pub mod parts;\npub mod free;"),
            ("parts/mod.rs", &format!("{head}{room}")),
            ("parts/first.rs", &format!("{first}\n#[cfg(test)] mod tests {{ use super::super::second; }}")),
            ("parts/second.rs", second),
            ("parts/tests.rs", "use super::*;"),
            ("free/mod.rs", "mod a; mod b;"),
            ("free/a.rs", "use super::b;"),
        ]);
        upward_files(dir.path()).unwrap()
    };
    for (room, first, second) in [
        ("pub use second::S;", "", "use super::first::F;"),
        ("fn f() { second::g() }", "use self::inner::X;", "use super::first::F;"),
        ("pub struct Own;", "use super::Own;", "use super::Own;"),
        (
            "pub use first::F;",
            "pub struct F; impl F { fn go() {} }",
            "use super::F; impl F { fn up(&self) { self.go() } }",
        ),
    ] {
        assert_eq!(check(room, first, second), [], "{room:?} {first:?} {second:?}");
    }
    for (room, first, second) in [
        ("", "use super::second::S;", ""),
        ("", "fn f() { crate::parts::second::g() }", ""),
        ("pub(crate) use second::S as T;", "use super::T;", ""),
        ("use second::S;", "use super::S;", ""),
        ("", "use super::*;", ""),
        ("", "use super as room;", ""),
        ("pub struct Own(second::S);", "use super::Own;", ""),
        ("use second::S;\npub struct Own(S);", "use super::Own;", ""),
        (
            "",
            "struct F; impl F { fn f(&self) { self.up() } }",
            "use super::first::F; impl F { fn up(&self) {} }",
        ),
    ] {
        let violations = check(room, first, second);
        assert_eq!(violations.len(), 1, "{room:?} {first:?} {second:?}\n{}", report(&violations));
        assert!(violations[0].file.ends_with("first.rs"));
    }
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
