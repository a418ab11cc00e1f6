//! A request that remembers what Perl did to it: the server's side of the border, without a server.

use std::collections::HashMap;

use drom_perl::{Command, Exchange, Number, Table, TableKind, Text};

/// See the module.
#[derive(Default)]
pub struct Fake {
    texts: HashMap<i32, Vec<u8>>,
    numbers: HashMap<i32, i64>,
    tables: HashMap<i32, Table>,
    pub body: Vec<u8>,
    pub output: Vec<u8>,
    pub flushes: Vec<usize>,
    pub logged: Vec<(i32, String)>,
    pub commands: Vec<(Command, String)>,
    pub print_errno: Option<i32>,
}

impl Fake {
    pub fn get(target: &str) -> Self {
        let mut fake = Self::default();
        let (uri, args) = match target.split_once('?') {
            Some((uri, args)) => (uri, Some(args)),
            None => (target, None),
        };
        let texts = [
            (Text::Uri, uri),
            (Text::UnparsedUri, target),
            (Text::Method, "GET"),
            (Text::Protocol, "HTTP/1.1"),
            (Text::Hostname, "www.example.org"),
            (Text::Filename, "/etc/passwd"),
            (Text::PathInfo, "/more"),
            (Text::DocumentRoot, "/srv/www"),
            (Text::Location, "/app"),
            (Text::Handler, "perl-script"),
            (Text::ScriptName, "/app/script"),
            (Text::ClientIp, "192.0.2.7"),
            (Text::ClientPort, "4711"),
            (Text::LocalIp, "127.0.0.1"),
            (Text::LocalPort, "8080"),
            (Text::ServerHostname, "server.example.org"),
            (Text::ServerAdmin, "webmaster@example.org"),
            (Text::ErrorFname, "/var/log/error.log"),
            (Text::ServerRoot, "/srv/root"),
            (Text::ServerSoftware, "Drom/0"),
            (Text::AuthName, "the realm"),
            (Text::AuthTypeWanted, "Basic"),
            (Text::Requires, "valid-user\nuser joe"),
            (Text::Satisfy, "any"),
            (Text::AllowOptions, "9"),
        ];
        for (field, value) in texts {
            fake.set_text(field, Some(value.as_bytes()));
        }
        fake.set_text(Text::TheRequest, Some(format!("GET {target} HTTP/1.1").as_bytes()));
        fake.set_text(Text::Args, args.map(str::as_bytes));
        for (field, value) in [
            (Number::Status, 200),
            (Number::ContentLength, -1),
            (Number::ProtoNum, 1001),
            (Number::Port, 8080),
            (Number::RequestTime, 1_000_000_000),
            (Number::Mtime, 900_000_000),
            (Number::Keepalive, 1),
            (Number::ConnectionId, 5),
            (Number::Timeout, 60_000_000),
            (Number::LimitRequestBody, 1 << 30),
            (Number::LogLevel, 4),
        ] {
            fake.set_number(field, value);
        }
        fake.header("User-Agent", "test/1");
        let query = args.unwrap_or_default().to_owned();
        for (name, value) in [
            ("REQUEST_METHOD", "GET"),
            ("QUERY_STRING", &query),
            ("SCRIPT_NAME", "/app/script"),
            ("SERVER_NAME", "www.example.org"),
            ("SERVER_PORT", "8080"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("PATH", "/usr/bin:/bin"),
        ] {
            fake.env(name, value);
        }
        fake.table(TableKind::DirConfig).add(b"Title", b"one");
        fake.table(TableKind::DirConfig).add(b"Title", b"two");
        fake
    }

    pub fn post(target: &str, content_type: &str, body: &[u8]) -> Self {
        let mut fake = Self::get(target);
        fake.set_text(Text::Method, Some(b"POST"));
        fake.env("REQUEST_METHOD", "POST");
        fake.env("CONTENT_TYPE", content_type);
        fake.env("CONTENT_LENGTH", &body.len().to_string());
        fake.header("Content-Type", content_type);
        fake.header("Content-Length", &body.len().to_string());
        fake.set_number(Number::MethodNumber, 2);
        fake.body = body.to_vec();
        fake
    }

    pub fn header(&mut self, name: &str, value: &str) {
        self.table(TableKind::HeadersIn).set(name.as_bytes(), value.as_bytes());
    }

    pub fn env(&mut self, name: &str, value: &str) {
        self.table(TableKind::SubprocessEnv).set(name.as_bytes(), value.as_bytes());
    }

    pub fn out(&mut self, name: &str) -> Option<String> {
        let value = self.table(TableKind::HeadersOut).get(name.as_bytes());
        value.map(|v| String::from_utf8_lossy(v).into_owned())
    }

    pub fn text_of(&mut self, field: Text) -> String {
        String::from_utf8_lossy(self.text(field).unwrap_or_default()).into_owned()
    }

    pub fn number_of(&mut self, field: Number) -> i64 {
        self.number(field)
    }

    pub fn table_of(&mut self, kind: TableKind) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.table(kind).iter().map(|(k, v)| (text(k), text(v))).collect()
    }

    pub fn set(&mut self, field: Text, value: &str) {
        self.set_text(field, Some(value.as_bytes()));
    }

    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl Exchange for Fake {
    fn text(&mut self, field: Text) -> Option<&[u8]> {
        self.texts.get(&(field as i32)).map(Vec::as_slice)
    }

    fn set_text(&mut self, field: Text, value: Option<&[u8]>) {
        match value {
            Some(value) => self.texts.insert(field as i32, value.to_vec()),
            None => self.texts.remove(&(field as i32)),
        };
    }

    fn number(&mut self, field: Number) -> i64 {
        match field {
            Number::BytesSent => self.output.len() as i64,
            _ => self.numbers.get(&(field as i32)).copied().unwrap_or(0),
        }
    }

    fn set_number(&mut self, field: Number, value: i64) {
        self.numbers.insert(field as i32, value);
    }

    fn table(&mut self, kind: TableKind) -> &mut Table {
        self.tables.entry(kind as i32).or_default()
    }

    fn environment(&mut self) -> &Table {
        self.table(TableKind::SubprocessEnv)
    }

    fn print(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if let Some(errno) = self.print_errno {
            return Err(errno);
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), i32> {
        self.flushes.push(self.output.len());
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, i32> {
        // Small pieces, as a network gives them.
        let count = into.len().min(self.body.len()).min(700);
        into[..count].copy_from_slice(&self.body[..count]);
        self.body.drain(..count);
        Ok(count)
    }

    fn log(&mut self, level: i32, text: &[u8]) {
        self.logged.push((level, String::from_utf8_lossy(text).into_owned()));
    }

    fn send_file(&mut self, path: &[u8], offset: i64, count: i64) -> Result<(), i32> {
        let bytes = std::fs::read(String::from_utf8_lossy(path).as_ref());
        let bytes = bytes.map_err(|e| e.raw_os_error().unwrap_or(5))?;
        let from = usize::try_from(offset).unwrap_or(0).min(bytes.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len() - from);
        self.output.extend_from_slice(&bytes[from..from + count]);
        Ok(())
    }

    fn command(&mut self, what: Command, text: &[u8]) {
        self.commands.push((what, String::from_utf8_lossy(text).into_owned()));
    }
}
