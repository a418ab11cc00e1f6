//! One look at what a perl is doing: contexts of its stacks, innermost first, as addresses. Names
//! are `names.rs`'s business. The process runs on meanwhile; what changed under the look is said.

use std::io;

use crate::{
    abi::{self, Layout},
    memory::{Memory, Part},
    perl::{Perl, Place, u32_at, u64_at},
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
    /// Something moved while it was read, twice.
    pub is_torn: bool,
}

/// Deeper stacks are cut, so that no broken number makes a look endless.
const CONTEXTS_MAX: usize = 100_000;
const STACKS_MAX: usize = 1_000;

/// Reads stacks again and again, in the same memory.
#[derive(Debug, Default)]
pub struct Walker {
    interpreter: Vec<u8>,
    contexts: Vec<u8>,
}

/// A `PERL_SI`.
struct Stack {
    contexts: u64,
    prev: u64,
    top: i32,
    kind: i32,
}

impl Walker {
    /// # Errors
    /// That the process cannot be read any more.
    pub fn look(&mut self, memory: &impl Memory, perl: &Perl, look: &mut Look) -> io::Result<()> {
        for _ in 0..2 {
            look.frames.clear();
            look.is_torn = !self.try_look(memory, perl, look)?;
            if !look.is_torn {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing moved meanwhile.
    fn try_look(&mut self, memory: &impl Memory, perl: &Perl, look: &mut Look) -> io::Result<bool> {
        let layout = &perl.layout;
        let (mut cop, first, place) = self.begin(memory, perl, look)?;
        let Some(mut stack) = read_stack(memory, layout, first)? else { return Ok(false) };
        let (mut at, mut is_whole) = (first, true);
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

    /// The statement and the stack that run, and where the latter is told.
    fn begin(
        &mut self,
        memory: &impl Memory,
        perl: &Perl,
        look: &mut Look,
    ) -> io::Result<(u64, u64, u64)> {
        self.interpreter.resize(abi::INTERPRETER_BYTES, 0);
        let bytes = &mut self.interpreter[..];
        match perl.place {
            Place::Interpreter(at) => {
                memory.bytes(at, bytes)?;
                look.op = u64_at(bytes, abi::INTERPRETER_OP);
                look.called = u64_at(bytes, abi::INTERPRETER_STACK_SP) + 8;
                let (cop, stack) =
                    (perl.layout.interpreter_curcop, perl.layout.interpreter_curstackinfo);
                Ok((u64_at(bytes, cop), u64_at(bytes, stack), at + stack as u64))
            }
            Place::Globals { curcop, curstackinfo } => {
                let (cop, stack) = bytes.split_at_mut(8);
                let mut parts = [Part::new(curcop, cop), Part::new(curstackinfo, &mut stack[..8])];
                memory.read(&mut parts)?;
                Ok((u64_at(bytes, 0), u64_at(bytes, 8), curstackinfo))
            }
        }
    }

    /// Reads the contexts of a stack, the stack below it, and whether it is still as it was.
    fn contexts(
        &mut self,
        memory: &impl Memory,
        layout: &Layout,
        stack: &Stack,
        (at, place): (u64, u64),
    ) -> io::Result<Option<(Option<Stack>, bool)>> {
        let count = usize::try_from(stack.top + 1).unwrap_or(0);
        if count > CONTEXTS_MAX {
            return Ok(None);
        }
        self.contexts.resize(count * layout.context_size, 0);
        let (mut below, mut again, mut first) = ([0; abi::SI_BYTES], [0; 4], [0; 8]);
        let mut parts = [
            Part::new(stack.contexts, &mut self.contexts),
            Part::new(at + abi::SI_CXIX as u64, &mut again),
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
        for (from_top, context) in contexts.enumerate() {
            let Some(kind) = kind(layout, context) else { continue };
            // On its way in or out: perl has put the type there and not yet, or no more, the sub.
            if is_first && from_top == 0 && matches!(kind, Kind::Sub(0) | Kind::Format(0)) {
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
        kind: u32_at(bytes, layout.si_type) as i32,
    }
}
