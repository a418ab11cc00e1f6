//! One interpreter of a process: what runs in it, by name. An [`Interpreter`] counts the stacks
//! that it sees; when to look, and whether somebody else moves them, is the caller's business.

use std::{collections::HashMap, io};

use crate::{
    memory::{Memory, Remote},
    names::{Names, cv_of},
    perl::{Perl, Place, boundary},
    profile::{Frame, Kind, Profile},
    walk::{self, Look, Walker},
};

pub struct Interpreter<M = Remote> {
    memory: M,
    pub perl: Perl,
    walker: Walker,
    names: Names,
    look: Look,
    pub profile: Profile,
    /// In the profile, of frames whose names are known, and of operators.
    frames: HashMap<walk::Frame, u32>,
    ops: HashMap<u16, u32>,
    /// Code and a statement of the main program; zeroes are not known yet.
    main: (u64, u64),
    stack: Vec<u32>,
}

/// While a stack so high is read its lowest context does not go.
const STAYS_BELOW: usize = 8;

/// There is nothing where the interpreter was: the process runs another program.
pub struct Lost;

impl<M: Memory + Clone> Interpreter<M> {
    pub fn new(memory: M, perl: Perl) -> Self {
        Self {
            memory,
            perl,
            walker: Walker::default(),
            names: Names::default(),
            look: Look::default(),
            profile: Profile::default(),
            frames: HashMap::new(),
            ops: HashMap::new(),
            main: (0, 0),
            stack: Vec::new(),
        }
    }

    /// What is seen from now on is seen in this perl; what was seen is kept.
    pub fn begin_anew(&mut self, perl: Perl) {
        let profile = std::mem::take(&mut self.profile);
        *self = Self { profile, ..Self::new(self.memory.clone(), perl) };
    }

    /// The same for another interpreter of this perl.
    pub fn switch_to(&mut self, at: u64) {
        if self.perl.interpreter() != Some(at) {
            self.begin_anew(Perl { place: Place::Interpreter(at), ..self.perl.clone() });
        }
    }

    /// Counts the stack that the last look has seen.
    pub fn count(&mut self) {
        self.profile.count(&self.stack, 1);
        self.profile.taken.torn += u64::from(self.look.is_torn);
    }

    /// The stack that the last look has seen, outermost frame first.
    pub fn frames(&self) -> Vec<Frame> {
        let frames = self.stack.iter();
        frames.map(|number| self.profile.frames()[*number as usize].clone()).collect()
    }

    /// What runs now, outermost frame first.
    ///
    /// # Errors
    /// That nothing of the process can be read.
    pub fn look(&mut self) -> io::Result<Result<(), Lost>> {
        self.walker.look(&self.memory, &self.perl, &mut self.look)?;
        if self.look.is_lost {
            return Ok(Err(Lost));
        }
        self.name().map(Ok)
    }

    /// Finds names for what the walk has found.
    fn name(&mut self) -> io::Result<()> {
        let (has_changed, leaf) = self.names.check(&self.memory, &self.look)?;
        if has_changed {
            self.frames.clear();
        }
        self.learn_main()?;
        self.grow()?;
        let is_mended = self.mend()?;
        self.stack.clear();
        for at in (0..self.look.frames.len()).rev() {
            let number = self.number(self.look.frames[at])?;
            self.stack.extend(number);
        }
        // The operator is read with the statement, and is as much another sub's.
        let leaf = leaf.filter(|_| !is_mended);
        let leaf = leaf.map_or(Ok(None), |number| self.leaf(number))?;
        self.stack.extend(leaf);
        Ok(())
    }

    /// The main program is at the statement that the outermost context has kept, when it has called
    /// a sub.
    fn learn_main(&mut self) -> io::Result<()> {
        let [.., _, outermost] = self.look.frames[..] else { return Ok(()) };
        let may_be_gone = self.look.is_torn && self.look.frames.len() < STAYS_BELOW;
        if may_be_gone || outermost.cop == self.main.1 {
            return Ok(());
        }
        if let Some(code) = self.place_code(outermost.cop)? {
            if code != self.main.0 {
                self.frames.retain(|frame, _| frame.kind != walk::Kind::Main);
            }
            self.main = (code, outermost.cop);
        }
        Ok(())
    }

    /// Subs that were called between the look at the height of the stack and that at the stack.
    /// What is called by a statement of another sub than the one below was there at another time.
    fn grow(&mut self) -> io::Result<()> {
        for (cv, called_at) in std::mem::take(&mut self.look.above) {
            let Some(innermost) = self.look.frames.first().copied() else { return Ok(()) };
            let caller = self.code(innermost)?.map(|(code, _)| code);
            let new = walk::Frame { kind: walk::Kind::Sub(cv), cop: innermost.cop };
            let is_called_there = caller.is_some() && self.place_code(called_at)? == caller;
            if !is_called_there || self.code(new)?.is_none() {
                return Ok(());
            }
            self.look.frames[0].cop = called_at;
            self.look.frames.insert(0, new);
        }
        Ok(())
    }

    /// The stack and the statement that runs are read one after the other, and meanwhile subs were
    /// called and have returned. The stack is what was; of a sub that is not at a statement of its
    /// own (mostly the innermost one) only that it ran is known, and where it called another one
    /// last. Whether that was so.
    fn mend(&mut self) -> io::Result<bool> {
        let Some(at) = self.first_misfit()? else { return Ok(false) };
        let Some((code, start)) = self.code(self.look.frames[at])? else { return Ok(false) };
        let is_its = at == 0 && self.place_code(self.look.left)? == Some(code);
        self.look.frames.drain(..at);
        self.look.frames[0].cop = if is_its { self.look.left } else { start };
        Ok(true)
    }

    /// The outermost frame whose statement is another sub's.
    fn first_misfit(&mut self) -> io::Result<Option<usize>> {
        for at in (0..self.look.frames.len()).rev() {
            let seen = self.look.frames[at];
            if self.frames.contains_key(&seen) {
                continue;
            }
            let own = self.code(seen)?.map(|(code, _)| code);
            let place = self.place_code(seen.cop)?;
            if own.zip(place).is_some_and(|(own, place)| own != place) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whose code it is, where that is known.
    fn place_code(&mut self, cop: u64) -> io::Result<Option<u64>> {
        let place = self.names.place(&self.memory, &self.perl, cop)?;
        Ok(place.map(|place| place.code).filter(|code| *code != 0))
    }

    /// The code of a frame's sub and its first statement, where they are known.
    fn code(&mut self, frame: walk::Frame) -> io::Result<Option<(u64, u64)>> {
        let found = match frame.kind {
            walk::Kind::Sub(cv) => {
                let sub = self.names.sub(&self.memory, &self.perl, cv)?;
                sub.map(|sub| (sub.code, sub.start))
            }
            walk::Kind::Main => Some(self.main),
            _ => None,
        };
        Ok(found.filter(|(code, _)| *code != 0))
    }

    /// `None` of what is none, as of a sub that is about to be called.
    fn number(&mut self, seen: walk::Frame) -> io::Result<Option<u32>> {
        if let Some(number) = self.frames.get(&seen) {
            return Ok(Some(*number));
        }
        let Some(frame) = self.frame(seen)? else { return Ok(None) };
        let number = self.profile.number(frame);
        self.frames.insert(seen, number);
        Ok(Some(number))
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
    fn leaf(&mut self, number: u16) -> io::Result<Option<u32>> {
        let op = |name: &str, kind| Frame { name: name.into(), kind, file: "".into(), line: 0 };
        if number == self.perl.ops.entersub {
            let called = self.memory.word(self.look.called)?.unwrap_or(0);
            if let Some(cv) = cv_of(&self.memory, called)?
                && let Some(sub) = self.names.sub(&self.memory, &self.perl, cv)?
                && sub.is_xs
            {
                return Ok(Some(self.profile.number(op(&sub.name, Kind::Xs))));
            }
        }
        if let Some(known) = self.ops.get(&number) {
            return Ok(Some(*known));
        }
        let name = self.perl.ops.names.get(usize::from(number));
        let Some(name) = name else { return Ok(None) };
        let known = self.profile.number(op(&format!("CORE:{name}"), Kind::Op));
        self.ops.insert(number, known);
        Ok(Some(known))
    }
}
