//! What a heap adds up to, by names: packages, subs with their lines and operators, variables. An
//! [`Inventory`] gives every byte that is held to the nearest of them that alone holds it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    Heap, abi,
    code::{Code, head_slab},
    graph::{NOBODY, Via},
    ledger::Class,
    walk::Extra,
};
use crate::abi as stacks;

/// By bytes, the most first.
#[derive(Debug, Default)]
pub struct Inventory {
    pub packages: Vec<Package>,
    pub subs: Vec<Sub>,
    pub variables: Vec<Variable>,
    /// What no package alone holds: the main program's code, interpreter, names, libraries.
    pub others: Vec<(String, u64)>,
    /// Held by nothing at all: cycles, and values that were counted wrongly.
    pub lost: Lost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub bytes: u64,
    /// Of them: with its subs, and with its variables. The rest is the package's own table, and
    /// what several of them share.
    pub subs_bytes: u64,
    pub variables_bytes: u64,
    pub subs: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sub {
    pub name: Arc<str>,
    pub package: Option<String>,
    /// Compiled from C.
    pub is_xs: bool,
    /// Of its first statement.
    pub file: Arc<str>,
    pub line: u32,
    pub ops: u32,
    /// Its slabs, with what is free in them, and operators that are in none.
    pub code_bytes: u64,
    pub freed_bytes: u64,
    pub unused_bytes: u64,
    /// All that it alone holds, code too.
    pub bytes: u64,
    pub node: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub package: Option<String>,
    /// All that it alone holds.
    pub bytes: u64,
    /// How many values that are, itself too.
    pub values: u32,
    pub node: u32,
}

/// Values that nothing holds any more and that are still there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub values: u32,
    pub bytes: u64,
    /// What they are: `HASH blessed into Shop::Cart`.
    pub kinds: Vec<(String, u32)>,
    /// Of those that hold each other in a ring: one of each, as a path through it.
    pub cycles: Vec<String>,
}

/// A line of a sub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub line: u32,
    pub ops: u32,
    pub bytes: u64,
}

/// A kind of operator in a sub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ops {
    pub name: String,
    pub count: u32,
    pub bytes: u64,
}

/// Something that has a name and holds others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Sub,
    Variable,
}

/// Sums by anchor and by package.
struct Sums {
    anchors: HashMap<u32, Anchor>,
    /// The nearest anchor and the nearest package of each node; [`NOBODY`] of none.
    anchor_of: Vec<u32>,
    package_of: Vec<u32>,
}

impl Heap {
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let sums = Sums::of(self);
        let mut own = HashMap::<u32, (u64, u32)>::new();
        let mut packages = HashMap::<u32, Package>::new();
        for node in &self.order {
            let bytes = self.own(*node);
            let anchor = sums.anchor_of[*node as usize];
            let is_value = u32::from(*node < self.svs.len());
            let sum = own.entry(anchor).or_default();
            (sum.0, sum.1) = (sum.0 + bytes, sum.1 + is_value);
            let package = packages.entry(sums.package_of[*node as usize]).or_default();
            package.bytes += bytes;
            match sums.anchors.get(&anchor) {
                Some(Anchor::Sub) => package.subs_bytes += bytes,
                Some(Anchor::Variable) => package.variables_bytes += bytes,
                None => {}
            }
        }
        let mut inventory = Inventory { lost: self.lost(), ..Inventory::default() };
        inventory.others = self.others(&sums, &inventory.lost);
        for (node, anchor) in &sums.anchors {
            let (bytes, values) = own.get(node).copied().unwrap_or_default();
            let package = sums.package_of[*node as usize];
            match anchor {
                Anchor::Sub => {
                    packages.entry(package).or_default().subs += 1;
                    inventory.subs.push(self.sub(*node, package, bytes));
                }
                Anchor::Variable => inventory.variables.push(Variable {
                    name: self.path(*node),
                    package: self.package_named(package),
                    bytes,
                    values,
                    node: *node,
                }),
            }
        }
        packages.remove(&NOBODY);
        let named = packages.into_iter().map(|(node, package)| Package {
            name: self.package(node).unwrap_or_default(),
            ..package
        });
        inventory.packages = named.collect();
        inventory.sort();
        inventory
    }

    fn package_named(&self, node: u32) -> Option<String> {
        if node == NOBODY { None } else { self.package(node) }
    }

    fn sub(&self, node: u32, package: u32, bytes: u64) -> Sub {
        let place = self.start(node).and_then(|start| self.place(start));
        let (file, line) = place.map_or(("".into(), 0), |place| (place.file, place.line));
        let code = self.code(node);
        let of_code = |figure: fn(&Code) -> u64| code.map_or(0, figure);
        Sub {
            name: self.called(node),
            package: self.package_named(package),
            is_xs: self.sub_name(node).is_some_and(|sub| sub.is_xs),
            file,
            line,
            ops: code.map_or(0, |code| code.ops.len() as u32),
            code_bytes: of_code(Code::bytes),
            freed_bytes: of_code(|code| code.freed),
            unused_bytes: of_code(|code| code.unused),
            bytes,
            node,
        }
    }

    /// What a sub is made of.
    #[must_use]
    pub fn code(&self, sub: u32) -> Option<&Code> {
        let edge = self.graph.edges(sub).iter().find(|edge| {
            edge.via == Via::Code && matches!(self.extra(edge.to), Some(Extra::Code(_)))
        })?;
        match self.extra(edge.to)? {
            Extra::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Where slabs are that are no sub's: the main program's, and of code that is being compiled.
    #[must_use]
    pub fn main_slabs(&self) -> Vec<u64> {
        let held = self.graph.edges(self.root()).iter();
        let codes = held.filter_map(|edge| match self.extra(edge.to) {
            Some(Extra::Code(code)) => Some(code.slabs.iter().map(|(at, _)| *at)),
            _ => None,
        });
        codes.flatten().collect()
    }

    /// The first statement of a sub that has code.
    fn start(&self, sub: u32) -> Option<u64> {
        let at = self.svs.head(sub).any.wrapping_add(stacks::CV_START as u64);
        self.snapshot.word(at).filter(|op| head_slab(&self.snapshot, *op).is_some())
    }

    /// Operators of a sub by line, in the order of lines, and by what they are.
    #[must_use]
    pub fn lines(&self, sub: u32) -> (Vec<Line>, Vec<Ops>) {
        let Some(code) = self.code(sub) else { return (Vec::new(), Vec::new()) };
        let mut code = code.clone();
        let root = self.snapshot.word(self.svs.head(sub).any.wrapping_add(abi::CV_ROOT));
        let root = root.filter(|root| *root != 0).unwrap_or(code.root);
        let first = self.start(sub).and_then(|start| self.place(start)).map_or(0, |p| p.line);
        let name = |kind: u16| self.perl.ops.names.get(usize::from(kind)).map_or("?", |name| name);
        let is_statement = |kind| matches!(name(kind), "nextstate" | "dbstate");
        code.lines(&self.snapshot, root, first, is_statement);
        let mut lines = BTreeMap::<u32, Line>::new();
        let mut kinds = BTreeMap::<u16, (u32, u64)>::new();
        for op in &code.ops {
            let line = lines.entry(op.line).or_insert(Line { line: op.line, ..Line::default() });
            (line.ops, line.bytes) = (line.ops + 1, line.bytes + u64::from(op.bytes));
            let kind = kinds.entry(op.kind).or_default();
            (kind.0, kind.1) = (kind.0 + 1, kind.1 + u64::from(op.bytes));
        }
        let ops = kinds.into_iter();
        let mut ops: Vec<Ops> = ops
            .map(|(kind, (count, bytes))| Ops { name: name(kind).to_owned(), count, bytes })
            .collect();
        ops.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        (lines.into_values().collect(), ops)
    }

    /// What the root holds besides packages, by what it is.
    fn others(&self, sums: &Sums, lost: &Lost) -> Vec<(String, u64)> {
        let mut found = BTreeMap::<String, u64>::new();
        for node in &self.order {
            let at = *node as usize;
            if sums.package_of[at] != NOBODY {
                continue;
            }
            let words = match sums.anchor_of[at] {
                NOBODY => self.other(*node),
                _ => "main program and files, with their variables".to_owned(),
            };
            *found.entry(words).or_default() += self.own(*node);
        }
        let unheld = [Class::Room, Class::Unknown].map(|class| {
            let words = if class == Class::Room {
                "room for values that is not used now"
            } else {
                "unknown"
            };
            (words.to_owned(), self.books.totals[class as usize])
        });
        found.extend(unheld);
        found.insert("lost values".to_owned(), lost.bytes);
        let mut found: Vec<_> = found.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        found.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        found
    }

    fn other(&self, node: u32) -> String {
        let words = match self.extra(node) {
            Some(Extra::Names) => "keys and names of symbols",
            Some(Extra::Code(_)) => "code of the main program, and that several subs share",
            Some(Extra::Interpreter) => "interpreter",
            Some(Extra::Text) => "text that several strings share",
            Some(Extra::Native(file)) => {
                let file = file.rsplit('/').next().filter(|file| !file.is_empty());
                return format!("memory of {}", file.unwrap_or("libraries"));
            }
            _ if self.holders[node as usize] == self.names() => "keys and names of symbols",
            _ => "values that several packages share",
        };
        words.to_owned()
    }
}

impl Inventory {
    fn sort(&mut self) {
        self.packages.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        self.subs.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        self.variables.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    }
}

impl Sums {
    fn of(heap: &Heap) -> Self {
        let nodes = heap.graph.len() as usize;
        let mut sums = Self {
            anchors: HashMap::new(),
            anchor_of: vec![NOBODY; nodes],
            package_of: vec![NOBODY; nodes],
        };
        // Who holds a node comes before it.
        for node in &heap.order {
            let at = *node as usize;
            let holder = heap.holders[at];
            if holder != NOBODY {
                sums.anchor_of[at] = sums.anchor_of[holder as usize];
                sums.package_of[at] = sums.package_of[holder as usize];
            }
            if heap.package(*node).is_some() {
                sums.package_of[at] = *node;
                sums.anchor_of[at] = NOBODY;
            } else if let Some(anchor) = anchor(heap, *node) {
                sums.anchors.insert(*node, anchor);
                sums.anchor_of[at] = *node;
            }
        }
        sums
    }
}

/// Subs, and variables that have names.
fn anchor(heap: &Heap, node: u32) -> Option<Anchor> {
    if node >= heap.svs.len() {
        return None;
    }
    if heap.svs.head(node).kind() == abi::PVCV {
        return Some(Anchor::Sub);
    }
    let edge = heap.graph.way(&heap.ways, node)?;
    match edge.via {
        Via::Slot(slot) if slot != "&" => Some(Anchor::Variable),
        Via::Pad(index) => {
            let (sub, _) = heap.pads.get(&edge.from)?;
            heap.variable(*sub, index).map(|_| Anchor::Variable)
        }
        _ => None,
    }
}
