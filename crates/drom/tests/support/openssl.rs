//! A server for tests over TLS, with a certificate that it has made for itself.

use std::{
    io::{BufRead, BufReader},
    path::Path,
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
        Self::serve(certificate(key))
    }

    /// The kind of certificate that OpenSSL makes unless it is asked for another.
    #[allow(dead_code)] // not by each of those who include this file
    pub fn of_version_1() -> Self {
        let folder = certificate(&["rsa:2048"]);
        let at = folder.path();
        openssl(at, "x509 -in cert.pem -x509toreq -signkey key.pem -out csr.pem");
        openssl(at, "x509 -req -in csr.pem -signkey key.pem -days 2 -out cert.pem");
        Self::serve(folder)
    }

    fn serve(folder: tempfile::TempDir) -> Self {
        let mut serve = Command::new(OPENSSL);
        serve.args(["s_server", "-www", "-accept", "127.0.0.1:0", "-key", "key.pem"]);
        serve.args(["-cert", "cert.pem", "-cipher", "DEFAULT:@SECLEVEL=0"]);
        serve.current_dir(&folder).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = serve.stdout(Stdio::piped()).spawn().expect("openssl starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines
            .find_map(|line| line.ok()?.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.expect("it says where it listens"), _folder: folder }
    }
}

fn certificate(key: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let words =
        "req -x509 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem -newkey";
    openssl(folder.path(), &format!("{words} {}", key.join(" ")));
    folder
}

fn openssl(folder: &Path, words: &str) {
    let mut command = Command::new(OPENSSL);
    command.args(words.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    assert!(command.stdout(Stdio::null()).status().expect("openssl starts").success(), "{words}");
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
