//! TOML as a tree in which everything knows its line. A [`Table`] is taken apart key by key and at
//! the end says which keys nobody asked for, so that a mistyped one is never silently ignored.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::{
    duration,
    error::{Error, hint, line_of},
};

/// The file that is read, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    pub path: &'s Path,
    pub text: &'s str,
}

impl<'s> Source<'s> {
    /// # Errors
    /// What is wrong with the text as TOML.
    pub fn table(self) -> Result<Table<'s>, Error> {
        let root = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, error.message())
        })?;
        Ok(Table::new(self, 0, root.into_inner()))
    }

    pub fn error(self, at: usize, message: impl Into<String>) -> Error {
        Error::at(self.path, line_of(self.text, at), message)
    }
}

#[derive(Debug)]
pub struct Table<'s> {
    pub source: Source<'s>,
    at: usize,
    entries: Vec<Value<'s>>,
    known: Vec<&'static str>,
}

/// What stands behind a key.
#[derive(Clone, Debug)]
pub struct Value<'s> {
    pub source: Source<'s>,
    pub key: String,
    at: usize,
    raw: DeValue<'s>,
}

/// A value that is no list and no table.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
}

impl<'s> Table<'s> {
    fn new(source: Source<'s>, at: usize, table: DeTable<'s>) -> Self {
        let entries = table.into_iter().map(|(key, value)| Value {
            source,
            at: key.span().start,
            key: key.into_inner().into_owned(),
            raw: value.into_inner(),
        });
        Self { source, at, entries: entries.collect(), known: Vec::new() }
    }

    pub fn take(&mut self, key: &'static str) -> Option<Value<'s>> {
        self.known.push(key);
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// # Errors
    /// That it is not there.
    pub fn need(&mut self, key: &'static str) -> Result<Value<'s>, Error> {
        self.take(key).ok_or_else(|| self.error(format!("`{key}` is missing")))
    }

    /// `None` when it is not there, what `read` makes of it else.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value<'s>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.take(key).as_ref().map(read).transpose()
    }

    /// Every key is one that was asked for.
    pub fn finish(self) -> Result<(), Error> {
        let Some(left) = self.entries.first() else { return Ok(()) };
        let right = hint(&left.key, self.known.iter().copied());
        Err(self.source.error(left.at, format!("unknown key `{}`{right}", left.key)))
    }

    /// All of them, for tables whose keys are the user's own.
    #[must_use]
    pub fn entries(self) -> Vec<Value<'s>> {
        self.entries
    }

    pub fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.at, message)
    }
}

impl<'s> Value<'s> {
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        self.source.error(self.at, format!("`{}`: {message}", self.key))
    }

    fn wanted<T>(&self, what: &str) -> Result<T, Error> {
        Err(self.error(format!("{what} is wanted, not {}", kind(&self.raw))))
    }

    pub fn text(&self) -> Result<String, Error> {
        match &self.raw {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            _ => self.wanted("a text in quotes"),
        }
    }

    /// One text or a list of them.
    pub fn texts(&self) -> Result<Vec<String>, Error> {
        self.items().iter().map(Self::text).collect()
    }

    /// The members of a list; a value that is none is the only one.
    pub fn items(&self) -> Vec<Self> {
        let DeValue::Array(array) = &self.raw else { return vec![self.clone()] };
        let item = |value: &toml::Spanned<DeValue<'s>>| Self {
            source: self.source,
            key: self.key.clone(),
            at: value.span().start,
            raw: value.get_ref().clone(),
        };
        array.iter().map(item).collect()
    }

    pub fn flag(&self) -> Result<bool, Error> {
        match &self.raw {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => self.wanted("true or false"),
        }
    }

    pub fn whole(&self, least: u64, most: u64) -> Result<u64, Error> {
        let DeValue::Integer(number) = &self.raw else { return self.wanted("a whole number") };
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let within = number.filter(|number| (least..=most).contains(number));
        within.ok_or_else(|| self.error(format!("a number from {least} to {most} is wanted")))
    }

    pub fn number(&self) -> Result<f64, Error> {
        match self.plain()? {
            Plain::Whole(number) => Ok(number as f64),
            Plain::Number(number) => Ok(number),
            _ => self.wanted("a number"),
        }
    }

    /// Nanoseconds: a text with a unit, or a number of seconds.
    pub fn time(&self) -> Result<u64, Error> {
        let time = match self.plain()? {
            Plain::Text(text) => duration::parse(&text),
            Plain::Whole(number) => duration::from_seconds(number as f64),
            Plain::Number(number) => duration::from_seconds(number),
            Plain::Flag(_) => return self.wanted("a time"),
        };
        time.map_err(|reason| self.error(reason))
    }

    pub fn plain(&self) -> Result<Plain, Error> {
        Ok(match &self.raw {
            DeValue::String(text) => Plain::Text(text.clone().into_owned()),
            DeValue::Boolean(flag) => Plain::Flag(*flag),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Plain::Whole(parsed.map_err(|_| self.error("the number is too large"))?)
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse();
                Plain::Number(parsed.map_err(|_| self.error("this is no number"))?)
            }
            _ => return self.wanted("a text, a number, true or false"),
        })
    }

    #[must_use]
    pub fn is_table(&self) -> bool {
        matches!(self.raw, DeValue::Table(_))
    }

    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.raw, DeValue::Array(_))
    }

    pub fn table(&self) -> Result<Table<'s>, Error> {
        match &self.raw {
            DeValue::Table(table) => Ok(Table::new(self.source, self.at, table.clone())),
            _ => self.wanted("a table"),
        }
    }

    /// `[[key]]` as often as it stands there.
    pub fn tables(&self) -> Result<Vec<Table<'s>>, Error> {
        if !self.is_list() {
            return self.wanted(&format!("a list of tables ([[{}]])", self.key));
        }
        self.items().iter().map(Self::table).collect()
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table<'_> {
        Source { path: Path::new("t.toml"), text }.table().expect("good TOML")
    }

    #[test]
    fn a_key_that_nobody_asked_for_is_named_with_its_line() {
        let mut t = table("a = 1\nbb = 2\n");
        assert_eq!(t.take("a").expect("there").whole(0, 9).expect("whole"), 1);
        t.take("b");
        let told = t.finish().expect_err("bb is left").to_string();
        assert_eq!(told, "t.toml:2: unknown key `bb`; did you mean `b`?");
    }

    #[test]
    fn values_are_of_the_kind_that_is_wanted() {
        let mut t = table("a = 'x'\nb = [1, 'y']\nc = '2s'\nd = 1979-05-27\ne = 0.5\n");
        let a = t.need("a").expect("there");
        assert_eq!(a.texts().expect("texts"), ["x"]);
        let told = a.flag().expect_err("no flag").to_string();
        assert_eq!(told, "t.toml:1: `a`: true or false is wanted, not a text");
        assert!(t.need("b").expect("there").texts().is_err());
        assert_eq!(t.need("c").expect("there").time().expect("time"), 2_000_000_000);
        assert!(t.need("d").expect("there").plain().is_err());
        assert_eq!(t.need("e").expect("there").time().expect("time"), 500_000_000);
        assert_eq!(t.need("f").expect_err("none").to_string(), "t.toml:1: `f` is missing");
    }

    #[test]
    fn what_is_no_toml_is_placed() {
        let text = "a = 1\nb = \n";
        let error = Source { path: Path::new("t.toml"), text }.table().expect_err("no TOML");
        assert!(error.to_string().starts_with("t.toml:2: "), "{error}");
    }
}
