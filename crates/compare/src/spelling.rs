//! The nearest right spelling of a mistyped key of a plan. Pure.

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
}
