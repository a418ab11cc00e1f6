//! Texts with values in them: `{{name}}`. A [`Template`] is compiled once into pieces and written
//! as often as it is needed, into a buffer that is there.
//!
//! | between the braces | what is written |
//! |---|---|
//! | `name` | a variable: from `[variables]` or of a capture |
//! | `feeder.column` | of the row that the user has |
//! | `column` | the same, where one feeder has it and no variable has the name |
//! | `seq` | a number that no other request of the run has |
//! | `user`, `iteration` | the user's number; how many times it began |
//! | `random 1 100` | a whole number, both ends possible |
//! | `uuid` | a random UUID (version 4) |
//! | `"text"` | the text itself, for a literal `{{` |
//!
//! Each can end in `|url`, `|json` or `|base64`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drom_stats::Rng;

use crate::{
    error::hint,
    escape::{self, Escape},
    feeder::Feeder,
};

#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    Value(Value, Escape),
    /// What was written since this place in the template began, as Base64: `Authorization: Basic`.
    Base64(Template),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Variable(usize),
    Cell { feeder: usize, column: usize },
    Sequence,
    User,
    Iteration,
    Random { least: i64, most: i64 },
    Uuid,
}

/// What names in a template can mean; the scenario's.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Those that differ between users or iterations; a value's place is the variable's number.
    pub variables: Vec<String>,
    /// Those that never change are put in when a template is compiled.
    pub constants: Vec<(String, String)>,
}

/// What a template is written with.
pub struct Values<'v> {
    pub variables: &'v [Slot],
    pub feeders: &'v [Feeder],
    /// By feeder.
    pub rows: &'v [usize],
    pub sequence: u64,
    pub user: u64,
    pub iteration: u64,
    pub rng: &'v mut Rng,
}

/// A variable of one user; its text is kept for reuse when it has no value.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub text: Vec<u8>,
    pub is_set: bool,
}

/// The number of the variable that has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unset(pub usize);

impl Names {
    /// The variable's number, a new one when there is none of this name.
    pub fn variable(&mut self, name: &str) -> usize {
        if let Some(at) = self.variables.iter().position(|known| known == name) {
            return at;
        }
        self.variables.push(name.to_owned());
        self.variables.len() - 1
    }
}

impl Template {
    /// # Errors
    /// What is wrong, to be said behind the place.
    pub fn compile(text: &str, names: &Names, feeders: &[Feeder]) -> Result<Self, String> {
        let mut template = Self::default();
        template.add(text, Escape::None, names, feeders)?;
        Ok(template)
    }

    #[must_use]
    pub fn fixed(bytes: impl Into<Vec<u8>>) -> Self {
        let mut template = Self::default();
        template.add_text(&bytes.into());
        template
    }

    /// Adds a text; values in it that do not say how are escaped like this.
    pub fn add(
        &mut self,
        text: &str,
        escape: Escape,
        names: &Names,
        feeders: &[Feeder],
    ) -> Result<(), String> {
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            self.add_escaped(&rest.as_bytes()[..at], escape);
            let inner = &rest[at + 2..];
            let end =
                end_of(inner).ok_or_else(|| format!("the }}}} of {:?} is missing", &rest[at..]))?;
            self.add_value(inner[..end].trim(), escape, names, feeders)?;
            rest = &inner[end + 2..];
        }
        self.add_escaped(rest.as_bytes(), escape);
        Ok(())
    }

    pub fn add_text(&mut self, text: &[u8]) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.extend_from_slice(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    pub fn append(&mut self, other: Self) {
        for piece in other.pieces {
            match piece {
                Piece::Text(text) => self.add_text(&text),
                other => self.pieces.push(other),
            }
        }
    }

    pub fn add_base64(&mut self, inner: Template) {
        match inner.constant() {
            Some(text) => self.add_text(STANDARD.encode(text).as_bytes()),
            None => self.pieces.push(Piece::Base64(inner)),
        }
    }

    /// The whole text, when nothing in it changes.
    #[must_use]
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text that it always begins with.
    #[must_use]
    pub fn begin(&self) -> &[u8] {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => b"",
        }
    }

    /// Without so many bytes of [`Template::begin`].
    #[must_use]
    pub fn behind(mut self, bytes: usize) -> Self {
        if let Some(Piece::Text(text)) = self.pieces.first_mut() {
            text.drain(..bytes);
        }
        self
    }

    /// Whether everything that never changes in it passes.
    #[must_use]
    pub fn all_texts(&self, is_good: impl Fn(&[u8]) -> bool) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Text(text) => is_good(text),
            _ => true,
        })
    }

    #[must_use]
    pub fn uses_sequence(&self) -> bool {
        self.any_value(&|value| value == Value::Sequence)
    }

    #[must_use]
    pub fn uses_feeder(&self, number: usize) -> bool {
        self.any_value(&|value| matches!(value, Value::Cell { feeder, .. } if feeder == number))
    }

    /// Appends the text to `out`; what was appended before a value is missing stays there.
    pub fn write(&self, values: &mut Values<'_>, out: &mut Vec<u8>) -> Result<(), Unset> {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(value, escape) => value.write(*escape, values, out)?,
                Piece::Base64(inner) => {
                    let start = out.len();
                    inner.write(values, out)?;
                    escape::base64_from(start, out);
                }
            }
        }
        Ok(())
    }

    fn any_value(&self, is: &impl Fn(Value) -> bool) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(_) => false,
            Piece::Value(value, _) => is(*value),
            Piece::Base64(inner) => inner.pieces.iter().any(|piece| match piece {
                Piece::Value(value, _) => is(*value),
                _ => false,
            }),
        })
    }

    fn add_escaped(&mut self, text: &[u8], escape: Escape) {
        let mut escaped = Vec::new();
        escape.put(text, &mut escaped);
        self.add_text(&escaped);
    }

    fn add_value(
        &mut self,
        inner: &str,
        default: Escape,
        names: &Names,
        feeders: &[Feeder],
    ) -> Result<(), String> {
        let quote = if inner.starts_with('"') { inner.rfind('"').unwrap_or(0) } else { 0 };
        let (name, escape) = match inner[quote..].split_once('|') {
            Some((before, word)) => {
                (inner[..quote + before.len()].trim(), Escape::of(word.trim())?)
            }
            None => (inner, default),
        };
        let quoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        if let Some(text) = quoted {
            self.add_escaped(text.as_bytes(), escape);
        } else if let Some((_, text)) = names.constants.iter().find(|(known, _)| known == name) {
            self.add_escaped(text.as_bytes(), escape);
        } else {
            self.pieces.push(Piece::Value(value_of(name, names, feeders)?, escape));
        }
        Ok(())
    }
}

impl Value {
    fn write(
        self,
        escape: Escape,
        values: &mut Values<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unset> {
        match self {
            Self::Variable(at) => match &values.variables[at] {
                Slot { text, is_set: true } => escape.put(text, out),
                _ => return Err(Unset(at)),
            },
            Self::Cell { feeder, column } => {
                escape.put(values.feeders[feeder].cell(values.rows[feeder], column), out);
            }
            Self::Sequence => escape.put_number(values.sequence.into(), out),
            Self::User => escape.put_number(values.user.into(), out),
            Self::Iteration => escape.put_number(values.iteration.into(), out),
            Self::Random { least, most } => {
                let span = most.abs_diff(least) as usize + 1;
                escape.put_number(i128::from(least) + values.rng.below(span) as i128, out);
            }
            Self::Uuid => escape.put(&uuid(values.rng), out),
        }
        Ok(())
    }
}

/// Where the `}}` is that closes a value; inside quotes there is none.
fn end_of(inner: &str) -> Option<usize> {
    let from = match inner.trim_start().strip_prefix('"') {
        Some(quoted) => inner.len() - quoted.len() + quoted.find('"')? + 1,
        None => 0,
    };
    inner[from..].find("}}").map(|at| from + at)
}

/// Values that nobody has to give.
const MADE: [&str; 4] = ["seq", "user", "iteration", "uuid"];

fn value_of(name: &str, names: &Names, feeders: &[Feeder]) -> Result<Value, String> {
    if let Some(at) = names.variables.iter().position(|known| known == name) {
        return Ok(Value::Variable(at));
    }
    if let Some((feeder, column)) = name.split_once('.') {
        return cell_of(feeder, column, feeders);
    }
    if name.is_empty() {
        return Err("nothing stands between {{ and }}".to_owned());
    }
    if let Some(feeder) = feeders.iter().find(|f| MADE.contains(&name) && f.has(name)) {
        let of = &feeder.name;
        return Err(format!("`{name}` is made, and a column of `{of}`: write {of}.{name}"));
    }
    let mut words = name.split_whitespace();
    match (words.next().unwrap_or_default(), words.next(), words.next(), words.next()) {
        ("seq", None, ..) => Ok(Value::Sequence),
        ("user", None, ..) => Ok(Value::User),
        ("iteration", None, ..) => Ok(Value::Iteration),
        ("uuid", None, ..) => Ok(Value::Uuid),
        ("random", Some(least), Some(most), None) => random(least, most),
        _ if feeders.iter().any(|feeder| feeder.has(name)) => cell_of_one(name, feeders),
        ("random", ..) => Err("random wants two whole numbers: {{random 1 100}}".to_owned()),
        _ => {
            let constants = names.constants.iter().map(|(name, _)| &**name);
            let known = names.variables.iter().map(|name| &**name).chain(constants).chain(MADE);
            let hint = hint(name, known);
            Err(format!(
                "unknown variable `{name}`{hint}; [variables], a capture or a feeder sets one"
            ))
        }
    }
}

fn cell_of_one(column: &str, feeders: &[Feeder]) -> Result<Value, String> {
    let mut with: Vec<&str> =
        feeders.iter().filter(|f| f.has(column)).map(|feeder| &*feeder.name).collect();
    match (with.pop(), with.is_empty()) {
        (Some(feeder), true) => cell_of(feeder, column, feeders),
        (last, _) => {
            let last = last.unwrap_or_default();
            Err(format!("several feeders have `{column}`; write {last}.{column}"))
        }
    }
}

fn cell_of(feeder: &str, column: &str, feeders: &[Feeder]) -> Result<Value, String> {
    let Some(at) = feeders.iter().position(|known| known.name == feeder) else {
        let hint = hint(feeder, feeders.iter().map(|known| &*known.name));
        return Err(format!("unknown feeder `{feeder}`{hint}"));
    };
    let columns = &feeders[at].columns;
    let found = columns.iter().position(|known| known == column);
    let column = found.ok_or_else(|| {
        let hint = hint(column, columns.iter().map(|known| &**known));
        format!("feeder `{feeder}` has no column `{column}`{hint}")
    })?;
    Ok(Value::Cell { feeder: at, column })
}

fn random(least: &str, most: &str) -> Result<Value, String> {
    match (least.parse::<i64>(), most.parse::<i64>()) {
        (Ok(least), Ok(most)) if least <= most && most.abs_diff(least) < u64::MAX => {
            Ok(Value::Random { least, most })
        }
        _ => {
            Err(format!("`random {least} {most}`: two whole numbers are wanted, the smaller first"))
        }
    }
}

fn uuid(rng: &mut Rng) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let (high, low) = (rng.next_u64(), rng.next_u64());
    let mut bits = (u128::from(high) << 64) | u128::from(low);
    bits = (bits & !(0xf << 76)) | (4 << 76);
    bits = (bits & !(0b11 << 62)) | (0b10 << 62);
    let mut text = [b'-'; 36];
    let mut shift = 128;
    for (at, byte) in text.iter_mut().enumerate() {
        if !matches!(at, 8 | 13 | 18 | 23) {
            shift -= 4;
            *byte = HEX[(bits >> shift) as usize & 0xf];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use drom_stats::Rng;
    use proptest::proptest;

    use super::*;

    fn names() -> Names {
        Names { variables: vec!["token".into()], constants: vec![("host".into(), "a b".into())] }
    }

    fn write(text: &str, token: Option<&str>) -> Result<String, Unset> {
        let template = Template::compile(text, &names(), &[]).expect("a good template");
        let slot = Slot { text: token.unwrap_or("old").into(), is_set: token.is_some() };
        let mut out = Vec::new();
        template.write(
            &mut Values {
                variables: &[slot],
                feeders: &[],
                rows: &[],
                sequence: 7,
                user: 3,
                iteration: 2,
                rng: &mut Rng::new(1),
            },
            &mut out,
        )?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn values_are_put_where_their_names_stand() {
        let cases = [
            ("plain", "plain"),
            ("a={{token}}&b={{ token | url }}", "a=x y\"&b=x%20y%22"),
            ("{{seq}}/{{user}}/{{iteration}}", "7/3/2"),
            ("{{host}}-{{host|url}}", "a b-a%20b"),
            ("{{\"{{}}\"}}|{{\"a|b\"}}", "{{}}|a|b"),
            ("{{token|json}} {{token|base64}}", "x y\\\" eCB5Ig=="),
            ("{{random 5 5}}", "5"),
        ];
        for (text, expected) in cases {
            assert_eq!(write(text, Some("x y\"")).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(write("{{token}}", None), Err(Unset(0)));
    }

    #[test]
    fn random_values_stay_within_their_bounds() {
        let template = Template::compile("{{random -1 1}}", &names(), &[]).expect("good");
        let mut rng = Rng::new(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut out = Vec::new();
            let mut values = Values {
                variables: &[],
                feeders: &[],
                rows: &[],
                sequence: 0,
                user: 0,
                iteration: 0,
                rng: &mut rng,
            };
            template.write(&mut values, &mut out).expect("nothing is unset");
            seen.insert(String::from_utf8(out).expect("text"));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["-1", "0", "1"]);
        let text = String::from_utf8(uuid(&mut rng).to_vec()).expect("text");
        let pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
        assert!(regex::Regex::new(pattern).expect("a pattern").is_match(&text), "{text}");
    }

    #[test]
    fn mistakes_say_what_there_is() {
        let told = |text| Template::compile(text, &names(), &[]).expect_err("a mistake");
        assert!(told("{{tokn}}").contains("did you mean `token`?"), "{}", told("{{tokn}}"));
        for (text, said) in [
            ("{{token", "is missing"),
            ("{{token|upper}}", "unknown"),
            ("{{a.b}}", "unknown feeder"),
            ("{{random 2 1}}", "smaller first"),
            ("{{random}}", "two whole numbers"),
            ("{{}}", "nothing stands between"),
        ] {
            assert!(told(text).contains(said), "{text}: {}", told(text));
        }
    }

    #[test]
    fn a_template_without_values_is_constant() {
        let template = Template::compile("a{{host}}", &names(), &[]).expect("good");
        assert_eq!(template.constant(), Some(&b"aa b"[..]));
        let template = Template::compile("{{token}}", &names(), &[]).expect("good");
        assert_eq!((template.constant(), template.begin()), (None, &b""[..]));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([{}\"|a-z. ]|\\PC){0,40}") {
            let _ = Template::compile(&text, &names(), &[]);
        }
    }
}
