//! A path of a request → what answers it: `Mapper` knows the configuration, `Mapped` is the
//! answer: policy, handler, and the file, looked up on the disk only when something depends on it.
//! A handler that a `<Location>` names needs one system call a second, for whether its place is a
//! folder; a file needs one `stat`. Answers per path are kept (bounded). Whether the client may see
//! the place is asked of the policy, before the handler is looked at.

pub mod files;
mod rules;
pub mod uri;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{
    AcceptPathInfo, Alias, AliasSource, Config, HandlerName, PerlHandler, Policy, Scope, option,
};
use crate::files::{MediaType, MediaTypes};
use files::{Absent, FileKind, Files, Stat};
use rules::{FileName, Key, Rules};

/// Paths remembered; when there are more, all are forgotten and learnt again.
const CACHE_ENTRIES: usize = 4096;
/// Longer paths are not remembered: they are hardly ever asked for twice.
const CACHE_PATH_BYTES: usize = 512;
/// Deeper paths are looked up on the disk rather than proven independent of it.
const LAZY_DEPTH: usize = 12;
/// A place without a folder is not looked at again for so long.
const NO_FOLDER_NS: u64 = 1_000_000_000;

// Apache's words for what is refused.
const NO_SEARCH: &str = "search permissions are missing on a component of the path";
const NO_LINK: &str = "Symbolic link not allowed or link target not accessible";
const DIRECTORY: &str = "attempt to invoke directory as script";
const NO_EXEC_CGI: &str = "Options ExecCGI is off in this directory";
const NO_SCRIPT: &str = "script not found or unable to stat";
const NO_PATH_INFO: &str = "AcceptPathInfo off disallows user's path";

/// What answers a request.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerKind {
    /// The file as it is.
    Static,
    CgiScript,
    PerlScript {
        handlers: Arc<[PerlHandler]>,
    },
    ModPerl {
        handlers: Arc<[PerlHandler]>,
    },
    /// An error status, 403 or 404, and why, for the error log.
    Refuse(u16, &'static str),
    /// A file that is missing, or a directory: the status for those who want to read it.
    NoFile(u16),
    /// A directory asked for without its slash: 301 to this path (decoded; the query is to be
    /// kept).
    Redirect(Vec<u8>),
}

/// The file behind a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub filename: PathBuf,
    /// What of the path goes beyond the file.
    pub path_info: Vec<u8>,
    /// `None`: no such file.
    pub finfo: Option<Stat>,
}

/// The answer to one path.
#[derive(Debug, Clone)]
pub struct Mapped {
    pub policy: Arc<Policy>,
    pub handler: HandlerKind,
    /// The whole directory is scripts by `ScriptAlias`.
    pub is_script_alias: bool,
    /// The path after `DirectoryIndex` chose a file; `None` when it is the one asked for.
    pub index_path: Option<Vec<u8>>,
    place: Arc<Place>,
    target: OnceCell<Target>,
    media: OnceCell<Option<MediaType>>,
}

impl Mapped {
    /// The file, looked up now if it was not before.
    pub fn target(&self, files: &dyn Files) -> &Target {
        self.target.get_or_init(|| self.place.walk(files).target)
    }

    /// What the name of the file says of it, whether the file is there or not. A path without a
    /// dot says nothing, and nobody has to look where in it the file would end.
    pub fn media(&self, types: &MediaTypes, files: &dyn Files) -> Option<&MediaType> {
        let forced = self.policy.force_type.as_ref().is_some_and(Option::is_some);
        let below = self.place.name.get(self.place.base..).unwrap_or_default();
        if !forced && memchr::memchr(b'.', below).is_none() && self.target.get().is_none() {
            return None;
        }
        self.media.get_or_init(|| self.look_up_media(types, files)).as_ref()
    }

    fn look_up_media(&self, types: &MediaTypes, files: &dyn Files) -> Option<MediaType> {
        let target = self.target(files);
        if target.finfo.is_some_and(|stat| stat.kind == FileKind::Directory) {
            return None;
        }
        let name = target.filename.file_name()?.as_bytes();
        Some(types.named(name, &self.policy))
    }

    /// The `Alias` that led here: its prefix and its folder, as they are configured.
    #[must_use]
    pub fn context(&self) -> Option<(&[u8], &[u8])> {
        self.place.context.as_ref().map(|(prefix, folder)| (&prefix[..], &folder[..]))
    }

    /// `SCRIPT_NAME`: the path without the path info.
    #[must_use]
    pub fn script_name<'a>(&'a self, path: &'a [u8], files: &dyn Files) -> &'a [u8] {
        let path = self.index_path.as_deref().unwrap_or(path);
        let info = &self.target(files).path_info;
        if path.ends_with(info) { &path[..path.len() - info.len()] } else { path }
    }
}

/// Where a path leads before the disk is asked.
#[derive(Debug)]
struct Place {
    /// The translated file name, not yet split from its path info.
    name: Vec<u8>,
    /// How much of it the configuration gave: a directory that is taken to exist.
    base: usize,
    script: bool,
    context: Option<(Vec<u8>, Vec<u8>)>,
    /// What holds wherever on the disk the path ends.
    settled: Option<(Arc<Policy>, HandlerKind)>,
    /// What holds when the name as a whole is a file.
    as_file: OnceCellSync,
    /// The last look found nothing by the name of the first component: a place that only a
    /// `<Location>` makes. One look says so again, where a walk takes two.
    is_virtual: AtomicBool,
    /// When the whole name was seen to be no folder; 0: never. For `settled`.
    no_folder_ns: AtomicU64,
}

type OnceCellSync = std::sync::OnceLock<(Arc<Policy>, Option<HandlerName>)>;

struct Walked {
    target: Target,
    forbidden: bool,
}

impl Place {
    fn new(name: Vec<u8>, base: usize) -> Self {
        Self {
            name,
            base,
            script: false,
            context: None,
            settled: None,
            as_file: OnceCellSync::new(),
            is_virtual: AtomicBool::new(false),
            no_folder_ns: AtomicU64::new(0),
        }
    }

    /// Finds file and path info: the first component that is no directory is the file.
    fn walk(&self, files: &dyn Files) -> Walked {
        if self.is_virtual.load(Relaxed) {
            let first = self.component_ends().next().unwrap_or(self.name.len());
            if matches!(files.stat(path(&self.name[..first])), Err(Absent::Missing)) {
                return self.walked(first, None);
            }
            self.is_virtual.store(false, Relaxed);
        }
        let end = self.name.len() - usize::from(self.name.len() > 1 && self.name.ends_with(b"/"));
        match files.stat(path(&self.name[..end])) {
            Ok(stat) if stat.kind == FileKind::Directory => {
                self.walked(self.name.len(), Some(stat))
            }
            Ok(stat) => self.walked(end, Some(stat)),
            Err(Absent::Forbidden) => Walked { forbidden: true, ..self.walked(end, None) },
            // The only component below the base: it was just asked for.
            Err(Absent::Missing) if self.component_ends().nth(1).is_none() => {
                self.walked(end, None)
            }
            Err(Absent::Missing) => self.walk_down(files),
        }
    }

    /// From the configured directory downwards: a long path under a missing one costs one call.
    fn walk_down(&self, files: &dyn Files) -> Walked {
        for (depth, end) in self.component_ends().enumerate() {
            match files.stat(path(&self.name[..end])) {
                Ok(stat) if stat.kind == FileKind::Directory => {}
                Ok(stat) => return self.walked(end, Some(stat)),
                Err(Absent::Missing) => {
                    self.is_virtual.store(depth == 0, Relaxed);
                    return self.walked(end, None);
                }
                Err(Absent::Forbidden) => {
                    return Walked { forbidden: true, ..self.walked(end, None) };
                }
            }
        }
        self.walked(self.name.len(), None)
    }

    /// A folder has its slash and its index files, whoever answers for what is in it.
    fn is_folder(&self, files: &dyn Files) -> bool {
        let now_ns = files.now_ns();
        let seen_ns = self.no_folder_ns.load(Relaxed);
        if seen_ns != 0 && now_ns < seen_ns + NO_FOLDER_NS {
            return false;
        }
        let stat = files.stat(path(&self.name));
        let is_folder = stat.is_ok_and(|s| s.kind == FileKind::Directory);
        self.no_folder_ns.store(if is_folder { 0 } else { now_ns }, Relaxed);
        is_folder
    }

    fn walked(&self, end: usize, finfo: Option<Stat>) -> Walked {
        let target = Target {
            filename: path(&self.name[..end]).to_path_buf(),
            path_info: self.name[end..].to_vec(),
            finfo,
        };
        Walked { target, forbidden: false }
    }

    /// Where each component below the base ends.
    fn component_ends(&self) -> impl Iterator<Item = usize> {
        let inner = memchr::memchr_iter(b'/', &self.name).filter(|&at| at > self.base);
        let whole = (!self.name.ends_with(b"/")).then_some(self.name.len());
        inner.chain(whole)
    }
}

/// Directory (without its last slash) and last component of a file name.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    match memchr::memrchr(b'/', name) {
        Some(0) | None => (b"/", name.strip_prefix(b"/").unwrap_or(name)),
        Some(at) => (&name[..at], &name[at + 1..]),
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Answers paths from one configuration.
pub struct Mapper {
    config: Arc<Config>,
    rules: Rules,
    /// Some section takes `FollowSymLinks` away: links must be looked at.
    checks_links: bool,
    places: Mutex<HashMap<Box<[u8]>, Arc<Place>>>,
}

impl Mapper {
    #[must_use]
    pub fn new(config: Arc<Config>) -> Mapper {
        let checks_links = restricts_links(&config);
        let rules = Rules::new(&config);
        Mapper { config, rules, checks_links, places: Mutex::default() }
    }

    /// The configuration it answers from.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The path of the innermost `<Location>` that covers a path.
    #[must_use]
    pub fn location(&self, uri: &[u8]) -> Option<String> {
        let sections = self.config.sections.iter().rev();
        let mut inside = sections.filter(|s| s.scope == Scope::Location && s.is_location(uri));
        inside.next().map(|s| s.pattern.text().to_owned())
    }

    /// What answers a normalised path (see `uri::normalise`).
    pub fn map(&self, uri: &[u8], files: &dyn Files) -> Mapped {
        self.map_at(uri, files, true)
    }

    fn map_at(&self, uri: &[u8], files: &dyn Files, index: bool) -> Mapped {
        let place = self.place(uri);
        if let Some((policy, handler)) = &place.settled
            && !place.is_folder(files)
        {
            let (policy, handler) = (Arc::clone(policy), handler.clone());
            return self.mapped(place, policy, handler, OnceCell::new());
        }
        let walked = place.walk(files);
        let (policy, name) = self.policy_of(&place, &walked, uri);
        let linked = self.checks_links && !self.links_allowed(&place, &walked.target, files);
        let handler = match (walked.forbidden, linked) {
            (true, _) => HandlerKind::Refuse(403, NO_SEARCH),
            (_, true) => HandlerKind::Refuse(403, NO_LINK),
            _ => kind(name, &policy),
        };
        let is_directory = walked.target.finfo.is_some_and(|s| s.kind == FileKind::Directory);
        if is_directory && !matches!(handler, HandlerKind::Refuse(..)) {
            return self.directory(uri, files, index, (place, policy, handler, walked.target));
        }
        let handler = judge(handler, &policy, &walked.target, place.script);
        self.mapped(place, policy, handler, OnceCell::from(walked.target))
    }

    fn mapped(
        &self,
        place: Arc<Place>,
        policy: Arc<Policy>,
        handler: HandlerKind,
        target: OnceCell<Target>,
    ) -> Mapped {
        let is_script_alias = place.script;
        let media = OnceCell::new();
        Mapped { policy, handler, is_script_alias, index_path: None, place, target, media }
    }

    /// mod_dir: the slash, then the index files, then what the handler makes of a directory.
    fn directory(
        &self,
        uri: &[u8],
        files: &dyn Files,
        index: bool,
        (place, policy, handler, target): (Arc<Place>, Arc<Policy>, HandlerKind, Target),
    ) -> Mapped {
        if !uri.ends_with(b"/") && policy.directory_slash != Some(false) {
            let handler = HandlerKind::Redirect([uri, b"/"].concat());
            return self.mapped(place, policy, handler, OnceCell::from(target));
        }
        if index && uri.ends_with(b"/") {
            for name in policy.directory_indexes() {
                let base = if name.starts_with('/') { &[] } else { uri };
                let inner = [base, name.as_bytes()].concat();
                let found = self.map_at(&inner, files, false);
                if found.target(files).finfo.is_some_and(|s| s.kind == FileKind::File) {
                    return Mapped { index_path: Some(inner), ..found };
                }
            }
        }
        let handler = match handler {
            HandlerKind::Static => HandlerKind::NoFile(403),
            HandlerKind::CgiScript => HandlerKind::Refuse(403, DIRECTORY),
            perl => perl,
        };
        self.mapped(place, policy, handler, OnceCell::from(target))
    }

    /// The file that a request for this path would lead to, and what is left of the path after it.
    /// Only the index of a directory is looked for on the disk.
    #[must_use]
    pub fn file_of(&self, uri: &[u8], files: &dyn Files) -> Vec<u8> {
        if !uri.ends_with(b"/") {
            return self.place(uri).name.clone();
        }
        let mapped = self.map(uri, files);
        let target = mapped.target(files);
        [target.filename.as_os_str().as_bytes(), &target.path_info].concat()
    }

    fn place(&self, uri: &[u8]) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(uri) {
            return Arc::clone(place);
        }
        let place = Arc::new(self.settle(self.translate(uri), uri));
        if uri.len() <= CACHE_PATH_BYTES {
            if places.len() >= CACHE_ENTRIES {
                places.clear();
            }
            places.insert(uri.into(), Arc::clone(&place));
        }
        place
    }

    fn translate(&self, uri: &[u8]) -> Place {
        for alias in &self.config.aliases {
            if let Some((name, base)) = apply_alias(alias, uri) {
                let context = match &alias.from {
                    AliasSource::Prefix(from) => {
                        Some((from.clone().into(), alias.to.clone().into()))
                    }
                    AliasSource::Regex(_) => None,
                };
                return Place { script: alias.script, context, ..Place::new(name, base) };
            }
        }
        let root = self.config.server.document_root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        Place::new([root, uri].concat(), root.len())
    }

    /// Proves, when it is so, that policy and handler are the same wherever the path ends on the
    /// disk, and that the handler does not care: then no request for it needs to look.
    fn settle(&self, place: Place, uri: &[u8]) -> Place {
        let ends: Vec<usize> = place.component_ends().take(LAZY_DEPTH + 1).collect();
        if self.checks_links || ends.len() > LAZY_DEPTH {
            return place;
        }
        let mut keys = ends.iter().map(|&end| self.key_at(&place.name[..end], uri));
        let whole = [self.directory_key_at(&place.name, uri)];
        let mut keys = keys.by_ref().chain(whole);
        let Some(first) = keys.next() else { return place };
        if keys.any(|key| key != first) {
            return place;
        }
        let policy = self.rules.policy(&self.config, &first);
        let handler = kind(policy.set_handler, &policy);
        let settled = is_indifferent(&handler).then_some((policy, handler));
        Place { settled, ..place }
    }

    fn key_at(&self, name: &[u8], uri: &[u8]) -> Key {
        let (dir, last) = split(name);
        self.rules.key(&self.config, &FileName { whole: name, dir, last }, uri)
    }

    /// The key of a name that is a directory: its own sections hold.
    fn directory_key_at(&self, name: &[u8], uri: &[u8]) -> Key {
        let file = FileName { whole: name, dir: directory(name), last: split(name).1 };
        self.rules.key(&self.config, &file, uri)
    }

    /// Policy and handler name of what the walk found.
    fn policy_of(
        &self,
        place: &Place,
        walked: &Walked,
        uri: &[u8],
    ) -> (Arc<Policy>, Option<HandlerName>) {
        let target = &walked.target;
        let name = target.filename.as_os_str().as_bytes();
        let resolve = |key: Key, last: &[u8]| {
            let policy = self.rules.policy(&self.config, &key);
            let handler = handler_name(&policy, last, place.script);
            (policy, handler)
        };
        if target.finfo.is_some_and(|s| s.kind == FileKind::Directory) {
            return resolve(self.directory_key_at(name, uri), b"");
        }
        let make = || resolve(self.key_at(name, uri), split(name).1);
        if target.path_info.is_empty() { place.as_file.get_or_init(make).clone() } else { make() }
    }

    /// `Options -FollowSymLinks` and `SymLinksIfOwnerMatch`, component by component.
    fn links_allowed(&self, place: &Place, target: &Target, files: &dyn Files) -> bool {
        let end = target.filename.as_os_str().len();
        place.component_ends().take_while(|&at| at <= end).all(|at| {
            let link = path(&place.name[..at]);
            let Ok(own) = files.lstat(link) else { return true };
            if own.kind != FileKind::Symlink {
                return true;
            }
            let name = &place.name[..at];
            let key = self.rules.directory_key(&self.config, split(name).0, name);
            let policy = self.rules.policy(&self.config, &key);
            let same_owner = || files.stat(link).is_ok_and(|to| to.uid == own.uid);
            policy.has_option(option::FOLLOW_SYM_LINKS)
                || (policy.has_option(option::SYM_LINKS_IF_OWNER_MATCH) && same_owner())
        })
    }
}

fn restricts_links(config: &Config) -> bool {
    let nested = config.sections.iter().flat_map(|s| s.policy.files.iter().map(|f| &f.policy));
    let mut policies =
        config.sections.iter().map(|s| &s.policy).chain(nested).chain([&config.base]);
    policies.any(|p| !p.has_option(option::FOLLOW_SYM_LINKS))
}

fn directory(name: &[u8]) -> &[u8] {
    match name.strip_suffix(b"/") {
        Some(b"") => b"/",
        Some(dir) => dir,
        None => name,
    }
}

/// Only subs answer without a file; scripts and files are read from the disk.
fn is_indifferent(handler: &HandlerKind) -> bool {
    match handler {
        HandlerKind::PerlScript { handlers } | HandlerKind::ModPerl { handlers } => {
            handlers.iter().all(|h| !matches!(h, PerlHandler::Script(_)))
        }
        _ => false,
    }
}

/// In Apache's order: ScriptAlias, then AddHandler by extension, then SetHandler.
fn handler_name(policy: &Policy, last: &[u8], script: bool) -> Option<HandlerName> {
    if let Some(set) = policy.set_handler.filter(|h| *h != HandlerName::None) {
        return Some(set);
    }
    let alias = script.then_some(HandlerName::CgiScript);
    if policy.add_handler.is_empty() {
        return alias;
    }
    let extensions = last.split(|&c| c == b'.').skip(1);
    let named = extensions.filter_map(|e| {
        let extension = String::from_utf8_lossy(e).to_ascii_lowercase();
        policy.add_handler.get(&extension).copied().flatten()
    });
    named.last().filter(|h| *h != HandlerName::None).or(alias)
}

/// What a handler name means here; Perl's without a sub decline, and the file is served.
fn kind(name: Option<HandlerName>, policy: &Policy) -> HandlerKind {
    match (name, &policy.perl_handlers) {
        (Some(HandlerName::CgiScript), _) => HandlerKind::CgiScript,
        (Some(HandlerName::PerlScript), Some(h)) => {
            HandlerKind::PerlScript { handlers: Arc::clone(h) }
        }
        (Some(HandlerName::ModPerl), Some(h)) => HandlerKind::ModPerl { handlers: Arc::clone(h) },
        _ => HandlerKind::Static,
    }
}

/// What the file's kind makes of the handler, in mod_cgi's order: 403 when scripts may not run
/// here, 404 when it is missing, 403 when it is no file.
fn judge(handler: HandlerKind, policy: &Policy, target: &Target, script: bool) -> HandlerKind {
    let accepts = policy.accept_path_info.unwrap_or_default();
    let beyond = !target.path_info.is_empty();
    let is_file = target.finfo.map(|s| s.kind == FileKind::File);
    match (&handler, is_file) {
        (HandlerKind::Refuse(..), _) => handler,
        (HandlerKind::CgiScript, _) if !script && !policy.has_option(option::EXEC_CGI) => {
            HandlerKind::Refuse(403, NO_EXEC_CGI)
        }
        (HandlerKind::Static, None) => HandlerKind::NoFile(404),
        (HandlerKind::Static, Some(false)) => HandlerKind::NoFile(403),
        (HandlerKind::Static, _) if beyond && accepts != AcceptPathInfo::On => {
            HandlerKind::NoFile(404)
        }
        (HandlerKind::CgiScript, None) => HandlerKind::Refuse(404, NO_SCRIPT),
        (HandlerKind::CgiScript, Some(false)) => HandlerKind::Refuse(403, DIRECTORY),
        (_, _) if beyond && accepts == AcceptPathInfo::Off => {
            HandlerKind::Refuse(404, NO_PATH_INFO)
        }
        _ => handler,
    }
}

/// The file name an alias gives, and how much of it is configured.
fn apply_alias(alias: &Alias, uri: &[u8]) -> Option<(Vec<u8>, usize)> {
    match &alias.from {
        AliasSource::Prefix(prefix) => {
            let used = alias_prefix(prefix.as_bytes(), uri)?;
            let to = alias.to.as_bytes();
            let name = [to, &uri[used..]].concat();
            Some((name, to.strip_suffix(b"/").unwrap_or(to).len()))
        }
        AliasSource::Regex(regex) => {
            let found = regex.captures(uri)?;
            let mut name = Vec::new();
            substitute(&alias.to, &found, &mut name);
            Some((name, 0))
        }
    }
}

/// Apache's `alias_matches`: a prefix that ends at a slash. `uri` has no doubled slashes.
fn alias_prefix(prefix: &[u8], uri: &[u8]) -> Option<usize> {
    let ends_well = || prefix.ends_with(b"/") || matches!(uri.get(prefix.len()), None | Some(b'/'));
    (uri.starts_with(prefix) && ends_well()).then_some(prefix.len())
}

/// `$1` … `$9`, `$0` and `&`-free: only what mod_alias documents.
fn substitute(template: &str, found: &regex::bytes::Captures, out: &mut Vec<u8>) {
    let mut rest = template.as_bytes();
    while let Some((&c, after)) = rest.split_first() {
        match (c, after.first()) {
            (b'$', Some(digit @ b'0'..=b'9')) => {
                let group = found.get(usize::from(digit - b'0'));
                out.extend_from_slice(group.map_or(b"", |m| m.as_bytes()));
                rest = &after[1..];
            }
            _ => {
                out.push(c);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests;
