//! Test that the public interface of the published crates is that of a golden listing.
//!
//! The listing (`listing`) has every public item of every module that the documentation shows, and
//! of those that are re-exported, with its signature as written. Macros are listed as they are
//! called.
//!
//! A change of a listing is a change for users. Look at it, then write the new one with `API=write
//! cargo test -p solera-sim --test api`.

mod listing;

use std::path::Path;

/// The crates that are published: the directory, and the name in programs.
const PUBLISHED: [(&str, &str); 2] = [("solera-model", "solera_model"), ("solera", "solera")];

#[test]
#[expect(clippy::disallowed_methods, reason = "the listings are files of this repository")]
fn the_public_interface_is_what_was_agreed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (directory, name) in PUBLISHED {
        let found = listing::of(&here.join("..").join(directory).join("src"), name);
        let golden = here.join("tests/api").join(format!("{directory}.txt"));
        if std::env::var("API").is_ok_and(|wish| wish == "write") {
            std::fs::write(&golden, &found).unwrap();
        }
        let agreed = std::fs::read_to_string(&golden).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let (was, is) = (lines(&agreed), lines(&found));
        let gone: Vec<_> = was.difference(&is).map(|line| format!("- {line}")).collect();
        let new: Vec<_> = is.difference(&was).map(|line| format!("+ {line}")).collect();
        assert!(
            agreed == found,
            "the public interface of {directory} is another; if that is meant, API=write agrees to it:\n{}\n{}",
            gone.join("\n"),
            new.join("\n")
        );
    }
}

#[test]
fn a_listing_has_what_users_can_name_and_nothing_else() {
    let text = "
        pub mod shown { pub struct Point { pub x: u32, y: u32 } impl Point { pub fn x(&self) -> u32 { self.x } fn y() {} } }
        #[doc(hidden)] pub mod hidden { pub fn free() {} pub enum Kind { A(u8), B { at: u64 } } pub struct Other; }
        mod inner { pub trait Walk { fn step(&mut self) -> bool; } impl Walk for super::shown::Point { fn step(&mut self) -> bool { true } } }
        pub use crate::{hidden::Kind as Sort, inner::Walk};
        pub const MAX: usize = 3;
        fn private() {}
    ";
    assert_eq!(
        listing::of_text(text, "it").lines().collect::<Vec<_>>(),
        [
            "it::MAX: pub const MAX : usize = 3",
            "it::Sort: pub use crate::hidden::Kind",
            "it::Walk: pub use crate::inner::Walk",
            "it::hidden::Kind: pub enum Kind { A (u8) , B { at : u64 } }",
            "it::inner::Walk: pub trait Walk { fn step (& mut self) -> bool ; }",
            "it::shown::Point: impl Walk for super :: shown :: Point",
            "it::shown::Point: pub fn x (& self) -> u32",
            "it::shown::Point: pub struct Point { pub x : u32 .. }",
        ]
    );
}
