//! Finds a value in JSON text without building a tree: a subset of JSON path (RFC 9535) that
//! needs no memory, because a check runs on the hot path. A library would read every answer into
//! a tree first.
//!
//! `$`, `.name`, `['name']`, `[2]`, `.*` and `[*]`; the first value that the whole path leads to is
//! the one. No filters, no slices, no `..`. The text is not validated: of broken JSON anything or
//! nothing is found.

use crate::escape::put_decimal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(Vec<u8>),
    Index(usize),
    Any,
}

/// Each `*` is a loop inside the one before; nobody writes more.
const STEPS_MAX: usize = 32;

impl JsonPath {
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| {
            format!(
                "{text:?} is no JSON path: {reason}; write $.name, $['a name'], $[0], $[*].name"
            )
        };
        let mut rest = text.strip_prefix('$').ok_or_else(|| wrong("it begins with $"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest).map_err(wrong)?;
            steps.push(step);
            rest = after;
        }
        if steps.len() > STEPS_MAX { Err(wrong("it is too long")) } else { Ok(Self { steps }) }
    }

    /// The text of the value, with its quotes when it is a string.
    #[must_use]
    pub fn find<'j>(&self, json: &'j [u8]) -> Option<&'j [u8]> {
        find(&self.steps, json, skip_space(json, 0))
    }
}

/// Appends what a JSON value says: a string without quotes and escapes, anything else as it is.
pub fn put_plain(value: &[u8], out: &mut Vec<u8>) {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return out.extend_from_slice(value);
    };
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = unescape(&rest[at + 1..], out);
    }
    out.extend_from_slice(rest);
}

fn step(text: &str) -> Result<(Step, &str), &'static str> {
    if let Some(rest) = text.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        return match &rest[..end] {
            "" => Err("a name is missing behind the dot"),
            "*" => Ok((Step::Any, &rest[end..])),
            name => Ok((Step::Name(escaped(name)), &rest[end..])),
        };
    }
    let rest = text.strip_prefix('[').ok_or("a dot or a bracket is wanted")?;
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, after) = rest[1..].split_once(quote).ok_or("a quote is missing")?;
        let after = after.strip_prefix(']').ok_or("the ] is missing")?;
        return Ok((Step::Name(escaped(name)), after));
    }
    let (inner, after) = rest.split_once(']').ok_or("the ] is missing")?;
    if inner == "*" {
        return Ok((Step::Any, after));
    }
    let index = inner.parse().map_err(|_| "a whole number, * or a name in quotes is wanted")?;
    Ok((Step::Index(index), after))
}

/// Names are compared as JSON writes them.
fn escaped(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    crate::escape::Escape::Json.put(name.as_bytes(), &mut out);
    out
}

fn find<'j>(steps: &[Step], json: &'j [u8], at: usize) -> Option<&'j [u8]> {
    let Some((step, below)) = steps.split_first() else {
        return Some(&json[at..skip(json, at)?]);
    };
    let is_object = match json.get(at)? {
        b'{' => true,
        b'[' => false,
        _ => return None,
    };
    let (mut at, mut index) = (skip_space(json, at + 1), 0);
    while !matches!(json.get(at)?, b'}' | b']') {
        let mut is_it = *step == Step::Any || *step == Step::Index(index) && !is_object;
        if is_object {
            let end = skip(json, at)?;
            let key = json.get(at + 1..end.checked_sub(1)?)?;
            is_it |= matches!(step, Step::Name(name) if name == key);
            at = skip_space(json, end);
            at = skip_space(json, at + usize::from(json.get(at)? == &b':'));
        }
        if is_it {
            let found = find(below, json, at);
            if found.is_some() || *step != Step::Any {
                return found;
            }
        }
        at = skip_space(json, skip(json, at)?);
        at = skip_space(json, at + usize::from(json.get(at)? == &b','));
        index += 1;
    }
    None
}

/// Where the value that begins here ends. Always behind `at`.
fn skip(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => skip_string(json, at),
        b'{' | b'[' => skip_nested(json, at),
        _ => {
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || is_space(*byte);
            let length = json[at..].iter().position(is_end).unwrap_or(json.len() - at);
            (length > 0).then_some(at + length)
        }
    }
}

fn skip_string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        match json[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

fn skip_nested(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = skip_string(json, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

fn skip_space(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_space(**byte)).count()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Writes what stands behind a backslash; what is left.
fn unescape<'j>(text: &'j [u8], out: &mut Vec<u8>) -> &'j [u8] {
    let Some((&letter, rest)) = text.split_first() else { return text };
    match letter {
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'u' => return unescape_unit(rest, out),
        other => out.push(other),
    }
    rest
}

fn unescape_unit<'j>(text: &'j [u8], out: &mut Vec<u8>) -> &'j [u8] {
    let Some(high) = unit(text) else { return text };
    let mut rest = &text[4..];
    let mut code = high;
    if (0xd800..0xdc00).contains(&high) {
        let low = rest.strip_prefix(b"\\u").and_then(unit);
        if let Some(low) = low.filter(|low| (0xdc00..0xe000).contains(low)) {
            code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            rest = &rest[6..];
        }
    }
    put_decimal(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), out);
    rest
}

fn unit(text: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(text.get(..4)?).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JSON: &str = r#" { "a" : { "b c" : [ 1, {"d": "x\u00e9\"\n"} , -2.5e3 ] },
        "list":[{"n":1},{"m":{}, "id":"seven"}], "e\"q": null, "": true } "#;

    fn plain(path: &str) -> Option<String> {
        let found = JsonPath::parse(path).expect("a path").find(JSON.as_bytes())?.to_owned();
        let mut out = Vec::new();
        put_plain(&found, &mut out);
        Some(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn values_are_found() {
        for (path, expected) in [
            ("$.a['b c'][0]", Some("1")),
            ("$.a[\"b c\"][1].d", Some("x\u{e9}\"\n")),
            ("$.a['b c'][2]", Some("-2.5e3")),
            ("$.a['b c'][3]", None),
            ("$.list[*].id", Some("seven")),
            ("$.*.*.n", Some("1")),
            ("$.*.*[0]", Some("1")),
            ("$.list[1].m", Some("{}")),
            ("$['e\"q']", Some("null")),
            ("$['']", Some("true")),
            ("$.none.at.all", None),
            ("$.list.n", None),
        ] {
            assert_eq!(plain(path).as_deref(), expected, "{path}");
        }
        assert_eq!(plain("$").map(|all| all.len()), Some(JSON.trim().len()));
    }

    #[test]
    fn what_is_no_path_says_why() {
        for text in ["", "a", "$a", "$.", "$..a", "$[", "$['a]", "$[a]", "$[-1]", "$['a'"] {
            assert!(JsonPath::parse(text).expect_err(text).contains("is no JSON path"), "{text}");
        }
        assert!(JsonPath::parse(&format!("${}", "[*]".repeat(33))).is_err());
    }

    fn tree() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\"\\\\]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Every leaf's path, and the leaf.
    fn leaves(value: &serde_json::Value, path: Vec<Step>, found: &mut Vec<(Vec<Step>, String)>) {
        let below = |step| path.iter().cloned().chain([step]).collect::<Vec<_>>();
        match value {
            serde_json::Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(at, item)| leaves(item, below(Step::Index(at)), found)),
            serde_json::Value::Object(map) => map
                .iter()
                .for_each(|(key, item)| leaves(item, below(Step::Name(escaped(key))), found)),
            serde_json::Value::String(text) => found.push((path, text.clone())),
            other => found.push((path, other.to_string())),
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_tree_holds(tree in tree()) {
            let text = serde_json::to_string_pretty(&tree).expect("JSON");
            let mut all = Vec::new();
            leaves(&tree, Vec::new(), &mut all);
            for (steps, expected) in all {
                let path = JsonPath { steps };
                let found = path.find(text.as_bytes()).expect("it is there");
                let mut out = Vec::new();
                put_plain(found, &mut out);
                prop_assert_eq!(String::from_utf8(out).expect("text"), expected);
            }
        }

        #[test]
        fn no_text_makes_it_panic(
            text in "([\\[\\]{}\":,\\\\ua1 ]|\\PC){0,40}",
            path in "\\$(\\.[a-z*]|\\[[0-3*]\\]){0,4}",
        ) {
            let path = JsonPath::parse(&path).expect("a path");
            if let Some(found) = path.find(text.as_bytes()) {
                put_plain(found, &mut Vec::new());
            }
        }
    }
}
