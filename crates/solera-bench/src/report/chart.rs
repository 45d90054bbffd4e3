//! Bar charts: `Chart`, one bar with its number at its end for each of several things: index kinds,
//! engines, arms.
//!
//! If a number was measured several times, a line over its bar goes from the least to the greatest.
//! `draw` makes a `Drawing`; colours are those of `report::picture`.
//!
//! What must hold: no name leaves the picture.
//!
//! Callers: `report::html`; `paper::document` for `Bars`; `solera-bench-peers`.

use super::{
    Spread,
    html::escape,
    number::{Quantity, digits},
    picture::{Drawing, fitted, name_width},
};
use std::fmt::Write;

const WIDTH: f64 = 400.0;
/// Room for names: as much as they need, within these.
const LABEL_WIDTH_MIN: f64 = 88.0;
const LABEL_WIDTH_MAX: f64 = 160.0;
/// Between a name and its bar.
const LABEL_GAP: f64 = 8.0;
/// Room for the number behind the longest bar.
const NUMBER_WIDTH: f64 = 62.0;
const BAR_HEIGHT: f64 = 20.0;
const ROW_HEIGHT: f64 = 30.0;
/// Colours that the page's CSS has for bars.
const COLOURS: usize = 10;

/// A chart of one quantity.
pub struct Chart<'a> {
    /// What is shown, in a few words.
    pub title: &'a str,
    /// Its unit.
    pub quantity: Quantity,
    /// What is better, `higher` or `lower`.
    pub better: &'static str,
    /// The index kind and its number.
    pub bars: Vec<(&'a str, Spread)>,
}

impl Chart<'_> {
    /// The chart, drawn.
    pub fn draw(&self) -> Drawing {
        let largest = self.bars.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max);
        let median_largest = self.bars.iter().map(|(_, spread)| spread.median).fold(0.0, f64::max);
        let scale = self.quantity.scale(median_largest);
        let longest = self.bars.iter().map(|(name, _)| name_width(name)).fold(0.0, f64::max);
        let label_width = (longest + LABEL_GAP).clamp(LABEL_WIDTH_MIN, LABEL_WIDTH_MAX);
        let x = |value: f64| {
            let share = if largest > 0.0 { value / largest } else { 0.0 };
            label_width + share * (WIDTH - label_width - NUMBER_WIDTH)
        };
        let height = ROW_HEIGHT * self.bars.len() as f64;
        let mut out = String::new();
        for (i, (name, spread)) in self.bars.iter().enumerate() {
            let top = ROW_HEIGHT * i as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
            let middle = top + BAR_HEIGHT / 2.0;
            let shown = digits(spread.median / scale.divisor);
            let (least, greatest) = (digits(spread.min / scale.divisor), digits(spread.max / scale.divisor));
            let (left, right) = (x(spread.min), x(spread.max));
            let _ = write!(
                out,
                "<g><title>{} {shown} {}, from {least} to {greatest}</title>\
                 <text class=\"name\" x=\"{:.1}\" y=\"{middle:.1}\"{}>{}</text>\
                 <rect class=\"bar k{}\" x=\"{label_width:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>",
                escape(name),
                escape(&scale.unit),
                label_width - LABEL_GAP,
                fitted(name, label_width - LABEL_GAP),
                escape(name),
                i % COLOURS,
                x(spread.median) - label_width,
            );
            if spread.repeats.len() > 1 {
                let (up, down) = (middle - 4.0, middle + 4.0);
                let _ = write!(
                    out,
                    "<path class=\"spread\" d=\"M{left:.1} {middle:.1}H{right:.1}M{left:.1} {up:.1}V{down:.1}M{right:.1} \
                     {up:.1}V{down:.1}\"/>"
                );
            }
            let _ = write!(
                out,
                "<text class=\"number\" x=\"{:.1}\" y=\"{middle:.1}\">{shown}</text></g>",
                right + 7.0
            );
        }
        let caption = format!("{}, {} is better", scale.unit, self.better);
        Drawing { title: self.title.to_owned(), caption, width: WIDTH, height, whole: false, body: out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: `rocksdb-tuned` stood as `cksdb-tuned` in every chart. Cause: the room for names
    /// was that of the engine's own kinds. Cure: it is that of the longest name, which is pressed
    /// together where it would leave the picture.
    #[test]
    fn no_name_leaves_the_picture() {
        let spread = || Spread { median: 2.0, min: 1.0, max: 3.0, repeats: vec![1.0, 2.0, 3.0] };
        let long = "a name that is longer than any that there is";
        for name in ["rocksdb-tuned", "sherry-plr γ=1.0", long] {
            let chart = Chart {
                title: "Rate",
                quantity: Quantity::Plain("s"),
                better: "lower",
                bars: vec![(name, spread()), ("lmdb", spread())],
            };
            let svg = chart.draw().figure();
            let end: f64 =
                svg.split("class=\"name\" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            let is_pressed = svg.contains("textLength=\"152.0\"");
            assert!(name_width(name) < end + 0.1 || is_pressed, "{name}: {svg}");
            assert_eq!(is_pressed, name == long);
            // The longest bar and its number stay, too.
            assert!(
                svg.contains(&format!("x=\"{:.1}\" y=\"15.0\">2.0", WIDTH - NUMBER_WIDTH + 7.0)),
                "{svg}"
            );
        }
    }
}
