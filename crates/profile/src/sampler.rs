//! Looks at a process and says what it sees by name: a [`Sampler`] is one process's, and forgets
//! nothing but what it has told. When to look is the caller's business.

use std::io;

use crate::{
    error::Error,
    memory::{Memory, Remote},
    names::{Names, cv_of, op_type},
    perl::{Perl, boundary, gone},
    profile::{Frame, Kind, Profile},
    walk::{self, Look, Walker},
};

pub struct Sampler {
    memory: Remote,
    perl: Perl,
    walker: Walker,
    names: Names,
    look: Look,
}

impl Sampler {
    /// # Errors
    /// Why the process cannot be looked into.
    pub fn attach(pid: i32) -> Result<Self, Error> {
        let perl = Perl::attach(pid)?;
        let (walker, names, look) = (Walker::default(), Names::default(), Look::default());
        Ok(Self { memory: Remote { pid }, perl, walker, names, look })
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// That the process is gone.
    pub fn sample(&mut self, profile: &mut Profile) -> Result<(), Error> {
        let stack = self.stack().map_err(|source| gone(self.memory.pid, source))?;
        profile.add(stack, 1);
        profile.taken.torn += u64::from(self.look.is_torn);
        Ok(())
    }

    /// What runs now, outermost frame first.
    fn stack(&mut self) -> io::Result<Vec<Frame>> {
        self.walker.look(&self.memory, &self.perl, &mut self.look)?;
        self.names.next_look();
        let leaf = self.leaf()?;
        let mut stack = Vec::with_capacity(self.look.frames.len() + 1);
        for at in (0..self.look.frames.len()).rev() {
            stack.extend(self.frame(self.look.frames[at])?);
        }
        stack.extend(leaf);
        Ok(stack)
    }

    fn frame(&mut self, seen: walk::Frame) -> io::Result<Option<Frame>> {
        let place = self.names.place(&self.memory, &self.perl, seen.cop)?;
        let (file, line) = place.map_or(("".into(), 0), |place| (place.file, place.line));
        let (name, kind) = match seen.kind {
            walk::Kind::Sub(cv) | walk::Kind::Format(cv) => {
                match self.names.sub(&self.memory, &self.perl, cv)? {
                    Some(sub) => (sub.name, Kind::Sub),
                    None => return Ok(None),
                }
            }
            walk::Kind::EvalBlock => ("(eval)".into(), Kind::Eval),
            walk::Kind::EvalText => ("(eval STRING)".into(), Kind::Eval),
            walk::Kind::Require => (format!("(require {file})").into(), Kind::Eval),
            walk::Kind::Boundary(si_type) => {
                (format!("({})", boundary(si_type).unwrap_or("perl")).into(), Kind::Boundary)
            }
            walk::Kind::Main => ("main".into(), Kind::Main),
        };
        Ok(Some(Frame { name, kind, file, line }))
    }

    /// The XS sub or the operator that runs.
    fn leaf(&mut self) -> io::Result<Option<Frame>> {
        let Some(number) = op_type(&self.memory, self.look.op)? else { return Ok(None) };
        let op = |name: &str, kind| Frame { name: name.into(), kind, file: "".into(), line: 0 };
        if number == self.perl.ops.entersub {
            let called = self.memory.word(self.look.called)?.unwrap_or(0);
            if let Some(cv) = cv_of(&self.memory, called)?
                && let Some(sub) = self.names.sub(&self.memory, &self.perl, cv)?
                && sub.is_xs
            {
                return Ok(Some(op(&sub.name, Kind::Xs)));
            }
        }
        let name = self.perl.ops.names.get(usize::from(number));
        Ok(name.map(|name| op(&format!("CORE:{name}"), Kind::Op)))
    }
}
