//! Where functions begin and how many lines they have, in Rust and in C. Lengths only: what a
//! function does is the compiler's affair.

use regex::Regex;

use crate::{house::File, text};

/// A function and its lines, from its name to its closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub lines: usize,
}

#[must_use]
pub fn functions(file: &File) -> Vec<Function> {
    if file.has_extension(&["rs"]) { rust(&file.text) } else { c(&file.text) }
}

fn rust(text: &str) -> Vec<Function> {
    let code = text::code(text);
    let named = Regex::new(r"\bfn\s+(\w+)").expect("a constant pattern");
    let found = named.captures_iter(&code).map(|found| {
        let start = found.get(0).map_or(0, |m| m.start());
        let end = text::item_end(code.as_bytes(), start);
        Function { name: found[1].to_owned(), lines: lines(&code[start..end]) }
    });
    found.collect()
}

/// C in the house's layout: the name in the first column's line, braces of the body in the first
/// column.
fn c(text: &str) -> Vec<Function> {
    let head =
        Regex::new(r"(?m)^[A-Za-z][^;=\n{}]*?(\w+)\([^;{}]*\)\s*\n\{").expect("a constant pattern");
    let found = head.captures_iter(text).map(|found| {
        let start = found.get(0).map_or(0, |m| m.start());
        let end = text[start..].find("\n}").map_or(text.len(), |i| start + i + 2);
        Function { name: found[1].to_owned(), lines: lines(&text[start..end]) }
    });
    found.collect()
}

fn lines(text: &str) -> usize {
    text.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_functions_are_measured_to_their_closing_brace() {
        let file =
            File::new("a.rs", "fn a() {\n  if b { \"}\" }\n}\ntrait T {\n fn c(x: [u8; 2]);\n}\n");
        let found: Vec<_> = functions(&file).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a".to_owned(), 3), ("c".to_owned(), 1)]);
    }

    #[test]
    fn c_functions_are_measured_too() {
        let file = File::new(
            "a.c",
            "static int\n  x;\nstatic SV *f(pTHX_ int a,\n   int b)\n{\n  g();\n}\n",
        );
        assert_eq!(functions(&file), [Function { name: "f".to_owned(), lines: 5 }]);
    }
}
