//! Regression by boosted trees: `Boost` grows them, `Boosted` predicts. Each small tree predicts
//! what those before it have left over.
//!
//! Splits and leaves are those of XGBoost for squared errors (Chen and Guestrin, KDD 2016). A leaf
//! is −G/(H + λ), and a split is as good as what it adds to G²/(H + λ).
//!
//! What must hold: every boundary between two values is tried whose sides both weigh
//! `leaf_weight_min` or more. The first of equal ones is taken. Rows and values are finite, which
//! `grow` asserts; weights it does not check. `Boost::default` has XGBoost's numbers, which CAMAL
//! uses.
//!
//! Callers: `regression`, for `Kind::Trees`; `agent::constants` has the options.

/// How trees are grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boost {
    /// Trees.
    pub rounds: usize,
    /// Splits from the root to a leaf, at most.
    pub depth: usize,
    /// How much of what a tree says counts.
    pub rate: f64,
    /// λ: how many points a leaf is drawn towards 0 by.
    pub penalty: f64,
    /// What the points of a leaf must weigh together, at least.
    pub leaf_weight_min: f64,
}

impl Default for Boost {
    /// XGBoost's defaults, which CAMAL uses: 100 trees of depth 6, a rate of 0.3, λ = 1.
    fn default() -> Self {
        Boost { rounds: 100, depth: 6, rate: 0.3, penalty: 1.0, leaf_weight_min: 1.0 }
    }
}

/// What a node of a tree does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Leaf(f64),
    /// Points whose feature is below go to the node after this one, others to `above`.
    Split {
        feature: usize,
        below: f64,
        above: usize,
    },
}

/// Trees that were grown.
#[derive(Clone, Debug, PartialEq)]
pub struct Boosted {
    base: f64,
    rate: f64,
    trees: Vec<Vec<Node>>,
}

/// The points that trees are grown from.
#[derive(Clone, Copy, Debug)]
struct Points<'a> {
    rows: &'a [Vec<f64>],
    weights: &'a [f64],
}

/// Points of a node: in their own order, and in that of each feature. A node's order is its
/// parent's, so that points are sorted once for all trees.
#[derive(Clone, Debug)]
struct Sorted {
    points: Vec<usize>,
    by_feature: Vec<Vec<usize>>,
}

impl Sorted {
    fn of(rows: &[Vec<f64>]) -> Sorted {
        let points: Vec<usize> = (0..rows.len()).collect();
        let by = |feature: usize| {
            let mut sorted = points.clone();
            sorted.sort_by(|&a, &b| rows[a][feature].total_cmp(&rows[b][feature]).then(a.cmp(&b)));
            sorted
        };
        Sorted { by_feature: (0..rows[0].len()).map(by).collect(), points }
    }

    /// Those of a kind, and the others.
    fn parted(self, is: impl Fn(usize) -> bool) -> (Sorted, Sorted) {
        let part = |of: Vec<usize>| of.into_iter().partition(|&point| is(point));
        let (points, others): (Vec<usize>, Vec<usize>) = part(self.points);
        let (by_feature, of_others) = self.by_feature.into_iter().map(part).unzip();
        (Sorted { points, by_feature }, Sorted { points: others, by_feature: of_others })
    }
}

impl Boost {
    /// Grows trees from points: `rows` of features, their values, and how much each counts. There
    /// is at least one.
    pub fn grow(&self, rows: &[Vec<f64>], values: &[f64], weights: &[f64]) -> Boosted {
        assert!(!rows.is_empty() && rows.len() == values.len() && rows.len() == weights.len());
        assert!(rows.iter().flatten().chain(values).all(|x| x.is_finite()), "a point is not finite");
        let points = Points { rows, weights };
        let weight: f64 = weights.iter().sum();
        let base = values.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>() / weight;
        let mut boosted = Boosted { base, rate: self.rate, trees: Vec::with_capacity(self.rounds) };
        let mut left: Vec<f64> = values.iter().map(|value| value - base).collect();
        let sorted = Sorted::of(rows);
        for _ in 0..self.rounds {
            let mut tree = Vec::new();
            self.grow_node(points, &left, sorted.clone(), self.depth, &mut tree);
            for (left, row) in left.iter_mut().zip(rows) {
                *left -= self.rate * leaf_of(&tree, row);
            }
            boosted.trees.push(tree);
        }
        boosted
    }

    fn grow_node(&self, points: Points<'_>, left: &[f64], at: Sorted, depth: usize, tree: &mut Vec<Node>) {
        let split = if depth > 0 { self.best_split(points, left, &at) } else { None };
        let Some((feature, below)) = split else {
            let (sum, weight) = sums(points, left, &at.points);
            tree.push(Node::Leaf(sum / (weight + self.penalty)));
            return;
        };
        let node = tree.len();
        tree.push(Node::Leaf(0.0));
        let (lower, upper) = at.parted(|point| points.rows[point][feature] < below);
        self.grow_node(points, left, lower, depth - 1, tree);
        let above = tree.len();
        self.grow_node(points, left, upper, depth - 1, tree);
        tree[node] = Node::Split { feature, below, above };
    }

    /// Feature and boundary of the best split, if any is better than none.
    fn best_split(&self, points: Points<'_>, left: &[f64], at: &Sorted) -> Option<(usize, f64)> {
        let (sum, weight) = sums(points, left, &at.points);
        let score = |sum: f64, weight: f64| sum * sum / (weight + self.penalty);
        let mut best = (1e-12 * sum.abs().max(1e-12), None);
        for (feature, sorted) in at.by_feature.iter().enumerate() {
            let value = |point: usize| points.rows[point][feature];
            let (mut sum_below, mut weight_below) = (0.0, 0.0);
            for pair in sorted.windows(2) {
                sum_below += points.weights[pair[0]] * left[pair[0]];
                weight_below += points.weights[pair[0]];
                let (lower, upper) = (value(pair[0]), value(pair[1]));
                let weight_above = weight - weight_below;
                if lower == upper || weight_below.min(weight_above) < self.leaf_weight_min {
                    continue;
                }
                let gain = score(sum_below, weight_below) + score(sum - sum_below, weight_above)
                    - score(sum, weight);
                if gain > best.0 {
                    // A midpoint that rounds to the lower value would send that value up.
                    let middle = lower + (upper - lower) / 2.0;
                    let below = if middle > lower { middle } else { upper };
                    best = (gain, Some((feature, below)));
                }
            }
        }
        best.1
    }
}

/// The weighted sum of what is left over at these points, and their weight.
fn sums(points: Points<'_>, left: &[f64], at: &[usize]) -> (f64, f64) {
    let of = |sum: (f64, f64), &point: &usize| {
        let weight = points.weights[point];
        (sum.0 + weight * left[point], sum.1 + weight)
    };
    at.iter().fold((0.0, 0.0), of)
}

fn leaf_of(tree: &[Node], row: &[f64]) -> f64 {
    let mut at = 0;
    loop {
        match tree[at] {
            Node::Leaf(value) => return value,
            Node::Split { feature, below, above } => at = if row[feature] < below { at + 1 } else { above },
        }
    }
}

impl Boosted {
    /// What the trees say of a point.
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.trees.iter().fold(self.base, |sum, tree| sum + self.rate * leaf_of(tree, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Random, digest, sample, samples};

    fn step(x: f64) -> f64 {
        if x < 0.3 { 1.0 } else { 5.0 }
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let rows: Vec<Vec<f64>> =
            (0..100).map(|i| vec![f64::from(i) / 100.0, f64::from(i * 7 % 13)]).collect();
        let values: Vec<f64> = rows.iter().map(|row| step(row[0])).collect();
        let boosted = Boost::default().grow(&rows, &values, &vec![1.0; rows.len()]);
        for x in [0.0, 0.1, 0.29, 0.3, 0.31, 0.7, 1.0, -5.0, 5.0] {
            assert!((boosted.predict(&[x, 3.0]) - step(x)).abs() < 1e-3, "{x}");
        }
        let Node::Split { feature: 0, below, .. } = boosted.trees[0][0] else { panic!("no split") };
        assert!((below - 0.295).abs() < 1e-9, "{below}");
    }

    /// One tree of one split by hand: two leaves, each Σ/(n + λ).
    #[test]
    fn a_leaf_is_the_sum_over_the_count_and_the_penalty() {
        let rows = [[0.0], [1.0], [2.0], [3.0]].map(|row| row.to_vec());
        let boost = Boost { rounds: 1, depth: 1, rate: 1.0, penalty: 1.0, leaf_weight_min: 1.0 };
        let boosted = boost.grow(&rows, &[0.0, 0.0, 6.0, 6.0], &[1.0; 4]);
        // The mean is 3; what is left over is −3, −3, 3, 3.
        assert_eq!(boosted.predict(&[0.5]), 3.0 - 6.0 / 3.0);
        assert_eq!(boosted.predict(&[2.5]), 3.0 + 6.0 / 3.0);
    }

    /// 20 rounds of XGBoost 3.2.0 with `tree_method="exact"`, three levels, at least a weight of 8
    /// in a leaf, and the weighted mean as `base_score`. It computes in `f32`. Smaller leaves have
    /// splits that are equally good.
    #[test]
    fn predictions_are_those_of_xgboost() {
        let (rows, values, weights) = samples();
        let boost = Boost { rounds: 20, depth: 3, leaf_weight_min: 8.0, ..Boost::default() };
        let boosted = boost.grow(&rows, &values, &weights);
        for (point, theirs) in [
            (1000, 1.1068949699401855),
            (1017, 0.2548920512199402),
            (1034, 1.5667868852615356),
            (1051, 0.025625288486480713),
            (1068, 0.15334787964820862),
            (0, 0.01566903293132782),
            (1, 1.2067487239837646),
            (2, 1.07843017578125),
        ] {
            let ours = boosted.predict(&sample(point));
            assert!((ours - theirs).abs() < 2e-6, "{point}: {ours}, not {theirs}");
        }
    }

    #[test]
    fn points_that_are_alike_make_one_leaf() {
        let boosted = Boost::default().grow(&[vec![1.0], vec![1.0]], &[2.0, 4.0], &[1.0, 1.0]);
        assert_eq!(boosted.predict(&[9.0]), 3.0);
        assert!(boosted.trees.iter().all(|tree| tree.len() == 1));
    }

    #[test]
    fn they_give_the_same_bits_on_every_processor() {
        let mut random = Random::new(4);
        let rows: Vec<Vec<f64>> = (0..120).map(|_| (0..4).map(|_| random.normal()).collect()).collect();
        let values: Vec<f64> = rows.iter().map(|row| row[0] * row[1] + row[2]).collect();
        let weights: Vec<f64> = rows.iter().map(|row| 0.5 + row[3].abs()).collect();
        let boosted = Boost::default().grow(&rows, &values, &weights);
        assert_eq!(digest(rows.iter().map(|row| boosted.predict(row))), 0x8fe5_3985_ff2f_d3a4);
    }
}
