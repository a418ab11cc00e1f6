//! Walks configuration text and builds a `Config`. Its noun is the `Parser`: a stack of open
//! sections, the configuration so far, and everything found wrong. Conditions (`<IfModule>`,
//! `<IfDefine>`), `Define` and `Include` are handled here because they steer the reading; all
//! other directives come from the catalogue.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalogue::{self, Apply, Context, Cx, Directive};
use super::fault::{ConfigError, Fault, Notice, Place};
use super::lexer::{self, Statement};
use super::policy::{HandlerName, Policy};
use super::section::{Pattern, Scope, Section};
use super::settings::PerlStartup;
use super::source::{Source, expand};
use super::spelling::nearest;
use super::{Access, Config, Options, Require};

/// Deeper nesting of `Include` is a loop (Apache's limit).
const MAX_INCLUDE_DEPTH: usize = 128;

/// Modules whose work is built in, without `mod_`, `_module` and `.c`.
const BUILT_IN: [&str; 19] = [
    "perl",
    "cgi",
    "cgid",
    "alias",
    "mime",
    "dir",
    "env",
    "log_config",
    "authz_core",
    "authz_host",
    "unixd",
    "prefork",
    "mpm_prefork",
    "core",
    "so",
    "http",
    "access_compat",
    "reqtimeout",
    "version",
];

/// Sections of Apache's that are refused with a reason rather than as unknown.
const UNSUPPORTED_SECTIONS: [(&str, &str); 9] = [
    ("VirtualHost", "one server per configuration; put its directives at the top level"),
    ("Perl", "write the directives out"),
    ("If", "use <Location>, <Files> or <Directory>"),
    ("ElseIf", "use <Location>, <Files> or <Directory>"),
    ("Else", "use <Location>, <Files> or <Directory>"),
    ("Limit", "check the method in the handler"),
    ("LimitExcept", "check the method in the handler"),
    ("Proxy", "proxying is not built in"),
    ("Macro", "write the directives out or use Define"),
];

const SECTIONS: [&str; 11] = [
    "Directory",
    "DirectoryMatch",
    "Location",
    "LocationMatch",
    "Files",
    "FilesMatch",
    "IfModule",
    "IfDefine",
    "RequireAll",
    "RequireAny",
    "RequireNone",
];

/// Reads `path` and what it includes.
pub(super) fn read(
    path: &Path,
    options: &Options,
    source: &dyn Source,
) -> Result<(Config, Vec<Notice>), Vec<ConfigError>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    // Perl code may change the current folder, and @INC has this one.
    let folder: PathBuf = Path::new(".").join(folder).components().collect();
    let server_root = std::path::absolute(&folder).unwrap_or(folder);
    let mut parser = Parser {
        source,
        lenient: options.lenient,
        config: Config::empty(&server_root),
        errors: Vec::new(),
        notices: Vec::new(),
        defines: defines(&options.defines),
        stack: Vec::new(),
        depth: 0,
        place: Place { file: Arc::new(path.to_path_buf()), line: 0 },
        config_dir: server_root,
    };
    parser.file(path);
    parser.finish(options)
}

fn defines(given: &[String]) -> HashMap<String, String> {
    let pair = |d: &String| match d.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (d.clone(), String::new()),
    };
    given.iter().map(pair).collect()
}

/// An open section.
enum Frame {
    /// A section that scopes directives; `known` is false when its opening line was wrong.
    Section { name: String, section: Section, known: bool, place: Place },
    /// `<RequireAll>` and its like; their `Require` lines collect in the scratch policy.
    Require { name: String, scratch: Policy, place: Place },
    /// A condition that holds.
    Condition { name: String, place: Place },
    /// Text to pass over; counts sections opened in it.
    Skip { name: String, depth: usize, place: Place },
}

impl Frame {
    fn name_and_place(&self) -> (&str, &Place) {
        match self {
            Frame::Section { name, place, .. }
            | Frame::Require { name, place, .. }
            | Frame::Condition { name, place }
            | Frame::Skip { name, place, .. } => (name, place),
        }
    }
}

struct Parser<'a> {
    source: &'a dyn Source,
    lenient: bool,
    config: Config,
    errors: Vec<ConfigError>,
    notices: Vec<Notice>,
    defines: HashMap<String, String>,
    stack: Vec<Frame>,
    depth: usize,
    place: Place,
    /// Where the first file is: a relative `ServerRoot` starts there.
    config_dir: PathBuf,
}

/// Some editors begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl Parser<'_> {
    fn file(&mut self, path: &Path) {
        let text = match self.source.read(path) {
            Ok(text) => text,
            Err(e) => return self.fault(Fault::Read { path: path.into(), why: e.to_string() }),
        };
        let outer = self.place.clone();
        let open_before = self.stack.len();
        self.place = Place { file: Arc::new(path.to_path_buf()), line: 0 };
        for line in lexer::lines(text.trim_start_matches(BYTE_ORDER_MARK)) {
            self.place.line = line.number;
            self.line(&line.text);
        }
        while self.stack.len() > open_before {
            if let Some(frame) = self.stack.pop() {
                let (name, place) = frame.name_and_place();
                let fault = Fault::Unclosed(name.to_string());
                self.errors.push(ConfigError { place: place.clone(), fault });
            }
        }
        self.place = outer;
    }

    fn line(&mut self, raw: &str) {
        if let Some(Frame::Skip { .. }) = self.stack.last() {
            return self.skipped(raw);
        }
        let environment = |name: &str| self.source.environment(name);
        let (text, unknown) = lexer::substitute(raw, &self.defines, &environment);
        for name in unknown {
            self.notice(format!("${{{name}}} is not defined; it is left as it is"));
        }
        match lexer::statement(&text) {
            Ok(Statement::Directive { name, args }) => self.directive(&name, &args),
            Ok(Statement::Open { name, args }) => self.open(&name, &args),
            Ok(Statement::Close { name }) => self.close(&name),
            Err(what) => self.fault(Fault::Form(format!("{what}: {text}"))),
        }
    }

    /// Counts nesting in text that is passed over.
    fn skipped(&mut self, raw: &str) {
        let Some(Frame::Skip { depth, .. }) = self.stack.last_mut() else { return };
        if raw.starts_with("</") {
            *depth -= 1;
            if *depth == 0 {
                self.stack.pop();
            }
        } else if raw.starts_with('<') {
            *depth += 1;
        }
    }

    fn directive(&mut self, name: &str, args: &[String]) {
        match name.to_ascii_lowercase().as_str() {
            "include" => self.include(args, false),
            "includeoptional" => self.include(args, true),
            "define" => self.define(args),
            "undefine" => {
                args.iter().for_each(|name| {
                    self.defines.remove(name);
                });
            }
            _ => match catalogue::find(name) {
                Some(directive) => self.known_directive(directive, args),
                None => self.unknown_directive(name),
            },
        }
    }

    fn unknown_directive(&mut self, name: &str) {
        let near = nearest(name, catalogue::all().map(|d| d.name)).map(str::to_string);
        let fault = Fault::UnknownDirective { name: name.to_string(), near };
        if self.lenient { self.notice(format!("{fault}; ignored")) } else { self.fault(fault) }
    }

    fn known_directive(&mut self, directive: &'static Directive, args: &[String]) {
        if let Err(fault) = self.check_place(directive).and_then(|()| directive.check_count(args)) {
            return self.fault(fault);
        }
        let name = directive.name.to_string();
        match directive.apply {
            Apply::Set(setter) => {
                if let Err(what) = self.set(setter, args) {
                    self.fault(Fault::Argument { name, what });
                }
            }
            Apply::Accepted(note) => self.notice(format!("{name}: {note}")),
            Apply::Unsupported(why) => {
                let fault = Fault::NotSupported { name, why: why.to_string() };
                if self.lenient {
                    self.notice(format!("{fault}; ignored"))
                } else {
                    self.fault(fault)
                }
            }
        }
        self.config.perl.wanted |= directive.name.starts_with("Perl");
    }

    fn check_place(&self, directive: &Directive) -> Result<(), Fault> {
        let Some((name, _)) = self.scope().map(Frame::name_and_place) else {
            return Ok(());
        };
        let in_require = matches!(self.scope(), Some(Frame::Require { .. }));
        let hint = match directive.context {
            Context::Server => "it belongs at the top level",
            Context::Both if in_require && directive.name != "Require" => {
                "only Require belongs there"
            }
            Context::Both => return Ok(()),
        };
        Err(Fault::NotHere { name: directive.name.into(), section: name.into(), hint })
    }

    fn in_require_all(&self) -> bool {
        matches!(self.scope(), Some(Frame::Require { name, .. }) if name == "RequireAll")
    }

    /// The innermost frame that is no mere condition.
    fn scope(&self) -> Option<&Frame> {
        self.stack.iter().rev().find(|f| !matches!(f, Frame::Condition { .. }))
    }

    /// The policy that directives here are about.
    fn policy(&mut self) -> &mut Policy {
        let base = &mut self.config.base;
        let scoped = self.stack.iter_mut().rev().find_map(|frame| match frame {
            Frame::Section { section, .. } => Some(&mut section.policy),
            Frame::Require { scratch, .. } => Some(scratch),
            _ => None,
        });
        scoped.unwrap_or(base)
    }

    fn set(&mut self, setter: catalogue::Setter, args: &[String]) -> Result<(), String> {
        let in_require_all = self.in_require_all();
        let mut policy = std::mem::take(self.policy());
        let result = setter(
            &mut Cx {
                server: &mut self.config.server,
                perl: &mut self.config.perl,
                listen: &mut self.config.listen,
                aliases: &mut self.config.aliases,
                policy: &mut policy,
                place: &self.place,
                notices: &mut self.notices,
                in_require_all,
                in_section: self.stack.iter().any(|f| matches!(f, Frame::Section { .. })),
                config_dir: &self.config_dir,
                source: self.source,
            },
            args,
        );
        *self.policy() = policy;
        result
    }

    fn include(&mut self, args: &[String], optional: bool) {
        let [pattern] = args else {
            let name = if optional { "IncludeOptional" } else { "Include" };
            let wanted = "one argument".to_string();
            return self.fault(Fault::ArgumentCount { name, wanted, usage: "file" });
        };
        if self.depth >= MAX_INCLUDE_DEPTH {
            return self.fault(Fault::IncludeDepth(MAX_INCLUDE_DEPTH));
        }
        let files = expand(self.source, &self.config.server.server_root.join(pattern));
        if files.is_empty() && !optional {
            return self.fault(Fault::NothingIncluded(pattern.clone()));
        }
        self.depth += 1;
        for file in files {
            if !optional || self.source.read(&file).is_ok() {
                self.file(&file);
            }
        }
        self.depth -= 1;
    }

    fn define(&mut self, args: &[String]) {
        if args.is_empty() || args.len() > 2 {
            let wanted = "one or two arguments".to_string();
            return self.fault(Fault::ArgumentCount {
                name: "Define",
                wanted,
                usage: "name [value]",
            });
        }
        let value = args.get(1).cloned().unwrap_or_default();
        self.defines.insert(args[0].clone(), value);
    }

    fn open(&mut self, name: &str, args: &[String]) {
        let place = self.place.clone();
        let Some(known) = SECTIONS.iter().find(|s| s.eq_ignore_ascii_case(name)) else {
            self.unsupported_section(name);
            return self.stack.push(Frame::Skip { name: name.into(), depth: 1, place });
        };
        let name = (*known).to_string();
        let frame = match *known {
            "IfModule" | "IfDefine" => match self.condition(known, args) {
                true => Frame::Condition { name, place },
                false => Frame::Skip { name, depth: 1, place },
            },
            "RequireAll" | "RequireAny" | "RequireNone" => {
                Frame::Require { name, scratch: Policy::default(), place }
            }
            _ => self.section(known, args),
        };
        self.stack.push(frame);
    }

    fn unsupported_section(&mut self, name: &str) {
        let known = UNSUPPORTED_SECTIONS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        let fault = match known {
            Some((n, why)) => {
                Fault::NotSupported { name: format!("<{n}>"), why: (*why).to_string() }
            }
            None => Fault::UnknownSection {
                name: name.to_string(),
                near: nearest(name, SECTIONS).map(str::to_string),
            },
        };
        if self.lenient { self.notice(format!("{fault}; ignored")) } else { self.fault(fault) }
    }

    fn condition(&mut self, name: &str, args: &[String]) -> bool {
        let [test] = args else {
            self.fault(Fault::Form(format!("<{name}> takes one argument: <{name} [!]name>")));
            return false;
        };
        let (negated, word) = test.strip_prefix('!').map_or((false, test.as_str()), |w| (true, w));
        let holds = match name {
            "IfModule" => is_built_in(word),
            _ => self.defines.contains_key(word),
        };
        holds != negated
    }

    /// Opens a scoping section; when the line is wrong its content is still checked, then dropped.
    fn section(&mut self, name: &str, args: &[String]) -> Frame {
        let scope = match name {
            "Directory" | "DirectoryMatch" => Scope::Directory,
            "Location" | "LocationMatch" => Scope::Location,
            _ => Scope::Files,
        };
        let pattern =
            self.check_nesting(name, scope).and_then(|()| self.pattern(name, scope, args));
        let known = pattern.is_ok();
        let pattern = pattern.unwrap_or_else(|fault| {
            self.fault(fault);
            Pattern::Literal(String::new())
        });
        let section = Section { scope, pattern, policy: Policy::default() };
        Frame::Section { name: name.to_string(), section, known, place: self.place.clone() }
    }

    fn check_nesting(&self, name: &str, scope: Scope) -> Result<(), Fault> {
        match self.scope() {
            None => Ok(()),
            Some(Frame::Section { section, .. })
                if scope == Scope::Files && section.scope == Scope::Directory =>
            {
                Ok(())
            }
            Some(frame) => Err(Fault::NotHere {
                name: format!("<{name}>"),
                section: frame.name_and_place().0.to_string(),
                hint: "only <Files> nests, and only in <Directory>",
            }),
        }
    }

    fn pattern(&self, name: &str, scope: Scope, args: &[String]) -> Result<Pattern, Fault> {
        let argument = |what: String| Fault::Argument { name: format!("<{name}>"), what };
        match args {
            [text] if name.ends_with("Match") => Pattern::regex(text).map_err(argument),
            [tilde, text] if tilde == "~" => Pattern::regex(text).map_err(argument),
            [text] if scope == Scope::Directory => Ok(Pattern::plain(self.directory(text))),
            [text] => Ok(Pattern::plain(text.clone())),
            _ => Err(argument("one pattern is wanted (quote it when it has blanks)".to_string())),
        }
    }

    /// The absolute form of a `<Directory>`, without a last slash.
    fn directory(&self, text: &str) -> String {
        let path = self.config.server.server_root.join(text);
        let clean: PathBuf = path.components().collect();
        clean.to_string_lossy().into_owned()
    }

    fn close(&mut self, name: &str) {
        let open = self.stack.last().map(|f| f.name_and_place().0.to_string());
        if !open.as_ref().is_some_and(|o| o.eq_ignore_ascii_case(name)) {
            return self.fault(Fault::Unopened { found: name.to_string(), open });
        }
        match self.stack.pop() {
            Some(Frame::Section { section, known: true, .. }) => self.keep_section(section),
            Some(Frame::Require { name, scratch, .. }) => self.keep_require(&name, scratch),
            _ => {}
        }
    }

    fn keep_section(&mut self, section: Section) {
        let nested = self.stack.iter().any(|f| matches!(f, Frame::Section { .. }));
        match nested {
            true => self.policy().files.push(Arc::new(section)),
            false => self.config.sections.push(section),
        }
    }

    fn keep_require(&mut self, name: &str, scratch: Policy) {
        let inner = scratch.access.map(|a| a.require).unwrap_or_default();
        let negative = |node: &Require| matches!(node, Require::Not(_));
        let what = if inner.is_empty() {
            "contains no Require"
        } else if name == "RequireAll" && inner.iter().all(negative) {
            "contains only what refuses, so that nobody may come"
        } else if name == "RequireNone" && !self.in_require_all() {
            "has no effect outside of <RequireAll>"
        } else {
            ""
        };
        if !what.is_empty() {
            let name = format!("<{name}>");
            return self.fault(Fault::Argument { name, what: what.to_string() });
        }
        let node = match name {
            "RequireAll" => Require::All(inner),
            "RequireAny" => Require::Any(inner),
            _ => Require::Not(Box::new(Require::Any(inner))),
        };
        self.policy().access.get_or_insert_with(Access::default).require.push(node);
    }

    fn fault(&mut self, fault: Fault) {
        self.errors.push(ConfigError { place: self.place.clone(), fault });
    }

    fn notice(&mut self, text: String) {
        self.notices.push(Notice { place: self.place.clone(), text });
    }

    fn finish(mut self, options: &Options) -> Result<(Config, Vec<Notice>), Vec<ConfigError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        for name in catalogue::resolve_log_formats(&mut self.config.server) {
            self.notice(format!(
                "CustomLog: no LogFormat is named \"{name}\"; it is written as text"
            ));
        }
        let handlers = handlers_named(&self.config);
        self.config.perl = PerlStartup { handlers, ..self.config.perl };
        self.config.server.cgi_wanted = wants_cgi(&self.config);
        Ok((self.config.finish(options), self.notices))
    }
}

fn wants_cgi(config: &Config) -> bool {
    let is_cgi = |handler: &Option<HandlerName>| *handler == Some(HandlerName::CgiScript);
    let names = |p: &Policy| is_cgi(&p.set_handler) || p.add_handler.values().any(is_cgi);
    config.aliases.iter().any(|alias| alias.script) || config.policies().any(names)
}

fn handlers_named(config: &Config) -> HashSet<String> {
    let handlers =
        config.policies().filter_map(|p| p.perl_handlers.as_ref()).flat_map(|h| h.iter());
    handlers.map(|handler| handler.name().to_owned()).collect()
}

/// `mod_perl.c`, `perl_module` and `perl` all mean one module.
pub(super) fn is_built_in(word: &str) -> bool {
    let word = word.strip_suffix(".c").unwrap_or(word);
    let word = word.strip_suffix("_module").unwrap_or(word);
    let word = word.strip_prefix("mod_").unwrap_or(word);
    BUILT_IN.contains(&word)
}
