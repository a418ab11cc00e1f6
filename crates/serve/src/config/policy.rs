//! `Policy`: what the configuration says about one place. The same type holds what one section
//! says (most fields unset) and what all matching sections say together; `overlay` merges the
//! second over the first exactly as Apache's modules merge their per-directory configurations.
//! Pure data: finding the sections of a request is `map`'s business.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::access::Access;
use super::section::Section;

/// The value of `SetHandler` and `AddHandler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerName {
    /// `None`: take back what an outer section set.
    None,
    /// `default-handler`: the file as it is.
    Default,
    CgiScript,
    PerlScript,
    ModPerl,
}

impl HandlerName {
    /// The names users write, for parsing and for error messages.
    pub const NAMES: [(&'static str, HandlerName); 5] = [
        ("none", HandlerName::None),
        ("default-handler", HandlerName::Default),
        ("cgi-script", HandlerName::CgiScript),
        ("perl-script", HandlerName::PerlScript),
        ("modperl", HandlerName::ModPerl),
    ];
}

/// The scripts-as-handlers families, whose steps are built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScriptFlavour {
    Registry,
    RegistryPrefork,
    RegistryBB,
    PerlRun,
    PerlRunPrefork,
    /// mod_perl 1's `Apache::Registry`.
    ApacheRegistry,
    /// mod_perl 1's `Apache::PerlRun`.
    ApachePerlRun,
}

impl ScriptFlavour {
    /// The Perl class of each flavour.
    pub const CLASSES: [(&'static str, ScriptFlavour); 7] = [
        ("ModPerl::Registry", ScriptFlavour::Registry),
        ("ModPerl::RegistryPrefork", ScriptFlavour::RegistryPrefork),
        ("ModPerl::RegistryBB", ScriptFlavour::RegistryBB),
        ("ModPerl::PerlRun", ScriptFlavour::PerlRun),
        ("ModPerl::PerlRunPrefork", ScriptFlavour::PerlRunPrefork),
        ("Apache::Registry", ScriptFlavour::ApacheRegistry),
        ("Apache::PerlRun", ScriptFlavour::ApachePerlRun),
    ];

    /// The Perl class that names this flavour.
    #[must_use]
    pub fn class(self) -> &'static str {
        Self::CLASSES.iter().find(|(_, f)| *f == self).map_or("", |(class, _)| class)
    }
}

/// One entry of `PerlResponseHandler`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PerlHandler {
    Script(ScriptFlavour),
    /// A package with a `handler` sub, a full sub name, `Class->method`, or `sub { … }` text.
    Sub(Arc<str>),
    /// The same, named by `PerlHandler`, the directive of mod_perl 1.
    OldSub(Arc<str>),
}

impl PerlHandler {
    /// As it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            PerlHandler::Script(flavour) => flavour.class(),
            PerlHandler::Sub(name) | PerlHandler::OldSub(name) => name,
        }
    }

    /// Reads an argument of `PerlHandler`.
    #[must_use]
    pub fn parse_old(text: &str) -> PerlHandler {
        match PerlHandler::parse(text) {
            PerlHandler::Sub(name) => PerlHandler::OldSub(name),
            script => script,
        }
    }

    /// Reads a handler as written; `Class->handler` and `Class::handler` of a script family are it
    /// too.
    #[must_use]
    pub fn parse(text: &str) -> PerlHandler {
        let class = text.strip_suffix("->handler").or_else(|| text.strip_suffix("::handler"));
        let wanted = class.unwrap_or(text);
        match ScriptFlavour::CLASSES.iter().find(|(name, _)| *name == wanted) {
            Some((_, flavour)) => PerlHandler::Script(*flavour),
            None => PerlHandler::Sub(text.into()),
        }
    }
}

/// Named switches that a section sets absolutely or by `+`/`-` (`Options`, `PerlOptions`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switches {
    absolute: Option<u16>,
    add: u16,
    remove: u16,
}

impl Switches {
    /// Sets exactly `bits`, forgetting what came before.
    pub fn set(&mut self, bits: u16) {
        *self = Switches { absolute: Some(bits), add: 0, remove: 0 };
    }

    /// Switches `bits` on.
    pub fn add(&mut self, bits: u16) {
        match &mut self.absolute {
            Some(on) => *on |= bits,
            None => (self.add, self.remove) = (self.add | bits, self.remove & !bits),
        }
    }

    /// Switches `bits` off.
    pub fn remove(&mut self, bits: u16) {
        match &mut self.absolute {
            Some(on) => *on &= !bits,
            None => (self.add, self.remove) = (self.add & !bits, self.remove | bits),
        }
    }

    /// What holds when `default` held before.
    #[must_use]
    pub fn over(&self, default: u16) -> u16 {
        self.absolute.unwrap_or((default & !self.remove) | self.add)
    }

    fn overlay(&mut self, over: &Switches) {
        match over.absolute {
            Some(bits) => self.set(bits),
            None => {
                self.remove(over.remove);
                self.add(over.add);
            }
        }
    }
}

/// `Options` bits.
pub mod option {
    pub const INDEXES: u16 = 1;
    pub const INCLUDES: u16 = 2;
    pub const FOLLOW_SYM_LINKS: u16 = 4;
    pub const EXEC_CGI: u16 = 8;
    pub const SYM_LINKS_IF_OWNER_MATCH: u16 = 16;
    pub const MULTI_VIEWS: u16 = 32;
    pub const INCLUDES_NO_EXEC: u16 = 64;
    /// `Options All` is everything but MultiViews.
    pub const ALL: u16 = INDEXES | INCLUDES | FOLLOW_SYM_LINKS | EXEC_CGI;
    pub const NAMES: [(&str, u16); 9] = [
        ("Indexes", INDEXES),
        ("Includes", INCLUDES),
        ("FollowSymLinks", FOLLOW_SYM_LINKS),
        ("ExecCGI", EXEC_CGI),
        ("SymLinksIfOwnerMatch", SYM_LINKS_IF_OWNER_MATCH),
        ("MultiViews", MULTI_VIEWS),
        ("IncludesNOEXEC", INCLUDES_NO_EXEC),
        ("All", ALL),
        ("None", 0),
    ];
}

/// Per-directory `PerlOptions` bits.
pub mod perl_option {
    pub const SETUP_ENV: u16 = 1;
    pub const GLOBAL_REQUEST: u16 = 2;
    pub const PARSE_HEADERS: u16 = 4;
    pub const MERGE_HANDLERS: u16 = 8;
    pub const NAMES: [(&str, u16); 4] = [
        ("SetupEnv", SETUP_ENV),
        ("GlobalRequest", GLOBAL_REQUEST),
        ("ParseHeaders", PARSE_HEADERS),
        ("MergeHandlers", MERGE_HANDLERS),
    ];
}

/// What `ErrorDocument` names for one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorDocument {
    /// The standard page (`default`).
    Default,
    /// Literal text.
    Text(String),
    /// A path on this server, served by an internal redirect.
    Local(String),
    /// A full URL: the client is redirected.
    Url(String),
}

/// `AcceptPathInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AcceptPathInfo {
    On,
    Off,
    /// Each handler decides: scripts accept, files refuse.
    #[default]
    Default,
}

/// Which parts `FileETag` puts into an entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileETag {
    pub inode: bool,
    pub mtime: bool,
    pub size: bool,
}

/// A variable and its values, in the order written.
pub type Pairs = Vec<(String, String)>;

/// What the configuration says about one place. See the accessors for values with defaults.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub set_handler: Option<HandlerName>,
    pub perl_handlers: Option<Arc<[PerlHandler]>>,
    pub options: Switches,
    pub perl_options: Switches,
    /// `PerlSetVar` and `PerlAddVar`: a multi-map.
    pub perl_vars: Pairs,
    /// Names given by `PerlSetVar` here: they hide the values of outer sections.
    pub perl_vars_set: Vec<String>,
    pub perl_set_env: Pairs,
    pub set_env: Pairs,
    pub pass_env: Vec<String>,
    pub unset_env: Vec<String>,
    /// Extension (lower case, no dot) → handler; `None` after `RemoveHandler`.
    pub add_handler: HashMap<String, Option<HandlerName>>,
    pub add_type: HashMap<String, Option<String>>,
    pub add_charset: HashMap<String, String>,
    pub add_encoding: HashMap<String, String>,
    pub add_language: HashMap<String, String>,
    /// `ForceType`; the inner `None` after `ForceType None`.
    pub force_type: Option<Option<String>>,
    /// `AddDefaultCharset`; the inner `None` for `Off`.
    pub default_charset: Option<Option<String>>,
    pub directory_index: Option<Vec<String>>,
    pub directory_slash: Option<bool>,
    pub error_documents: BTreeMap<u16, ErrorDocument>,
    pub access: Option<Access>,
    pub limit_request_body: Option<u64>,
    /// `DromRequestTimeout`; the inner `None` for "no limit".
    pub request_timeout: Option<Option<Duration>>,
    pub accept_path_info: Option<AcceptPathInfo>,
    pub file_etag: Option<FileETag>,
    pub server_signature: Option<bool>,
    pub cgi_pass_auth: Option<bool>,
    /// `<Files>` sections that stand inside this one.
    pub files: Vec<Arc<Section>>,
}

impl Policy {
    /// Lays what an inner section says over what holds outside of it.
    pub fn overlay(&mut self, over: &Policy) {
        self.overlay_perl(over);
        set(&mut self.set_handler, &over.set_handler);
        self.options.overlay(&over.options);
        replace_pairs(&mut self.set_env, &over.set_env);
        self.set_env.retain(|(name, _)| !over.unset_env.contains(name));
        extend_unique(&mut self.pass_env, &over.pass_env);
        self.pass_env.retain(|name| !over.unset_env.contains(name));
        extend_map(&mut self.add_handler, &over.add_handler);
        extend_map(&mut self.add_type, &over.add_type);
        extend_map(&mut self.add_charset, &over.add_charset);
        extend_map(&mut self.add_encoding, &over.add_encoding);
        extend_map(&mut self.add_language, &over.add_language);
        set(&mut self.force_type, &over.force_type);
        set(&mut self.default_charset, &over.default_charset);
        set(&mut self.directory_index, &over.directory_index);
        set(&mut self.directory_slash, &over.directory_slash);
        self.error_documents.extend(over.error_documents.iter().map(|(k, v)| (*k, v.clone())));
        set(&mut self.access, &over.access);
        set(&mut self.limit_request_body, &over.limit_request_body);
        set(&mut self.request_timeout, &over.request_timeout);
        set(&mut self.accept_path_info, &over.accept_path_info);
        set(&mut self.file_etag, &over.file_etag);
        set(&mut self.server_signature, &over.server_signature);
        set(&mut self.cgi_pass_auth, &over.cgi_pass_auth);
        self.files.extend(over.files.iter().cloned());
    }

    /// mod_perl's merge (`modperl_config_dir_merge`): `PerlSetVar` hides, `PerlAddVar` adds,
    /// handlers replace unless `PerlOptions +MergeHandlers` holds in the inner section.
    fn overlay_perl(&mut self, over: &Policy) {
        self.perl_options.overlay(&over.perl_options);
        if let Some(inner) = &over.perl_handlers {
            let merge = over.perl_options.over(0) & perl_option::MERGE_HANDLERS != 0;
            let outer = self.perl_handlers.take().filter(|_| merge);
            let all = outer.iter().flat_map(|h| h.iter()).chain(inner.iter());
            self.perl_handlers = Some(all.cloned().collect());
        }
        self.perl_vars.retain(|(name, _)| !over.perl_vars_set.contains(name));
        self.perl_vars.extend(over.perl_vars.iter().cloned());
        extend_unique(&mut self.perl_vars_set, &over.perl_vars_set);
        replace_pairs(&mut self.perl_set_env, &over.perl_set_env);
    }

    /// The `Options` that hold; Apache's default is FollowSymLinks alone.
    #[must_use]
    pub fn has_option(&self, bit: u16) -> bool {
        self.options.over(option::FOLLOW_SYM_LINKS) & bit != 0
    }

    /// Whether a `PerlOptions` flag is on, given what the handler switches on by itself
    /// (`perl-script`: `SETUP_ENV | GLOBAL_REQUEST`; `modperl`: nothing).
    #[must_use]
    pub fn has_perl_option(&self, bit: u16, handler_default: u16) -> bool {
        self.perl_options.over(handler_default) & bit != 0
    }

    /// The first value of a `PerlSetVar` variable (`$r->dir_config('name')`; names ignore case).
    #[must_use]
    pub fn perl_var(&self, name: &str) -> Option<&str> {
        let found = self.perl_vars.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a file's name may say more of it than a media type.
    #[must_use]
    pub fn names_more_than_types(&self) -> bool {
        !self.add_encoding.is_empty() || !self.add_language.is_empty()
    }

    /// The largest request body, `None` when unlimited. Apache 2.4.54 and later: 1 GiB.
    #[must_use]
    pub fn body_limit(&self) -> Option<u64> {
        Some(self.limit_request_body.unwrap_or(1 << 30)).filter(|&limit| limit > 0)
    }

    /// Whether a client may see the place. Ask this before the handler.
    #[must_use]
    pub fn allows(&self, client: IpAddr, method: &[u8]) -> bool {
        self.access.as_ref().is_none_or(|access| access.allows(client, method))
    }

    /// How long a request may run; `None` is no limit, the default.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.request_timeout.flatten()
    }

    /// Names tried for a directory.
    pub fn directory_indexes(&self) -> impl Iterator<Item = &str> {
        let given = self.directory_index.as_deref();
        let default = if given.is_none() { Some("index.html") } else { None };
        given.unwrap_or(&[]).iter().map(String::as_str).chain(default)
    }
}

fn set<T: Clone>(target: &mut Option<T>, over: &Option<T>) {
    if over.is_some() {
        target.clone_from(over);
    }
}

fn extend_map<V: Clone>(target: &mut HashMap<String, V>, over: &HashMap<String, V>) {
    target.extend(over.iter().map(|(k, v)| (k.clone(), v.clone())));
}

fn extend_unique(target: &mut Vec<String>, over: &[String]) {
    for name in over {
        if !target.contains(name) {
            target.push(name.clone());
        }
    }
}

/// Adds pairs to a map-like list; a later value of a name replaces the earlier one.
pub fn replace_pairs(target: &mut Pairs, over: &[(String, String)]) {
    for (name, value) in over {
        match target.iter_mut().find(|(n, _)| n == name) {
            Some(slot) => slot.1.clone_from(value),
            None => target.push((name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_merge_as_the_manual_says() {
        // The example of Apache's manual for Options: absolute replaces, +/- change.
        let mut web = Switches::default();
        web.set(option::INDEXES | option::FOLLOW_SYM_LINKS);
        let mut spec = Switches::default();
        spec.set(option::INCLUDES);
        let mut absolute = web;
        absolute.overlay(&spec);
        assert_eq!(absolute.over(0), option::INCLUDES);
        let mut relative = Switches::default();
        relative.add(option::INCLUDES);
        relative.remove(option::INDEXES);
        web.overlay(&relative);
        assert_eq!(web.over(0), option::FOLLOW_SYM_LINKS | option::INCLUDES);
    }

    #[test]
    fn relative_options_start_from_follow_sym_links() {
        let mut policy = Policy::default();
        policy.options.add(option::EXEC_CGI);
        assert!(policy.has_option(option::FOLLOW_SYM_LINKS) && policy.has_option(option::EXEC_CGI));
        policy.options.set(option::EXEC_CGI);
        assert!(!policy.has_option(option::FOLLOW_SYM_LINKS));
    }

    #[test]
    fn set_var_hides_and_add_var_adds() {
        let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
        let mut outer =
            Policy { perl_vars: vec![pair("A", "1"), pair("B", "1")], ..Policy::default() };
        let inner = Policy {
            perl_vars: vec![pair("A", "2"), pair("B", "2")],
            perl_vars_set: vec!["A".to_string()],
            ..Policy::default()
        };
        outer.overlay(&inner);
        assert_eq!(outer.perl_vars, [pair("B", "1"), pair("A", "2"), pair("B", "2")]);
        assert_eq!(outer.perl_var("a"), Some("2"));
    }

    #[test]
    fn handlers_replace_unless_merged() {
        let handlers = |name: &str| Some(Arc::from([PerlHandler::parse(name)]));
        let outer = Policy { perl_handlers: handlers("My::A"), ..Policy::default() };
        let mut inner = Policy { perl_handlers: handlers("My::B"), ..Policy::default() };
        let mut replaced = outer.clone();
        replaced.overlay(&inner);
        assert_eq!(replaced.perl_handlers.unwrap().len(), 1);
        inner.perl_options.add(perl_option::MERGE_HANDLERS);
        let mut merged = outer;
        merged.overlay(&inner);
        assert_eq!(merged.perl_handlers.unwrap().len(), 2);
    }

    #[test]
    fn registry_is_recognised_however_written() {
        for text in
            ["ModPerl::Registry", "ModPerl::Registry->handler", "ModPerl::Registry::handler"]
        {
            assert_eq!(PerlHandler::parse(text), PerlHandler::Script(ScriptFlavour::Registry));
        }
        assert_eq!(PerlHandler::parse("My::handler"), PerlHandler::Sub("My::handler".into()));
        assert_eq!(ScriptFlavour::ApachePerlRun.class(), "Apache::PerlRun");
    }

    #[test]
    fn environment_merges_and_unsets() {
        let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
        let mut outer =
            Policy { set_env: vec![pair("A", "1"), pair("B", "1")], ..Policy::default() };
        let inner = Policy {
            set_env: vec![pair("A", "2")],
            unset_env: vec!["B".to_string()],
            ..Policy::default()
        };
        outer.overlay(&inner);
        assert_eq!(outer.set_env, [pair("A", "2")]);
    }

    #[test]
    fn body_limit_defaults_to_one_gibibyte_and_zero_means_none() {
        assert_eq!(Policy::default().body_limit(), Some(1_073_741_824));
        let unlimited = Policy { limit_request_body: Some(0), ..Policy::default() };
        assert_eq!(unlimited.body_limit(), None);
    }
}
