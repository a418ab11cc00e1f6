//! How long one map and one head take: `cargo run --release -p drom-serve --example map_bench`.
//! Prints nanoseconds per path for a remembered handler, a remembered file and a path never seen
//! before. Not a test: no limits.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use drom_serve::config::{Config, MemorySource, Options};
use drom_serve::http::{HeadScratch, Limits, Parsed, parse_head};
use drom_serve::map::Mapper;
use drom_serve::map::files::Disk;

const CONFIG: &str = "DocumentRoot /usr\nAlias /icons/ /usr/share/\nScriptAlias /cgi-bin/ \
 /usr/lib/\n\
    <Directory />\nOptions FollowSymLinks\n</Directory>\n<Directory /usr>\nRequire all \
    granted\n</Directory>\n\
    <FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n\
    <Location /app>\nSetHandler modperl\nPerlResponseHandler My::App\n</Location>\n\
    <LocationMatch \"^/x/.*\\.pl$\">\nSetHandler perl-script\nPerlHandler \
    ModPerl::Registry\n</LocationMatch>\n";

fn main() -> std::io::Result<()> {
    let source = MemorySource([("/etc/c".into(), CONFIG.to_string())].into());
    let config = match Config::from_source(Path::new("/etc/c"), &Options::default(), &source) {
        Ok((config, _)) => config,
        Err(errors) => return Err(std::io::Error::other(format!("{errors:?}"))),
    };
    let mapper = Mapper::new(Arc::new(config));
    measure(
        "modperl handler in <Location>, remembered",
        1_000_000,
        |_| b"/app/hello".to_vec(),
        &mapper,
    )?;
    measure("file, remembered (one stat)", 200_000, |_| b"/bin/env".to_vec(), &mapper)?;
    measure(
        "modperl handler, new path each time",
        200_000,
        |i| format!("/app/{i}").into_bytes(),
        &mapper,
    )?;
    measure_head()
}

fn measure_head() -> std::io::Result<()> {
    const COUNT: u64 = 1_000_000;
    let request = b"GET /app/hello?x=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench\r\n\
        Accept: */*\r\nConnection: keep-alive\r\n\r\n";
    let (limits, mut scratch) = (Limits::default(), HeadScratch::default());
    let start = drom_observe::clock::monotonic_ns();
    for _ in 0..COUNT {
        if let Parsed::Head(head) = parse_head(std::hint::black_box(request), &limits, &mut scratch)
        {
            scratch.fields = std::hint::black_box(head).fields;
        }
    }
    let spent_ns = drom_observe::clock::monotonic_ns() - start;
    writeln!(std::io::stdout(), "request head of four fields: {} ns", spent_ns / COUNT)
}

fn measure(
    what: &str,
    count: u32,
    path: impl Fn(u32) -> Vec<u8>,
    mapper: &Mapper,
) -> std::io::Result<()> {
    let paths: Vec<Vec<u8>> = (0..count).map(path).collect();
    let start = drom_observe::clock::monotonic_ns();
    for path in &paths {
        std::hint::black_box(mapper.map(path, &Disk));
    }
    let spent_ns = drom_observe::clock::monotonic_ns() - start;
    writeln!(std::io::stdout(), "{what}: {} ns", spent_ns / u64::from(count))
}
