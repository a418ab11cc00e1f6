//! The nearest right spelling of a mistyped name, for error messages. Its noun is the edit
//! distance (Damerau's restricted form: insert, delete, replace, swap of neighbours). Names
//! compare without case.

/// The candidate nearest to `word`, when it is near enough to be worth proposing: at most a third
/// of its letters wrong, and at least one letter right.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|c| (distance(word.as_bytes(), c.to_ascii_lowercase().as_bytes()), c))
        .filter(|(d, c)| *d <= (c.len().max(word.len()) / 3).max(1) && *d < c.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let replace = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before_last[j - 1] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_known_pairs() {
        for (a, b, d) in
            [("", "abc", 3), ("kitten", "sitting", 3), ("abcd", "abdc", 1), ("x", "x", 0)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), d, "{a} {b}");
        }
    }

    #[test]
    fn proposes_the_nearest_or_nothing() {
        let names = ["DocumentRoot", "DirectoryIndex", "Listen"];
        assert_eq!(nearest("DocumentRot", names), Some("DocumentRoot"));
        assert_eq!(nearest("lisent", names), Some("Listen"));
        assert_eq!(nearest("RewriteEngine", names), None);
    }
}
