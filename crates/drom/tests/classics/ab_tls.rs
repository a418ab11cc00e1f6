//! `drom ab` over TLS beside the ab that is installed: what both say of the connection.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::openssl::{OPENSSL, Server};

const REAL: &str = "/usr/bin/ab";

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = ["Server ", "SSL/TLS", "TLS Server", "Document", "Complete", "Failed", "Non-2xx"];
    let is_wanted = |line: &&str| wanted.iter().any(|start| line.starts_with(start));
    text.lines().filter(is_wanted).map(str::to_owned).collect()
}

/// Of version 1, with a short key and an old hash, with a curve that the library does not have.
#[test]
fn where_any_certificate_is_good_one_that_cannot_be_read_is_too() {
    if !Path::new(OPENSSL).exists() {
        eprintln!("skipped: there is no {OPENSSL} to serve");
        return;
    }
    let drom = |verb: &str, words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_drom")).arg(verb).args(words).output();
        let output = output.expect("drom starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for server in [
        Server::of_version_1(),
        Server::start(&["rsa:1024", "-sha1"]),
        Server::start(&["ec", "-pkeyopt", "ec_paramgen_curve:P-521"]),
    ] {
        let url = format!("https://localhost:{}/", server.port);
        let (status, said) = drom("ab", &["-n", "2", &url]);
        assert_eq!(status, Some(0), "{said}");
        let (status, said) = drom("load", &["-q", "-n", "2", "-c", "1", "--insecure", &url]);
        assert_eq!(status, Some(0), "{said}");
        let (status, said) = drom("load", &["-q", "-n", "2", "-c", "1", &url]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("--insecure") && !said.contains("Other("), "{said}");
    }
}

#[test]
fn tls_is_told_as_ab_tells_it() {
    if !Path::new(REAL).exists() || !Path::new(OPENSSL).exists() {
        eprintln!("skipped: there is no {REAL} or no {OPENSSL} to compare with");
        return;
    }
    for key in [&["rsa:2048"][..], &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]] {
        let server = Server::start(key);
        for line in ["127.0.0.1", "-f TLS1.2 127.0.0.1", "-f TLS1.3 -I localhost", "localhost"] {
            let (options, host) = line.rsplit_once(' ').unwrap_or(("", line));
            let url = format!("https://{host}:{}/", server.port);
            let words = ["-n", "3", "-l"].into_iter().chain(options.split_whitespace());
            let words: Vec<&str> = words.chain([&*url]).collect();
            let real = Command::new(REAL).args(&words).output().expect("ab starts");
            let drom = env!("CARGO_BIN_EXE_drom");
            let ours = Command::new(drom).arg("ab").args(&words).output().expect("drom starts");
            let stderr = String::from_utf8_lossy(&ours.stderr).into_owned();
            assert_eq!(ours.status.code(), Some(0), "{line}: {stderr}");
            assert_eq!(lines(&real), lines(&ours), "{key:?} {line}");
            assert!(lines(&ours).iter().any(|line| line.starts_with("SSL/TLS Protocol:")));
        }
    }
}
