//! `drom ab` over TLS beside the ab that is installed: what both say of the connection.

#[path = "support/openssl.rs"]
mod openssl;

use std::{
    path::Path,
    process::{Command, Output},
};

use openssl::{OPENSSL, Server};

const REAL: &str = "/usr/bin/ab";

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = ["Server ", "SSL/TLS", "TLS Server", "Document", "Complete", "Failed", "Non-2xx"];
    let is_wanted = |line: &&str| wanted.iter().any(|start| line.starts_with(start));
    text.lines().filter(is_wanted).map(str::to_owned).collect()
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
