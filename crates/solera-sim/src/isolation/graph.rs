//! Graphs of transactions: `Graph`, with strongly connected components and short cycles through
//! them.
//!
//! `components` is Tarjan's algorithm (1972) with the recursion laid out flat, over the edges that
//! the caller admits. `way` is the shortest path between two nodes, breadth first.
//!
//! What must hold: a chain as long as a history needs no deep stack.
//!
//! Caller: `isolation::cycles`.

use std::collections::VecDeque;

/// Edges by the node that they leave; each with a label.
pub(super) struct Graph<L> {
    edges: Vec<Vec<(usize, L)>>,
}

impl<L: Copy + PartialEq> Graph<L> {
    pub(super) fn new(nodes: usize) -> Self {
        Graph { edges: vec![Vec::new(); nodes] }
    }

    /// Adds an edge, unless it is there or leads back to where it began.
    pub(super) fn add(&mut self, from: usize, to: usize, label: L) {
        if from != to && !self.edges[from].contains(&(to, label)) {
            self.edges[from].push((to, label));
        }
    }

    pub(super) fn edges(&self, from: usize) -> &[(usize, L)] {
        &self.edges[from]
    }

    pub(super) fn len(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// The strongly connected components of more than one node, over the edges that `uses` admits
    /// (Tarjan 1972, with the recursion laid out on a stack of its own: chains are as long as the
    /// history).
    pub(super) fn components(&self, uses: impl Fn(L) -> bool) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let nodes = self.edges.len();
        let (mut index, mut low) = (vec![UNSEEN; nodes], vec![0; nodes]);
        let mut open = vec![false; nodes];
        let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
        for root in 0..nodes {
            if index[root] != UNSEEN {
                continue;
            }
            let mut path = vec![(root, 0)];
            while let Some((node, edge)) = path.pop() {
                if edge == 0 {
                    (index[node], low[node], open[node]) = (next, next, true);
                    next += 1;
                    stack.push(node);
                }
                match self.edges[node].get(edge) {
                    Some(&(to, label)) => {
                        path.push((node, edge + 1));
                        if !uses(label) {
                        } else if index[to] == UNSEEN {
                            path.push((to, 0));
                        } else if open[to] {
                            low[node] = low[node].min(index[to]);
                        }
                    }
                    None => {
                        if let Some(&(parent, _)) = path.last() {
                            low[parent] = low[parent].min(low[node]);
                        }
                        if low[node] == index[node] {
                            let at = stack.iter().rposition(|&other| other == node).unwrap_or(0);
                            let component = stack.split_off(at);
                            component.iter().for_each(|&member| open[member] = false);
                            if component.len() > 1 {
                                found.push(component);
                            }
                        }
                    }
                }
            }
        }
        found
    }

    /// The shortest way from `from` to `to` over edges that `uses` admits, as edges.
    pub(super) fn way(&self, from: usize, to: usize, uses: impl Fn(L) -> bool) -> Option<Vec<(usize, L)>> {
        let mut came: Vec<Option<(usize, L)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for &(next, label) in &self.edges[node] {
                if !uses(label) || came[next].is_some() {
                    continue;
                }
                came[next] = Some((node, label));
                if next == to {
                    let mut way = Vec::new();
                    let mut at = to;
                    while way.is_empty() || at != from {
                        let (before, label) = came[at]?;
                        way.push((before, label));
                        at = before;
                    }
                    way.reverse();
                    return Some(way);
                }
                queue.push_back(next);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_the_rings_and_nothing_else() {
        let mut graph = Graph::new(9);
        for (from, to) in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 4), (6, 7), (7, 8), (6, 8)] {
            graph.add(from, to, 'a');
        }
        graph.add(8, 6, 'b');
        let sorted = |mut components: Vec<Vec<usize>>| {
            components.iter_mut().for_each(|component| component.sort_unstable());
            components.sort();
            components
        };
        assert_eq!(sorted(graph.components(|label| label == 'a')), [vec![0, 1, 2], vec![4, 5]]);
        assert_eq!(sorted(graph.components(|_| true)), [vec![0, 1, 2], vec![4, 5], vec![6, 7, 8]]);
        assert_eq!(graph.way(6, 6, |_| true), Some(vec![(6, 'a'), (8, 'b')]));
        assert_eq!(graph.way(6, 6, |label| label == 'a'), None);
    }

    #[test]
    fn a_chain_as_long_as_a_history_needs_no_deep_stack() {
        let mut graph = Graph::new(1_000_000);
        (0..999_999).for_each(|node| graph.add(node, node + 1, ()));
        assert_eq!(graph.components(|()| true).len(), 0);
        graph.add(999_999, 0, ());
        assert_eq!(graph.components(|()| true)[0].len(), 1_000_000);
    }
}
