//! What no request changes in the environment of a script: PATH, and what `SetEnv` and `PassEnv`
//! give. Modules that are loaded ahead find this and no more, and perl starts in its locale.

use std::{collections::HashSet, os::unix::ffi::OsStringExt};

use crate::config::Config;

/// Variables as `NAME=value`.
pub type Variables = Vec<Vec<u8>>;

/// See the module.
pub struct Constant {
    names: HashSet<Vec<u8>>,
    /// Outside of all sections.
    base: Variables,
}

/// What a client or a redirect can change, whatever `SetEnv` says.
const OF_REQUESTS: [&[u8]; 23] = [
    b"AUTH_TYPE",
    b"CONTENT_LENGTH",
    b"CONTENT_TYPE",
    b"CONTEXT_DOCUMENT_ROOT",
    b"CONTEXT_PREFIX",
    b"DOCUMENT_ROOT",
    b"GATEWAY_INTERFACE",
    b"PATH_INFO",
    b"PATH_TRANSLATED",
    b"QUERY_STRING",
    b"REMOTE_ADDR",
    b"REMOTE_PORT",
    b"REMOTE_USER",
    b"REQUEST_METHOD",
    b"REQUEST_SCHEME",
    b"REQUEST_URI",
    b"SCRIPT_FILENAME",
    b"SCRIPT_NAME",
    b"SERVER_ADDR",
    b"SERVER_NAME",
    b"SERVER_PORT",
    b"SERVER_PROTOCOL",
    b"SERVER_SIGNATURE",
];

impl Constant {
    pub fn of(config: &Config) -> Self {
        let given = config.policies().flat_map(|p| {
            p.set_env.iter().map(|(name, _)| name.as_bytes()).chain(p.pass_env.iter().map(bytes))
        });
        let of_request = |name: &[u8]| {
            name.starts_with(b"HTTP_") || name.starts_with(b"REDIRECT_") || is_one_of(name)
        };
        let names = given.chain([&b"PATH"[..]]).filter(|name| !of_request(name));
        let names = names.map(<[u8]>::to_vec).collect();
        let mut constant = Self { names, base: Vec::new() };
        constant.base = constant.part(&base(config), true);
        constant
    }

    /// What a perl that waits for scripts of no section in particular has.
    pub fn base(&self) -> &Variables {
        &self.base
    }

    /// Of a script's environment. Without modules to be loaded only the locale matters.
    pub fn part<Text: AsRef<[u8]>>(&self, env: &[Text], loads: bool) -> Variables {
        let wanted = |variable: &&[u8]| {
            let name = variable.split(|&b| b == b'=').next().unwrap_or_default();
            let locale = name.starts_with(b"LC_") || name.starts_with(b"LANG");
            (loads || locale) && self.names.contains(name)
        };
        let all = env.iter().map(AsRef::as_ref);
        let mut part: Variables = all.filter(wanted).map(<[u8]>::to_vec).collect();
        part.sort();
        part
    }
}

fn bytes(text: &String) -> &[u8] {
    text.as_bytes()
}

fn is_one_of(name: &[u8]) -> bool {
    OF_REQUESTS.contains(&name)
}

/// As the environment of a script begins that no section has a part in.
fn base(config: &Config) -> Variables {
    let policy = &config.base;
    let passed = policy.pass_env.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        Some((name.as_bytes(), value.into_vec()))
    });
    let set = policy.set_env.iter().map(|(name, value)| (name.as_bytes(), value.clone().into()));
    let path = (&b"PATH"[..], crate::environment::path().to_vec());
    let mut base: Vec<(&[u8], Vec<u8>)> = Vec::new();
    for (name, value) in passed.chain(set).chain([path]) {
        base.retain(|(known, _)| *known != name);
        base.push((name, value));
    }
    base.retain(|(name, _)| !policy.unset_env.iter().any(|unset| unset.as_bytes() == *name));
    base.iter().map(|(name, value)| [name, &b"="[..], value].concat()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{MemorySource, Options};

    #[test]
    fn only_what_is_configured_is_constant() {
        let text = "SetEnv A 1\nSetEnv HTTP_X 1\nSetEnv LANG de\nSetEnv SERVER_NAME x\n\
            <Location /b>\nSetEnv B 2\nSetEnv A 3\n</Location>\n";
        let files = MemorySource([("/c".into(), text.to_owned())].into());
        let config = Config::from_source(Path::new("/c"), &Options::default(), &files).unwrap().0;
        let constant = Constant::of(&config);
        let texts = |list: &[&str]| list.iter().map(|t| t.as_bytes().to_vec()).collect::<Vec<_>>();
        let path = [&b"PATH="[..], crate::environment::path()].concat();
        assert_eq!(constant.base(), &[texts(&["A=1", "LANG=de"]), vec![path]].concat());
        let job = texts(&["HTTP_X=y", "PATH=p", "B=2", "QUERY_STRING=B=3", "A=3", "LANG=de"]);
        assert_eq!(constant.part(&job, true), texts(&["A=3", "B=2", "LANG=de", "PATH=p"]));
        assert_eq!(constant.part(&job, false), texts(&["LANG=de"]));
    }
}
