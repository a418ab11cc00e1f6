//! What people call a place in a perl's memory: `$Shop::cart{items}[3]`, `%seen in Shop::sum`. A
//! path goes the shortest way from where the program's names begin. Keys are shown where they look
//! like names: a path tells where something is, not what.

use std::{cell::RefCell, sync::Arc};

use super::{
    Heap, abi,
    graph::{Edge, Via},
    walk::Extra,
};
use crate::{
    names::{Names, Sub, hek, stash_name},
    perl::{text, u64_at},
};

/// Longer keys are data.
const KEY_MAX: usize = 32;
const FILE_MAX: usize = 1_024;
const DEPTH_MAX: usize = 200;

/// Names that were looked up.
#[derive(Default)]
pub struct Naming {
    names: RefCell<Names>,
}

/// A path as far as it has been said.
enum So {
    Nothing,
    Package(String),
    Glob(String, String),
    /// A variable and where it is: `$x`, ` in Foo::bar`. Whether a reference was just followed.
    Place {
        text: String,
        inside: String,
        by_reference: bool,
    },
}

impl Heap {
    /// The package of a stash.
    #[must_use]
    pub fn package(&self, node: u32) -> Option<String> {
        if node >= self.svs.len() || self.svs.head(node).kind() != abi::PVHV {
            return None;
        }
        stash_name(&self.snapshot, &self.perl, self.svs.address(node)).ok().flatten()
    }

    #[must_use]
    pub fn sub_name(&self, node: u32) -> Option<Sub> {
        if node >= self.svs.len() || self.svs.head(node).kind() != abi::PVCV {
            return None;
        }
        let address = self.svs.address(node);
        self.naming.names.borrow_mut().sub(&self.snapshot, &self.perl, address).ok().flatten()
    }

    /// What a sub is called, also the main program.
    #[must_use]
    pub fn called(&self, node: u32) -> Arc<str> {
        if self.is_main(node) {
            return "main program".into();
        }
        if let Some(file) = self.file_of(node) {
            return format!("file {file}").into();
        }
        self.sub_name(node).map_or_else(|| "a sub".into(), |sub| sub.name)
    }

    /// What is left of a file that was loaded: its variables, while subs of it have them.
    fn file_of(&self, node: u32) -> Option<String> {
        let body = self.svs.head(node).any;
        let flags = self.snapshot.half(body.wrapping_add(abi::CV_FLAGS))?;
        if flags & abi::CV_UNIQUE == 0 {
            return None;
        }
        let at = self.snapshot.word(body.wrapping_add(abi::CV_FILE))?;
        text(&self.snapshot, at, FILE_MAX).ok().filter(|file| !file.is_empty())
    }

    fn is_main(&self, node: u32) -> bool {
        let is_from_root = |edge: &Edge| edge.to == node && edge.via == Via::Root("main program");
        self.graph.edges(self.root()).iter().any(is_from_root)
    }

    /// File and line of a statement.
    pub(super) fn place(&self, cop: u64) -> Option<crate::names::Place> {
        self.naming.names.borrow_mut().place(&self.snapshot, &self.perl, cop).ok().flatten()
    }

    /// The name of a sub's variable, with its sigil; whether it is another sub's.
    #[must_use]
    pub fn variable(&self, sub: u32, index: u32) -> Option<(String, bool)> {
        let body = self.svs.head(sub).any;
        let list = self.snapshot.word(body.wrapping_add(abi::CV_PADLIST))?;
        let names = self.snapshot.word(self.snapshot.word(list.wrapping_add(8))?)?;
        let fill = self.snapshot.word(names)?;
        if u64::from(index) > fill {
            return None;
        }
        let name = self
            .snapshot
            .word(self.snapshot.word(names.wrapping_add(8))?.wrapping_add(8 * u64::from(index)))?;
        let at = self.perl.layout.padname_len;
        let bytes = self.snapshot.bytes(name, at + 2)?;
        let length = usize::from(bytes[at]);
        let text = self.snapshot.bytes(u64_at(bytes, 0), length)?;
        let is_outer = bytes[at + 1] & abi::PADNAME_OUTER != 0;
        let is_named = length > 1 && matches!(text[0], b'$' | b'@' | b'%' | b'&');
        is_named.then(|| (String::from_utf8_lossy(text).into_owned(), is_outer))
    }

    /// Where a node is, by the shortest way.
    #[must_use]
    pub fn path(&self, node: u32) -> String {
        let mut edges = Vec::new();
        let mut at = node;
        while let Some(edge) = self.graph.way(&self.ways, at) {
            edges.push(edge);
            at = edge.from;
        }
        if at != self.root() {
            return "held by nothing".to_owned();
        }
        // The way to a value that is far inside is that of its beginning.
        let so =
            edges.iter().rev().take(DEPTH_MAX).fold(So::Nothing, |so, edge| self.step(so, edge));
        so.said()
    }

    fn step(&self, so: So, edge: &Edge) -> So {
        if let Some(package) = self.package(edge.to) {
            return So::Package(package);
        }
        match (so, edge.via) {
            (_, Via::Root(name)) => self.first(edge.to, name),
            (So::Package(package), Via::Key(key)) => {
                let key = caret(&self.key(key).unwrap_or_default());
                match self.sub_name(edge.to) {
                    Some(sub) => So::place(format!("&{}", sub.name)),
                    None => So::Glob(package, key),
                }
            }
            (So::Package(package), _) => So::place(format!("package {package}")),
            (So::Glob(package, name), Via::Slot("&")) => So::place(format!("&{package}::{name}")),
            (So::Glob(package, name), Via::Slot(sigil @ ("$" | "@" | "%"))) => {
                So::place(format!("{sigil}{package}::{name}"))
            }
            (So::Glob(package, name), Via::Slot(slot)) => {
                So::place(format!("*{package}::{name}{{{slot}}}"))
            }
            // A sub of which no more than a reference is in the package.
            (So::Glob(package, name), _) => So::place(format!("&{package}::{name}")),
            (so, Via::Depth(_)) => so,
            (so, Via::Pad(index)) => self.lexical(so, edge, index),
            (so, via) => self.inside(so, via),
        }
    }

    /// Where a way begins.
    fn first(&self, node: u32, name: &'static str) -> So {
        match name {
            "main::" => So::Package("main".to_owned()),
            "main program" => So::place("main program".to_owned()),
            "names" => So::place("names".to_owned()),
            "libraries" | "library" => match self.extra(node) {
                Some(Extra::Native(file)) => So::place(file.clone()),
                _ => So::place("memory of a library".to_owned()),
            },
            _ => match self.sub_name(node) {
                Some(sub) => So::place(format!("&{}", sub.name)),
                None => So::place(format!("({name})")),
            },
        }
    }

    fn lexical(&self, so: So, edge: &Edge, index: u32) -> So {
        let owner = self.pads.get(&edge.from).map(|(sub, _)| *sub);
        let Some(sub) = owner else { return so };
        let inside = format!(" in {}", self.called(sub));
        match self.variable(sub, index) {
            Some((name, _)) => So::Place { text: name, inside, by_reference: false },
            None => match self.sub_name(edge.to) {
                Some(sub) => So::place(format!("&{}", sub.name)),
                None => So::Place { text: "a constant".to_owned(), inside, by_reference: false },
            },
        }
    }

    fn inside(&self, so: So, via: Via) -> So {
        let So::Place { text, inside, by_reference } = so else {
            return So::place(so.said());
        };
        let is_elements = text.ends_with([']', '}']);
        let arrow = if by_reference && !is_elements { "->" } else { "" };
        // `$x[3]` is an element of `@x`.
        let base = match text.strip_prefix(['@', '%']) {
            Some(name) if !is_elements && !by_reference => format!("${name}"),
            _ => text.clone(),
        };
        let (text, by_reference) = match via {
            Via::Reference => (text, true),
            Via::Element(index) => (format!("{base}{arrow}[{index}]"), false),
            Via::Key(key) => (format!("{base}{arrow}{{{}}}", self.key_shown(key)), false),
            Via::Magic => (format!("{text} (magic)"), false),
            Via::Code => (format!("code of {text}"), false),
            _ => (text, by_reference),
        };
        So::Place { text, inside, by_reference }
    }

    /// A key, where the program's code has it and it looks like a name.
    pub(super) fn key_shown(&self, at: u64) -> String {
        let key = self.key(at).filter(|key| self.literals.contains(&at) && is_name(key));
        key.unwrap_or_else(|| "*".to_owned())
    }

    fn key(&self, at: u64) -> Option<String> {
        hek(&self.snapshot, at).ok().flatten()
    }

    /// What is no value.
    pub(super) fn extra(&self, node: u32) -> Option<&Extra> {
        self.extras.get(node.checked_sub(self.svs.len())? as usize)
    }
}

impl So {
    fn place(text: String) -> Self {
        Self::Place { text, inside: String::new(), by_reference: false }
    }

    fn said(self) -> String {
        match self {
            Self::Nothing => "the interpreter".to_owned(),
            Self::Package(package) => format!("%{package}::"),
            Self::Glob(package, name) => format!("*{package}::{name}"),
            Self::Place { text, inside, .. } => text + &inside,
        }
    }
}

/// `^W` for the letter that perl has.
fn caret(name: &str) -> String {
    let told = |letter: char| match letter {
        '\0'..='\x1f' => vec!['^', char::from(letter as u8 + 64)],
        other => vec![other],
    };
    name.chars().flat_map(told).collect()
}

/// What a program calls its fields, rather than what it keeps in them.
fn is_name(key: &str) -> bool {
    let mut bytes = key.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    begins && key.len() <= KEY_MAX && bytes.all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_data_are_not_shown() {
        assert!(is_name("cart") && is_name("_private") && is_name("Content-Type"));
        assert!(!is_name("joe@example.org") && !is_name("4711") && !is_name(""));
        assert!(!is_name(&"x".repeat(40)) && !is_name("two words"));
    }
}
