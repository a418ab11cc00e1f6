//! The variables that a script finds in its environment: CGI/1.1 and what Apache adds, in Apache's words.
//! Pure: a request in, a table out.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use drom_perl::Table;

use crate::{
    map::{HandlerKind, files::Disk},
    request::Request,
};

/// What `MOD_PERL` says: the version whose API is served.
pub const MOD_PERL: &str = "mod_perl/2.0.12";

/// Fills the environment of a request: `PassEnv`, `SetEnv`, headers, the server's and CGI's variables.
pub fn fill(request: &mut Request, env: &mut Table) {
    configured(request, env);
    headers(request, env);
    server(request, env);
    cgi(request, env);
    for (name, value) in &request.redirect_env {
        env.set(name, value);
    }
}

fn configured(request: &Request, env: &mut Table) {
    let policy = &request.mapped().policy;
    let startup = &request.site.config.perl;
    let handler = &request.mapped().handler;
    let for_perl = matches!(handler, HandlerKind::PerlScript { .. } | HandlerKind::ModPerl { .. });
    for name in startup.pass_env.iter().filter(|_| for_perl).chain(&policy.pass_env) {
        if let Some(value) = request.site.environment.get(OsStr::new(name)) {
            env.set(name.as_bytes(), value.as_bytes());
        }
    }
    let at_start = startup.set_env.iter().filter(|_| for_perl);
    let for_handlers = policy.perl_set_env.iter().filter(|_| for_perl);
    for (name, value) in at_start.chain(&policy.set_env).chain(for_handlers) {
        env.set(name.as_bytes(), value.as_bytes());
    }
    for name in &policy.unset_env {
        env.unset(name.as_bytes());
    }
}

/// What the next request of an internal redirect finds as `REDIRECT_*`: the variables of this
/// one as far as they were made, and what led away from it.
pub fn redirected(request: &mut Request, status: u16) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut before = Table::default();
    match request.known_env() {
        Some(env) => env.iter().for_each(|(name, value)| before.set(name, value)),
        None => configured(request, &mut before),
    }
    if status >= 400 {
        before.set(b"REQUEST_METHOD", request.original_method());
        if let Some(why) = request.notes.get(b"error-notes") {
            before.set(b"ERROR_NOTES", why);
        }
    }
    before.set(b"STATUS", status.to_string().as_bytes());
    before.set(b"URL", &request.path);
    match &request.args {
        Some(args) => before.set(b"QUERY_STRING", args),
        None => before.unset(b"QUERY_STRING"),
    }
    before.iter().map(|(name, value)| ([b"REDIRECT_", name].concat(), value.to_vec())).collect()
}

/// `User-Agent` becomes `HTTP_USER_AGENT`. Names with other than letters, digits and hyphens are dropped:
/// two of them could become one variable. `Proxy` never becomes `HTTP_PROXY` (CVE-2016-5385).
fn headers(request: &mut Request, env: &mut Table) {
    let pass_auth = request.mapped().policy.cgi_pass_auth.unwrap_or(false);
    let mut name = Vec::with_capacity(40);
    for (header, value) in request.headers_in().iter() {
        if header.eq_ignore_ascii_case(b"Content-Type") {
            env.add(b"CONTENT_TYPE", value);
        } else if header.eq_ignore_ascii_case(b"Content-Length")
            || header.eq_ignore_ascii_case(b"Transfer-Encoding")
            || header.eq_ignore_ascii_case(b"Proxy")
            || (!pass_auth
                && (header.eq_ignore_ascii_case(b"Authorization")
                    || header.eq_ignore_ascii_case(b"Proxy-Authorization")))
        {
        } else if variable_name(header, &mut name) {
            env.add(&name, value);
        }
    }
}

fn variable_name(header: &[u8], name: &mut Vec<u8>) -> bool {
    name.clear();
    name.extend_from_slice(b"HTTP_");
    for &byte in header {
        match byte {
            b'-' => name.push(b'_'),
            b if b.is_ascii_alphanumeric() => name.push(b.to_ascii_uppercase()),
            _ => return false,
        }
    }
    true
}

fn server(request: &Request, env: &mut Table) {
    let site = request.site;
    let settings = &site.config.server;
    let root = settings.document_root.as_os_str().as_bytes();
    env.add(b"PATH", path());
    env.add(b"SERVER_SIGNATURE", b"");
    env.add(b"SERVER_SOFTWARE", site.server.as_bytes());
    let host = request.host_name();
    let canonical = settings.use_canonical_name || host.is_empty();
    env.add(b"SERVER_NAME", if canonical { site.server_name().as_bytes() } else { &host });
    env.add(b"SERVER_ADDR", request.local.ip().to_string().as_bytes());
    env.add(b"SERVER_PORT", port(request).as_bytes());
    env.add(b"REMOTE_ADDR", request.client.ip().to_string().as_bytes());
    env.add(b"DOCUMENT_ROOT", root);
    env.add(b"REQUEST_SCHEME", b"http");
    let (prefix, folder) = request.mapped().context().unwrap_or((b"", root));
    env.add(b"CONTEXT_PREFIX", prefix);
    env.add(b"CONTEXT_DOCUMENT_ROOT", folder);
    env.add(
        b"SERVER_ADMIN",
        settings.server_admin.as_deref().unwrap_or("[no address given]").as_bytes(),
    );
    env.add(b"REMOTE_PORT", request.client.port().to_string().as_bytes());
}

/// The server's own PATH, as it was when the first script asked.
pub fn path() -> &'static [u8] {
    static PATH: std::sync::OnceLock<std::ffi::OsString> = std::sync::OnceLock::new();
    let found =
        || std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    PATH.get_or_init(found).as_bytes()
}

/// The port that the client named, else the one it connected to.
fn port(request: &Request) -> String {
    let named = request.header(b"Host").and_then(|host| {
        let colon = host.iter().rposition(|&b| b == b':')?;
        let digits = std::str::from_utf8(&host[colon + 1..]).ok()?;
        digits.parse::<u16>().ok()
    });
    let has_host = request.header(b"Host").is_some_and(|h| !h.is_empty());
    named.unwrap_or(if has_host { 80 } else { request.local.port() }).to_string()
}

fn cgi(request: &mut Request, env: &mut Table) {
    let filename = request.filename().to_vec();
    env.add(b"SCRIPT_FILENAME", &filename);
    if let Some(user) = &request.user {
        env.add(b"REMOTE_USER", user);
    }
    env.add(b"GATEWAY_INTERFACE", b"CGI/1.1");
    env.add(b"SERVER_PROTOCOL", request.protocol());
    env.add(b"REQUEST_METHOD", &request.method);
    env.add(b"QUERY_STRING", request.args.as_deref().unwrap_or_default());
    env.add(b"REQUEST_URI", request.raw_target());
    env.add(b"SCRIPT_NAME", &request.script_name());
    if request.has_body() {
        env.add(b"CONTENT_LENGTH", request.body.len().to_string().as_bytes());
    }
    let info = request.path_info().to_vec();
    if !info.is_empty() {
        env.add(b"PATH_INFO", &info);
        env.add(b"PATH_TRANSLATED", &request.site.mapper.file_of(&info, &Disk));
    }
}

/// Apache's `M_INVALID`.
pub const METHOD_UNKNOWN: i64 = 26;

/// Apache's numbers of the methods (`M_GET` and so on); unknown methods share `M_INVALID`.
pub fn method_number(method: &[u8]) -> i64 {
    const METHODS: [&[u8]; 26] = [
        b"GET",
        b"PUT",
        b"POST",
        b"DELETE",
        b"CONNECT",
        b"OPTIONS",
        b"TRACE",
        b"PATCH",
        b"PROPFIND",
        b"PROPPATCH",
        b"MKCOL",
        b"COPY",
        b"MOVE",
        b"LOCK",
        b"UNLOCK",
        b"VERSION-CONTROL",
        b"CHECKOUT",
        b"UNCHECKOUT",
        b"CHECKIN",
        b"UPDATE",
        b"LABEL",
        b"REPORT",
        b"MKWORKSPACE",
        b"MKACTIVITY",
        b"BASELINE-CONTROL",
        b"MERGE",
    ];
    let method = if method == b"HEAD" { b"GET" } else { method };
    METHODS.iter().position(|m| *m == method).map_or(METHOD_UNKNOWN, |i| i as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_become_variables_or_nothing() {
        let mut name = Vec::new();
        assert!(variable_name(b"User-Agent", &mut name));
        assert_eq!(name, b"HTTP_USER_AGENT");
        assert!(!variable_name(b"X_Forwarded", &mut name));
        assert!(!variable_name(b"a.b", &mut name));
    }

    #[test]
    fn methods_have_apaches_numbers() {
        assert_eq!(method_number(b"GET"), 0);
        assert_eq!(method_number(b"HEAD"), 0);
        assert_eq!(method_number(b"POST"), 2);
        assert_eq!(method_number(b"BREW"), 26);
    }
}
