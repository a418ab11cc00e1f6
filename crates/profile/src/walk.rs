//! One look at what a perl is doing: contexts of its stacks, innermost first, as addresses. Names
//! are `names.rs`'s business. The process runs on meanwhile; what changed under the look is said.

use std::io;

use crate::{
    abi::{self, Layout},
    memory::{Memory, Part},
    perl::{Perl, u32_at, u64_at},
};

/// A running sub, eval or file, and the statement that it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub kind: Kind,
    /// A COP: file and line.
    pub cop: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A CV.
    Sub(u64),
    Format(u64),
    EvalBlock,
    EvalText,
    /// Of a file: the one that its statements are in.
    Require,
    /// The stack on which what is above was called: by `si_type`.
    Boundary(i32),
    Main,
}

/// What was seen in one look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub frames: Vec<Frame>,
    /// The operator that runs; 0 between two.
    pub op: u64,
    /// The element of the argument stack behind its top: what was called, while an XS sub runs.
    pub called: u64,
    /// Where the innermost sub last called another one, if that is still to be seen; 0 else.
    pub left: u64,
    /// Contexts that are there and were not when the height of the stack was read: a CV, and the
    /// statement that called it. Perl takes the CV out of those that have returned.
    pub above: Vec<(u64, u64)>,
    /// Something moved while it was read. Who looked again would see what lasts: subs with long
    /// operators had a fifth more time than they take (docs/decisions/007).
    pub is_torn: bool,
    /// The interpreter is not where it was.
    pub is_lost: bool,
}

/// Deeper stacks are cut, so that no broken number makes a look endless.
const CONTEXTS_MAX: usize = 100_000;
const STACKS_MAX: usize = 1_000;

/// Reads stacks again and again, in the same memory.
///
/// Nine looks of ten find the stack where the last one did: it is read with the interpreter, in one
/// call, which is quick and leaves the process no time to change it.
#[derive(Debug, Default)]
pub struct Walker {
    interpreter: Vec<u8>,
    contexts: Vec<u8>,
    guess: Guess,
}

/// Where the running stack was at the last look, and how many contexts are read with it.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    at: u64,
    contexts: u64,
    count: usize,
}

/// More contexts than there were at the last look, and the part that is read less at each look that
/// does not need it.
const GUESS_MORE: usize = 8;
const FORGET_PART: usize = 16;

/// A `PERL_SI`.
#[derive(Clone, Copy)]
struct Stack {
    contexts: u64,
    prev: u64,
    top: i32,
    max: i32,
    kind: i32,
}

/// The running stack as the first call has read it.
struct Begin {
    cop: u64,
    /// Where it is, and where that is told.
    first: u64,
    place: u64,
    /// Its contexts are there, and nothing moved.
    guessed: Option<(Stack, bool)>,
}

impl Walker {
    /// # Errors
    /// That the process cannot be read any more.
    pub fn look(&mut self, memory: &impl Memory, perl: &Perl, look: &mut Look) -> io::Result<()> {
        look.frames.clear();
        look.left = 0;
        look.above.clear();
        look.is_torn = !self.try_look(memory, perl, look)?;
        Ok(())
    }

    /// Whether nothing moved meanwhile.
    fn try_look(&mut self, memory: &impl Memory, perl: &Perl, look: &mut Look) -> io::Result<bool> {
        let layout = &perl.layout;
        let Begin { mut cop, first, place, guessed } = self.begin(memory, perl, look)?;
        let (mut at, mut is_whole) = (first, true);
        let mut stack = match guessed {
            Some((stack, is_same)) if stack.prev == 0 => {
                self.frames(layout, &stack, &mut cop, true, look);
                look.frames.push(Frame { kind: Kind::Main, cop });
                return Ok(is_same);
            }
            Some((stack, _)) => stack,
            None => match read_stack(memory, layout, first)? {
                Some(stack) => stack,
                None => return Ok(false),
            },
        };
        self.expect(first, &stack);
        for number in 0..STACKS_MAX {
            let Some((next, same)) = self.contexts(memory, layout, &stack, (at, place))? else {
                return Ok(false);
            };
            is_whole &= same || number > 0;
            self.frames(layout, &stack, &mut cop, number == 0, look);
            match next {
                Some(next) => (at, stack) = (stack.prev, next),
                None => break,
            }
        }
        look.frames.push(Frame { kind: Kind::Main, cop });
        Ok(is_whole)
    }

    /// The next look will find this stack again.
    fn expect(&mut self, at: u64, stack: &Stack) {
        let [top, max] = [stack.top, stack.max]
            .map(|index| usize::try_from(index.saturating_add(1)).unwrap_or(0));
        // A stack that was deep is so again: what is read for nothing costs less than another call.
        let before = if self.guess.at == at { self.guess.count } else { 0 };
        let count = (top + GUESS_MORE).max(before - before / FORGET_PART);
        let count = count.min(max).min(CONTEXTS_MAX);
        self.guess = Guess { at, contexts: stack.contexts, count };
    }

    /// The statement and the stack that run, and where the latter is told; what is at the guess
    /// with them.
    fn begin(&mut self, memory: &impl Memory, perl: &Perl, look: &mut Look) -> io::Result<Begin> {
        let (layout, guess) = (&perl.layout, self.guess);
        self.interpreter.resize(abi::INTERPRETER_BYTES, 0);
        self.contexts.resize(guess.count * layout.context_size, 0);
        let (mut si, mut top_again) = ([0; abi::SI_BYTES], [0; 4]);
        let has_guess = guess.count > 0;
        let mut parts = Vec::with_capacity(5);
        if has_guess {
            parts.push(Part::new(guess.at, &mut si));
            parts.push(Part::new(guess.contexts, &mut self.contexts));
        }
        let (cop_at, place) = perl.running();
        match perl.interpreter() {
            Some(at) => parts.push(Part::new(at, &mut self.interpreter)),
            None => {
                let (cop, first) = self.interpreter.split_at_mut(8);
                parts.push(Part::new(cop_at, cop));
                parts.push(Part::new(place, &mut first[..8]));
            }
        }
        if has_guess {
            parts.push(Part::new(guess.at.wrapping_add(abi::SI_CXIX as u64), &mut top_again));
        }
        memory.read(&mut parts)?;
        let is_read = has_guess && parts.iter().all(|part| part.is_read);
        look.is_lost = !parts[2 * usize::from(has_guess)].is_read;
        drop(parts);
        let (cop, first) = match perl.interpreter() {
            Some(_) => {
                look.op = u64_at(&self.interpreter, abi::INTERPRETER_OP);
                look.called = u64_at(&self.interpreter, abi::INTERPRETER_STACK_SP) + 8;
                let [cop, first] = [layout.interpreter_curcop, layout.interpreter_curstackinfo];
                (u64_at(&self.interpreter, cop), u64_at(&self.interpreter, first))
            }
            None => (u64_at(&self.interpreter, 0), u64_at(&self.interpreter, 8)),
        };
        let stack = stack_of(layout, &si);
        let is_there = is_read && first == guess.at && stack.contexts == guess.contexts;
        let count = usize::try_from(stack.top.saturating_add(1)).unwrap_or(0);
        if !is_there || count > guess.count {
            return Ok(Begin { cop, first, place, guessed: None });
        }
        let above = &self.contexts[count * layout.context_size..];
        let addresses = (stack.contexts..).step_by(layout.context_size).skip(count);
        for (context, at) in above.chunks_exact(layout.context_size).zip(addresses) {
            let called_at = u64_at(context, abi::CONTEXT_OLDCOP);
            if look.left == 0 {
                look.left = called_at;
            }
            match kind(layout, context) {
                Some(Kind::Sub(cv)) if cv != 0 && !is_over_pages(layout, at) => {
                    look.above.push((cv, called_at));
                }
                None => {}
                Some(_) => break,
            }
        }
        self.contexts.truncate(count * layout.context_size);
        self.expect(first, &stack);
        let is_same = i32::from_le_bytes(top_again) == stack.top;
        Ok(Begin { cop, first, place, guessed: Some((stack, is_same)) })
    }

    /// Reads the contexts of a stack, the stack below it, and whether it is still as it was.
    fn contexts(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        stack: &Stack,
        (at, place): (u64, u64),
    ) -> io::Result<Option<(Option<Stack>, bool)>> {
        let count = usize::try_from(stack.top.saturating_add(1)).unwrap_or(0);
        if count > CONTEXTS_MAX {
            return Ok(None);
        }
        self.contexts.resize(count * layout.context_size, 0);
        let (mut below, mut again, mut first) = ([0; abi::SI_BYTES], [0; 4], [0; 8]);
        let mut parts = [
            Part::new(stack.contexts, &mut self.contexts),
            Part::new(at.wrapping_add(abi::SI_CXIX as u64), &mut again),
            Part::new(place, &mut first),
            Part::new(stack.prev, &mut below),
        ];
        let wanted = if stack.prev == 0 { 3 } else { 4 };
        memory.read(&mut parts[..wanted])?;
        if !parts[..wanted].iter().all(|part| part.is_read) {
            return Ok(None);
        }
        let is_same = i32::from_le_bytes(again) == stack.top && u64_at(&first, 0) == at;
        let below = (stack.prev != 0).then(|| stack_of(layout, &below));
        Ok(Some((below, is_same)))
    }

    /// From the top of the stack down; `cop` is where each is, in the end where the stack began.
    fn frames(
        &self,
        layout: &Layout,
        stack: &Stack,
        cop: &mut u64,
        is_first: bool,
        look: &mut Look,
    ) {
        let before = look.frames.len();
        let contexts = self.contexts.chunks_exact(layout.context_size).rev();
        for context in contexts {
            let Some(kind) = kind(layout, context) else { continue };
            // On its way in, or gone since the height of the stack was read: perl has put the type
            // there and not yet, or no more, the sub.
            let is_innermost = is_first && look.frames.is_empty();
            if is_innermost && matches!(kind, Kind::Sub(0) | Kind::Format(0)) {
                look.left = u64_at(context, abi::CONTEXT_OLDCOP);
                continue;
            }
            look.frames.push(Frame { kind, cop: *cop });
            *cop = u64_at(context, abi::CONTEXT_OLDCOP);
        }
        if stack.kind > 1 && look.frames.len() > before {
            look.frames.push(Frame { kind: Kind::Boundary(stack.kind), cop: *cop });
        }
    }
}

/// The kernel copies page by page, and what lies on two is of two moments.
fn is_over_pages(layout: &Layout, context: u64) -> bool {
    let page = |offset: usize| (context + offset as u64) >> 12;
    page(abi::CONTEXT_OLDCOP) != page(layout.context_sub_cv)
}

/// What a context is, where it is a frame.
fn kind(layout: &Layout, context: &[u8]) -> Option<Kind> {
    let whole = context[abi::CONTEXT_TYPE];
    match whole & abi::CONTEXT_MASK {
        abi::CONTEXT_SUB if whole & abi::CONTEXT_FAKE == 0 => {
            Some(Kind::Sub(u64_at(context, layout.context_sub_cv)))
        }
        abi::CONTEXT_FORMAT => Some(Kind::Format(u64_at(context, layout.context_sub_cv))),
        abi::CONTEXT_EVAL if whole & (abi::CONTEXT_EVAL_BLOCK | abi::CONTEXT_TRY) != 0 => {
            Some(Kind::EvalBlock)
        }
        abi::CONTEXT_EVAL => match u64_at(context, layout.context_eval_namesv) {
            0 => Some(Kind::EvalText),
            _ => Some(Kind::Require),
        },
        _ => None,
    }
}

fn read_stack(memory: &impl Memory, layout: &Layout, at: u64) -> io::Result<Option<Stack>> {
    let mut bytes = [0; abi::SI_BYTES];
    Ok(memory.bytes(at, &mut bytes)?.then(|| stack_of(layout, &bytes)))
}

fn stack_of(layout: &Layout, bytes: &[u8]) -> Stack {
    Stack {
        contexts: u64_at(bytes, abi::SI_CXSTACK),
        prev: u64_at(bytes, abi::SI_PREV),
        top: u32_at(bytes, abi::SI_CXIX) as i32,
        max: u32_at(bytes, abi::SI_CXMAX) as i32,
        kind: u32_at(bytes, layout.si_type) as i32,
    }
}
