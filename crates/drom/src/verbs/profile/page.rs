//! A profile as a page: what of it goes where, and the source that its lines are from. How the page
//! looks is `drom-report`'s business.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use drom_profile::{
    LineShare, Lines, Node, Profile, Tree,
    profile::{Kind, Taken},
    text,
};
use drom_report::{
    format::time,
    profile_page::{Colour, FlameNode, PageLine, PageSource, PageSub, ProfilePage, profile_page},
};

/// Boxes thinner than a tenth of a pixel of a wide screen are not in the page.
const NODES_SHARE: u64 = 20_000;
const SUBS: usize = 50;
const FILES: usize = 12;
/// A line with this share of the samples is worth a look, and so many lines around it.
const HOT_SHARE: u64 = 200;
const AROUND: u32 = 3;
const FILE_BYTES_MAX: u64 = 8 << 20;

/// `base` is the folder that relative names of files are from.
pub fn page(profile: &Profile, name: &str, base: &Path) -> String {
    let taken = profile.taken;
    let tree = Tree::of(profile).without_small(taken.samples / NODES_SHARE + 1);
    let shares = profile.shares();
    profile_page(&ProfilePage {
        title: name.to_owned(),
        subtitle: vec![
            taken.counted.map_or_else(
                || format!("{} samples", taken.samples),
                |counted| format!("{} calls, {} statements", counted.calls, counted.statements),
            ),
            time(taken.wall.as_secs_f64()) + &text::of_many(profile),
            taken.cpu.map_or("wall clock".to_owned(), |cpu| {
                format!("{} of CPU time, which the samples are of", time(cpu.as_secs_f64()))
            }),
        ],
        notices: notices(taken),
        samples: taken.samples,
        each_s: taken.each_s(),
        nodes: tree.nodes.iter().map(node).collect(),
        more_subs: shares.len().saturating_sub(SUBS),
        subs: shares
            .into_iter()
            .take(SUBS)
            .map(|share| PageSub {
                name: share.name.to_string(),
                own: share.exclusive,
                total: share.inclusive,
                calls: share.calls,
            })
            .collect(),
        sources: sources(&Lines::of(profile), taken.samples, base),
    })
}

fn notices(taken: Taken) -> Vec<String> {
    if taken.counted.is_some_and(|counted| counted.is_cut) {
        return vec!["Counting was cut off before the program ended.".to_owned()];
    }
    let besides = text::besides(Taken { idle: 0, ..taken });
    let told = format!(
        "Of the looks: {besides}. A torn one saw a stack that moved while it was read, and may be \
         a call off; a missed one came too late."
    );
    if besides.is_empty() { Vec::new() } else { vec![told] }
}

fn node(node: &Node) -> FlameNode {
    let colour = match node.kind {
        Kind::Main | Kind::Sub | Kind::Thread | Kind::Process => Colour::Perl,
        Kind::Xs | Kind::Native => Colour::Xs,
        Kind::Eval => Colour::Eval,
        Kind::Boundary => Colour::Boundary,
        Kind::Op => Colour::Op,
    };
    FlameNode {
        depth: node.depth,
        name: node.name.to_string(),
        place: node.file.to_string(),
        colour,
        own: node.own,
        total: node.total,
    }
}

/// Of files that can be read, the largest share first.
fn sources(lines: &Lines, samples: u64, base: &Path) -> Vec<PageSource> {
    let own = |lines: &BTreeMap<u32, LineShare>| lines.values().map(|line| line.own).sum::<u64>();
    let mut files: Vec<_> =
        lines.files.iter().map(|(file, lines)| (own(lines), file, lines)).collect();
    files.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
    let source = |(own, file, lines): (u64, &std::sync::Arc<str>, &BTreeMap<u32, LineShare>)| {
        let text = read(&base.join(&**file))?;
        let parts = parts(&text, lines, samples);
        (!parts.is_empty()).then(|| PageSource { file: file.to_string(), own, parts })
    };
    files.into_iter().filter_map(source).take(FILES).collect()
}

/// A regular file of a size that source has; `(eval 3)` and `-e` are none.
fn read(path: &PathBuf) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    let is_source = about.is_file() && about.len() <= FILE_BYTES_MAX;
    let bytes = is_source.then(|| fs::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lines with a share, and those around them.
fn parts(text: &str, shares: &BTreeMap<u32, LineShare>, samples: u64) -> Vec<Vec<PageLine>> {
    let hot = shares.iter().filter(|(_, share)| share.total * HOT_SHARE >= samples.max(1));
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (number, _) in hot {
        let (from, to) = (number.saturating_sub(AROUND).max(1), number.saturating_add(AROUND));
        match ranges.last_mut() {
            Some((_, end)) if from <= *end + 1 => *end = to,
            _ => ranges.push((from, to)),
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    let part = |(from, to): (u32, u32)| {
        let to = to.min(u32::try_from(lines.len()).unwrap_or(u32::MAX));
        let line = |number: u32| {
            let LineShare { own, total, runs } = shares.get(&number).copied().unwrap_or_default();
            PageLine { number, text: lines[number as usize - 1].to_owned(), own, total, runs }
        };
        (from..=to).map(line).collect::<Vec<_>>()
    };
    ranges.into_iter().map(part).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_share_come_with_those_around_them() {
        let text: String = (1..=40).map(|number| format!("line {number}\n")).collect();
        let share = |own| LineShare { own, total: own, runs: None };
        let shares =
            [(2, share(50)), (6, share(40)), (30, share(10)), (99, share(5)), (15, share(0))];
        let parts = parts(&text, &shares.into(), 105);
        let numbers: Vec<(u32, u32)> =
            parts.iter().map(|part| (part[0].number, part[part.len() - 1].number)).collect();
        assert_eq!(numbers, [(1, 9), (27, 33)], "line 99 is nowhere, 15 has nothing");
        assert_eq!((parts[0][1].own, &*parts[0][1].text), (50, "line 2"));
    }

    #[test]
    fn what_is_no_file_has_no_source() {
        let mut lines = Lines::default();
        for file in ["(eval 3)", "-e", "/", "missing.pl"] {
            let of = lines.files.entry(file.into()).or_default();
            of.insert(1, LineShare { own: 5, total: 5, runs: None });
        }
        assert!(sources(&lines, 10, Path::new("/")).is_empty());
    }
}
