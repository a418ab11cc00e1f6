//! `drom ab` over TLS beside the ab that is installed: what both say of the connection.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

const REAL: &str = "/usr/bin/ab";
const OPENSSL: &str = "/usr/bin/openssl";

/// OpenSSL's own server, whose pages tell of the connection.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// With a key of this kind, in OpenSSL's words.
    fn start(key: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (key_file, file) = (folder.path().join("key.pem"), folder.path().join("cert.pem"));
        let mut make = Command::new(OPENSSL);
        make.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-newkey"]);
        make.args(key).arg("-keyout").arg(&key_file).arg("-out").arg(&file);
        assert!(make.stderr(Stdio::null()).status().expect("openssl starts").success());
        let mut serve = Command::new(OPENSSL);
        serve.args(["s_server", "-www", "-accept", "127.0.0.1:0", "-key"]).arg(&key_file);
        serve.arg("-cert").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = serve.stdout(Stdio::piped()).spawn().expect("openssl starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines
            .find_map(|line| line.ok()?.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.expect("it says where it listens"), _folder: folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
