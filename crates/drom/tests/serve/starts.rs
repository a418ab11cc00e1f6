//! What `drom serve` says, and how it ends, when it cannot start.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

struct Ended {
    status: Option<i32>,
    said: String,
}

/// Runs `drom serve` in a folder; it must end by itself, within 20 s.
fn serve(dir: &Path, args: &[&str]) -> Ended {
    let output = Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_drom"), "serve"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { status: output.status.code(), said }
}

/// A configuration that cannot work: the status, and one line on standard error with these words.
fn refuses(config: &str, args: &[&str], status: i32, words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.pl"), "my $x = ;\n").unwrap();
    let root = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("c.conf"), config.replace("{}", root)).unwrap();
    let ended = serve(dir.path(), &[&["-f", "c.conf"], args].concat());
    assert_eq!(ended.status, Some(status), "{config}: {}", ended.said);
    let (lines, first) =
        (ended.said.lines().count(), ended.said.lines().next().unwrap_or_default());
    assert_eq!(lines, 1, "{config}: {}", ended.said);
    assert!(words.iter().all(|word| first.contains(word)), "{config}: {first}");
}

#[test]
fn numbers_of_workers_that_cannot_be() {
    for (line, word) in [
        ("MaxRequestWorkers 0", "0 is too few"),
        ("StartServers 0", "0 is too few"),
        ("MaxRequestWorkers 100000000", "too many"),
        ("StartServers 100000000", "too many"),
        ("MaxClients 99999999999", "whole number"),
        ("MaxRequestWorkers -1", "whole number"),
    ] {
        let name = line.split(' ').next().unwrap();
        refuses(line, &["-t"], 2, &["c.conf:1:", name, word]);
        refuses(line, &[], 2, &["c.conf:1:", name, word]);
    }
}

#[test]
fn a_port_that_another_server_has() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let config = format!("Listen {address}\nErrorLog {{}}/log\n");
    refuses(&config, &[], 1, &["cannot listen on", &address, "Address already in use"]);
}

#[test]
fn an_address_that_this_machine_does_not_have() {
    refuses("Listen 203.0.113.7:8099\n", &[], 1, &["cannot listen on 203.0.113.7:8099"]);
}

#[test]
fn a_listener_without_permission() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Root may listen anywhere: somebody else tries, where this can be arranged.
    let program = env!("CARGO_BIN_EXE_drom");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args([program, "serve", "--listen", "127.0.0.1:81"])
        .arg(dir.path())
        .output();
    let Ok(output) = output else {
        eprintln!("not tested: setpriv is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("setpriv") {
        eprintln!("not tested: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ports below 1024 need root") && said.lines().count() == 1, "{said}");
}

#[test]
fn configurations_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let missing = serve(dir.path(), &["-f", "none.conf"]);
    assert_eq!(missing.status, Some(2));
    assert!(missing.said.starts_with("none.conf: cannot read"), "{}", missing.said);
    let folder = serve(dir.path(), &["-f", "."]);
    assert_eq!((folder.status, folder.said.lines().count()), (Some(2), 1), "{}", folder.said);
    let nowhere = serve(dir.path(), &["nowhere"]);
    assert_eq!((nowhere.status, nowhere.said.lines().count()), (Some(2), 1), "{}", nowhere.said);
    std::fs::write(dir.path().join("bytes.conf"), b"\xff\xfeListen\0\n").unwrap();
    let bytes = serve(dir.path(), &["-f", "bytes.conf", "-t"]);
    assert_eq!((bytes.status, bytes.said.lines().count()), (Some(2), 1), "{}", bytes.said);
}

#[test]
fn files_and_names_that_are_not_there() {
    const LOCAL: &str = "Listen 127.0.0.1:0\n";
    let refuses = |line: &str, status, words: &[&str]| {
        refuses(&format!("{LOCAL}{line}\n"), &[], status, words);
    };
    refuses("ErrorLog /none/log", 1, &["cannot open the log /none/log"]);
    refuses("CustomLog /none/log common", 1, &["cannot open the log /none/log"]);
    refuses("User nobody-at-all", 2, &["bad user name nobody-at-all"]);
    refuses("PidFile /none/pid", 1, &["cannot write the PidFile /none/pid"]);
    // The error log has it too, but who starts a server looks at the terminal.
    refuses("ErrorLog {}/log\nPerlRequire /none.pl", 1, &["c.conf:3:", "/none.pl"]);
    refuses("ErrorLog {}/log\nPerlModule No::Such", 1, &["c.conf:3:", "No/Such.pm"]);
    refuses("ErrorLog {}/log\nCustomLog /none/log common", 1, &["cannot open the log /none/log"]);
}

#[test]
fn an_error_at_the_start_is_in_the_error_log_too() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let config = format!("Listen 127.0.0.1:0\nErrorLog {}\nPerlRequire /none.pl\n", log.display());
    std::fs::write(dir.path().join("c.conf"), config).unwrap();
    assert_eq!(serve(dir.path(), &["-f", "c.conf"]).status, Some(1));
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("/none.pl") && text.contains("c.conf:3:"), "{text}");
}

#[test]
fn the_configuration_test_knows_users_groups_and_folders() {
    for (line, says) in [
        ("User nobody-of-this-name", "bad user name nobody-of-this-name"),
        ("Group nobody-of-this-name", "bad group name nobody-of-this-name"),
        ("User #x", "bad user name #x"),
        ("DocumentRoot /no/such/folder", "/no/such/folder is not a directory"),
        ("DocumentRoot /etc/passwd", "/etc/passwd is not a directory"),
        ("ErrorDocument 999 /x", "999 is no status"),
    ] {
        refuses(&format!("Listen 127.0.0.1:0\n{line}\n"), &["-t"], 2, &["c.conf:2: ", says]);
    }
    let test = |line: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c.conf"), line).unwrap();
        serve(dir.path(), &["-t", "-f", "c.conf"])
    };
    for line in ["User #0\nGroup #12345", "User root", "DocumentRoot /etc"] {
        let ended = test(line);
        assert_eq!((ended.status, &ended.said[..]), (Some(0), "Syntax OK\n"), "{line}");
    }
    for line in ["ErrorDocument 401 http://example.com/x", "ErrorDocument 200 /x"] {
        let ended = test(line);
        assert_eq!(ended.status, Some(0), "{line}: {}", ended.said);
        assert!(ended.said.contains("c.conf:1: ErrorDocument: "), "{line}: {}", ended.said);
    }
}

/// What httpd -t looks at: ServerRoot and the folders of the logs. A PidFile and a TypesConfig are
/// looked at when the server starts, there as here.
#[test]
fn the_configuration_test_looks_at_the_folders_that_apache_looks_at() {
    for (line, says) in [
        ("ServerRoot /no/such", "ServerRoot: /no/such is not a directory"),
        ("ServerRoot /etc/passwd", "ServerRoot: /etc/passwd is not a directory"),
        ("ErrorLog /no/such/log", "ErrorLog: there is no directory /no/such"),
        ("CustomLog /no/such/log common", "CustomLog: there is no directory /no/such"),
        ("TransferLog /no/such/log", "CustomLog: there is no directory /no/such"),
    ] {
        let says = says.replace("CustomLog", line.split(' ').next().unwrap());
        refuses(&format!("Listen 127.0.0.1:0\n{line}\n"), &["-t"], 2, &["c.conf:2: ", &says]);
    }
    for line in ["PidFile /no/such/pid", "TypesConfig /no/such", "ErrorLog {}/log"] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("c.conf"), line.replace("{}", root)).unwrap();
        let ended = serve(dir.path(), &["-t", "-f", "c.conf"]);
        assert_eq!((ended.status, &ended.said[..]), (Some(0), "Syntax OK\n"), "{line}");
        assert!(!dir.path().join("log").exists(), "a test makes no files");
    }
    let types = "Listen 127.0.0.1:0\nTypesConfig /no/such\n";
    refuses(types, &[], 1, &["cannot read the TypesConfig /no/such"]);
}

#[test]
fn a_switch_that_perl_does_not_know_is_named() {
    const LOCAL: &str = "Listen 127.0.0.1:0\nPerlSwitches -w\n";
    for (switch, place, says) in [
        ("-Zx", "c.conf:3: ", "Unrecognized switch: -Zx"),
        ("-w5", "c.conf:", "Unrecognized switch: -5"),
        ("-MNo::Such", "c.conf:3: ", "Can't locate No/Such.pm"),
        ("-v", "c.conf:", "perl ended"),
    ] {
        for log in ["", "ErrorLog {}/log\n"] {
            let config = format!("{LOCAL}PerlSwitches {switch}\n{log}");
            let dir = tempfile::tempdir().unwrap();
            let config = config.replace("{}", dir.path().to_str().unwrap());
            std::fs::write(dir.path().join("c.conf"), config).unwrap();
            let ended = serve(dir.path(), &["-f", "c.conf"]);
            let start = |l: &&str| l.starts_with("drom serve: ");
            let line = ended.said.lines().find(start).unwrap_or_default();
            assert_eq!(ended.status, Some(1), "{switch}: {}", ended.said);
            assert!(line.contains(place) && line.contains("PerlSwitches"), "{}", ended.said);
            assert!(line.contains(says), "{switch}: {}", ended.said);
            assert_eq!(ended.said.matches(says).count(), 1, "{switch}: {}", ended.said);
        }
    }
}

#[test]
fn a_folder_without_scripts_serves_its_files_and_misses_the_others() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.html"), "file").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_drom"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("listening on http://").to_owned();
    let status = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.get(9..12).unwrap_or_default().to_owned()
    };
    let seen = [status("/a.html"), status("/perl/none.pl"), status("/none.html")];
    // SAFETY: no pointers.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(seen, ["200", "404", "404"]);
}

/// A server in a world of its own in which libperl cannot be loaded; `None` where no such world can
/// be made.
fn without_libperl(config: &str) -> Option<(std::process::Child, String, tempfile::TempDir)> {
    let libraries =
        "for f in /usr/lib/*/libperl.so.*; do mount --bind /dev/null \"$f\" || exit 9; done";
    let may = Command::new("unshare").args(["-m", "sh", "-c", libraries]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("not tested: no mount namespace can be made");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(dir.path().join("cgi-bin")).unwrap();
    let script = dir.path().join("cgi-bin/a.pl");
    std::fs::write(&script, "#!/usr/bin/perl\nprint \"Content-type: x/y\\n\\nran\\n\";\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("a.html"), "file").unwrap();
    // Only root can make such a world.
    let base = "User nobody\nGroup nogroup\nListen 127.0.0.1:0\nDocumentRoot {}\nErrorLog {}/log\n";
    let text = format!("{base}{config}");
    let text = text.replace("{}", dir.path().to_str().unwrap());
    std::fs::write(dir.path().join("c.conf"), text).unwrap();
    let mut child = Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{libraries}; exec \"$@\""), "sh"])
        .args([env!("CARGO_BIN_EXE_drom"), "serve", "-f"])
        .arg(dir.path().join("c.conf"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Some((child, line.trim().trim_start_matches("listening on http://").to_owned(), dir))
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn files_and_cgi_scripts_are_served_where_libperl_is_missing() {
    for (config, cgi) in [("", false), ("ScriptAlias /cgi-bin/ {}/cgi-bin/\n", true)] {
        let Some((mut child, address, dir)) = without_libperl(config) else { return };
        let mut seen = vec![get(&address, "/a.html")];
        // A process for each script is slower, and all there is.
        seen.extend((0..3).filter(|_| cgi).map(|_| get(&address, "/cgi-bin/a.pl")));
        // SAFETY: no pointers.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(seen.iter().all(|answer| answer.starts_with("HTTP/1.1 200")), "{seen:?}\n{log}");
        assert!(seen[1..].iter().all(|answer| answer.contains("ran\n")), "{seen:?}");
        assert_eq!(log.matches("perl").count() > 0, cgi, "{log}");
        let others = log.lines().filter(|line| !line.contains("core:notice")).count();
        assert_eq!(others, usize::from(cgi), "{log}");
    }
}
