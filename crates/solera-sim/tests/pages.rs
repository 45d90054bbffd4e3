//! Tests of comments and pages (`solera_sim::pages`): citations lead somewhere, and lines are
//! narrow enough.
//!
//! They run the checks over this repository, then over planted ones, where each kind of dead
//! citation, wide line and long sentence must be found.

use solera_sim::{
    layers::Violation,
    pages::{citations::unresolved, files, sentences::too_long, widths::too_wide},
};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn report(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("{violation}\n")).collect()
}

/// The pages and sources whose lines are checked for their width.
fn narrow() -> Vec<PathBuf> {
    files(&root(), &["rs", "md"]).unwrap()
}

#[test]
fn every_citation_leads_somewhere() {
    let violations = unresolved(&root()).unwrap();
    assert!(violations.is_empty(), "citations that lead nowhere:\n{}", report(&violations));
}

#[test]
fn lines_that_people_read_are_narrow() {
    let violations = too_wide(&narrow()).unwrap();
    assert!(violations.is_empty(), "lines that are too wide:\n{}", report(&violations));
}

/// A small repository on disk.
fn plant(planted: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let pages = [
        ("docs/PAPERS.md", "# P\n\n| CAMAL | x | §4 Learning, §5 More |\n\n## CAMAL: the ratio\n"),
        ("docs/FORMAT.md", "# F\n\n## 3. Frames\n\nSee §3.\n"),
        ("docs/decisions/0001-one.md", "# One\n\n**The tables.** x\n"),
    ];
    for (name, content) in pages.iter().chain(planted) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "plants files for the check to read")]
        std::fs::write(path, content).unwrap();
    }
    dir
}

#[test]
fn a_planted_citation_that_leads_nowhere_is_found() {
    for (name, good, bad) in [
        (
            "a.rs",
            "//! (docs/PAPERS.md, \"CAMAL: the\n//! ratio\")",
            "//! (docs/PAPERS.md, \"CAMAL: the\n//! cost\")",
        ),
        ("a.rs", "// docs/FORMAT.md", "// docs/FORM.md"),
        ("a.rs", "// docs/FORMAT.md §3", "// docs/FORMAT.md §4"),
        ("a.rs", "// docs/decisions/0001", "// docs/decisions/0002"),
        ("a.rs", "// (docs/decisions/0001, 0001)", "// (docs/decisions/0001, 0002)"),
        ("a.rs", "// docs/decisions/0001 \"The tables\"", "// docs/decisions/0001 \"The runs\""),
        ("a.rs", "// CAMAL §4 and §5", "// CAMAL §4 and §6"),
        ("a.rs", "// CAMAL §4 learns.\n\n// Half of it (§5).", "// CAMAL §4 learns.\n\n// Half of it (§6)."),
        ("a.rs", "// CAMAL §5", "// NOTES §5"),
        ("docs/b.md", "[x](PAPERS.md#camal-the-ratio)", "[x](PAPERS.md#camal-the-cost)"),
        ("docs/b.md", "[x](../docs/FORMAT.md)", "[x](../FORMAT.md)"),
        ("docs/b.md", "# Y\n[x](#y) [z](https://example.org/none)", "# Y\n[x](#z)"),
        ("docs/b.md", "see docs/decisions/0001-one.md", "see docs/decisions/0001-two.md"),
        ("docs/FORMAT.md", "## 1. A\n\n§1", "## 1. A\n\n§2"),
    ] {
        let check = |content: &str| unresolved(plant(&[(name, content)]).path()).unwrap();
        assert_eq!(check(good), [], "{good:?}");
        assert_eq!(check(bad).len(), 1, "{bad:?}: {}", report(&check(bad)));
    }
}

#[test]
fn a_planted_line_or_sentence_that_is_too_long_is_found() {
    let wide = "word ".repeat(25);
    let dir = plant(&[
        ("a.rs", &format!("//! short\n    // {wide}\nlet x = \"{wide}\";\n")),
        ("b.md", &format!("{wide}\n| {wide} |\n```\n{wide}\n```\n")),
        ("c.rs", &format!("//! One.\n//!\n//! Two {wide}and\n//! {wide}.\n\n/// {wide}{wide}\n")),
    ]);
    let found = too_wide(&files(dir.path(), &["rs", "md"]).unwrap()).unwrap();
    let places: Vec<_> =
        found.iter().map(|v| (v.file.file_name().unwrap().to_str().unwrap(), v.line)).collect();
    assert_eq!(places, [("a.rs", 2), ("b.md", 1), ("c.rs", 3), ("c.rs", 4), ("c.rs", 6)]);
    let long = too_long(&[dir.path().join("a.rs"), dir.path().join("c.rs")]).unwrap();
    assert_eq!(long.iter().map(|v| v.line).collect::<Vec<_>>(), [3]);
}
