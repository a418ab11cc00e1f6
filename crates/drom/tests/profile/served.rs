//! `drom profile --url`: a page of a running server, asked for and looked at at once.

use std::process::{Command, Output};

use crate::support::Server;

const PAGE: &str = "\
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
sub page { return fib(13) }
print \"Content-Type: text/plain\\n\\n\", page(), \"\\n\";
";

fn profile(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.arg("profile").args(words).output().expect("it starts")
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

#[test]
fn the_subs_of_a_page_are_told_and_idle_workers_are_not() {
    let server = Server::start("", &[("perl/page.pl", PAGE)]);
    let url = url(&server, "/registry/page.pl");
    let output = profile(&["--url", &url, "-d", "1s", "-c", "2", "--rate", "200"]);

    let [table, words] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains(" requests answered, 0 failed"), "{words}");
    let share = |name: &str| {
        let line =
            table.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("{table}"));
        line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).expect("a share")
    };
    assert!(share("::fib") > 50.0, "{table}");
    // Two of them have had samples, and it is one page.
    assert!(!table.contains("process "), "{table}");
    assert_eq!(server.get("/registry/page.pl").text(), "233\n");
}

#[test]
fn where_no_server_is_that_is_said() {
    let server = Server::start("", &[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    let output = profile(&["--url", &format!("http://127.0.0.1:{port}/"), "-d", "1s"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains(&format!("no Drom server of this machine listens on port {port}")));
    let missing = url(&server, "/registry/missing.pl");
    let output = profile(&["--url", &missing, "-d", "300ms"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("0 requests answered, "), "{words}");
    assert_eq!(profile(&["--url", &missing, "--pid", "1"]).status.code(), Some(2));
}
