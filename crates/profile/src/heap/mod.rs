//! What a perl's memory is made of, read from outside: a [`Heap`] is one moment of a process, with
//! an owner for each byte that it has allocated.

mod abi;
mod chunks;
mod code;
mod graph;
mod growth;
mod inventory;
mod largest;
mod ledger;
mod lost;
mod paths;
mod reach;
mod roots;
mod snapshot;
mod stop;
mod subs;
mod svs;
mod values;
mod walk;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

pub use code::{Code, Op};
pub use growth::{Grown, grown};
pub use inventory::{Inventory, Line, Lost, Ops, Package, Sub, Variable};
pub use largest::Value;
pub use ledger::{Books, Class};
pub use snapshot::{Region, Snapshot};

use crate::{error::Error, perl::Perl};
use graph::{Graph, NOBODY, Ways};
use paths::Naming;
use svs::Svs;
use walk::{Extra, Walk};

/// All that lives in a perl, who holds it and what it costs.
pub struct Heap {
    snapshot: Snapshot,
    perl: Perl,
    svs: Svs,
    extras: Vec<Extra>,
    books: Books,
    graph: Graph,
    ways: Ways,
    /// Who alone holds each node, and all that are held, each after its holder.
    holders: Vec<u32>,
    order: Vec<u32>,
    /// Arrays that are variables of subs: whose, and how deep in recursion.
    pads: HashMap<u32, (u32, u32)>,
    /// Keys that stand in the program's code.
    literals: HashSet<u64>,
    naming: Naming,
    /// Bytes of each node with all that it alone holds.
    retained: Vec<u64>,
}

impl Heap {
    /// Of a living process.
    ///
    /// # Errors
    /// That it is gone, not ours to read, no perl, or one that is not known.
    pub fn of(pid: i32) -> Result<Self, Error> {
        let perl = Perl::attach(pid)?;
        let size = perl.interpreter_bytes;
        let (Some(interpreter), true) = (perl.interpreter(), perl.layout.has_slot_offsets) else {
            return Err(Error::UnknownHeap { pid });
        };
        let snapshot = Snapshot::take(pid)?;
        Ok(Self::analyse(snapshot, perl, interpreter, size))
    }

    /// It is that of another process, which stood still for no longer than that was made.
    #[must_use]
    pub fn of_copy(mut self, pause: Duration) -> Self {
        self.snapshot.pause = Some(pause);
        self
    }

    /// How long the process stood still.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        self.snapshot.pause
    }

    #[must_use]
    pub fn books(&self) -> &Books {
        &self.books
    }

    fn root(&self) -> u32 {
        self.svs.len()
    }

    fn names(&self) -> u32 {
        self.svs.len() + 1
    }

    fn analyse(snapshot: Snapshot, perl: Perl, interpreter: u64, size: u64) -> Self {
        let mut walk = Walk::new(&snapshot, &perl, interpreter);
        let strtab = walk.word(interpreter.wrapping_add(abi::I_STRTAB));
        walk.values(strtab);
        walk.loose();
        walk.roots(interpreter, size);
        let root = walk.root();
        let nodes = walk.svs.len() + walk.extras.len() as u32;
        let Walk { svs, chunks, extras, ledger, edges, maybe, pads, literals, .. } = walk;
        let graph = Graph::of(nodes, &edges, &maybe, root);
        drop((edges, maybe));
        let ways = graph.ways(root);
        let (holders, order) = graph.holders(root);
        let books = ledger.close(&chunks);
        let retained = retained(&books, &holders, &order, nodes);
        let naming = Naming::default();
        Self {
            snapshot,
            perl,
            svs,
            extras,
            books,
            graph,
            ways,
            holders,
            order,
            pads,
            literals,
            naming,
            retained,
        }
    }
}

/// What a node holds comes behind it in the order.
fn retained(books: &Books, holders: &[u32], order: &[u32], nodes: u32) -> Vec<u64> {
    let mut retained: Vec<u64> = (0..nodes).map(|node| books.own(node)).collect();
    for node in order.iter().rev() {
        let holder = holders[*node as usize];
        if holder != NOBODY {
            retained[holder as usize] += retained[*node as usize];
        }
    }
    retained
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    use drom_stats::Rng;

    use super::*;

    const CODE: &str = "use strict; my %all = (list => [1 .. 50], text => 'x' x 500); \
                        our $sub = sub { $all{text} =~ s/x(?{ 1 })/y/r }; sub named { $sub->() } \
                        named(); my $ring = {}; $ring->{self} = $ring; undef $ring; \
                        $| = 1; print qq(ready\\n); <STDIN>";

    fn taken() -> (Snapshot, Perl) {
        let mut perl = Command::new("perl");
        perl.args(["-e", CODE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = perl.spawn().expect("perl");
        let mut line = String::new();
        let said = child.stdout.take().expect("a pipe");
        BufReader::new(said).read_line(&mut line).expect("it says so");
        let pid = child.id() as i32;
        let found = (Snapshot::take(pid).expect("ours"), Perl::attach(pid).expect("a perl"));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        found
    }

    fn all_of(snapshot: Snapshot, perl: &Perl) -> Inventory {
        let interpreter = perl.interpreter().expect("one");
        let size = perl.interpreter_bytes;
        let heap = Heap::analyse(snapshot, perl.clone(), interpreter, size);
        let inventory = heap.inventory();
        inventory.subs.iter().for_each(|sub| drop(heap.lines(sub.node)));
        inventory
    }

    /// Words of it become others: near ones, those of other places, nonsense.
    fn spoil(regions: &mut [Region], rng: &mut Rng) {
        let whole: Vec<usize> =
            (0..regions.len()).filter(|at| regions[*at].bytes.len() > 64).collect();
        for _ in 0..1 << rng.below(12) {
            let region = &mut regions[whole[rng.below(whole.len())]].bytes;
            let [at, from] = [0; 2].map(|_| rng.below(region.len() / 8) * 8);
            let old = crate::perl::u64_at(region, at);
            let new = match rng.below(5) {
                0 => crate::perl::u64_at(region, from),
                1 => old.wrapping_add(8 * rng.below(64) as u64),
                2 => u64::MAX - rng.below(64) as u64,
                3 => old ^ 1 << rng.below(64),
                _ => 0,
            };
            region[at..at + 8].copy_from_slice(&new.to_le_bytes());
        }
    }

    #[test]
    fn a_broken_heap_is_told_as_far_as_it_goes() {
        let (snapshot, perl) = taken();
        let whole = all_of(snapshot.changed(|_| ()), &perl);
        assert!(whole.subs.iter().any(|sub| &*sub.name == "main::named"), "{:?}", whole.subs);
        assert_eq!(whole.lost.cycles, ["HASH {self} -> itself"]);
        for seed in 0..150 {
            let mut rng = Rng::new(seed);
            let broken = snapshot.changed(|regions| spoil(regions, &mut rng));
            let inventory = all_of(broken, &perl);
            assert!(inventory.subs.len() < 100_000);
        }
    }
}
