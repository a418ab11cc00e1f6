//! What ab says of itself, and its options in words.

/// The list that a wrong command line is answered with.
#[must_use]
pub fn usage() -> String {
    format!("Usage: ab [options] [http[s]://]hostname[:port]/path\nOptions are:\n{OPTIONS}")
}

/// Name, whether a value follows, and what it is, of each option of that list.
pub fn flags() -> impl Iterator<Item = (&'static str, bool, &'static str)> {
    OPTIONS.lines().map(|line| {
        let (names, doc) = line.split_at(WORDS_AT);
        let mut names = names.split_whitespace();
        (names.next().unwrap_or_default(), names.next().is_some(), doc)
    })
}

/// Where what it is begins in a line of it.
const WORDS_AT: usize = 20;

/// What `drom ab --help` says above it.
pub const HELP: &str = "\
ApacheBench's command line and report on Drom's engine. Also as a program of the name ab.
Lines, figures and differences: docs/ab.md.

";

const OPTIONS: &str = "    -n requests     How many requests
    -c concurrency  So many at a time
    -t timelimit    At most so many seconds; means -n 50000 unless an -n follows
    -s timeout      Seconds to wait for an answer [30]
    -b windowsize   Bytes of each socket's send and receive buffer
    -B address      Own address of the connections
    -p postfile     File with a body to POST; see -T
    -u putfile      File with a body to PUT; see -T
    -T content-type Of the body, such as application/x-www-form-urlencoded [text/plain]
    -v verbosity    2 the request and the first head, 3 each status
    -w              The report as HTML tables
    -i              HEAD in place of GET
    -x attributes   Of the table's tag; means -w
    -y attributes   Of each tr; means -w
    -z attributes   Of each td and th; means -w
    -C attribute    A cookie, such as Apache=1234
    -H attribute    A header line, such as 'Accept-Encoding: gzip'; can be repeated
    -A attribute    Basic authentication, user:password
    -P attribute    The same for a proxy
    -X proxy:port   Proxy to ask
    -V              The version
    -k              Keep connections
    -d              No table of percentiles
    -S              No standard deviations, medians and warnings
    -q              No progress with more than 150 requests
    -l              Pages may differ in length
    -g filename     Each request to a file for gnuplot
    -e filename     Percentiles to a CSV file
    -r              Go on after errors of sockets
    -m method       Name of the method
    -h              This list
    -I              No SNI in TLS
    -Z ciphersuite  TLS ciphers
    -f protocol     TLS version
    -E certfile     Client certificate and key
    --native        Drom's own report below ab's
";

/// The head of every report: who knows ab's must not take this for it, who parses it may.
#[must_use]
pub fn banner(html: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if html {
        return format!(
            "<p>\n This is ApacheBench, Version 2.3 <i>&lt;drom {version}&gt;</i><br>\n \
             Its command line and report on the load engine of Drom;<br>\n \
             not the program of the Apache Software Foundation.<br>\n</p>\n<p>\n"
        );
    }
    format!(
        "This is ApacheBench, Version 2.3 <drom {version}>\n\
         Its command line and report on the load engine of Drom;\n\
         not the program of the Apache Software Foundation.\n\n"
    )
}
