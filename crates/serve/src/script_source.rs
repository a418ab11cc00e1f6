//! A script's text → the sub that Registry and PerlRun compile, and the package it lives in. Pure.
//!
//! The source is one `sub handler` in a package named after the file, so that named subs close over the
//! first run's `my` variables, `return` works and `@_` holds `$r`: all as under mod_perl.

use std::{os::unix::ffi::OsStrExt, path::Path};

use crate::config::ScriptFlavour;

/// `ModPerl::ROOT::ModPerl::Registry::srv_perl_hello_2epl`.
pub fn package(flavour: ScriptFlavour, path: &Path) -> String {
    let parts = path.as_os_str().as_bytes().split(|&b| b == b'/').filter(|p| !p.is_empty());
    let names: Vec<String> = parts.map(name).collect();
    if is_old(flavour) {
        return format!("Apache::ROOT::{}", names.join("::"));
    }
    format!("ModPerl::ROOT::{}::{}", flavour.class(), names.join("_"))
}

/// As the eval around a script in mod_perl 2: also without what perl warns of by default.
pub fn is_quiet(flavour: ScriptFlavour) -> bool {
    !is_old(flavour)
}

/// Of mod_perl 1.
fn is_old(flavour: ScriptFlavour) -> bool {
    matches!(flavour, ScriptFlavour::ApacheRegistry | ScriptFlavour::ApachePerlRun)
}

/// Characters outside of a word become `_` and their hexadecimal number, a leading digit gets `_`.
fn name(part: &[u8]) -> String {
    let mut out = String::with_capacity(part.len() + 8);
    if part.first().is_some_and(u8::is_ascii_digit) {
        out.push('_');
    }
    for &byte in part {
        match byte {
            b if b.is_ascii_alphanumeric() || b == b'_' => out.push(b as char),
            b => out += &format!("_{b:2x}"),
        }
    }
    out
}

/// Scripts named `nph-…` write the whole answer themselves.
pub fn is_nph(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"nph-"))
}

/// The text that is compiled. `__DATA__` is kept readable: Registry cuts it off, here `DATA` is reopened
/// from the text.
pub fn wrap(flavour: ScriptFlavour, package: &str, path: &Path, text: &[u8]) -> Vec<u8> {
    let (code, data) = cut_end(text);
    let mut out = Vec::with_capacity(text.len() + 300);
    out.extend_from_slice(format!("package {package};").as_bytes());
    out.extend_from_slice(b"sub handler {");
    if let Some(data) = data {
        out.extend_from_slice(b"open(DATA, '<', \\'");
        out.extend_from_slice(&quoted(data));
        out.extend_from_slice(b"');");
    }
    out.extend_from_slice(switches(flavour, code).as_bytes());
    out.extend_from_slice(b"\n#line 1 ");
    out.extend_from_slice(path.as_os_str().as_bytes());
    out.extend_from_slice(b"\n");
    out.extend_from_slice(code);
    out.extend_from_slice(b"\n}\n1;");
    out
}

/// For a string in single quotes.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for &byte in text {
        if matches!(byte, b'\\' | b'\'') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// What `-w` on the first line means here. `-T` means nothing: taint is decided at the server's start.
fn switches(flavour: ScriptFlavour, code: &[u8]) -> &'static str {
    let first = code.split(|&b| b == b'\n').next().unwrap_or_default();
    let is_perl = first.starts_with(b"#!") && memchr::memmem::find(first, b"perl").is_some();
    if !is_perl {
        return "";
    }
    let words = first[2..].split(u8::is_ascii_whitespace).skip_while(|w| w.is_empty()).skip(1);
    let mut switches = words.take_while(|w| *w != b"--").filter(|w| w.starts_with(b"-"));
    if !switches.any(|w| w[1..].contains(&b'w')) {
        return "";
    }
    if is_old(flavour) { "BEGIN {$^W = 1;}; $^W = 1;" } else { "use warnings;" }
}

/// Splits at the first line that begins with `__END__` or `__DATA__`; the data begins on the next line.
fn cut_end(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut start = 0;
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |i| start + i + 1);
        let line = &text[start..end];
        if line.starts_with(b"__END__") || line.starts_with(b"__DATA__") {
            return (&text[..start], Some(&text[end..]));
        }
        start = end;
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str) -> String {
        let path = Path::new("/srv/a.pl");
        String::from_utf8(wrap(ScriptFlavour::Registry, "P", path, text.as_bytes())).unwrap()
    }

    #[test]
    fn packages_are_named_as_mod_perl_names_them() {
        let path = Path::new("/srv/perl-bin/2hello.pl");
        assert_eq!(
            package(ScriptFlavour::Registry, path),
            "ModPerl::ROOT::ModPerl::Registry::srv_perl_2dbin__2hello_2epl"
        );
        assert_eq!(
            package(ScriptFlavour::ApacheRegistry, path),
            "Apache::ROOT::srv::perl_2dbin::_2hello_2epl"
        );
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = wrapped("print 1;\ndie;\n");
        assert!(text.contains("\n#line 1 /srv/a.pl\nprint 1;\ndie;\n"), "{text}");
    }

    #[test]
    fn minus_w_is_honoured_and_data_stays_readable() {
        assert!(wrapped("#!/usr/bin/perl -w\n1;").contains("use warnings;"));
        assert!(!wrapped("#!/usr/bin/perl\n1;").contains("use warnings;"));
        assert!(!wrapped("#!/usr/bin/perl -- -w\n1;").contains("use warnings;"));
        let text = wrapped("print <DATA>;\n__DATA__\nit's \\ here\n");
        assert!(text.contains("open(DATA, '<', \\'it\\'s \\\\ here\n')"), "{text}");
        assert!(!text.contains("__DATA__"));
    }

    #[test]
    fn nph_is_in_the_name() {
        assert!(is_nph(Path::new("/x/nph-a.pl")));
        assert!(!is_nph(Path::new("/nph-x/a.pl")));
    }
}
