//! Where in a plan something stands: a path of keys and numbers -> its line. Pure.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// The line (from 1) of what `place` names in `source`, or of the last thing on the way to it that
/// is there: a key that is missing is a mistake of its table.
pub fn line(source: &str, place: &[String]) -> Option<usize> {
    let document = DeTable::parse(source).ok()?;
    let (first, rest) = place.split_first()?;
    let (key, value) = document.get_ref().iter().find(|(key, _)| key.get_ref() == first)?;
    let mut found: Range<usize> = key.span();
    let mut value = value;
    for step in rest {
        let next = match value.get_ref() {
            DeValue::Table(table) => {
                let named = table.iter().find(|(key, _)| key.get_ref() == step);
                named.map(|(key, value)| (key.span(), value))
            }
            DeValue::Array(array) => {
                let at = step.parse::<usize>().ok().and_then(|at| array.get(at));
                at.map(|item| (item.span(), item))
            }
            _ => None,
        };
        let Some((span, below)) = next else { break };
        (found, value) = (span, below);
    }
    Some(line_of(source, found.start))
}

/// The line that holds this byte.
pub fn line_of(source: &str, at: usize) -> usize {
    1 + source.as_bytes()[..at.min(source.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = 'race'\n\n[load]\nslice = '1s'\n[[variant]]\nname = 'a'\n\
        [[variant]]\n# name = 'c'\nname    = 'b'\nready = { url = '/' }\n";

    #[test]
    fn keys_and_numbers_lead_to_a_line() {
        let cases: [(&[&str], usize); 7] = [
            (&["name"], 1),
            (&["load"], 3),
            (&["load", "slice"], 4),
            (&["variant", "0", "name"], 6),
            (&["variant", "1", "name"], 9),
            (&["variant", "1", "ready", "url"], 10),
            (&["load", "threads"], 3),
        ];
        for (place, expected) in cases {
            let place: Vec<String> = place.iter().map(|step| (*step).to_owned()).collect();
            assert_eq!(line(PLAN, &place), Some(expected), "{place:?}");
        }
        assert_eq!(line(PLAN, &["variant".into(), "1".into(), "url".into()]), Some(7));
        assert_eq!((line(PLAN, &["axes".into()]), line("no = [", &["no".into()])), (None, None));
    }
}
