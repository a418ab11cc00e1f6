//! What the heap of a perl is made of: `heap PID [SUB]`. How long the look took, and what has a
//! name.

use drom_profile::heap::{Class, Heap};

fn main() {
    let pid = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("heap PID");
    let clock = drom_observe::clock::monotonic_ns;
    let began = clock();
    let heap = Heap::of(pid).expect("a perl");
    let took = (clock() - began) as f64 / 1e6;
    let began = clock();
    let inventory = heap.inventory();
    let summed = (clock() - began) as f64 / 1e6;
    println!("took {took:.1} ms and {summed:.1} ms, pause {:?}", heap.pause());
    let books = heap.books();
    for class in Class::ALL {
        println!("{:>12} {}", books.totals[class as usize], class.words().1);
    }
    println!(
        "{:>12} free; used {}; named {:.2} %",
        books.free,
        books.used(),
        books.named() * 100.0
    );
    for package in inventory.packages.iter().take(12) {
        println!("{package:?}");
    }
    for sub in inventory.subs.iter().take(12) {
        println!("{sub:?}");
    }
    for variable in inventory.variables.iter().take(20) {
        println!("{variable:?}");
    }
    println!("{:?}\n{:?}", inventory.others, inventory.lost);
    if let Some(name) = std::env::args().nth(2) {
        let sub = inventory.subs.iter().find(|sub| *sub.name == name).expect("a sub");
        println!("{:?}", heap.lines(sub.node));
    }
}
