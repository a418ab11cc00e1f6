//! Whole configurations read from memory: what they become, and what is said about wrong ones.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::{Just, Strategy};

use super::*;

fn source(files: &[(&str, &str)]) -> MemorySource {
    MemorySource(files.iter().map(|(p, t)| (PathBuf::from(p), t.to_string())).collect())
}

fn read(text: &str) -> Result<(Config, Vec<Notice>), Vec<ConfigError>> {
    let files = source(&[("/etc/d/site.conf", text)]);
    Config::from_source(Path::new("/etc/d/site.conf"), &Options::default(), &files)
}

fn good(text: &str) -> Config {
    read(text).unwrap_or_else(|e| panic!("{e:?}")).0
}

fn errors(text: &str) -> Vec<String> {
    read(text).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_file_has_apaches_defaults_on_loopback() {
    let config = good("");
    assert_eq!(config.listen, ["127.0.0.1:8080".parse::<SocketAddr>().unwrap()]);
    assert_eq!(config.server.max_request_workers, 256);
    assert_eq!(config.server.keep_alive_timeout, Duration::from_secs(5));
    assert_eq!(config.server.server_root, Path::new("/etc/d"));
    assert!(!config.perl.wanted);
}

#[test]
fn reads_server_settings() {
    let config = good(
        "ServerRoot /srv\nDocumentRoot \"www/\"\nListen 127.0.0.1:81\nServerName site.org:81\n\
         StartServers 2\nMaxClients 7\nMaxRequestsPerChild 9\nKeepAlive Off\nTimeout 3\n\
         ErrorLog logs/e\nLogLevel debug\nCustomLog logs/a mine\nLogFormat \"%h \\\"%r\\\"\" mine\n\
         DromRequestTimeout 500ms\nDromWorkerMemoryLimit 64M\nDromCGIPreload CGI DBI\n",
    );
    let s = &config.server;
    assert_eq!(s.document_root, Path::new("/srv/www"));
    assert_eq!((s.start_servers, s.max_request_workers, s.max_connections_per_child), (2, 7, 9));
    assert_eq!((s.server_name.as_deref(), s.server_port), (Some("site.org"), Some(81)));
    assert_eq!(s.custom_logs[0].format, "%h \"%r\"");
    assert_eq!(s.error_log.as_deref(), Some(Path::new("/srv/logs/e")));
    assert_eq!(config.base.time_limit(), Some(Duration::from_millis(500)));
    assert_eq!((s.worker_memory_limit, s.cgi_preload.len()), (Some(64 << 20), 2));
}

#[test]
fn perl_startup_keeps_its_order_and_places() {
    let config = good(
        "PerlSwitches -w -Mlib=/x\nPerlRequire startup.pl\nPerlModule A B\nPerlTaintCheck On\n\
         PerlSetEnv X y\n<Location /p>\nSetHandler modperl\nPerlResponseHandler My::H\n\
         PerlModule My::H\n</Location>\n",
    );
    let kinds: Vec<_> = config.perl.steps.iter().map(|s| (s.place.line, s.kind.clone())).collect();
    let module = |name: &str| PerlStepKind::Module(name.to_string());
    let want = [
        (2, PerlStepKind::Require("startup.pl".into())),
        (3, module("A")),
        (3, module("B")),
        (9, module("My::H")),
    ];
    assert_eq!(kinds, want);
    assert!(config.perl.taint && config.perl.wanted && config.perl.handlers.contains("My::H"));
    assert_eq!(config.perl.set_env, [("X".to_string(), "y".to_string())]);
    assert_eq!(config.perl.steps[0].place.to_string(), "/etc/d/site.conf:2");
}

#[test]
fn conditions_choose() {
    let text = "<IfModule mod_perl.c>\nServerName perl\n</IfModule>\n\
                <IfModule !perl_module>\nNonsense\n<Other>\n</Other>\n</IfModule>\n\
                <IfDefine X>\nStartServers 3\n</IfDefine>\n<IfDefine !X>\nNonsense\n</IfDefine>\n\
                Define Y 4\n<IfDefine Y>\nMinSpareServers ${Y}\n</IfDefine>\n";
    let files = source(&[("/a", text)]);
    let options = Options { defines: vec!["X".into()], ..Options::default() };
    let (config, _) = Config::from_source(Path::new("/a"), &options, &files).unwrap();
    assert_eq!(config.server.server_name.as_deref(), Some("perl"));
    assert_eq!((config.server.start_servers, config.server.min_spare), (3, 4));
}

#[test]
fn includes_with_wildcards_and_places() {
    let files = source(&[
        (
            "/e/main",
            "Include conf.d/*.conf\nIncludeOptional none/*.conf\nIncludeOptional missing\n",
        ),
        ("/e/conf.d/a.conf", "StartServers 3\n"),
        ("/e/conf.d/b.conf", "\nStartServer 4\n"),
    ]);
    let wrong = Config::from_source(Path::new("/e/main"), &Options::default(), &files).unwrap_err();
    assert_eq!(wrong.len(), 1);
    let text = wrong[0].to_string();
    let want =
        "/e/conf.d/b.conf:2: unknown directive \"StartServer\"; did you mean \"StartServers\"?";
    assert_eq!(text, want);
    let looping = source(&[("/e/main", "Include /e/main\n")]);
    let wrong =
        Config::from_source(Path::new("/e/main"), &Options::default(), &looping).unwrap_err();
    assert!(wrong[0].to_string().contains("include each other"));
}

#[test]
fn all_errors_are_told_at_once_and_clearly() {
    let got = errors(
        "Lisen 80\nKeepAlive Maybe\nTimeout\n<Directry /x>\n</Directry>\n<Directory /x>\nListen \
         80\n\
         SetHandler cgi-scrpt\nOptions +ExecCGI Indexes\n</Directory>\nPerlAuthenHandler X\n\
         <VirtualHost *>\nAnything\n</VirtualHost>\n</Location>\nPerlOptions +SetupEnvs\n<Files \
         x>\n",
    );
    let wanted = [
        "1: unknown directive \"Lisen\"; did you mean \"Listen\"?",
        "2: KeepAlive: \"Maybe\" must be On or Off",
        "3: Timeout takes one argument: Timeout seconds",
        "4: unknown section <Directry>; did you mean \"Directory\"?",
        "7: Listen is not allowed inside <Directory>; it belongs at the top level",
        "8: SetHandler: \"cgi-scrpt\" is not understood; did you mean \"cgi-script\"?",
        "9: Options: either all words begin with + or -, or none",
        "11: PerlAuthenHandler is not supported yet: only PerlResponseHandler runs; do the work \
         there",
        "12: <VirtualHost> is not supported yet: one server per configuration; put its \
         directives at the \
         top level",
        "15: </Location> closes nothing",
        "16: PerlOptions: \"SetupEnvs\" is not understood; did you mean \"SetupEnv\"?",
        "17: <Files> is never closed; add </Files>",
    ];
    let wanted: Vec<String> = wanted.iter().map(|w| format!("/etc/d/site.conf:{w}")).collect();
    assert_eq!(got, wanted);
}

#[test]
fn lenient_turns_unknown_directives_into_notices() {
    let files = source(&[("/a", "RewriteEngine On\nNonsense x\nStartServers 2\n")]);
    let options = Options { lenient: true, ..Options::default() };
    let (config, notices) = Config::from_source(Path::new("/a"), &options, &files).unwrap();
    assert_eq!((config.server.start_servers, notices.len()), (2, 2));
}

#[test]
fn debian_boilerplate_is_accepted() {
    let text = "Mutex file:/run/lock default\nPidFile ${APACHE_PID_FILE}\nHostnameLookups Off\n\
                LoadModule perl_module /usr/lib/apache2/modules/mod_perl.so\n\
                <Directory />\nOptions FollowSymLinks\nAllowOverride None\nRequire all \
                denied\n</Directory>\n\
                AccessFileName .htaccess\n<FilesMatch \"^\\.ht\">\nRequire all \
                denied\n</FilesMatch>\n\
                <Directory /var/www>\n<RequireAll>\nRequire ip 10\nRequire not ip \
                10.1\n</RequireAll>\n\
                <Files x>\nOrder allow,deny\nDeny from all\n</Files>\n</Directory>\n";
    let (config, notices) = read(text).unwrap();
    assert_eq!(config.sections.len(), 3);
    assert!(notices.iter().any(|n| n.to_string().contains("${APACHE_PID_FILE} is not defined")));
    let access = config.sections[2].policy.access.clone().unwrap();
    assert!(
        access.allows("10.2.0.1".parse().unwrap(), b"GET")
            && !access.allows("10.1.0.1".parse().unwrap(), b"GET")
    );
    assert_eq!(config.sections[2].policy.files.len(), 1);
}

#[test]
fn a_misspelt_log_nickname_is_noticed() {
    let (_, notices) = read("CustomLog a combind\nCustomLog b combined\n").unwrap();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].text.contains("\"combind\""));
}

#[test]
fn handlers_that_are_not_built_in_are_noticed() {
    let (config, notices) = read("AddHandler type-map .var\nSetHandler server-status\n").unwrap();
    assert_eq!(config.base.set_handler, Some(HandlerName::None));
    assert_eq!(notices.len(), 2);
    assert!(notices[0].text.contains("type-map is not supported yet"));
}

#[test]
fn reads_real_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("conf.d")).unwrap();
    std::fs::write(dir.path().join("site.conf"), "Include conf.d/*.conf\n").unwrap();
    std::fs::write(dir.path().join("conf.d/a.conf"), "StartServers 3\n").unwrap();
    std::fs::write(dir.path().join("conf.d/b.txt"), "Nonsense\n").unwrap();
    let path = dir.path().join("site.conf");
    let (config, _) = Config::from_file(&path, &Options::default()).unwrap();
    assert_eq!((config.server.start_servers, config.server.server_root.as_path()), (3, dir.path()));
}

proptest::proptest! {
    #[test]
    fn no_noise_makes_it_panic(text in "\\PC*|[ -~\n]{0,200}") {
        let _ = read(&text);
    }

    /// Settings mean the same in any order, whatever blank lines, comments and case are between.
    #[test]
    fn form_does_not_matter(
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
        noise in "[ \t]{0,3}",
    ) {
        let settings = ["StartServers 3", "Timeout 7", "MaxRequestWorkers 9", "KeepAlive Off"];
        let text: String = order
            .iter()
            .map(|&i| format!("{noise}{}{noise}\n\n# note\n", settings[i].to_lowercase()))
            .collect();
        let (plain, other) = (good(&settings.join("\n")), good(&text));
        proptest::prop_assert_eq!(format!("{:?}", plain.server), format!("{:?}", other.server));
    }

    #[test]
    fn no_text_makes_it_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "<Directory", "<Files", "</Files>", "<IfModule", "!x", ">", "/x", "~", "\n", "\n",
            ", ", ",
            ", ", ", ", ", ", ", ", ", ", ", ", ", ", ", "", "Listen",
            ":", "80", "[", "Alias", "$", "${", "}", "Define", "=pod", "__END__", "é",
            "Allow", "from", "10/8", "PerlSetVar", "ErrorDocument", "404", "LogFormat", "%{",
            "<Location", "Timeout",
        ]), 0..40),
    ) {
        let _ = read(&words.join(" "));
        let _ = read(&words.concat());
    }
}

#[test]
fn listen_from_the_command_line_wins() {
    let files = source(&[("/a", "Listen 80\n")]);
    let address: SocketAddr = "127.0.0.1:9000".parse().unwrap();
    let options = Options { listen: vec![address], ..Options::default() };
    let (config, _) = Config::from_source(Path::new("/a"), &options, &files).unwrap();
    assert_eq!(config.listen, [address]);
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let files = source(&[]);
    let got = Config::from_source(Path::new("/no"), &Options::default(), &files).unwrap_err();
    assert!(got[0].to_string().contains("cannot read /no"));
}

#[test]
fn a_folder_needs_no_file() {
    let config = Config::for_folder(Path::new("/srv/site"), &Options::default());
    assert_eq!(config.aliases.len(), 2);
    let denied = |uri: &[u8]| {
        let mut last =
            config.sections.iter().filter(|s| s.is_location(uri) && s.policy.access.is_some());
        last.next_back().is_some_and(|s| {
            !s.policy.access.as_ref().unwrap().allows("127.0.0.1".parse().unwrap(), b"GET")
        })
    };
    for uri in ["/.git/config", "/x/.htaccess", "/.well-known/.git", "/perl/.x", "/.wellknown"] {
        assert!(denied(uri.as_bytes()), "{uri}");
    }
    for uri in ["/index.html", "/.well-known/acme-challenge/abc", "/a.b/c"] {
        assert!(!denied(uri.as_bytes()), "{uri}");
    }
}

/// What httpd -t says of the same lines.
#[test]
fn require_lines_that_decide_nothing_are_faults() {
    for (lines, what) in [
        ("Require not ip 10", "no effect outside of <RequireAll>"),
        ("<RequireAny>\n</RequireAny>", "<RequireAny>: contains no Require"),
        ("<RequireAll>\n</RequireAll>", "<RequireAll>: contains no Require"),
        ("<RequireNone>\n</RequireNone>", "<RequireNone>: contains no Require"),
        ("<RequireAny>\nRequire not ip 10\n</RequireAny>", "no effect outside of <RequireAll>"),
        ("<RequireAll>\nRequire not ip 10\n</RequireAll>", "contains only what refuses"),
        ("<RequireNone>\nRequire ip 10\n</RequireNone>", "no effect outside of <RequireAll>"),
        ("Require method GET FOO", "FOO is no method"),
        ("CustomLog \"|prog\" common", "no programs"),
        ("ErrorLog \"|prog\"", "no programs"),
        ("ErrorLog syslog:local7", "no syslog"),
    ] {
        let section = !lines.contains("Log ");
        let text =
            if section { format!("<Location /x>\n{lines}\n</Location>\n") } else { lines.into() };
        let found = errors(&text);
        assert!(found.iter().any(|e| e.contains(what)), "{lines}: {found:?}");
    }
    let all = "<RequireAll>\n<RequireNone>\nRequire method POST PUT\n</RequireNone>\n\
        Require all granted\n</RequireAll>\n";
    let config = good(&format!("<Location /x>\n{all}</Location>\n"));
    let access = config.sections[0].policy.access.clone().unwrap();
    let client = "10.0.0.1".parse().unwrap();
    assert!(access.allows(client, b"GET") && !access.allows(client, b"POST"));
}

#[test]
fn an_error_document_may_begin_with_one_quote() {
    let config = good("ErrorDocument 404 \"Not here, sorry\n");
    let text = ErrorDocument::Text("Not here, sorry".to_string());
    assert_eq!(config.base.error_documents.get(&404), Some(&text));
    assert!(!errors("DocumentRoot \"/tmp\n").is_empty());
}
