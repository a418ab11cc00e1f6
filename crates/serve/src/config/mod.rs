//! The configuration: Apache's directive language read into a `Config`. Pure: files come in
//! through `Source`, nothing is opened, bound or started. `catalogue` knows every directive;
//! `parse` walks the text; `policy` and `section` say what holds where; `map` (a room beside this)
//! answers requests. Invariant: every error and notice names file and line, and all errors of a
//! run are given at once.

mod access;
pub mod catalogue;
mod fault;
mod fnmatch;
mod folder;
mod lexer;
mod parse;
mod policy;
mod section;
mod settings;
mod source;
mod spelling;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

pub use access::{Access, Legacy, Network, Require};
pub(crate) use fault::not_one_of;
pub use fault::{ConfigError, Fault, Notice, Place};
pub use policy::{
    AcceptPathInfo, ErrorDocument, FileETag, HandlerName, Pairs, PerlHandler, Policy,
    ScriptFlavour, Switches, option, perl_option,
};
pub(crate) use section::bad_regex;
pub use section::{Pattern, Scope, Section};
pub use settings::{
    Alias, AliasSource, CustomLog, LogLevel, PerlStartup, PerlStep, PerlStepKind, ServerTokens,
    Settings,
};
pub use source::{MemorySource, RealSource, Source};

/// What the command line adds to a configuration file.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-D NAME` or `-D NAME=VALUE`.
    pub defines: Vec<String>,
    /// Unknown directives become notices.
    pub lenient: bool,
    /// `--listen`: takes the place of every `Listen`.
    pub listen: Vec<SocketAddr>,
}

/// A whole configuration, ready to serve from.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: Vec<SocketAddr>,
    pub server: Settings,
    pub perl: PerlStartup,
    /// `Alias` and `ScriptAlias` lines in order: the first that matches wins.
    pub aliases: Vec<Alias>,
    /// What stands outside of all sections.
    pub base: Policy,
    /// All server-level sections in order of appearance (`<Files>` inside `<Directory>` live
    /// there).
    pub sections: Vec<Section>,
}

impl Config {
    /// Reads a configuration file and everything it includes.
    pub fn from_file(
        path: &Path,
        options: &Options,
    ) -> Result<(Config, Vec<Notice>), Vec<ConfigError>> {
        Config::from_source(path, options, &RealSource)
    }

    /// Reads a configuration through `source`: for tests, and for checking unsaved text.
    pub fn from_source(
        path: &Path,
        options: &Options,
        source: &dyn Source,
    ) -> Result<(Config, Vec<Notice>), Vec<ConfigError>> {
        parse::read(path, options, source)
    }

    /// The configuration of `drom serve DIR`.
    #[must_use]
    pub fn for_folder(dir: &Path, options: &Options) -> Config {
        folder::config(dir, options)
    }

    /// Of every section, of those inside of sections, and what stands outside.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        let nested = self.sections.iter().flat_map(|s| s.policy.files.iter().map(|f| &f.policy));
        self.sections.iter().map(|s| &s.policy).chain(nested).chain([&self.base])
    }

    /// What a test of the configuration says besides: folders that logs cannot be made in. A server
    /// that starts sees that by itself.
    #[must_use]
    pub fn missing_log_folders(&self) -> Vec<ConfigError> {
        let logs = self.server.log_places.iter().filter_map(|(name, path, place)| {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty())?;
            let what = format!("there is no directory {}", folder.display());
            let fault = Fault::Argument { name: (*name).to_owned(), what };
            (!folder.is_dir()).then(|| ConfigError { place: place.clone(), fault })
        });
        logs.collect()
    }

    fn empty(server_root: &Path) -> Config {
        Config {
            listen: Vec::new(),
            server: Settings::new(server_root),
            perl: PerlStartup::default(),
            aliases: Vec::new(),
            base: Policy::default(),
            sections: Vec::new(),
        }
    }

    /// Fills in what depends on the whole: the address to listen on.
    fn finish(mut self, options: &Options) -> Config {
        if !options.listen.is_empty() {
            self.listen.clone_from(&options.listen);
        } else if self.listen.is_empty() {
            self.listen.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
        }
        self
    }
}

#[cfg(test)]
mod tests;
