//! Mapping against expectations taken from Apache 2.4.71 with the same files and configuration.

use std::cell::Cell;
use std::collections::HashMap;

use super::*;
use crate::config::{MemorySource, Options, ScriptFlavour};

const CONFIG: &str = "<Location /real>\nSetHandler cgi-script\n</Location>\n\
    <Location /cgi-bin/n.cgi>\nSetHandler none\n</Location>\n\
    ServerRoot /r\nDocumentRoot htdocs\nAlias /al /r/other\nAlias /sl/ \
 /r/other/\n\
    ScriptAlias /cgi-bin/ /r/cgi/\nAliasMatch ^/m/(.)(.*)$ /r/other/$1$2\n\
    <Directory /r/htdocs/ex>\nOptions +ExecCGI\nAddHandler cgi-script .cgi\n</Directory>\n\
    <Directory /r/htdocs/noidx>\nAddHandler cgi-script .cgi\n</Directory>\n\
    <Location /denied>\nRequire all denied\n</Location>\n\
    <Files \"*.secret\">\nRequire all denied\n</Files>\n\
    <Location /app>\nSetHandler modperl\nPerlResponseHandler My::App\n</Location>\n\
    <Location /perl/>\nSetHandler perl-script\nPerlHandler ModPerl::Registry\n</Location>\n";

struct Fake {
    kinds: HashMap<PathBuf, FileKind>,
    calls: Cell<usize>,
    now_ns: Cell<u64>,
}

impl Files for Fake {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn stat(&self, path: &Path) -> Result<Stat, Absent> {
        match self.lstat(path)?.kind {
            FileKind::Symlink => Ok(stat(FileKind::File, 7)),
            kind => Ok(stat(kind, 0)),
        }
    }

    fn lstat(&self, path: &Path) -> Result<Stat, Absent> {
        self.calls.set(self.calls.get() + 1);
        if path.starts_with("/r/htdocs/forb/") {
            return Err(Absent::Forbidden);
        }
        self.kinds.get(path).map(|k| stat(*k, 0)).ok_or(Absent::Missing)
    }
}

fn stat(kind: FileKind, uid: u32) -> Stat {
    Stat {
        kind,
        size: 1,
        mtime_s: 0,
        mtime_ns: 0,
        inode: 1,
        device: 1,
        mode: 0,
        uid,
        gid: 0,
        nlink: 1,
        atime_s: 0,
        ctime_s: 0,
    }
}

fn disk() -> Fake {
    let files = [
        "htdocs/a.txt",
        "htdocs/dir/index.html",
        "htdocs/noidx/f.txt",
        "htdocs/noidx/env.cgi",
        "htdocs/ex/env.cgi",
        "other/o.txt",
        "cgi/env.cgi",
        "cgi/n.cgi",
        "htdocs/perl/hello.pl",
        "htdocs/x.secret",
    ];
    let dirs = [
        "",
        "htdocs",
        "htdocs/dir",
        "htdocs/noidx",
        "htdocs/ex",
        "other",
        "cgi",
        "htdocs/perl",
        "htdocs/forb",
    ];
    let path = |p: &&str| PathBuf::from("/r").join(p);
    let mut kinds: HashMap<PathBuf, FileKind> =
        files.iter().map(|f| (path(f), FileKind::File)).collect();
    kinds.extend(dirs.iter().map(|d| (path(d), FileKind::Directory)));
    kinds.insert("/r/htdocs/link.txt".into(), FileKind::Symlink);
    Fake { kinds, calls: Cell::new(0), now_ns: Cell::new(1) }
}

fn mapper(text: &str) -> Mapper {
    let source = MemorySource([(PathBuf::from("/r/c"), text.to_string())].into());
    let (config, _) = Config::from_source(Path::new("/r/c"), &Options::default(), &source).unwrap();
    Mapper::new(Arc::new(config))
}

/// As `200 file path_info`, `301 path` or a status.
fn outcome(mapper: &Mapper, uri: &str, files: &Fake) -> String {
    let mapped = mapper.map(uri.as_bytes(), files);
    let client = "127.0.0.1".parse().unwrap();
    if !mapped.policy.allows(client, b"GET") {
        return "403".to_string();
    }
    match &mapped.handler {
        HandlerKind::Refuse(status, _) | HandlerKind::NoFile(status) => status.to_string(),
        HandlerKind::Redirect(to) => format!("301 {}", String::from_utf8_lossy(to)),
        kind => {
            let name = match kind {
                HandlerKind::Static => "file",
                HandlerKind::CgiScript => "cgi",
                HandlerKind::PerlScript { .. } => "perl-script",
                _ => "modperl",
            };
            let target = mapped.target(files);
            let info = String::from_utf8_lossy(&target.path_info);
            format!("{name} {} {info}", target.filename.display()).trim_end().to_string()
        }
    }
}

#[test]
fn answers_as_apache_answers() {
    let (mapper, files) = (mapper(CONFIG), disk());
    for (uri, want) in [
        ("/a.txt", "file /r/htdocs/a.txt"),
        ("/a.txt/more", "404"),
        ("/dir", "301 /dir/"),
        ("/dir/", "file /r/htdocs/dir/index.html"),
        ("/dir/nope", "404"),
        ("/noidx/", "403"),
        ("/none/x", "404"),
        ("/forb/x", "403"),
        ("/link.txt", "file /r/htdocs/link.txt"),
        ("/al/o.txt", "file /r/other/o.txt"),
        ("/al", "301 /al/"),
        ("/alx", "404"),
        ("/sl", "404"),
        ("/sl/o.txt", "file /r/other/o.txt"),
        ("/m/o.txt", "file /r/other/o.txt"),
        ("/cgi-bin/env.cgi/p/q", "cgi /r/cgi/env.cgi /p/q"),
        ("/cgi-bin/none", "404"),
        ("/cgi-bin/", "403"),
        ("/cgi-bin", "404"),
        ("/ex/env.cgi/x/y", "cgi /r/htdocs/ex/env.cgi /x/y"),
        ("/noidx/env.cgi", "403"),
        ("/denied/x", "403"),
        ("/denied", "403"),
        ("/x.secret", "403"),
        ("/", "403"),
        ("/real/x", "403"),
        ("/m/o.txt/z", "404"),
        ("/m/", "404"),
        ("/a.txt/", "404"),
        ("/none/", "404"),
        ("/cgi-bin/n.cgi", "cgi /r/cgi/n.cgi"),
        ("/app", "modperl /r/htdocs/app"),
        ("/app/x/y", "modperl /r/htdocs/app /x/y"),
        ("/perl/hello.pl/info", "perl-script /r/htdocs/perl/hello.pl /info"),
        ("/perl/none.pl", "perl-script /r/htdocs/perl/none.pl"),
    ] {
        assert_eq!(outcome(&mapper, uri, &files), want, "{uri}");
        assert_eq!(outcome(&mapper, uri, &files), want, "{uri} from the cache");
    }
}

#[test]
fn a_location_handler_needs_one_system_call_a_second_and_a_file_one() {
    let (mapper, files) = (mapper(CONFIG), disk());
    for _ in 0..2 {
        let mapped = mapper.map(b"/app/x", &files);
        assert!(matches!(mapped.handler, HandlerKind::ModPerl { .. }));
        assert_eq!(files.calls.get(), 1);
    }
    files.now_ns.set(NO_FOLDER_NS + 1);
    mapper.map(b"/app/x", &files);
    assert_eq!(files.calls.get(), 2);
    for (uri, calls) in [("/a.txt", 1), ("/perl/hello.pl", 1), ("/dir/index.html", 1)] {
        let before = files.calls.get();
        mapper.map(uri.as_bytes(), &files);
        assert_eq!(files.calls.get() - before, calls, "{uri}");
    }
}

#[test]
fn a_path_is_translated_without_a_look_unless_it_may_be_a_directory() {
    let (mapper, files) = (mapper(CONFIG), disk());
    for (uri, file, calls) in [
        ("/a.txt", "/r/htdocs/a.txt", 0),
        ("/cgi-bin/env.cgi/more", "/r/cgi/env.cgi/more", 0),
        ("/none/more", "/r/htdocs/none/more", 0),
        ("/dir/", "/r/htdocs/dir/index.html", 2),
        ("/none/", "/r/htdocs/none/", 1),
    ] {
        let before = files.calls.get();
        assert_eq!(mapper.file_of(uri.as_bytes(), &files), file.as_bytes(), "{uri}");
        assert_eq!(files.calls.get() - before, calls, "{uri}");
    }
}

/// As mod_dir does it, whose turn is before the handler's.
#[test]
fn a_folder_below_a_location_has_its_slash_and_its_index() {
    let (mapper, mut files) = (mapper(CONFIG), disk());
    assert_eq!(outcome(&mapper, "/app", &files), "modperl /r/htdocs/app");
    for (name, kind) in [("app", FileKind::Directory), ("app/img", FileKind::Directory)] {
        files.kinds.insert(format!("/r/htdocs/{name}").into(), kind);
    }
    assert_eq!(outcome(&mapper, "/app", &files), "modperl /r/htdocs/app", "seen a moment ago");
    files.now_ns.set(NO_FOLDER_NS + 1);
    for (uri, want) in [
        ("/app", "301 /app/"),
        ("/app/", "modperl /r/htdocs/app/"),
        ("/app/img", "301 /app/img/"),
        ("/app/none", "modperl /r/htdocs/app/none"),
    ] {
        assert_eq!(outcome(&mapper, uri, &files), want, "{uri}");
    }
    files.kinds.insert("/r/htdocs/app/index.html".into(), FileKind::File);
    assert_eq!(outcome(&mapper, "/app/", &files), "modperl /r/htdocs/app/index.html");
    let mapped = mapper.map(b"/app/", &files);
    assert_eq!(mapped.index_path.as_deref(), Some(&b"/app/index.html"[..]));
}

#[test]
fn a_virtual_place_costs_one_look_until_there_is_something() {
    let text = format!(
        "{CONFIG}<Location /virtual>\nSetHandler perl-script\nPerlHandler My::App\n</Location>\n"
    );
    let (mapper, mut files) = (mapper(&text), disk());
    let look = |files: &Fake| {
        let before = files.calls.get();
        let mapped = mapper.map(b"/virtual/x/y", files);
        let target = mapped.target(files);
        let name = target.filename.strip_prefix("/r/htdocs/").unwrap().to_owned();
        (name, target.path_info.clone(), files.calls.get() - before)
    };
    assert_eq!(look(&files), ("virtual".into(), b"/x/y".to_vec(), 3), "and once: no folder");
    assert_eq!(look(&files), ("virtual".into(), b"/x/y".to_vec(), 1));
    files.kinds.insert("/r/htdocs/virtual".into(), FileKind::Directory);
    assert_eq!(look(&files), ("virtual/x".into(), b"/y".to_vec(), 4));
    files.kinds.insert("/r/htdocs/virtual/x".into(), FileKind::File);
    assert_eq!(look(&files), ("virtual/x".into(), b"/y".to_vec(), 3));
    files.kinds.remove(&PathBuf::from("/r/htdocs/virtual/x"));
    files.kinds.remove(&PathBuf::from("/r/htdocs/virtual"));
    assert_eq!(look(&files).2, 2);
    assert_eq!(look(&files).2, 1);
}

#[test]
fn a_directory_section_below_makes_the_disk_matter() {
    let text = format!("{CONFIG}<Directory /r/htdocs/app/deep>\nSetHandler None\n</Directory>\n");
    let (mapper, files) = (mapper(&text), disk());
    mapper.map(b"/app/deep/x", &files);
    assert!(files.calls.get() > 1);
    let before = files.calls.get();
    mapper.map(b"/app/other", &files);
    assert_eq!(files.calls.get(), before + 1);
}

#[test]
fn script_name_ends_where_path_info_begins() {
    let (mapper, files) = (mapper(CONFIG), disk());
    let mapped = mapper.map(b"/cgi-bin/env.cgi/p/q", &files);
    assert_eq!(mapped.script_name(b"/cgi-bin/env.cgi/p/q", &files), b"/cgi-bin/env.cgi");
    assert!(mapped.is_script_alias);
    let index = mapper.map(b"/dir/", &files);
    assert_eq!(index.script_name(b"/dir/", &files), b"/dir/index.html");
}

#[test]
fn links_need_an_option() {
    let files = disk();
    let closed = mapper("ServerRoot /r\nDocumentRoot htdocs\nOptions None\n");
    assert_eq!(outcome(&closed, "/link.txt", &files), "403");
    assert_eq!(outcome(&closed, "/a.txt", &files), "file /r/htdocs/a.txt");
    let owner = mapper("ServerRoot /r\nDocumentRoot htdocs\nOptions SymLinksIfOwnerMatch\n");
    assert_eq!(
        outcome(&owner, "/link.txt", &files),
        "403",
        "the fake link's target has another owner"
    );
}

#[test]
fn sections_merge_in_apaches_order() {
    let text = "ServerRoot /r\nDocumentRoot htdocs\n\
        <Location /dir>\nSetEnv WHO location\n</Location>\n\
        <Files index.html>\nSetEnv WHO files\nSetEnv FILES 1\n</Files>\n\
        <Directory /r/htdocs/dir>\nSetEnv WHO dir\nSetEnv DIR long\n\
        <Files *.html>\nSetEnv FILES nested\n</Files>\n</Directory>\n\
        <Directory />\nSetEnv DIR short\nSetEnv ROOT 1\n</Directory>\n\
        <DirectoryMatch /dir$>\nSetEnv MATCH wrong\n</DirectoryMatch>\n<DirectoryMatch \
        /dir/$>\nSetEnv MATCH wrong\n</DirectoryMatch>\n\
        <DirectoryMatch /dir/index\\.html$>\nSetEnv MATCH 1\n</DirectoryMatch>\n";
    let (mapper, files) = (mapper(text), disk());
    let mapped = mapper.map(b"/dir/index.html", &files);
    let value = |name: &str| {
        let found = mapped.policy.set_env.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.clone()).unwrap_or_default()
    };
    let got = ["WHO", "FILES", "DIR", "ROOT", "MATCH"].map(value);
    assert_eq!(got, ["location", "nested", "long", "1", "1"]);
}

#[test]
fn a_folder_never_shows_its_scripts() {
    let config = Config::for_folder(Path::new("/r/htdocs"), &Options::default());
    let mut files = disk();
    files.kinds.insert("/r/htdocs/cgi-bin/x.cgi".into(), FileKind::File);
    files.kinds.insert("/r/htdocs/.git/config".into(), FileKind::File);
    let mapper = Mapper::new(Arc::new(config));
    let want = "perl-script /r/htdocs/perl/hello.pl";
    assert_eq!(outcome(&mapper, "/perl/hello.pl", &files), want);
    assert_eq!(outcome(&mapper, "/cgi-bin/x.cgi", &files), "cgi /r/htdocs/cgi-bin/x.cgi");
    assert_eq!(outcome(&mapper, "/.git/config", &files), "403");
    assert_eq!(outcome(&mapper, "/a.txt", &files), "file /r/htdocs/a.txt");
    match mapper.map(b"/perl/hello.pl", &files).handler {
        HandlerKind::PerlScript { handlers } => {
            assert_eq!(handlers[0], PerlHandler::Script(ScriptFlavour::Registry));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn double_extensions_run_their_handler() {
    let text = "ServerRoot /r\nDocumentRoot htdocs\nOptions +ExecCGI\nAddHandler cgi-script .cgi\n";
    let (mapper, mut files) = (mapper(text), disk());
    files.kinds.insert("/r/htdocs/x.CGI.bak".into(), FileKind::File);
    assert_eq!(outcome(&mapper, "/x.CGI.bak", &files), "cgi /r/htdocs/x.CGI.bak");
}
