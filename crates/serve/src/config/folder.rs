//! The configuration of `drom serve DIR`: files as they are, `cgi-bin/` as CGI, `perl/` as
//! Registry. Files whose names begin with a dot, and folders' scripts as text, are never served.

use std::path::Path;
use std::sync::Arc;

use super::access::{Access, Require};
use super::policy::{HandlerName, PerlHandler, Policy, ScriptFlavour, option, perl_option};
use super::section::{Pattern, Scope, Section};
use super::settings::{Alias, AliasSource};
use super::{Config, Options};

/// Any component that begins with a dot …
const HIDDEN: &str = r"/\.";
/// … except `.well-known` (RFC 8615) with plain names below it.
const WELL_KNOWN: &str = r"^/\.well-known(/[^./][^/]*)*/?$";

pub(super) fn config(dir: &Path, options: &Options) -> Config {
    let mut config = Config::empty(dir);
    let root = dir.to_string_lossy().into_owned();
    config.server.document_root = dir.to_path_buf();
    // Files and CGI scripts need no libperl; a `perl/` that is made later needs a reload.
    config.perl.wanted = dir.join("perl").is_dir();
    config.server.cgi_wanted = dir.join("cgi-bin").is_dir();
    let class = ScriptFlavour::Registry.class().to_string();
    config.perl.handlers.insert(class);
    for (name, script) in [("/cgi-bin/", true), ("/perl/", false)] {
        let to = format!("{root}{name}");
        config.aliases.push(Alias { from: AliasSource::Prefix(name.to_string()), to, script });
    }
    let section = |scope, pattern, policy| Section { scope, pattern, policy };
    let location =
        |path: &str, policy| section(Scope::Location, Pattern::plain(path.into()), policy);
    config.sections.push(location("/cgi-bin", cgi()));
    config.sections.push(location("/perl", registry()));
    for (text, access) in [(HIDDEN, Require::Denied), (WELL_KNOWN, Require::Granted)] {
        let pattern =
            Pattern::regex(text).expect("a constant expression that every start compiles");
        config.sections.push(section(Scope::Location, pattern, only(access)));
    }
    config.finish(options)
}

fn cgi() -> Policy {
    let mut policy = Policy { set_handler: Some(HandlerName::CgiScript), ..Policy::default() };
    policy.options.add(option::EXEC_CGI);
    policy
}

fn registry() -> Policy {
    let mut policy = Policy {
        set_handler: Some(HandlerName::PerlScript),
        perl_handlers: Some(Arc::from([PerlHandler::Script(ScriptFlavour::Registry)])),
        ..Policy::default()
    };
    policy.options.add(option::EXEC_CGI);
    policy.perl_options.add(perl_option::PARSE_HEADERS);
    policy
}

fn only(require: Require) -> Policy {
    let access = Access { require: vec![require], legacy: None };
    Policy { access: Some(access), ..Policy::default() }
}
