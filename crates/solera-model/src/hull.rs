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

/// A point, or the vector between two: 65 bits of x and few of y, so that products fit 128 bits.
#[derive(Clone, Copy, Debug)]
struct Point {
    x: i128,
    y: i64,
}

/// A product of an x and a y. Nearly every x fits 64 bits, and then it is one multiplication.
#[inline]
fn product(x: i128, y: i64) -> i128 {
    let narrow = x as i64;
    if i128::from(narrow) == x { i128::from(narrow) * i128::from(y) } else { x * i128::from(y) }
}

impl Point {
    fn minus(self, other: Point) -> Point {
        Point { x: self.x - other.x, y: self.y - other.y }
    }

    /// Whether the slope of this vector is less than that of `other`; both point to the same side.
    fn flatter(self, other: Point) -> bool {
        product(other.x, self.y) < product(self.x, other.y)
    }
}

/// Positive if the way from `o` over `a` to `b` turns left.
fn turn(o: Point, a: Point, b: Point) -> i128 {
    let (a, b) = (a.minus(o), b.minus(o));
    product(a.x, b.y) - product(b.x, a.y)
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
            corners: [Point { x: 0, y: 0 }; 4],
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
        let (x, y) = (i128::from(x - self.first_x), i64::from(y));
        let high = Point { x, y: y + self.epsilon };
        let low = Point { x, y: y - self.epsilon };
        if self.points < 2 {
            if self.points == 0 {
                (self.corners[0], self.corners[1]) = (high, low);
            } else {
                (self.corners[2], self.corners[3]) = (low, high);
            }
            self.upper.push(high);
            self.lower.push(low);
            self.points += 1;
            return true;
        }
        let [upper_left, lower_left, lower_right, upper_right] = self.corners;
        let flattest = lower_right.minus(upper_left);
        let steepest = upper_right.minus(lower_left);
        if high.minus(lower_right).flatter(flattest) || steepest.flatter(low.minus(upper_right)) {
            return false;
        }
        if high.minus(lower_left).flatter(steepest) {
            // The steepest line must come down: it turns about the lower hull, to pass below the
            // new point.
            let mut at = self.lower_start;
            while at + 1 < self.lower.len()
                && !self.lower[at].minus(high).flatter(self.lower[at + 1].minus(high))
            {
                at += 1;
            }
            (self.corners[1], self.corners[3], self.lower_start) = (self.lower[at], high, at);
            while let [.., a, b] = self.upper[self.upper_start..] {
                if turn(a, b, high) > 0 {
                    break;
                }
                self.upper.pop();
            }
            self.upper.push(high);
        }
        if flattest.flatter(low.minus(upper_left)) {
            let mut at = self.upper_start;
            while at + 1 < self.upper.len()
                && !self.upper[at + 1].minus(low).flatter(self.upper[at].minus(low))
            {
                at += 1;
            }
            (self.corners[0], self.corners[2], self.upper_start) = (self.upper[at], low, at);
            while let [.., a, b] = self.lower[self.lower_start..] {
                if turn(a, b, low) < 0 {
                    break;
                }
                self.lower.pop();
            }
            self.lower.push(low);
        }
        self.points += 1;
        true
    }

    /// Slope, in y per x, and y at the first point's x, of a line in the middle of those that pass.
    /// The slope is not negative.
    pub fn line(&self) -> (f64, f64) {
        if self.points < 2 {
            return (0.0, self.upper.first().map_or(0.0, |high| (high.y - self.epsilon) as f64));
        }
        let [upper_left, lower_left, lower_right, upper_right] = self.corners;
        let (flat, steep) = (lower_right.minus(upper_left), upper_right.minus(lower_left));
        let slope_of = |vector: Point| vector.y as f64 / vector.x as f64;
        let slope = ((slope_of(flat) + slope_of(steep)) / 2.0).max(0.0);
        // Where the two extreme lines cross: a point of every line between them.
        let cross = product(flat.x, steep.y) - product(steep.x, flat.y);
        let part = if cross == 0 {
            0.0
        } else {
            let apart = lower_left.minus(upper_left);
            (product(apart.x, steep.y) - product(steep.x, apart.y)) as f64 / cross as f64
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
