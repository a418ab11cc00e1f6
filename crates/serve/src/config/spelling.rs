//! The nearest right spelling of a mistyped name, for error messages: by edit distance in Damerau's
//! restricted form (insert, delete, replace, swap of neighbours). Names compare without case.

/// The candidate nearest to `word`, when it is near enough to be worth proposing: at most a third
/// of its letters wrong, and at least one letter right.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::osa_distance(&word, &c.to_ascii_lowercase()), c))
        .filter(|(d, c)| *d <= (c.len().max(word.len()) / 3).max(1) && *d < c.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposes_the_nearest_or_nothing() {
        let names = ["DocumentRoot", "DirectoryIndex", "Listen"];
        assert_eq!(nearest("DocumentRot", names), Some("DocumentRoot"));
        assert_eq!(nearest("lisent", names), Some("Listen"));
        assert_eq!(nearest("RewriteEngine", names), None);
    }
}
