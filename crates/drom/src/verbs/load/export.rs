//! A run told to others while it goes on: asked for by Prometheus, pushed to an OpenTelemetry
//! collector. Neither may disturb the run: both have a thread, and what is late is left out.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use drom_load::{Outcome, Progress};
use drom_observe::clock::{monotonic_ns, wall_at};

use super::{metrics::Totals, output::DURING};
use crate::say;

/// The longest that one who asks or is told may take for a read or a write.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(next_help_heading = DURING)]
pub struct Flags {
    /// Answer Prometheus there during the run, at any path
    ///
    /// Counters, requests in flight, a histogram of latency in buckets from 100 us to 10 s. It has
    /// the window's seconds that are over, and ends with the run: the last scrape may lack the last
    /// seconds, the report does not. Port 0 is any; standard error says which.
    #[arg(long, value_name = "ADDR:PORT")]
    prometheus: Option<String>,
    /// Push metrics to an OpenTelemetry collector each second (OTLP over HTTP, JSON)
    ///
    /// And the whole at the end. Port 4318 and /v1/metrics unless the URL says others. A collector
    /// that is away is told of once on standard error; the run goes on.
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp: Option<Collector>,
}

/// Where metrics are pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Host and port.
    authority: String,
    path: String,
}

/// Those that want to know.
pub struct Export {
    page: Option<Arc<Mutex<String>>>,
    push: Option<(SyncSender<Totals>, JoinHandle<()>)>,
}

impl Flags {
    pub fn begin(&self) -> Result<Export, String> {
        let page = self.prometheus.as_deref().map(serve).transpose()?;
        Ok(Export { page, push: self.otlp.clone().map(push) })
    }
}

impl Export {
    pub fn tell(&self, now: &Progress<'_>) {
        if self.page.is_none() && self.push.is_none() {
            return;
        }
        let totals = Totals::of_progress(now);
        self.show(&totals);
        if let Some((sender, _)) = &self.push {
            // The last ones are still being pushed: these are left out, the next hold them too.
            let _ = sender.try_send(totals);
        }
    }

    /// The whole run, once; comes back when it is told.
    pub fn end(self, outcome: &Outcome) {
        let totals = Totals::of_outcome(outcome);
        self.show(&totals);
        if let Some((sender, thread)) = self.push {
            // A thread that has ended has said why.
            let _ = sender.send(totals);
            drop(sender);
            let _ = thread.join();
        }
    }

    fn show(&self, totals: &Totals) {
        if let Some(page) = &self.page {
            *page.lock().unwrap_or_else(PoisonError::into_inner) = totals.prometheus();
        }
    }
}

/// `http://host:port/path`; without a path that of the specification, without a port 4318.
fn collector(url: &str) -> Result<Collector, String> {
    let rest = url.strip_prefix("http://").ok_or("write http://HOST:4318; https is not there")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("there is no host in it, or a space".to_owned());
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:4318") };
    let path = if path.len() < 2 { "/v1/metrics" } else { path };
    Ok(Collector { authority, path: path.to_owned() })
}

fn serve(address: &str) -> Result<Arc<Mutex<String>>, String> {
    let cannot = |error: io::Error| format!("cannot listen at {address} for Prometheus: {error}");
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let local = listener.local_addr().map_err(cannot)?;
    let page = Arc::new(Mutex::new(Totals::default().prometheus()));
    let shown = Arc::clone(&page);
    if local.port() != 0 && address.ends_with(":0") {
        say::line(format!("drom load: Prometheus finds its metrics at http://{local}/metrics"));
    }
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let text = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Who went away meanwhile asks again.
            let _ = answer(stream, &text);
        }
    });
    Ok(page)
}

fn answer(mut stream: TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    read_head(&mut stream)?;
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// As much as there is until the empty line.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < 16_384 {
        match stream.read(&mut piece)? {
            0 => break,
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    Ok(head)
}

fn push(collector: Collector) -> (SyncSender<Totals>, JoinHandle<()>) {
    let (sender, receiver) = sync_channel::<Totals>(1);
    let begun = wall_at(monotonic_ns());
    let thread = thread::spawn(move || {
        let mut has_said = false;
        for totals in receiver {
            let body = totals.otlp(begun, wall_at(monotonic_ns())).to_string();
            if let (Err(error), false) = (collector.post(&body), has_said) {
                has_said = true;
                let error = told(&error);
                let at = &collector.authority;
                say::line(format!("drom load: metrics do not reach {at}: {error}; it goes on"));
            }
        }
    });
    (sender, thread)
}

/// A socket's own word for the end of patience helps nobody.
fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}

impl Collector {
    fn post(&self, body: &str) -> io::Result<()> {
        let Self { authority, path } = self;
        let nowhere = || io::Error::other("the name has no address");
        let address = authority.to_socket_addrs()?.next().ok_or_else(nowhere)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes())?;
        let answer = read_head(&mut stream)?;
        let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(()),
            _ => Err(io::Error::other(format!("it answered {line:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_a_port_and_a_path() {
        let told = |url: &str| collector(url).map(|found| found.authority + &found.path);
        assert_eq!(told("http://a"), Ok("a:4318/v1/metrics".to_owned()));
        assert_eq!(told("http://[::1]:80/x/y"), Ok("[::1]:80/x/y".to_owned()));
        assert!(told("https://a").is_err() && told("http:///v1").is_err() && told("a:1").is_err());
    }
}
