//! Tests of what stops an installation that would lose or hide something.
//!
//! They hold that a version takes the place of the one that it was made from only, and that the
//! oldest memtables leave first.

use crate::{
    engine::unopened::Unopened,
    version::{TreeEdit, Version},
};
use std::sync::Arc;

#[test]
#[should_panic(expected = "an edit is for the version that it was made from")]
fn a_version_takes_no_place_but_that_of_the_one_it_was_made_from() {
    let engine = Unopened::new(&["a"]);
    let tree = engine.tree("a");
    let none = TreeEdit::default();
    engine
        .store
        .install(&tree, &Default::default(), &[], None, |_| {
            // Another install does not wait for the store lock.
            let before = tree.view().version.clone();
            tree.install(&before, Arc::new(Version::new()), &[]);
            none
        })
        .unwrap();
}

#[test]
#[should_panic(expected = "the oldest memtables are flushed first")]
fn a_memtable_does_not_leave_before_an_older_one() {
    let engine = Unopened::new(&["a"]);
    let tree = engine.tree("a");
    for seqno in 1..=2 {
        engine.put(&tree, "key", seqno);
        assert!(tree.seal());
    }
    let (sealed, version) = (tree.view().sealed.clone(), tree.view().version.clone());
    let [newer, older] = &sealed[..] else { panic!("{} memtables", sealed.len()) };
    tree.install(&version, version.clone(), std::slice::from_ref(older));
    engine.put(&tree, "key", 3);
    assert!(tree.seal());
    let newest = tree.view().sealed[0].clone();
    assert!(!Arc::ptr_eq(&newest, newer));
    tree.install(&version, version.clone(), &[newest]);
}
