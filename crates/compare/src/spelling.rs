//! Mistakes of a plan in its own words: the nearest right spelling of a mistyped key, and what the
//! reader of TOML says without the names that Rust has for things. Pure.

/// The candidate that is nearest to `word`, when it is near at all.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let most = (word.chars().count() / 3).max(1);
    let with_distance =
        candidates.into_iter().map(|candidate| (strsim::osa_distance(word, candidate), candidate));
    let near = with_distance.filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// `; did you mean ...?`, or nothing.
pub fn hint<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// The same for a message of the reader of TOML, which quotes the wrong word and then the right
/// ones.
pub fn hint_in(message: &str) -> String {
    let Some(at) = message.find("unknown field `").or_else(|| message.find("unknown variant `"))
    else {
        return String::new();
    };
    let mut quoted = message[at..].split('`').skip(1).step_by(2);
    let wrong = quoted.next().unwrap_or_default();
    hint(wrong, quoted)
}

/// The one kind of value that can be written in two ways.
const ONE_OR_MANY: &str = "a text or a list of texts is wanted";

/// What the reader says, in the words of a plan, with the hint.
pub fn plain(message: &str) -> String {
    let hint = hint_in(message);
    let told = unknown(message).or_else(|| wrong_kind(message)).or_else(|| {
        let missing = message.strip_prefix("missing field ")?;
        Some(format!("{missing} is missing"))
    });
    let untagged = message.contains("untagged enum").then_some(ONE_OR_MANY);
    let told = told.or(untagged.map(str::to_owned)).unwrap_or_else(|| message.to_owned());
    told + &hint
}

/// A key or a word that there is not.
fn unknown(message: &str) -> Option<String> {
    for (begin, what) in [("unknown field ", "unknown key "), ("unknown variant ", "")] {
        let Some(rest) = message.strip_prefix(begin) else { continue };
        let (wrong, right) = rest.split_once(", expected ")?;
        let right = right.trim_start_matches("one of ");
        return Some(match what {
            "" => format!("{wrong} is not possible here; possible are {right}"),
            _ => format!("{what}{wrong}; known are {right}"),
        });
    }
    None
}

/// A value of another kind than the one that is wanted.
fn wrong_kind(message: &str) -> Option<String> {
    let found = ["invalid type: ", "invalid value: "];
    let rest = found.iter().find_map(|begin| message.strip_prefix(begin))?;
    let (got, wanted) = rest.rsplit_once(", expected ")?;
    Some(format!("{} is wanted, not {}", wanted_words(wanted), got_words(got)))
}

fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "a map" => "a table",
        "a sequence" => "a list",
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "usize" | "u64" | "u32" | "u16" => "a whole number of 0 or more",
        "i64" | "i32" => "a whole number",
        "f64" => "a number",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

fn got_words(got: &str) -> String {
    let got = got.trim_end_matches(" as i128").trim_end_matches(" as u128");
    match got {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        other => {
            let kinds = ["string ", "integer ", "floating point ", "boolean "];
            let value = kinds.iter().find_map(|kind| other.strip_prefix(kind));
            value.unwrap_or(other).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_and_the_far_is_not() {
        let keys = ["name", "budget", "blocks", "url"];
        assert_eq!(nearest("bugdet", keys), Some("budget"));
        assert_eq!(nearest("uri", keys), Some("url"));
        assert_eq!(nearest("colour", keys), None);
        let message = "line 3\nunknown field `bloks`, expected one of `name`, `blocks`";
        assert_eq!(hint_in(message), "; did you mean `blocks`?");
        assert_eq!(hint_in("missing field `url`"), "");
    }

    #[test]
    fn what_the_reader_says_is_said_in_words_of_the_plan() {
        let cases = [
            (
                "unknown variant `duet`, expected `interleave` or `fresh`",
                "`duet` is not possible here; possible are `interleave` or `fresh`",
            ),
            ("invalid type: string \"x\", expected a map", "a table is wanted, not \"x\""),
            (
                "invalid value: integer `-1`, expected u32",
                "a whole number of 0 or more is wanted, not `-1`",
            ),
            (
                "invalid type: integer `9` as i128, expected usize",
                "a whole number of 0 or more is wanted, not `9`",
            ),
            ("missing field `name`", "`name` is missing"),
            (
                "data did not match any variant of untagged enum OneOrMany",
                "a text or a list of texts is wanted",
            ),
            (
                "unknown field `slize`, expected one of `slice`, `body`",
                "unknown key `slize`; known are `slice`, `body`; did you mean `slice`?",
            ),
        ];
        cases.iter().for_each(|(said, told)| assert_eq!(plain(said), *told));
    }
}
