//! The longest piece of a sorted sequence that some line passes within ε: `Hull`.
//!
//! It is O'Rourke's convex-hull algorithm (1981) as the PGM-index (VLDB 2020) uses it, in amortised
//! O(1) for each point. `push` adds a point, or refuses it if no line passes all then; `line` takes
//! a line from the middle. Against the anchored corridor of `pla` the line may start anywhere,
//! which gives 9 to 40 % fewer pieces (docs/PAPERS.md, "The longest piece within ε").
//!
//! What must hold: all decisions are made in integers. Only the line is rounded, and the code that
//! stores it measures it again.
//!
//! Callers: `boundaries::builder`, `plr` within entries, and the example `segments`.

use std::cmp::Ordering;

/// A point of the piece, x from that of the first on.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    x: u64,
    y: i64,
}

/// The way from a point to one further right.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    x: u64,
    y: i64,
}

/// A product of an x and a y: 64 bits and few, so that it fits 128 bits.
#[inline]
fn product(x: u64, y: i64) -> i128 {
    i128::from(x) * i128::from(y)
}

impl Point {
    /// The way to a point that is not left of this one.
    #[inline]
    fn to(self, right: Point) -> Way {
        Way { x: right.x - self.x, y: right.y - self.y }
    }
}

impl Way {
    /// Whether the slope of this way is less than that of `other`.
    #[inline]
    fn flatter(self, other: Way) -> bool {
        product(other.x, self.y) < product(self.x, other.y)
    }
}

/// Which way one turns that goes from `o` over `a` to `b`, each right of the one before:
/// `Greater` to the left.
#[inline]
fn turn(o: Point, a: Point, b: Point) -> Ordering {
    let (a, b) = (o.to(a), o.to(b));
    product(a.x, b.y).cmp(&product(b.x, a.y))
}

/// The piece under construction.
#[derive(Clone, Debug)]
pub struct Hull {
    epsilon: i64,
    points: usize,
    first_x: u64,
    /// Two points of the steepest and of the flattest line that still pass: 0–2 flattest, 1–3
    /// steepest.
    corners: [Point; 4],
    /// The ways 0–2 and 1–3.
    flattest: Way,
    steepest: Way,
    upper: Vec<Point>,
    lower: Vec<Point>,
    upper_start: usize,
    lower_start: usize,
}

impl Hull {
    /// An empty piece; its line may be `epsilon` off in y.
    pub fn new(epsilon: u32) -> Hull {
        Hull {
            epsilon: epsilon.into(),
            points: 0,
            first_x: 0,
            corners: [Point::default(); 4],
            flattest: Way::default(),
            steepest: Way::default(),
            upper: Vec::new(),
            lower: Vec::new(),
            upper_start: 0,
            lower_start: 0,
        }
    }

    /// Begins another piece.
    pub fn clear(&mut self) {
        self.points = 0;
        self.upper.clear();
        self.lower.clear();
        (self.upper_start, self.lower_start) = (0, 0);
    }

    /// Points in the piece.
    pub fn len(&self) -> usize {
        self.points
    }

    /// Whether there is no point in it.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Adds a point; x ascends strictly, y does not descend. False, and nothing added, if no line
    /// passes all points then.
    pub fn push(&mut self, x: u64, y: u32) -> bool {
        if self.points == 0 {
            self.first_x = x;
        }
        let (x, y) = (x - self.first_x, i64::from(y));
        let high = Point { x, y: y + self.epsilon };
        let low = Point { x, y: y - self.epsilon };
        if self.points < 2 {
            if self.points == 0 {
                (self.corners[0], self.corners[1]) = (high, low);
            } else {
                (self.corners[2], self.corners[3]) = (low, high);
                self.turn_lines();
            }
            self.upper.push(high);
            self.lower.push(low);
            self.points += 1;
            return true;
        }
        let [upper_left, lower_left, lower_right, upper_right] = self.corners;
        let (flattest, steepest) = (self.flattest, self.steepest);
        if lower_right.to(high).flatter(flattest) || steepest.flatter(upper_right.to(low)) {
            return false;
        }
        let comes_down = lower_left.to(high).flatter(steepest);
        let comes_up = flattest.flatter(upper_left.to(low));
        if comes_down {
            // The steepest line must come down: it turns about the lower hull, to pass below the
            // new point.
            let mut at = self.lower_start;
            while at + 1 < self.lower.len() && !self.lower[at].to(high).flatter(self.lower[at + 1].to(high)) {
                at += 1;
            }
            (self.corners[1], self.corners[3], self.lower_start) = (self.lower[at], high, at);
            while let [.., a, b] = self.upper[self.upper_start..] {
                if turn(a, b, high).is_gt() {
                    break;
                }
                self.upper.pop();
            }
            self.upper.push(high);
        }
        if comes_up {
            let mut at = self.upper_start;
            while at + 1 < self.upper.len() && !self.upper[at + 1].to(low).flatter(self.upper[at].to(low)) {
                at += 1;
            }
            (self.corners[0], self.corners[2], self.upper_start) = (self.upper[at], low, at);
            while let [.., a, b] = self.lower[self.lower_start..] {
                if turn(a, b, low).is_lt() {
                    break;
                }
                self.lower.pop();
            }
            self.lower.push(low);
        }
        if comes_down || comes_up {
            self.turn_lines();
        }
        self.points += 1;
        true
    }

    /// The extreme lines are those of the corners.
    fn turn_lines(&mut self) {
        let [upper_left, lower_left, lower_right, upper_right] = self.corners;
        (self.flattest, self.steepest) = (upper_left.to(lower_right), lower_left.to(upper_right));
    }

    /// Slope, in y per x, and y at the first point's x, of a line in the middle of those that pass.
    /// The slope is not negative.
    pub fn line(&self) -> (f64, f64) {
        if self.points < 2 {
            return (0.0, self.upper.first().map_or(0.0, |high| (high.y - self.epsilon) as f64));
        }
        let [upper_left, lower_left, ..] = self.corners;
        let (flat, steep) = (self.flattest, self.steepest);
        let slope_of = |way: Way| way.y as f64 / way.x as f64;
        let slope = ((slope_of(flat) + slope_of(steep)) / 2.0).max(0.0);
        // Where the two extreme lines cross: a point of every line between them.
        let cross = product(flat.x, steep.y) - product(steep.x, flat.y);
        let part = if cross == 0 {
            0.0
        } else {
            // The one way that may lead to the left.
            let right = i128::from(lower_left.x) - i128::from(upper_left.x);
            let apart = right * i128::from(steep.y) - product(steep.x, lower_left.y - upper_left.y);
            apart as f64 / cross as f64
        };
        let x = upper_left.x as f64 + part * flat.x as f64;
        let y = upper_left.y as f64 + part * flat.y as f64;
        (slope, y - slope * x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest distance in y of the piece's line from the points, its rounding included.
    fn error(hull: &Hull, points: &[(u64, u32)]) -> f64 {
        let (slope, at_first) = hull.line();
        let distance =
            |&(x, y): &(u64, u32)| (slope * (x - points[0].0) as f64 + at_first - f64::from(y)).abs();
        points.iter().map(distance).fold(0.0, f64::max)
    }

    #[test]
    fn the_line_of_every_piece_passes_all_of_its_points() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for epsilon in [0, 1, 4, 13] {
            for shape in 0..40 {
                let mut x = random() << (shape % 30);
                let mut points = Vec::new();
                let mut hull = Hull::new(epsilon);
                for y in 0..3000u32 {
                    x += 1
                        + (random() % (1 + shape * shape))
                        + if random() % 100 == 0 { 1 << (shape / 2) } else { 0 };
                    if !hull.push(x, y) {
                        assert!(points.len() >= 2, "any two points have a line");
                        assert!(error(&hull, &points) <= f64::from(epsilon) + 1e-6);
                        (hull, points) = (Hull::new(epsilon), Vec::new());
                        assert!(hull.push(x, y));
                    }
                    points.push((x, y));
                    assert_eq!(hull.len(), points.len());
                }
                assert!(error(&hull, &points) <= f64::from(epsilon) + 1e-6);
            }
        }
    }

    #[test]
    fn no_piece_of_an_anchored_corridor_is_longer() {
        let keys: Vec<u64> = (0..20_000u64).map(|i| i * 1000 + i * i % 7919 * 13).collect();
        let mut keys = keys;
        keys.sort_unstable();
        keys.dedup();
        for start in (0..keys.len()).step_by(997) {
            let mut corridor = crate::pla::Corridor::new(keys[start], 8);
            let mut hull = Hull::new(8);
            let corridor =
                (start + 1..keys.len()).take_while(|&i| corridor.push(keys[i], i - start)).count() + 1;
            let hull = (start..keys.len()).take_while(|&i| hull.push(keys[i], (i - start) as u32)).count();
            assert!(hull >= corridor, "{hull} {corridor}");
        }
    }
}
