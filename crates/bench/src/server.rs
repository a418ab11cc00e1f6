//! Starts the contestants on loopback ports, each with a configuration written here, and makes sure
//! that none outlives the bench: a server leads a process group of its own, is told to end when
//! this process dies, and its group is killed when its [`Server`] goes.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use drom_observe::clock;

use crate::{error::Error, get::get};

/// Who serves, and with how many processes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Drom {
        workers: usize,
    },
    Httpd {
        workers: usize,
    },
    Nginx {
        workers: usize,
    },
    /// One worker of nginx for the races of clients: plain, over TLS, and HTTP/2 without TLS.
    Loaded,
    Floor {
        processes: usize,
    },
}

const HTTPD: &str = "/usr/sbin/apache2";
const HTTPD_MODULES: &str = "/usr/lib/apache2/modules";
const NGINX: &str = "/usr/sbin/nginx";
/// In the site, for [`Kind::Loaded`].
pub const LARGE_FILE: &str = "/64k.bin";
/// Full handshakes with TLS 1.3, and connections by the ten thousand.
const LOADED_BACKLOG: u32 = 16_384;
const READY_WAIT: Duration = Duration::from_secs(15);
const END_WAIT: Duration = Duration::from_secs(5);

/// Where the servers stand: a scratch folder with the site in it. The folder is outside the
/// project, because a server started by root gives root up and must still be able to read it.
pub struct Ground {
    pub drom: PathBuf,
    folder: tempfile::TempDir,
}

impl Ground {
    pub fn prepare(drom: &Path) -> Result<Self, Error> {
        let drom = fs::canonicalize(drom).map_err(|_| Error::NoDrom(drom.to_owned()))?;
        let readable = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .prefix("drom-bench-")
            .permissions(readable)
            .tempdir()
            .map_err(|e| Error::File(std::env::temp_dir(), e))?;
        copy(&bench_folder().join("site"), &folder.path().join("site"))?;
        let ground = Self { drom, folder };
        ground.write(&format!("site{LARGE_FILE}"), &"x".repeat(65_536))?;
        Ok(ground)
    }

    /// Starts it on a free port. It may not answer yet: see [`Server::await_answer`].
    pub fn start(&self, kind: Kind, core: Option<usize>) -> Result<Server, Error> {
        let [port, tls_port, h2_port] = [free_port()?, free_port()?, free_port()?];
        let ports = Ports { plain: port, tls: tls_port, h2: h2_port };
        let program = match kind {
            Kind::Drom { workers } => self.drom(port, workers)?,
            Kind::Httpd { workers } => self.httpd(port, workers)?,
            Kind::Nginx { workers } => self.nginx(port, workers)?,
            Kind::Loaded => self.loaded(ports)?,
            Kind::Floor { processes } => self.floor(port, processes)?,
        };
        Server::spawn(kind, ports, &program, core, &self.path(&format!("{port}.log")))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<String, Error> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|e| Error::File(path.clone(), e))?;
        Ok(path.display().to_string())
    }

    fn drom(&self, port: u16, workers: usize) -> Result<Vec<String>, Error> {
        let text = format!(
            "Define SITE {site}\n{user}Listen 127.0.0.1:{port}\nErrorLog /dev/stderr\n\
             LogLevel warn\n{pool}Include ${{SITE}}/tiers.conf\n",
            site = self.path("site").display(),
            user = identity("User www-data\nGroup www-data\n"),
            pool = pool(workers),
        );
        let file = self.write(&format!("drom-{port}.conf"), &text)?;
        Ok([&self.drom.display().to_string(), "serve", "-f", &file].map(str::to_owned).into())
    }

    fn httpd(&self, port: u16, workers: usize) -> Result<Vec<String>, Error> {
        let modules = Path::new(HTTPD_MODULES);
        if !Path::new(HTTPD).exists() || !modules.join("mod_perl.so").exists() {
            return Err(Error::NotInstalled("Apache httpd with mod_perl"));
        }
        let mut text = String::new();
        for (name, file) in [
            ("mpm_prefork_module", "mod_mpm_prefork.so"),
            ("authz_core_module", "mod_authz_core.so"),
            ("alias_module", "mod_alias.so"),
            ("mime_module", "mod_mime.so"),
            ("cgi_module", "mod_cgi.so"),
            ("perl_module", "mod_perl.so"),
        ] {
            text += &format!("LoadModule {name} {HTTPD_MODULES}/{file}\n");
        }
        let folder = self.folder.path().display();
        text += &format!(
            "Define SITE {folder}/site\n{user}ServerRoot {folder}\nServerName localhost\n\
             Listen 127.0.0.1:{port}\nPidFile {folder}/{port}.pid\nErrorLog /dev/stderr\n\
             LogLevel warn\nMutex posixsem\nDefaultRuntimeDir {folder}\n\
             TypesConfig /etc/mime.types\nServerLimit {workers}\n{pool}\
             Include ${{SITE}}/tiers.conf\n",
            user = identity("User www-data\nGroup www-data\n"),
            pool = pool(workers),
        );
        let file = self.write(&format!("httpd-{port}.conf"), &text)?;
        Ok([HTTPD, "-f", &file, "-DFOREGROUND"].map(str::to_owned).into())
    }

    fn nginx(&self, port: u16, workers: usize) -> Result<Vec<String>, Error> {
        let listen = format!("listen 127.0.0.1:{port};");
        self.nginx_with(port, workers, 768, &listen)
    }

    fn loaded(&self, ports: Ports) -> Result<Vec<String>, Error> {
        let (certificate, key) = self.certificate()?;
        let Ports { plain, tls, h2 } = ports;
        let end = format!("backlog={LOADED_BACKLOG};");
        let listen = format!(
            "listen 127.0.0.1:{plain} {end} listen 127.0.0.1:{tls} ssl http2 {end}\n\
             listen 127.0.0.1:{h2} http2 {end}\nssl_certificate {certificate};\n\
             ssl_certificate_key {key};\nssl_protocols TLSv1.3;\nkeepalive_time 24h;\n"
        );
        self.nginx_with(plain, 1, LOADED_BACKLOG, &listen)
    }

    /// Made by itself, for 127.0.0.1.
    fn certificate(&self) -> Result<(String, String), Error> {
        let [certificate, key] = ["bench.crt", "bench.key"].map(|name| self.path(name));
        let names = [&certificate, &key].map(|path| path.display().to_string());
        if !certificate.exists() {
            let mut command = Command::new("openssl");
            command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt"]);
            command.args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj"]);
            command.args(["/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
            command.args(["-out", &names[0], "-keyout", &names[1]]);
            let output = command.output().map_err(|_| Error::NotInstalled("openssl"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Error::Client("openssl", said));
            }
        }
        let [certificate, key] = names;
        Ok((certificate, key))
    }

    /// What Debian's own file says about speed, and the file cache on top.
    fn nginx_with(
        &self,
        port: u16,
        workers: usize,
        connections: u32,
        listen: &str,
    ) -> Result<Vec<String>, Error> {
        if !Path::new(NGINX).exists() {
            return Err(Error::NotInstalled("nginx"));
        }
        let folder = self.folder.path().display();
        let text = format!(
            "daemon off;\n{user}worker_processes {workers};\npid {folder}/{port}.pid;\n\
             error_log stderr warn;\nworker_rlimit_nofile 20000;\n\
             events {{ worker_connections {connections}; }}\nhttp {{\n\
             include /etc/nginx/mime.types;\nsendfile on;\ntcp_nopush on;\naccess_log off;\n\
             keepalive_requests 1000000000;\nopen_file_cache max=1000;\n\
             client_body_temp_path {folder}/nginx-body;\nproxy_temp_path {folder}/nginx-proxy;\n\
             fastcgi_temp_path {folder}/nginx-fastcgi;\nuwsgi_temp_path {folder}/nginx-uwsgi;\n\
             scgi_temp_path {folder}/nginx-scgi;\n\
             server {{ {listen} root {folder}/site;\n\
             location /ids/ {{ alias {folder}/site/;\n\
             add_header X-Request-Id $request_id; }}\n\
             location /users/ {{ alias {folder}/site/;\n\
             add_header X-Item $request_id; add_header Set-Cookie sid=$request_id; }} }}\n}}\n",
            user = identity("user www-data;\n"),
        );
        let file = self.write(&format!("nginx-{port}.conf"), &text)?;
        Ok([NGINX, "-c", &file, "-e", "stderr"].map(str::to_owned).into())
    }

    fn floor(&self, port: u16, processes: usize) -> Result<Vec<String>, Error> {
        let program = self.path("floor");
        if !program.exists() {
            compile_floor(&program)?;
        }
        Ok(vec![program.display().to_string(), port.to_string(), processes.to_string()])
    }
}

/// Where a server listens; only [`Kind::Loaded`] at all of them.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    plain: u16,
    /// HTTP/1.1 or HTTP/2, by agreement.
    tls: u16,
    /// HTTP/2 at once.
    h2: u16,
}

/// How a client speaks to [`Kind::Loaded`], or to a server of this process that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Plain,
    Tls,
    Http2,
    Null,
}

/// A running server. Ends with this value.
pub struct Server {
    kind: Kind,
    ports: Ports,
    child: Child,
    log: PathBuf,
}

impl Server {
    fn spawn(
        kind: Kind,
        ports: Ports,
        program: &[String],
        core: Option<usize>,
        log: &Path,
    ) -> Result<Self, Error> {
        let log_file = fs::File::create(log).map_err(|e| Error::File(log.to_owned(), e))?;
        let mut command = match core {
            Some(core) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["-c", &core.to_string()]).args(program);
                taskset
            }
            None => {
                let mut plain = Command::new(&program[0]);
                plain.args(&program[1..]);
                plain
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file).process_group(0);
        end_with_us(&mut command);
        let child = command.spawn().map_err(|e| Error::Start(program[0].clone(), e))?;
        Ok(Self { kind, ports, child, log: log.to_owned() })
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Drom { .. } => "drom",
            Kind::Httpd { .. } => "httpd",
            Kind::Nginx { .. } | Kind::Loaded => "nginx",
            Kind::Floor { .. } => "the floor",
        }
    }

    pub fn url(&self, path: &str) -> String {
        self.url_of(Way::Plain, path)
    }

    pub fn url_of(&self, way: Way, path: &str) -> String {
        let Ports { plain, tls, h2 } = self.ports;
        let (scheme, port) = match way {
            Way::Plain | Way::Null => ("http", plain),
            Way::Tls => ("https", tls),
            Way::Http2 => ("http", h2),
        };
        format!("{scheme}://127.0.0.1:{port}{path}")
    }

    /// Waits until it answers with 200; returns the body.
    pub fn await_answer(&self, path: &str) -> Result<Vec<u8>, Error> {
        let until = clock::now() + READY_WAIT;
        loop {
            let last = match get(self.ports.plain, path) {
                Ok(response) if response.status == 200 => return Ok(response.body),
                Ok(response) => format!("status {}", response.status),
                Err(e) => e.to_string(),
            };
            let name = self.name().to_owned();
            if self.is_gone() {
                return Err(Error::Ended(name, self.log_tail()));
            }
            if clock::now() > until {
                return Err(Error::NotReady(name, path.to_owned(), last, self.log_tail()));
            }
            clock::sleep(Duration::from_millis(50));
        }
    }

    fn is_gone(&self) -> bool {
        // SAFETY: siginfo_t is plain data; WNOWAIT leaves the child to `Drop`.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let failed = libc::waitid(libc::P_PID, self.child.id(), &raw mut info, options) != 0;
            failed || info.si_pid() != 0
        }
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn signal_group(&self, signal: i32) {
        // SAFETY: no pointers; the group is the child's own.
        unsafe { libc::kill(-self.child.id().cast_signed(), signal) };
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal_group(libc::SIGTERM);
        let until = clock::now() + END_WAIT;
        while clock::now() < until && !self.is_gone() {
            clock::sleep(Duration::from_millis(10));
        }
        self.signal_group(libc::SIGKILL);
        // It is dead; this takes it off the process table.
        let _ = self.child.wait();
    }
}

/// The kernel tells the command to end when this process does, however that happens.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: only prctl between fork and exec, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

/// The directives that Drom and httpd share: a pool that neither grows nor shrinks.
fn pool(workers: usize) -> String {
    format!(
        "StartServers {workers}\nMinSpareServers {workers}\nMaxSpareServers {workers}\n\
         MaxRequestWorkers {workers}\nMaxConnectionsPerChild 0\nKeepAlive On\n\
         MaxKeepAliveRequests 0\nKeepAliveTimeout 15\n"
    )
}

/// Servers started by root become somebody else, as they would on a real machine.
fn identity(directives: &str) -> &str {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } == 0 { directives } else { "" }
}

fn free_port() -> Result<u16, Error> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map(|a| a.port());
    port.map_err(|e| Error::Start("a server on a free port".to_owned(), e))
}

pub fn bench_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench")
}

fn compile_floor(program: &Path) -> Result<(), Error> {
    let script = "cc -O2 -o \"$2\" \"$1\" $(perl -MExtUtils::Embed -e ccopts -e ldopts)";
    let output = Command::new("sh")
        .args(["-c", script, "floor"])
        .args([&bench_folder().join("floor.c"), program])
        .output()
        .map_err(|e| Error::Start("sh".to_owned(), e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Compile(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let wrong = |e| Error::File(from.to_owned(), e);
    fs::create_dir_all(to).map_err(wrong)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(wrong)?;
    for entry in fs::read_dir(from).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(wrong)?;
            let is_program = entry.path().extension().is_some_and(|e| e == "pl");
            let mode = if is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).map_err(wrong)?;
        }
    }
    Ok(())
}
