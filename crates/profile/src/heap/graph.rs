//! Who holds whom: nodes by number, and edges that say how. From them the shortest way to each node
//! and who alone holds what (dominators: Georgiadis, "Linear-Time Algorithms for Dominators and
//! Related Problems", 2005, SEMI-NCA). Knows nothing of what nodes are.

/// How a node holds another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Of the interpreter, or of memory that is not perl's; what it is called there.
    Root(&'static str),
    Reference,
    Element(u32),
    /// Where the key's text is.
    Key(u64),
    /// Of a glob: `$`, `@`, `%`, `&`, `IO`, `FORMAT`.
    Slot(&'static str),
    /// Variables of a sub, so deep in recursion.
    Depth(u32),
    /// A variable of a sub, by its number.
    Pad(u32),
    /// What its sub is made of, or a closure's.
    Code,
    Magic,
    /// The sub around it.
    Outside,
    /// Text of several values.
    Text,
    /// By a structure that is not told apart.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub from: u32,
    pub to: u32,
    pub via: Via,
}

pub const NOBODY: u32 = u32::MAX;

/// Edges by the node that they begin at.
#[derive(Debug, Default)]
pub struct Graph {
    /// Where the edges of each node begin and end.
    ranges: Vec<(u32, u32)>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Of edges that are doubtful only those that lead to what the others do not lead to from the
    /// root.
    #[must_use]
    pub fn of(nodes: u32, sure: &[Edge], doubtful: &[Edge], root: u32) -> Self {
        let mut counts = vec![0_u32; nodes as usize];
        sure.iter().chain(doubtful).for_each(|edge| counts[edge.from as usize] += 1);
        let mut next = 0;
        let begin = |count: u32| {
            next += count;
            (next - count, next - count)
        };
        let ranges: Vec<(u32, u32)> = counts.into_iter().map(begin).collect();
        let nothing = Edge { from: 0, to: 0, via: Via::Other };
        let mut graph = Self { ranges, edges: vec![nothing; sure.len() + doubtful.len()] };
        sure.iter().for_each(|edge| graph.put(*edge));
        if !doubtful.is_empty() {
            let ways = graph.ways(root);
            let is_open = |edge: &&Edge| !ways.is_reached(edge.to);
            doubtful.iter().filter(is_open).for_each(|edge| graph.put(*edge));
        }
        graph
    }

    fn put(&mut self, edge: Edge) {
        let end = &mut self.ranges[edge.from as usize].1;
        self.edges[*end as usize] = edge;
        *end += 1;
    }

    #[must_use]
    pub fn len(&self) -> u32 {
        self.ranges.len() as u32
    }

    #[must_use]
    pub fn edges(&self, from: u32) -> &[Edge] {
        let (begin, end) = self.ranges[from as usize];
        &self.edges[begin as usize..end as usize]
    }

    /// Of each node the edge of a shortest way from the root, by its number; [`NOBODY`] of the root
    /// and of what it does not hold.
    #[must_use]
    pub fn ways(&self, root: u32) -> Ways {
        let mut by = vec![NOBODY; self.len() as usize];
        let mut order = vec![root];
        let mut done = 0;
        while let Some(from) = order.get(done).copied() {
            let first = self.ranges[from as usize].0;
            for (number, edge) in (first..).zip(self.edges(from)) {
                if edge.to != root && by[edge.to as usize] == NOBODY {
                    by[edge.to as usize] = number;
                    order.push(edge.to);
                }
            }
            done += 1;
        }
        Ways { by }
    }

    /// The edge by which a node is reached first.
    #[must_use]
    pub fn way(&self, ways: &Ways, node: u32) -> Option<Edge> {
        self.edges.get(ways.by[node as usize] as usize).copied()
    }

    /// Of each node the nearest one without which it would not be held; [`NOBODY`] of the root and
    /// of what it does not hold. And all that are held, each after who holds it.
    #[must_use]
    pub fn holders(&self, root: u32) -> (Vec<u32>, Vec<u32>) {
        Holders::search(self, root).done(self)
    }
}

#[derive(Debug)]
pub struct Ways {
    by: Vec<u32>,
}

impl Ways {
    #[must_use]
    pub fn is_reached(&self, node: u32) -> bool {
        self.by[node as usize] != NOBODY
    }
}

/// By numbers in the order of a search into the depth.
struct Holders {
    /// Nodes by number, and numbers by node.
    nodes: Vec<u32>,
    numbers: Vec<u32>,
    parents: Vec<u32>,
}

impl Holders {
    fn search(graph: &Graph, root: u32) -> Self {
        let mut found = Self {
            nodes: Vec::new(),
            numbers: vec![NOBODY; graph.len() as usize],
            parents: Vec::new(),
        };
        found.meet(root, 0);
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.last_mut() {
            let Some(edge) = graph.edges(*node).get(*next) else {
                stack.pop();
                continue;
            };
            *next += 1;
            if found.numbers[edge.to as usize] == NOBODY {
                found.meet(edge.to, found.numbers[*node as usize]);
                stack.push((edge.to, 0));
            }
        }
        found
    }

    fn meet(&mut self, node: u32, parent: u32) {
        self.numbers[node as usize] = self.nodes.len() as u32;
        self.nodes.push(node);
        self.parents.push(parent);
    }

    fn done(self, graph: &Graph) -> (Vec<u32>, Vec<u32>) {
        let semi = self.semi(&self.before(graph));
        let mut holders = self.parents.clone();
        for number in 1..self.nodes.len() {
            while holders[number] > semi[number] {
                holders[number] = holders[holders[number] as usize];
            }
        }
        let mut by_node = vec![NOBODY; graph.len() as usize];
        for (number, node) in self.nodes.iter().enumerate().skip(1) {
            by_node[*node as usize] = self.nodes[holders[number] as usize];
        }
        (by_node, self.nodes)
    }

    /// Numbers of those that hold each number: where they begin, and they.
    fn before(&self, graph: &Graph) -> (Vec<u32>, Vec<u32>) {
        let held = || {
            self.nodes.iter().enumerate().flat_map(|(from, node)| {
                let to = graph.edges(*node).iter().map(|edge| self.numbers[edge.to as usize]);
                to.map(move |to| (from as u32, to))
            })
        };
        let mut firsts = vec![0_u32; self.nodes.len() + 1];
        held().for_each(|(_, to)| firsts[to as usize + 1] += 1);
        (1..firsts.len()).for_each(|at| firsts[at] += firsts[at - 1]);
        let mut next = firsts.clone();
        let mut all = vec![0; firsts[self.nodes.len()] as usize];
        for (from, to) in held() {
            all[next[to as usize] as usize] = from;
            next[to as usize] += 1;
        }
        (firsts, all)
    }

    fn semi(&self, (firsts, before): &(Vec<u32>, Vec<u32>)) -> Vec<u32> {
        let count = self.nodes.len() as u32;
        let mut semi: Vec<u32> = (0..count).collect();
        let mut labels = semi.clone();
        let mut ancestors = self.parents.clone();
        let mut path = Vec::new();
        for number in (1..count).rev() {
            let from =
                &before[firsts[number as usize] as usize..firsts[number as usize + 1] as usize];
            let mut least = number;
            for holder in from {
                shorten(*holder, number, &mut ancestors, &mut labels, &semi, &mut path);
                least = least.min(semi[labels[*holder as usize] as usize]);
            }
            semi[number as usize] = least;
        }
        semi
    }
}

/// Makes the way from `from` up to what has no place yet (numbers up to `done`) one step, with the
/// least label on it.
fn shorten(
    from: u32,
    done: u32,
    ancestors: &mut [u32],
    labels: &mut [u32],
    semi: &[u32],
    path: &mut Vec<u32>,
) {
    let mut at = from;
    while ancestors[at as usize] > done && at > done {
        path.push(at);
        at = ancestors[at as usize];
    }
    while let Some(below) = path.pop() {
        let above = ancestors[below as usize];
        if semi[labels[above as usize] as usize] < semi[labels[below as usize] as usize] {
            labels[below as usize] = labels[above as usize];
        }
        ancestors[below as usize] = ancestors[above as usize];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
        let edge = |(from, to): &(u32, u32)| Edge { from: *from, to: *to, via: Via::Reference };
        Graph::of(nodes, &edges.iter().map(edge).collect::<Vec<_>>(), &[], 0)
    }

    #[test]
    fn who_is_held_by_two_is_held_by_what_holds_both() {
        let graph = graph(6, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (5, 4)]);
        let (holders, order) = graph.holders(0);
        assert_eq!(holders, [NOBODY, 0, 0, 0, 3, NOBODY]);
        assert_eq!(order.len(), 5);
        let ways = graph.ways(0);
        assert_eq!(graph.way(&ways, 3).map(|edge| edge.from), Some(1));
        assert!(!ways.is_reached(5) && graph.way(&ways, 5).is_none());
    }

    #[test]
    fn doubtful_edges_count_where_no_other_leads() {
        let edge = |(from, to)| Edge { from, to, via: Via::Reference };
        let (sure, doubtful) = ([(0, 1), (2, 3)].map(edge), [(0, 1), (1, 2), (3, 1)].map(edge));
        let graph = Graph::of(5, &sure, &doubtful, 0);
        assert_eq!(graph.edges(0).len() + graph.edges(3).len(), 1);
        assert_eq!(graph.edges(1).iter().map(|edge| edge.to).collect::<Vec<_>>(), [2]);
        let (holders, _) = graph.holders(0);
        assert_eq!(holders, [NOBODY, 0, 1, 2, NOBODY]);
    }

    /// Nodes that cannot be reached without `gone`.
    fn lost(nodes: u32, edges: &[(u32, u32)], gone: u32) -> Vec<bool> {
        let mut reached = vec![false; nodes as usize];
        reached[0] = gone != 0;
        for _ in 0..nodes {
            for (from, to) in edges {
                let goes = *from != gone && *to != gone && reached[*from as usize];
                reached[*to as usize] |= goes;
            }
        }
        reached.into_iter().map(|reached| !reached).collect()
    }

    proptest! {
        #[test]
        fn holders_are_what_the_definition_says(
            edges in proptest::collection::vec((0_u32..12, 0_u32..12), 0..40),
        ) {
            let (holders, _) = graph(12, &edges).holders(0);
            let never = lost(12, &edges, NOBODY);
            for node in 1..12_u32 {
                prop_assert_eq!(holders[node as usize] == NOBODY, never[node as usize]);
                if never[node as usize] { continue }
                // All that hold it, by taking each away; the nearest is held by all the others.
                let is_held =
                    |gone: &u32| *gone != node && lost(12, &edges, *gone)[node as usize];
                let all: Vec<u32> = (0..12).filter(is_held).collect();
                let mut chain = Vec::new();
                let mut at = holders[node as usize];
                while at != NOBODY { chain.push(at); at = holders[at as usize]; }
                chain.sort_unstable();
                prop_assert_eq!(chain, all);
            }
        }
    }
}
