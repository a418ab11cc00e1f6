//! Which exchanges a recording keeps. Pure.

#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Media types of answers that are left out, in lower case: `text/css`, `image/*`.
    pub skip_types: Vec<String>,
    /// What paths begin with; none: all are kept.
    pub only: Vec<String>,
}

impl Filter {
    /// Whether an exchange with this path and this `Content-Type` of its answer is kept.
    #[must_use]
    pub fn keeps(&self, path: &str, content_type: &str) -> bool {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_path = |only: &String| path.starts_with(&**only);
        (self.only.is_empty() || self.only.iter().any(is_path))
            && !self.skip_types.iter().any(|skip| is_kind(&kind, skip))
    }
}

fn is_kind(kind: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(front) => !kind.is_empty() && kind.starts_with(front),
        None => kind == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_paths_are_left_out() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let filter = Filter { skip_types: words(&["image/*", "text/css"]), only: Vec::new() };
        assert!(filter.keeps("/a", "text/html"));
        assert!(filter.keeps("/a", ""));
        assert!(!filter.keeps("/a", "Image/PNG"));
        assert!(!filter.keeps("/a", "text/css; charset=utf-8"));
        let filter = Filter { only: words(&["/app/", "/api"]), ..Filter::default() };
        assert!(filter.keeps("/app/x", "") && filter.keeps("/api?x", ""));
        assert!(!filter.keeps("/", "") && !filter.keeps("/app", ""));
    }
}
