//! Which processes are listed, and in which order: a filter, a column to sort by, a tree. Pure.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use regex::Regex;

use super::model::Process;

/// What is wanted of the table.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub sort: Sort,
    pub filter: Option<Regex>,
    pub is_tree: bool,
}

/// Figures have the largest first, names and numbers the smallest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    #[default]
    Cpu,
    Rss,
    Pss,
    Uss,
    Growth,
    Time,
    Threads,
    Pid,
    User,
    Command,
}

impl Sort {
    pub const ALL: [Self; 10] = [
        Self::Cpu,
        Self::Rss,
        Self::Pss,
        Self::Uss,
        Self::Growth,
        Self::Time,
        Self::Threads,
        Self::Pid,
        Self::User,
        Self::Command,
    ];

    /// The column's heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU%",
            Self::Rss => "RSS",
            Self::Pss => "PSS",
            Self::Uss => "USS",
            Self::Growth => "GROWTH",
            Self::Time => "TIME",
            Self::Threads => "THR",
            Self::Pid => "PID",
            Self::User => "USER",
            Self::Command => "COMMAND",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// It needs to know the memory of all.
    pub fn is_of_memory(self) -> bool {
        matches!(self, Self::Pss | Self::Uss | Self::Growth)
    }

    fn compare(self, a: &Process, b: &Process) -> Ordering {
        // What was not looked at yet has not more than its RSS: so it comes up, and is looked at.
        let pss = |p: &Process| p.pss_bytes.unwrap_or(p.rss_bytes);
        let uss = |p: &Process| p.uss_bytes.unwrap_or(p.rss_bytes);
        let cpu = |p: &Process| p.cpu_percent.unwrap_or(0.0);
        let order = match self {
            Self::Cpu => cpu(b).total_cmp(&cpu(a)).then(b.cpu_s.total_cmp(&a.cpu_s)),
            Self::Rss => b.rss_bytes.cmp(&a.rss_bytes),
            Self::Pss => pss(b).cmp(&pss(a)),
            Self::Uss => uss(b).cmp(&uss(a)),
            Self::Growth => b.growth_bytes.unwrap_or(0).cmp(&a.growth_bytes.unwrap_or(0)),
            Self::Time => b.cpu_s.total_cmp(&a.cpu_s),
            Self::Threads => b.threads.cmp(&a.threads),
            Self::Pid => Ordering::Equal,
            Self::User => a.user.cmp(&b.user),
            Self::Command => a.command.cmp(&b.command),
        };
        order.then(a.pid.cmp(&b.pid))
    }
}

impl Choice {
    pub fn of(&self, mut all: Vec<Process>) -> Vec<Process> {
        all.sort_by(|a, b| self.sort.compare(a, b));
        if self.is_tree {
            return self.tree(all);
        }
        all.retain(|process| self.is_meant(process));
        all
    }

    fn is_meant(&self, process: &Process) -> bool {
        let Some(filter) = &self.filter else { return true };
        let texts = [&process.command, &process.name, &process.user];
        texts.into_iter().any(|text| filter.is_match(text))
            || filter.is_match(&process.pid.to_string())
    }

    /// Children below their parents. Of a filter's, who stands above them is there, too.
    fn tree(&self, all: Vec<Process>) -> Vec<Process> {
        let wanted = self.with_those_above(&all);
        let mut children: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (at, process) in all.iter().enumerate().filter(|(_, p)| wanted.contains(&p.pid)) {
            // A parent that cannot be seen is none; nor is one's own self.
            let has_parent = wanted.contains(&process.parent) && process.parent != process.pid;
            let parent = if has_parent { process.parent } else { 0 };
            children.entry(parent).or_default().push(at);
        }
        let mut all: Vec<Option<Process>> = all.into_iter().map(Some).collect();
        let mut out = Vec::new();
        let roots = children.remove(&0).unwrap_or_default();
        // Last in, first out: with the lines before each.
        let mut rest: Vec<(usize, usize, String, &str)> =
            roots.into_iter().rev().map(|at| (at, 0, String::new(), "")).collect();
        while let Some((at, depth, lines, corner)) = rest.pop() {
            let Some(mut process) = all[at].take() else { continue };
            let below = children.remove(&process.pid).unwrap_or_default();
            let lines_below = match corner {
                "" => String::new(),
                "└─ " => format!("{lines}   "),
                _ => format!("{lines}│  "),
            };
            let last = below.last().copied();
            for child in below.into_iter().rev() {
                let corner = if Some(child) == last { "└─ " } else { "├─ " };
                rest.push((child, depth + 1, lines_below.clone(), corner));
            }
            process.depth = depth;
            process.branch = format!("{lines}{corner}");
            out.push(process);
        }
        out
    }

    fn with_those_above(&self, all: &[Process]) -> BTreeSet<i32> {
        let parents: BTreeMap<i32, i32> = all.iter().map(|p| (p.pid, p.parent)).collect();
        let mut wanted = BTreeSet::new();
        for process in all.iter().filter(|process| self.is_meant(process)) {
            let mut pid = process.pid;
            while wanted.insert(pid) {
                let Some(parent) = parents.get(&pid).filter(|p| parents.contains_key(p)) else {
                    break;
                };
                pid = *parent;
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(pid: i32, parent: i32, name: &str, rss_bytes: u64) -> Process {
        let command = format!("/bin/{name}").into();
        Process { pid, parent, name: name.into(), command, rss_bytes, ..Process::default() }
    }

    fn some() -> Vec<Process> {
        vec![
            process(1, 0, "init", 10),
            process(2, 1, "sh", 20),
            process(3, 2, "perl", 70),
            process(4, 1, "cron", 60),
            process(5, 2, "perl", 90),
            process(6, 99, "lost", 5),
        ]
    }

    fn pids(choice: &Choice) -> Vec<i32> {
        choice.of(some()).iter().map(|process| process.pid).collect()
    }

    #[test]
    fn figures_have_the_largest_first() {
        let by = |sort| pids(&Choice { sort, ..Choice::default() });
        assert_eq!(by(Sort::Rss), [5, 3, 4, 2, 1, 6]);
        assert_eq!(by(Sort::Pid), [1, 2, 3, 4, 5, 6]);
        assert_eq!(by(Sort::Command), [4, 1, 6, 3, 5, 2]);
        let all = Sort::ALL.iter().fold(Sort::Cpu, |sort, _| sort.next());
        assert_eq!(all, Sort::Cpu);
    }

    #[test]
    fn what_was_not_looked_at_may_be_the_largest() {
        let mut all = some();
        all[4].pss_bytes = Some(50);
        let sorted = Choice { sort: Sort::Pss, ..Choice::default() }.of(all);
        assert_eq!(sorted.iter().map(|p| p.pid).collect::<Vec<_>>()[..3], [3, 4, 5]);
    }

    #[test]
    fn a_filter_is_a_regex_over_what_is_shown() {
        let filter = |text: &str| Regex::new(text).ok();
        let choice = |text| Choice { filter: filter(text), sort: Sort::Pid, is_tree: false };
        assert_eq!(pids(&choice("^/bin/p")), [3, 5]);
        assert_eq!(pids(&choice("cron|lost")), [4, 6]);
        assert!(pids(&choice("nothing")).is_empty());
    }

    #[test]
    fn a_tree_has_children_below_their_parents() {
        let choice = Choice { sort: Sort::Rss, is_tree: true, ..Choice::default() };
        let rows: Vec<String> =
            choice.of(some()).iter().map(|p| format!("{}{}", p.branch, p.pid)).collect();
        assert_eq!(rows, ["1", "├─ 4", "└─ 2", "   ├─ 5", "   └─ 3", "6"]);
        let choice = Choice { filter: Regex::new("perl").ok(), ..choice };
        assert_eq!(pids(&choice), [1, 2, 5, 3]);
    }

    proptest! {
        /// Whatever the kernel says of parents, everyone is there once, and it ends.
        #[test]
        fn no_circle_hangs(parents in proptest::collection::vec(0..12_i32, 0..12)) {
            let all: Vec<Process> = parents.iter().enumerate()
                .map(|(at, parent)| process(at as i32 + 1, *parent, "x", 1)).collect();
            let tree = Choice { is_tree: true, ..Choice::default() }.of(all);
            let pids: BTreeSet<i32> = tree.iter().map(|p| p.pid).collect();
            prop_assert_eq!(pids.len(), tree.len());
            prop_assert!(tree.len() <= parents.len());
        }
    }
}
