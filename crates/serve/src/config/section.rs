//! Sections: `<Directory>`, `<Location>`, `<Files>` and their `Match` forms. Its noun is
//! `Section`: a pattern and the policy inside. Decides whether one path, URI or file name is
//! meant; which ones to ask about, and in which order, is `map`'s business.

use regex::bytes::Regex;

use super::fnmatch::{fnmatch, has_wildcards};
use super::policy::Policy;

/// What a section's pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A directory of the file system.
    Directory,
    /// The path of the URI.
    Location,
    /// The last component of a file name.
    Files,
}

/// How it is compared.
#[derive(Debug, Clone)]
pub enum Pattern {
    Literal(String),
    Wildcard(String),
    Regex(Regex),
}

impl Pattern {
    /// A literal or, when it has `*`, `?` or `[`, a wildcard pattern.
    #[must_use]
    pub fn plain(text: String) -> Pattern {
        if has_wildcards(&text) { Pattern::Wildcard(text) } else { Pattern::Literal(text) }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Pattern::Literal(text) | Pattern::Wildcard(text) => text,
            Pattern::Regex(regex) => regex.as_str(),
        }
    }

    /// A regular expression; the error is for the user.
    pub fn regex(text: &str) -> Result<Pattern, String> {
        Regex::new(text).map(Pattern::Regex).map_err(|e| bad_regex(text, &e))
    }
}

/// Says what is wrong with a regular expression, and what this engine lacks against Apache's.
pub(crate) fn bad_regex(text: &str, error: &regex::Error) -> String {
    let detail = error.to_string();
    let last = detail.lines().last().unwrap_or("").trim_start_matches("error: ");
    format!("the regular expression \"{text}\" cannot be used: {last}")
}

/// One section of the configuration.
#[derive(Debug, Clone)]
pub struct Section {
    pub scope: Scope,
    pub pattern: Pattern,
    pub policy: Policy,
}

impl Section {
    /// Whether a `<Directory>` section means exactly this directory (`dir` without a last slash,
    /// except for `/`). Directories below it are asked about one by one.
    #[must_use]
    pub fn is_directory(&self, dir: &[u8]) -> bool {
        match &self.pattern {
            Pattern::Literal(text) => text.as_bytes() == dir,
            Pattern::Wildcard(text) => fnmatch(text.as_bytes(), dir, true),
            Pattern::Regex(_) => false,
        }
    }

    /// Whether a `<DirectoryMatch>` section is meant. Apache compares the whole file name, not the
    /// directory (seen on 2.4.71: `/dir$` and `/dir/$` do not match files in `/dir`, `x$` does).
    #[must_use]
    pub fn regex_matches_filename(&self, filename: &[u8]) -> bool {
        matches!(&self.pattern, Pattern::Regex(re) if re.is_match(filename))
    }

    /// Whether a `<Location>` section means this URI path: equal, or a prefix that ends at a slash.
    #[must_use]
    pub fn is_location(&self, uri: &[u8]) -> bool {
        match &self.pattern {
            Pattern::Literal(text) => {
                let prefix = text.as_bytes();
                uri.starts_with(prefix)
                    && (prefix.last().is_none_or(|&c| c == b'/')
                        || matches!(uri.get(prefix.len()), None | Some(b'/')))
            }
            Pattern::Wildcard(text) => fnmatch(text.as_bytes(), uri, true),
            Pattern::Regex(re) => re.is_match(uri),
        }
    }

    /// Whether a `<Files>` section means this last component of a file name.
    #[must_use]
    pub fn is_file(&self, name: &[u8]) -> bool {
        match &self.pattern {
            Pattern::Literal(text) => text.as_bytes() == name,
            Pattern::Wildcard(text) => fnmatch(text.as_bytes(), name, false),
            Pattern::Regex(re) => re.is_match(name),
        }
    }

    /// Whether the pattern is a regular expression: these merge after the plain ones.
    #[must_use]
    pub fn is_regex(&self) -> bool {
        matches!(self.pattern, Pattern::Regex(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(scope: Scope, pattern: Pattern) -> Section {
        Section { scope, pattern, policy: Policy::default() }
    }

    #[test]
    fn location_prefixes_end_at_slashes() {
        let foo = section(Scope::Location, Pattern::plain("/foo".into()));
        for (uri, expected) in
            [("/foo", true), ("/foo/bar", true), ("/foobar", false), ("/", false)]
        {
            assert_eq!(foo.is_location(uri.as_bytes()), expected, "{uri}");
        }
        let dir = section(Scope::Location, Pattern::plain("/foo/".into()));
        assert!(dir.is_location(b"/foo/x") && !dir.is_location(b"/foo"));
        let any = section(Scope::Location, Pattern::plain("/a/*/c".into()));
        assert!(any.is_location(b"/a/b/c") && !any.is_location(b"/a/b/b/c"));
    }

    #[test]
    fn files_match_the_last_component() {
        let ht = section(Scope::Files, Pattern::regex(r"^\.ht").unwrap());
        assert!(ht.is_file(b".htaccess") && !ht.is_file(b"x.html"));
        let glob = section(Scope::Files, Pattern::plain("*.pl".into()));
        assert!(glob.is_file(b"a.pl") && !glob.is_file(b"a.plx"));
    }

    #[test]
    fn a_bad_regex_is_explained() {
        let error = Pattern::regex("a(?=b)").unwrap_err();
        assert!(error.contains("a(?=b)") && error.contains("look-around"), "{error}");
    }
}
