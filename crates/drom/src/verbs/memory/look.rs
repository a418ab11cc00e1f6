//! A look at a process, or at all of a tree, at one moment.

use drom_observe::{Footprint, FootprintError, Segments, Stat, add_segments, family};

#[derive(Clone, Debug)]
pub struct Look {
    /// By process number; never empty.
    pub members: Vec<Member>,
    /// Processes of the tree that may not be looked at.
    pub hidden: usize,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub pid: i32,
    pub parent: i32,
    pub command: String,
    pub footprint: Footprint,
}

impl Look {
    /// # Errors
    /// Why the process cannot be looked at; others of its tree may end or be somebody else's.
    pub fn at(root: i32, is_tree: bool) -> Result<Self, FootprintError> {
        let first = Footprint::of(root)?;
        let stat = Stat::of(root).ok_or(FootprintError::NoProcess { pid: root })?;
        let mut look = Self { members: vec![Member::new(stat, first)], hidden: 0 };
        let others = if is_tree { family(root) } else { Vec::new() };
        for stat in others.into_iter().filter(|stat| stat.pid != root) {
            match Footprint::of(stat.pid) {
                Ok(footprint) => look.members.push(Member::new(stat, footprint)),
                Err(error) => look.hidden += usize::from(!error.is_end()),
            }
        }
        look.members.sort_by_key(|member| member.pid);
        Ok(look)
    }

    /// Pages that several have are in it several times, but for PSS.
    pub fn sum(&self) -> Footprint {
        let mut sum = Footprint::default();
        self.members.iter().for_each(|member| sum.add(&member.footprint));
        sum
    }

    /// Of all that still live.
    pub fn segments(&self) -> Segments {
        let mut segments = Segments::default();
        for member in &self.members {
            // One that ended since has none.
            let _ = add_segments(member.pid, &mut segments);
        }
        segments
    }
}

impl Member {
    fn new(stat: Stat, footprint: Footprint) -> Self {
        Self { pid: stat.pid, parent: stat.parent, command: stat.command, footprint }
    }
}
