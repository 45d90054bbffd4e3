//! An experiment run in a place whose time is counted, for tests in several files.

use solera_bench::{
    Progress,
    paper::{self, Document, Paper, Scale},
};

/// How far each run said it was, and of how much.
#[derive(Default)]
pub struct Heard(pub Vec<(u64, u64)>);

impl Progress for Heard {
    fn at(&mut self, _: &str, done: u64, of: u64) {
        self.0.push((done, of));
    }
}

/// Runs `paper` in counted time. Its page has figures and says how they came to be.
pub fn counted(paper: Paper, scale: Scale) -> Document {
    let document = paper::run(paper, &Scale { world: true, ..scale }, &mut Heard::default()).unwrap();
    let markdown = document.to_markdown("page.html");
    assert!(!markdown.contains("NaN") && markdown.contains("| asked | measured | verdict |"), "{markdown}");
    assert!(markdown.contains("times are counted, not measured"));
    document
}
