//! Line charts: `LineChart`, how a number goes over another, one line for each of several things.
//!
//! `draw` makes a `Drawing` with a scale at the left and names above; colours are those of
//! `report::picture`.
//!
//! What must hold: no two lines look alike. There are colours for seven; more lines have the same
//! colours again, with dashes, which are longer each time. Lines stay in the picture and are named.
//!
//! Callers: `paper::document`, for `Lines`; `solera-bench-peers`, for reads over size.

use super::{
    html::escape,
    number::{Quantity, count, digits},
    picture::{Drawing, LINE_COLOURS, fitted, name_width},
};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
/// Room for the numbers at the left, the names above, and the numbers below.
const LEFT: f64 = 52.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;
/// What a name takes beside itself: its colour before it, and what keeps it from the next.
const NAME_GAP: f64 = 33.0;
/// Steps of the scale at the left.
const STEPS: u32 = 4;

/// A chart of one quantity over another.
pub struct LineChart<'a> {
    /// What is shown, in a few words.
    pub title: &'a str,
    /// The unit of what is shown.
    pub quantity: Quantity,
    /// What is better, `higher` or `lower`.
    pub better: &'static str,
    /// What runs from left to right.
    pub over: &'a str,
    /// Where something happened, and what.
    pub mark: Option<(f64, &'a str)>,
    /// Name and points of each line, from left to right.
    pub lines: Vec<(&'a str, &'a [(f64, f64)])>,
}

impl LineChart<'_> {
    /// The chart, drawn.
    pub fn draw(&self) -> Drawing {
        let points = || self.lines.iter().flat_map(|(_, points)| points.iter());
        let right = points().map(|point| point.0).fold(0.0, f64::max);
        let most = points().map(|point| point.1).fold(0.0, f64::max);
        let scale = self.quantity.scale(most);
        let share = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
        let x = |value: f64| LEFT + share(value, right) * (WIDTH - LEFT - 8.0);
        let y = |value: f64| HEIGHT - BOTTOM - share(value, most) * (HEIGHT - TOP - BOTTOM);
        let mut out = String::new();
        for step in 0..=STEPS {
            let value = most * f64::from(step) / f64::from(STEPS);
            let (at, shown) = (y(value), digits(value / scale.divisor));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text class=\"name\" x=\"{:.1}\" y=\"{at:.1}\">{shown}</text>",
                WIDTH - 8.0,
                LEFT - 6.0
            );
        }
        let (below, end) = (HEIGHT - BOTTOM / 2.0, WIDTH - 8.0);
        let _ = write!(out, "<text class=\"name\" x=\"{end}\" y=\"{below}\">{}</text>", count(right as u64));
        if let Some((at, what)) = self.mark {
            let _ = write!(
                out,
                "<path class=\"spread\" d=\"M{0:.1} {TOP}V{1:.1}\"/><text x=\"{0:.1}\" y=\"{below}\">{2} at {3}</text>",
                x(at),
                HEIGHT - BOTTOM,
                escape(what),
                count(at as u64)
            );
        }
        let widths: Vec<f64> = self.lines.iter().map(|(name, _)| name_width(name)).collect();
        let room = WIDTH - LEFT - NAME_GAP * widths.len() as f64;
        // Names that need more room than there is get their share of it.
        let share_of_room = (room / widths.iter().sum::<f64>().max(1.0)).min(1.0);
        let mut left = LEFT;
        for (i, (name, points)) in self.lines.iter().enumerate() {
            let width = widths[i] * share_of_room;
            let (colour, dash) = (i % LINE_COLOURS, dash(i / LINE_COLOURS));
            let sample = match dash.is_empty() {
                true => {
                    format!("<rect class=\"k{colour}\" x=\"{left:.1}\" y=\"5\" width=\"12\" height=\"12\"/>")
                }
                false => format!("<path class=\"line k{colour}\"{dash} d=\"M{left:.1} 11h12\"/>"),
            };
            let _ = write!(
                out,
                "{sample}<text x=\"{:.1}\" y=\"11\"{}>{}</text><path class=\"line k{colour}\"{dash} d=\"",
                left + 17.0,
                fitted(name, width),
                escape(name)
            );
            left += width + NAME_GAP;
            for (at, (over, value)) in points.iter().enumerate() {
                let step = if at == 0 { 'M' } else { 'L' };
                let _ = write!(out, "{step}{:.1} {:.1}", x(*over), y(*value));
            }
            out.push_str("\"/>");
        }
        let caption = format!("{} over {}, {} is better", scale.unit, self.over, self.better);
        Drawing {
            title: self.title.to_owned(),
            caption,
            width: WIDTH,
            height: HEIGHT,
            whole: true,
            body: out,
        }
    }
}

/// The attribute of lines that have their colours for so many times already: longer dashes each
/// time.
fn dash(times: usize) -> String {
    match times {
        0 => String::new(),
        times => format!(" stroke-dasharray=\"{} 2\"", 3 * times - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::picture::PARTS, *};
    use std::collections::BTreeSet;

    #[test]
    fn every_line_of_a_chart_has_a_stroke_and_no_two_look_alike() {
        let points = [(0.0, 1.0), (1.0, 2.0)];
        let names: Vec<String> = (0..3 * LINE_COLOURS).map(|i| format!("line {i}")).collect();
        let chart = LineChart {
            title: "Time",
            quantity: Quantity::Plain("µs"),
            better: "lower",
            over: "operations",
            mark: None,
            lines: names.iter().map(|name| (&name[..], &points[..])).collect(),
        };
        let svg = chart.draw().figure();
        let drawn = svg.split("<path class=\"line ").skip(1).map(|rest| rest.split_once(" d=\"").unwrap());
        // A sample beside a name goes across alone.
        let is_line = |rest: &str| rest.split('"').next().is_some_and(|points| points.contains('L'));
        let lines = drawn.filter(|(_, rest)| is_line(rest)).map(|(look, _)| look);
        let looks: BTreeSet<&str> = lines.clone().collect();
        assert_eq!((lines.count(), looks.len()), (names.len(), names.len()), "{looks:?}");
        for look in looks {
            let colour = look.split('"').next().unwrap();
            assert!(PARTS.contains(&format!("path.line.{colour} {{ stroke: var(--{colour}); }}")), "{look}");
        }
    }

    #[test]
    fn lines_stay_in_the_picture_and_are_named() {
        let points: [&[(f64, f64)]; 3] = [&[(0.0, 1.0), (500.0, 4.0), (1000.0, 0.0)], &[(0.0, 0.0)], &[]];
        let lines = ["<fast>", "slow", "nothing"].into_iter().zip(points).collect();
        let chart = LineChart {
            title: "Time",
            quantity: Quantity::Plain("µs"),
            better: "lower",
            over: "operations",
            mark: Some((500.0, "change")),
            lines,
        };
        let svg = chart.draw().figure();
        assert!(svg.contains("&lt;fast&gt;") && svg.contains("change at 500") && svg.contains("1,000"));
        assert_eq!(svg.matches("class=\"line").count(), 3);
        // The largest at the top, the last at the right.
        assert!(svg.contains("d=\"M52.0 168.5L342.0 26.0L632.0 216.0\""), "{svg}");
        assert!(!svg.contains("NaN"));
    }
}
