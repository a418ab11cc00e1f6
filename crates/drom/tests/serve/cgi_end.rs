//! How a CGI script ends: destructors, END blocks, pipes and files are those of `perl script`,
//! though the child that runs it skips perl's search for objects when a look says that there is
//! nothing to find.

use std::process::Command;

use crate::support::Server;

/// Name, and what comes after the head.
const SCRIPTS: [(&str, &str); 15] = [
    ("plain", "print \"hi\\n\";"),
    (
        "destroy",
        "sub O::DESTROY { print \"gone in ${^GLOBAL_PHASE}\\n\" } our $g = bless {}, 'O'; \
         my $l = bless [], 'O'; END { print \"END\\n\" }",
    ),
    ("autoload", "sub O::AUTOLOAD { print \"$O::AUTOLOAD\\n\" } our $g = bless {}, 'O';"),
    (
        "inherited",
        "sub B::DESTROY { print \"B\\n\" } @O::ISA = 'B'; our %h = (a => [bless {}, 'O']);",
    ),
    ("universal", "sub UNIVERSAL::DESTROY { print ref shift, \"\\n\" } our $x = bless [], 'Q';"),
    ("glob", "sub O::DESTROY { print \"gone\\n\" } our $g = \\*Foo; bless $g, 'O';"),
    ("circle", "sub C::DESTROY { print \"circle\\n\" } my $o; $o = bless sub { $o }, 'C';"),
    (
        "tied",
        "sub T::TIESCALAR { bless [], shift } sub T::FETCH { 'v' } \
         sub T::DESTROY { print \"untied\\n\" } tie our $t, 'T'; print \"$t\\n\";",
    ),
    ("pipe", "$| = 1; print \"x\\n\"; open P, '|sleep 0.2; cat' or die; print P \"piped\\n\";"),
    ("lexical-pipe", "$| = 1; open my $p, '|-', 'sleep 0.2; cat' or die; print $p \"piped\\n\";"),
    ("layer", "binmode STDOUT, ':encoding(UTF-8)'; print \"caf\\x{e9}\\n\";"),
    ("selected", "open my $dup, '>&', \\*STDOUT; select $dup; print \"by a copy\\n\";"),
    ("end-exits", "END { print \"1\\n\"; exit 3 } END { print \"2\\n\" }"),
    ("dies", "$| = 1; END { print \"end $?\\n\" } die \"x\\n\""),
    ("cgi-pm", "use CGI; our $q = CGI->new; print $q->param('a') // 'none', \"\\n\";"),
];

#[test]
fn scripts_end_as_under_perl_itself() {
    let text =
        |code: &str| format!("#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n\"; {code}\n");
    let files: Vec<(String, String)> =
        SCRIPTS.iter().map(|(name, code)| (format!("cgi-bin/{name}.pl"), text(code))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (&n[..], &t[..])).collect();
    let server = Server::start("", &files);
    for (name, _) in SCRIPTS {
        let file = format!("cgi-bin/{name}.pl");
        let output = Command::new("/usr/bin/perl").arg(server.path(&file)).output().unwrap();
        let expected = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = expected.split_once("\n\n").unwrap().1;
        // First out of a bare zygote, then out of one that knows the script's modules.
        for run in 0..3 {
            assert_eq!(server.get(&format!("/{file}")).text(), expected, "{name}, run {run}");
        }
    }
}

#[test]
fn a_file_left_open_is_written() {
    let script = "#!/usr/bin/perl\nopen F, '>', '{}/out' or die; print F \"data\\n\"; \
        print \"Content-Type: text/plain\\n\\nok\\n\";\n";
    let server = Server::start("", &[("cgi-bin/file.pl", script)]);
    assert_eq!(server.get("/cgi-bin/file.pl").text(), "ok\n");
    assert_eq!(std::fs::read_to_string(server.path("out")).unwrap(), "data\n");
}

/// A locale is what the configuration passes on, never the server's own, as under mod_cgi.
#[test]
fn the_servers_locale_is_not_the_scripts() {
    let script = "#!/usr/bin/perl\nuse POSIX qw(setlocale LC_CTYPE);\n\
        print \"Content-Type: text/plain\\n\\n\", \
        setlocale(LC_CTYPE), ' ', $ENV{LANG} // 'unset';\n";
    let rules = "<Location /cgi-bin/with>\nSetEnv LC_ALL C.UTF-8\n</Location>\nPassEnv LANG\n";
    let files = [("cgi-bin/locale.pl", script), ("cgi-bin/with.pl", script)];
    let with_lang = |rules| Server::start_by(&["env", "LANG=C.UTF-8"], rules, &files);
    let server = with_lang("");
    assert_eq!(server.get("/cgi-bin/locale.pl").text(), "C unset");
    let server = with_lang(rules);
    for _ in 0..3 {
        assert_eq!(server.get("/cgi-bin/locale.pl").text(), "C.UTF-8 C.UTF-8");
        assert_eq!(server.get("/cgi-bin/with.pl").text(), "C.UTF-8 C.UTF-8");
    }
}

/// Zygotes keep to a core each; what they start does not.
#[test]
fn a_script_may_run_on_every_core() {
    let script = "#!/usr/bin/perl\nopen S, '/proc/self/status' or die; \
        my ($l) = grep /^Cpus_allowed_list/, <S>; print \"Content-Type: text/plain\\n\\n\", $l;\n";
    let server = Server::start("", &[("cgi-bin/cores.pl", script)]);
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap();
    for _ in 0..4 {
        assert_eq!(server.get("/cgi-bin/cores.pl").text().trim_end(), own);
    }
}
