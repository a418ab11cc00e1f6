//! A server for tests over TLS, with a certificate that it has made for itself.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

pub const OPENSSL: &str = "/usr/bin/openssl";

/// OpenSSL's own server, whose pages tell of the connection.
pub struct Server {
    child: Child,
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// With a key of this kind, in OpenSSL's words.
    pub fn start(key: &[&str]) -> Self {
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
