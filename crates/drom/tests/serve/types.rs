//! The media type that a file's name gives to what a script or handler answers in its place, as
//! mod_mime gives it in Apache.

use std::time::Duration;

use crate::support::{Server, eventually};

const CONFIG: &str = "\
StartServers 1
MaxRequestWorkers 1
AddType text/html .html
AddType image/gif .gif
AddType text/x-perl .pl
AddLanguage de .de
AddEncoding x-squeezed .sq
PerlModule Tell
<Location /real>
  SetHandler modperl
  PerlResponseHandler Tell
</Location>
<Location /virtual>
  SetHandler perl-script
  PerlResponseHandler Tell
</Location>
<Location /virtual.html>
  SetHandler modperl
  PerlResponseHandler Tell
</Location>
<Files forced>
  ForceType text/x-forced
</Files>
";

const TELL: &str = r"package Tell;
sub handler {
    my $r = shift;
    my $args = $r->args // '';
    my $type = $args eq 'blind' ? 'unasked' : $r->content_type;
    return -1 if $args eq 'decline' || $args eq 'guard' && $type && $type !~ m{^text/};
    $r->content_type($args eq 'none' ? undef : 'text/plain') if $args =~ /^(?:none|own)$/;
    my @rest = ($r->content_encoding, @{$r->content_languages});
    $r->print(join ' ', map { $_ // 'undef' } $type, @rest);
    return 0;
}
1;
";

const FILES: [(&str, &str); 6] = [
    ("lib/Tell.pm", TELL),
    ("htdocs/real/page.html", "page"),
    ("htdocs/real/p.gif", "gif"),
    ("htdocs/real/page.html.de.sq", "squeezed"),
    ("htdocs/real/plain", "plain"),
    ("htdocs/real/forced", "forced"),
];

/// Path, type that goes out, body.
const CASES: [(&str, Option<&str>, &str); 14] = [
    ("/real/page.html", Some("text/html"), "text/html undef"),
    ("/real/page.html?blind", Some("text/html"), "unasked undef"),
    ("/real/page.html?own", Some("text/plain"), "text/html undef"),
    ("/real/page.html?none", None, "text/html undef"),
    ("/real/page.html/more.gif", Some("text/html"), "text/html undef"),
    ("/real/missing.html", Some("text/html"), "text/html undef"),
    ("/real/plain", None, "undef undef"),
    ("/real/forced", Some("text/x-forced"), "text/x-forced undef"),
    ("/real/p.gif", Some("image/gif"), "image/gif undef"),
    ("/real/p.gif?guard", Some("image/gif"), "gif"),
    ("/real/page.html?decline", Some("text/html"), "page"),
    ("/virtual", None, "undef undef"),
    ("/virtual/page.html", None, "undef undef"),
    ("/virtual.html/p.gif", Some("text/html"), "text/html undef"),
];

#[test]
fn handlers_find_the_type_of_the_file_and_send_it() {
    let server = Server::start(CONFIG, &FILES);
    for (path, kind, body) in CASES {
        let answer = server.get(path);
        assert_eq!((answer.header("Content-Type"), answer.text()), (kind, body.into()), "{path}");
        assert_eq!(answer.head.matches("Content-Type").count(), usize::from(kind.is_some()));
    }
}

#[test]
fn language_and_encoding_go_with_it_whatever_type_the_handler_sets() {
    let server = Server::start(CONFIG, &FILES);
    for (query, body) in [("", "text/html x-squeezed de"), ("?own", "text/html x-squeezed de")] {
        let answer = server.get(&format!("/real/page.html.de.sq{query}"));
        assert_eq!(answer.text(), body);
        assert_eq!(answer.header("Content-Language"), Some("de"), "{}", answer.head);
        assert_eq!(answer.header("Content-Encoding"), Some("x-squeezed"), "{}", answer.head);
    }
    let declined = server.get("/real/page.html.de.sq?decline");
    assert_eq!(declined.text(), "squeezed");
    for name in ["Content-Language", "Content-Encoding", "Content-Type"] {
        assert_eq!(declined.head.matches(name).count(), 1, "{}", declined.head);
    }
}

/// Debian's list of types has text/x-perl for .pl.
#[test]
fn a_script_without_a_type_has_that_of_its_own_name() {
    let print = "#!/usr/bin/perl\nprint qq{X-Other: 1\\n\\nbody};\n";
    let plain = "print qq{Content-Type: text/plain\\n\\nbody};\n";
    let files = [
        ("perl/other.pl", print),
        ("cgi-bin/other.pl", print),
        ("cgi-bin/other", print),
        ("perl/plain.pl", plain),
        ("lib/Tell.pm", TELL),
    ];
    let server = Server::start(CONFIG, &files);
    for (path, kind) in [
        ("/registry/other.pl", Some("text/x-perl")),
        ("/perlrun/other.pl", Some("text/x-perl")),
        ("/cgi-bin/other.pl", Some("text/x-perl")),
        ("/cgi-bin/other", None),
        ("/registry/plain.pl", Some("text/plain")),
    ] {
        let answer = server.get(path);
        let found = (answer.header("Content-Type"), answer.text());
        assert_eq!(found, (kind, "body".to_owned()), "{path}");
    }
}

/// mod_dir's turn is before the handler's: the slash, then the index file, which is the path from
/// then on.
#[test]
fn a_folder_has_its_slash_and_its_index_whoever_answers_for_it() {
    let module = "package Where; use Apache2::RequestRec (); use Apache2::RequestIO ();
        sub handler { my $r = shift; $r->content_type('text/plain');
            $r->print(join ' ', $r->uri, $r->unparsed_uri, $r->filename =~ m{(/htdocs.*)}); 0 }
        1;";
    let config = "PerlModule Where\nDirectoryIndex index.html\n\
        LogFormat \"%U %>s %f %R\" place\nCustomLog {}/access.log place\n\
        <LocationMatch ^/(app|index|none)>\nSetHandler modperl\nPerlResponseHandler Where\n\
        </LocationMatch>\n";
    let files = [
        ("lib/Where.pm", module),
        ("htdocs/app/img/x.gif", ""),
        ("htdocs/index/index.html", "not the file itself"),
        ("htdocs/plain.txt", "plain"),
    ];
    let server = Server::start(config, &files);
    let slash = server.get("/app?a=b");
    assert_eq!(slash.status, 301);
    assert!(slash.header("location").unwrap().ends_with("/app/?a=b"), "{slash:?}");
    assert_eq!(server.get("/app/img").status, 301);
    for (path, want) in [
        ("/app/", "/app/ /app/ /htdocs/app/"),
        ("/app/x", "/app/x /app/x /htdocs/app/x"),
        ("/index/?q", "/index/index.html /index/?q /htdocs/index/index.html"),
        ("/none", "/none /none /htdocs/none"),
    ] {
        assert_eq!(server.get(path).text(), want, "{path}");
    }
    let log = || std::fs::read_to_string(server.path("access.log")).unwrap();
    assert_eq!(server.get("/plain.txt").status, 200);
    let root = server.path("htdocs").display().to_string();
    for line in [
        format!("/app 301 {root}/app modperl\n"),
        format!("/index/index.html 200 {root}/index/index.html modperl\n"),
        format!("/plain.txt 200 {root}/plain.txt -\n"),
    ] {
        let is_logged = || log().contains(&line);
        assert!(eventually(Duration::from_secs(5), is_logged), "{line}{}", log());
    }
}

/// Nobody is sent from a missing page to one that is there.
#[test]
fn an_error_document_that_is_a_folder_without_its_slash_is_none() {
    let config = "DirectoryIndex index.html\nErrorDocument 404 /help\n\
        <Location /good>\nErrorDocument 404 /help/\n</Location>\n";
    let server = Server::start(config, &[("htdocs/help/index.html", "helpful")]);
    let answer = server.get("/none");
    assert_eq!((answer.status, answer.header("location")), (404, None));
    assert!(answer.text().contains("Additionally, a 404"), "{}", answer.text());
    let answer = server.get("/good/none");
    assert_eq!((answer.status, answer.text().as_str()), (404, "helpful"));
}
