//! Charts as pictures: `Drawing`, SVG elements in a box of their own, and `sheet`, several drawings
//! as one SVG file. `is_sheet` knows such a file.
//!
//! In a web page its CSS colours them (`COLOURS`, `PARTS`); an SVG file colours itself.
//! `name_width` and `fitted` keep names within their room.
//!
//! What must hold: drawings of a sheet do not overlap, and stay on it.
//!
//! Callers: `report::chart` and `report::lines` draw; `report::html`, `paper::document` and
//! `solera-bench-peers` show.

use super::html::escape;
use std::fmt::Write;

/// Colours by name, for light and dark pages.
pub(super) const COLOURS: &str = "
:root { color-scheme: light dark; --page: #fbfaf8; --ink: #1d1b19; --soft: #6b655e; --line: #ddd7ce; --card: #ffffff;
  --k0: #9a9288; --k1: #c9822b; --k2: #8c2f39; --k3: #3c6e71; --k4: #5b5f97;
  --k5: #7a8450; --k6: #b5838d; --k7: #4f5d75; --k8: #a98467; --k9: #6d597a; }
@media (prefers-color-scheme: dark) { :root { --page: #171513; --ink: #ece7e0; --soft: #a39b91; --line: #38332e;
  --card: #1f1c19; --k0: #8b847b; --k1: #d9973f; --k2: #c65b66; --k3: #5f9ea0; --k4: #8b90cf;
  --k5: #a3ad75; --k6: #cfa3ab; --k7: #8092b3; --k8: #c7a98f; --k9: #a08cad; } }
";
/// How the parts of a chart look.
pub(super) const PARTS: &str = "
svg text { font-size: 13px; dominant-baseline: central; fill: var(--ink); }
svg .name { text-anchor: end; fill: var(--soft); } svg .number { font-weight: 600; }
.spread { stroke: var(--ink); stroke-width: 1.2; fill: none; opacity: .75; }
.k0 { fill: var(--k0); } .k1 { fill: var(--k1); } .k2 { fill: var(--k2); } .k3 { fill: var(--k3); } .k4 { fill: var(--k4); }
.k5 { fill: var(--k5); } .k6 { fill: var(--k6); } .k7 { fill: var(--k7); } .k8 { fill: var(--k8); } .k9 { fill: var(--k9); }
.grid { stroke: var(--line); fill: none; }
path.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
path.line.k0 { stroke: var(--k0); } path.line.k1 { stroke: var(--k1); } path.line.k2 { stroke: var(--k2); }
path.line.k3 { stroke: var(--k3); } path.line.k4 { stroke: var(--k4); } path.line.k5 { stroke: var(--k5); }
path.line.k6 { stroke: var(--k6); }
";
/// Colours that the CSS has for lines. Of thin lines the eye would not tell more of them apart.
pub(super) const LINE_COLOURS: usize = 7;
/// Width of a sheet: two columns of bar charts, or one line chart.
const SHEET_WIDTH: f64 = 860.0;
const GAP: f64 = 20.0;
/// Height of the title above a drawing.
const TITLE_HEIGHT: f64 = 40.0;

/// Width of a character, on the wide side: fonts differ.
const CHARACTER_WIDTH: f64 = 7.6;

/// So wide a name may become.
pub(super) fn name_width(name: &str) -> f64 {
    name.chars().count() as f64 * CHARACTER_WIDTH
}

/// The attributes that keep a name within `width`, if it may not fit by itself.
pub(super) fn fitted(name: &str, width: f64) -> String {
    match name_width(name) > width {
        true => format!(" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    }
}

/// What a chart draws: SVG elements in a box of their own.
pub struct Drawing {
    /// What is shown.
    pub(super) title: String,
    /// Its unit, and what is better.
    pub(super) caption: String,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Whether it takes the page's whole width.
    pub(super) whole: bool,
    /// SVG elements.
    pub(super) body: String,
}

impl Drawing {
    /// The drawing as a `<figure>` of a page that has the CSS.
    pub fn figure(&self) -> String {
        let Drawing { width, height, body, .. } = self;
        let (title, caption) = (escape(&self.title), escape(&self.caption));
        let class = if self.whole { " class=\"whole\"" } else { "" };
        format!(
            "<figure{class}><figcaption><b>{title}</b> <span>{caption}</span></figcaption>\
             <svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{body}</svg></figure>"
        )
    }
}

/// Whether a file that begins so is a [`sheet`].
pub fn is_sheet(beginning: &[u8]) -> bool {
    let first = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    first.starts_with(SHEET_BEGINNING)
        && first.contains("role=\"img\"><title>")
        && first.contains("</title><style>")
}

/// How a sheet begins.
const SHEET_BEGINNING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"";

/// Several drawings as one SVG file, in two columns.
pub fn sheet(title: &str, drawings: &[Drawing]) -> String {
    let (mut out, mut x, mut y, mut row) = (String::new(), GAP, GAP, 0.0);
    for drawing in drawings {
        if x > GAP && x + drawing.width > SHEET_WIDTH {
            (x, y, row) = (GAP, y + row + GAP, 0.0);
        }
        let _ = write!(
            out,
            "\n<text class=\"title\" x=\"{x}\" y=\"{:.1}\">{}</text><text class=\"caption\" x=\"{x}\" y=\"{:.1}\">{}</text>\
             <svg x=\"{x}\" y=\"{:.1}\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\">{}</svg>",
            y + 8.0,
            escape(&drawing.title),
            y + 26.0,
            escape(&drawing.caption),
            y + TITLE_HEIGHT,
            drawing.body,
            w = drawing.width,
            h = drawing.height,
        );
        row = f64::max(row, TITLE_HEIGHT + drawing.height);
        x += drawing.width + GAP;
    }
    let (width, height) = (SHEET_WIDTH + GAP, y + row + GAP);
    format!(
        "{SHEET_BEGINNING}{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\"><title>{}</title><style>{COLOURS}{PARTS}\
         svg text {{ font-family: system-ui, sans-serif; }} svg .title {{ font-weight: 700; }} svg .caption {{ fill: var(--soft); }}\n\
         .card {{ fill: var(--card); }}\n</style>\n<rect class=\"card\" width=\"{width}\" height=\"{height}\"/>{out}\n</svg>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_of_a_sheet_do_not_overlap_and_stay_on_it() {
        let drawing = |width| Drawing {
            title: "A <b>".into(),
            caption: "µs".into(),
            width,
            height: 100.0,
            whole: false,
            body: "<g/>".into(),
        };
        let svg = sheet("S", &[drawing(400.0), drawing(400.0), drawing(640.0)]);
        for place in ["<svg x=\"20\" y=\"60.0\"", "<svg x=\"440\" y=\"60.0\"", "<svg x=\"20\" y=\"220.0\""] {
            assert!(svg.contains(place), "{place}\n{svg}");
        }
        assert!(svg.contains("width=\"880\" height=\"340\"") && svg.contains("A &lt;b&gt;"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
