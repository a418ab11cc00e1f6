//! Every directive, once: its name, arguments, place, default, a line of documentation and what it
//! does. The parser, the error messages and `docs/directives.md` all read this table; a directive
//! is added by adding an entry. Setters change plain data and answer with a sentence when an
//! argument is wrong.

mod content;
mod perl;
mod server;
mod values;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::fault::{Fault, Notice, Place};
use super::policy::Policy;
use super::settings::{Alias, PerlStartup, Settings};
use super::source::Source;

/// Where a directive may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Only outside of sections.
    Server,
    /// Outside (for everything) and inside of sections.
    Both,
}

/// What a directive does.
#[derive(Debug, Clone, Copy)]
pub enum Apply {
    Set(Setter),
    /// Accepted without effect; the text says why that is all right.
    Accepted(&'static str),
    /// Known, but refused; the text says what to do.
    Unsupported(&'static str),
}

/// Changes the configuration by one directive.
pub type Setter = fn(&mut Cx, &[String]) -> Result<(), String>;

/// What a setter may change and know.
pub struct Cx<'a> {
    pub server: &'a mut Settings,
    pub perl: &'a mut PerlStartup,
    pub listen: &'a mut Vec<SocketAddr>,
    pub aliases: &'a mut Vec<Alias>,
    pub policy: &'a mut Policy,
    pub place: &'a Place,
    pub notices: &'a mut Vec<Notice>,
    pub in_section: bool,
    /// Directly inside of `<RequireAll>`.
    pub in_require_all: bool,
    pub config_dir: &'a Path,
    pub source: &'a dyn Source,
}

impl Cx<'_> {
    fn notice(&mut self, text: String) {
        self.notices.push(Notice { place: self.place.clone(), text });
    }

    /// A log, so that its folder can be looked at.
    fn note_log(&mut self, name: &'static str, file: &str) {
        let path = self.path(file);
        self.server.log_places.push((name, path, self.place.clone()));
    }

    /// A path as Apache reads it: relative to `ServerRoot`.
    fn path(&self, text: &str) -> PathBuf {
        self.server.server_root.join(text)
    }
}

/// One entry.
#[derive(Debug)]
pub struct Directive {
    pub name: &'static str,
    /// Fewest and most arguments.
    pub count: (usize, usize),
    /// The arguments in Apache's notation.
    pub usage: &'static str,
    pub context: Context,
    /// The value without it, as written in the reference page; empty when there is none.
    pub default: &'static str,
    pub doc: &'static str,
    pub apply: Apply,
}

/// Builds an entry that sets something.
const fn set(
    name: &'static str,
    count: (usize, usize),
    usage: &'static str,
    context: Context,
    default: &'static str,
    doc: &'static str,
    setter: Setter,
) -> Directive {
    Directive { name, count, usage, context, default, doc, apply: Apply::Set(setter) }
}

/// Builds an entry that is accepted and has no effect.
const fn accepted(name: &'static str, doc: &'static str, why: &'static str) -> Directive {
    let apply = Apply::Accepted(why);
    let (count, usage) = ((0, MANY), "…");
    Directive { name, count, usage, context: Context::Both, default: "", doc, apply }
}

/// Builds an entry that is refused with a reason.
const fn refused(name: &'static str, doc: &'static str, why: &'static str) -> Directive {
    let apply = Apply::Unsupported(why);
    let (count, usage) = ((0, MANY), "…");
    Directive { name, count, usage, context: Context::Both, default: "", doc, apply }
}

/// No upper bound on arguments.
const MANY: usize = usize::MAX;

impl Directive {
    /// Refuses a wrong number of arguments.
    pub fn check_count(&self, args: &[String]) -> Result<(), Fault> {
        let (low, high) = self.count;
        if (low..=high).contains(&args.len()) {
            return Ok(());
        }
        Err(Fault::ArgumentCount { name: self.name, wanted: self.wanted(), usage: self.usage })
    }

    fn wanted(&self) -> String {
        match self.count {
            (0, 0) => "no argument".to_string(),
            (1, 1) => "one argument".to_string(),
            (low, high) if low == high => format!("{low} arguments"),
            (low, MANY) => format!("at least {low} argument{}", if low == 1 { "" } else { "s" }),
            (low, high) => format!("{low} to {high} arguments"),
        }
    }
}

/// The entry of a directive; names ignore case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Directive> {
    all().find(|d| d.name.eq_ignore_ascii_case(name))
}

/// Every entry.
pub fn all() -> impl Iterator<Item = &'static Directive> {
    server::DIRECTIVES.iter().chain(content::DIRECTIVES).chain(perl::DIRECTIVES)
}

pub(super) use values::resolve_log_formats;

/// The reference page `docs/directives.md`.
#[must_use]
pub fn reference_page() -> String {
    let mut page = String::from(
        "# Directives\n\nGenerated from the catalogue in `crates/serve/src/config/catalogue`; do \
         not \
         edit by hand.\nRewrite it with `DROM_REWRITE_DOCS=1 cargo test -p drom-serve \
         directives`.\n\n\
         Besides these the language has `Define NAME [value]`, `UnDefine NAME`, `Include FILE`,\n\
         `IncludeOptional FILE` and the sections `<Directory>`, `<DirectoryMatch>`, `<Location>`,\n\
         `<LocationMatch>`, `<Files>`, `<FilesMatch>`, `<IfModule [!]NAME>`, `<IfDefine \
         [!]NAME>`,\n\
         `<RequireAll>`, `<RequireAny>` and `<RequireNone>`. A relative path starts at \
         `ServerRoot`.\n",
    );
    let groups: [(&str, &[Directive]); 3] = [
        ("The server", server::DIRECTIVES),
        ("Places and content", content::DIRECTIVES),
        ("Perl", perl::DIRECTIVES),
    ];
    for (title, directives) in groups {
        let _ = write!(
            page,
            "\n## {title}\n\n| directive | default | where | what |\n|---|---|---|---|\n"
        );
        directives.iter().for_each(|d| page.push_str(&reference_row(d)));
    }
    page
}

fn reference_row(directive: &Directive) -> String {
    let place = match directive.context {
        Context::Server => "server",
        Context::Both => "server, sections",
    };
    let default = match directive.default {
        "" => String::new(),
        value => format!("`{value}`"),
    };
    let extra = match directive.apply {
        Apply::Set(_) => String::new(),
        Apply::Accepted(note) => format!(" Accepted: {note}."),
        Apply::Unsupported(why) => format!(" **Not supported yet**: {why}."),
    };
    let usage = directive.usage.replace('|', "\\|");
    let (name, doc) = (directive.name, directive.doc);
    format!("| `{name} {usage}` | {default} | {place} | {doc}{extra} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = all().map(|d| d.name.to_ascii_lowercase()).collect();
        names.sort();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
    }

    #[test]
    fn directives_page_is_in_step() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/directives.md");
        if std::env::var_os("DROM_REWRITE_DOCS").is_some() {
            std::fs::write(path, reference_page()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == reference_page(),
            "docs/directives.md is out of step with the catalogue; rewrite it with \
             DROM_REWRITE_DOCS=1 cargo test -p drom-serve directives"
        );
    }
}
