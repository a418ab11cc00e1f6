//! `check = { ... }`: what an answer must be.

use super::Compiler;
use crate::{
    check::{Check, Json, Kind, Needle, TITLE},
    error::Error,
    head,
    json_path::JsonPath,
    table::{Plain, Value},
};

/// The checks that one key asks for; a step's replace those of `[defaults]` with the same key.
#[derive(Clone, Debug)]
pub struct CheckGroup {
    pub key: &'static str,
    checks: Vec<Check>,
}

/// What answers are unless a step says what its status is.
const GOOD_STATUS: (u16, u16) = (100, 399);

type Read<'s> = fn(&mut Compiler<'s>, &Value<'s>, bool) -> Result<Vec<Check>, Error>;

impl<'s> Compiler<'s> {
    pub fn check_groups(&mut self, value: &Value<'s>) -> Result<Vec<CheckGroup>, Error> {
        let mut table = value.table()?;
        let ignore_case = table.read("ignore_case", Value::flag)?.unwrap_or(false);
        let keys: [(&'static str, Read<'s>); 14] = [
            ("status", |_, value, _| status(value)),
            ("header", |c, value, fold| c.header_checks(value, true, fold)),
            ("no_header", |c, value, fold| c.header_checks(value, false, fold)),
            ("text", |c, value, fold| c.text_checks(value, true, fold)),
            ("no_text", |c, value, fold| c.text_checks(value, false, fold)),
            ("regex", |c, value, fold| c.regex_checks(value, true, fold)),
            ("no_regex", |c, value, fold| c.regex_checks(value, false, fold)),
            ("title", Self::title_check),
            ("json", |c, value, _| c.json_checks(value)),
            ("no_json", |_, value, _| json_absent(value)),
            ("min_bytes", |_, value, _| min_bytes(value)),
            ("max_bytes", |_, value, _| max_bytes(value)),
            ("min_time", |_, value, _| min_time(value)),
            ("max_time", |_, value, _| max_time(value)),
        ];
        let mut groups = Vec::new();
        for (key, read) in keys {
            if let Some(value) = table.take(key) {
                groups.push(CheckGroup { key, checks: read(self, &value, ignore_case)? });
            }
        }
        table.finish()?;
        Ok(groups)
    }

    /// `"Name"` or `"Name: text that it holds"`.
    fn header_checks(
        &mut self,
        value: &Value<'s>,
        wanted: bool,
        ignore_case: bool,
    ) -> Result<Vec<Check>, Error> {
        let check = |text: String| {
            let (name, needle) = match text.split_once(':') {
                Some((name, needle)) => (name.trim_end().to_owned(), Some(needle.trim_start())),
                None => (text.clone(), None),
            };
            if !head::is_token(name.as_bytes()) {
                return Err(value.error(format!("{name:?} is no name of a header")));
            }
            let needle = needle.map(|needle| self.template(value, needle)).transpose()?;
            let needle = needle.map(|needle| Needle::new(needle, ignore_case));
            let kind = Kind::Header { name, value: needle, wanted };
            Ok(Check { name: named("header", wanted, &text), kind })
        };
        value.texts()?.into_iter().map(check).collect()
    }

    fn text_checks(
        &mut self,
        value: &Value<'s>,
        wanted: bool,
        ignore_case: bool,
    ) -> Result<Vec<Check>, Error> {
        let check = |text: String| {
            let needle = Needle::new(self.template(value, &text)?, ignore_case);
            Ok(Check { name: named("text", wanted, &text), kind: Kind::Text { needle, wanted } })
        };
        value.texts()?.into_iter().map(check).collect()
    }

    fn regex_checks(
        &mut self,
        value: &Value<'s>,
        wanted: bool,
        ignore_case: bool,
    ) -> Result<Vec<Check>, Error> {
        let check = |text: String| {
            let regex = self.regex(value, &text, ignore_case)?;
            Ok(Check { name: named("regex", wanted, &text), kind: Kind::Regex { regex, wanted } })
        };
        value.texts()?.into_iter().map(check).collect()
    }

    fn title_check(&mut self, value: &Value<'s>, ignore_case: bool) -> Result<Vec<Check>, Error> {
        let title = value.text()?;
        let regex = self.regex(value, TITLE, false)?;
        let text = self.template(value, &title)?;
        let kind = Kind::Title { regex, text, ignore_case };
        Ok(vec![Check { name: format!("title {title:?}"), kind }])
    }

    /// A table from paths to what is there, or a list of paths that lead somewhere.
    fn json_checks(&mut self, value: &Value<'s>) -> Result<Vec<Check>, Error> {
        if !value.is_table() {
            return value.texts()?.iter().map(|path| json_there(value, path, true)).collect();
        }
        let check = |entry: Value<'s>| {
            let path = JsonPath::parse(&entry.key).map_err(|reason| value.error(reason))?;
            let (expected, shown) = match entry.plain()? {
                Plain::Text(text) => {
                    (Json::Text(self.template(&entry, &text)?), format!("{text:?}"))
                }
                Plain::Whole(number) => (Json::Number(number as f64), number.to_string()),
                Plain::Number(number) => (Json::Number(number), number.to_string()),
                Plain::Flag(true) => (Json::Word(b"true"), "true".to_owned()),
                Plain::Flag(false) => (Json::Word(b"false"), "false".to_owned()),
            };
            let name = format!("json {} = {shown}", entry.key);
            Ok(Check { name, kind: Kind::Json { path, value: expected } })
        };
        value.table()?.entries().into_iter().map(check).collect()
    }
}

/// All checks of a step; a status below 400 is wanted when nothing is said about it.
pub fn with_status(groups: Vec<CheckGroup>) -> Vec<Check> {
    let has_status = groups.iter().any(|group| group.key == "status");
    let good = Check { name: "status below 400".into(), kind: Kind::Status(vec![GOOD_STATUS]) };
    let good = (!has_status).then_some(good);
    good.into_iter().chain(groups.into_iter().flat_map(|group| group.checks)).collect()
}

fn status(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    let mut ranges = Vec::new();
    let mut words = Vec::new();
    for item in value.items() {
        let word = match item.plain()? {
            Plain::Whole(number) => number.to_string(),
            _ => item.text()?,
        };
        let range = status_range(&word);
        ranges.push(range.ok_or_else(|| {
            item.error(format!("{word:?} is no status; write 200, \"2xx\", \"200-204\" or \"any\""))
        })?);
        words.push(word);
    }
    let name = format!("status {}", words.join(" or "));
    Ok(vec![Check { name, kind: Kind::Status(ranges) }])
}

fn status_range(word: &str) -> Option<(u16, u16)> {
    if word == "any" {
        return Some((0, 999));
    }
    if let Some(class) = word.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = (first.parse().ok()?, last.parse().ok()?);
    (100 <= range.0 && range.0 <= range.1 && range.1 <= 999).then_some(range)
}

fn bytes(name: String, least: u64, most: u64) -> Vec<Check> {
    vec![Check { name, kind: Kind::Bytes { least, most } }]
}

fn min_bytes(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    let least = value.whole(0, u64::MAX >> 1)?;
    Ok(bytes(format!("at least {least} bytes"), least, u64::MAX))
}

fn max_bytes(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    let most = value.whole(0, u64::MAX >> 1)?;
    Ok(bytes(format!("at most {most} bytes"), 0, most))
}

fn min_time(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    let least_ns = value.time()?;
    let name = format!("not before {} ms", least_ns as f64 / 1e6);
    Ok(vec![Check { name, kind: Kind::Time { least_ns, most_ns: u64::MAX } }])
}

fn max_time(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    let most_ns = value.time()?;
    let name = format!("within {} ms", most_ns as f64 / 1e6);
    Ok(vec![Check { name, kind: Kind::Time { least_ns: 0, most_ns } }])
}

fn json_absent(value: &Value<'_>) -> Result<Vec<Check>, Error> {
    value.texts()?.iter().map(|path| json_there(value, path, false)).collect()
}

fn json_there(value: &Value<'_>, path: &str, wanted: bool) -> Result<Check, Error> {
    let parsed = JsonPath::parse(path).map_err(|reason| value.error(reason))?;
    let name = format!("{}json {path}", if wanted { "" } else { "no " });
    Ok(Check { name, kind: Kind::Json { path: parsed, value: Json::There { wanted } } })
}

fn named(kind: &str, wanted: bool, text: &str) -> String {
    format!("{}{kind} {text:?}", if wanted { "" } else { "no " })
}
