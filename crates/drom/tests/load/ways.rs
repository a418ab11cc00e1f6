//! `drom load` over every way that bytes can go: Unix sockets, addresses, HTTP/1.0, pipelines.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::{net::UnixListener, process::CommandExt},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::loading::{self, document, drom};

/// Heads of the requests that a server has read, and where they came from.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

fn converse(stream: impl Read + Write, from: &str, seen: &Seen) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if !matches!(stream.read_line(&mut line), Ok(1..)) {
                return;
            }
            head += &line;
        }
        let mut body = vec![0; length(&head)];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        seen.lock().unwrap().push((head + &String::from_utf8_lossy(&body), from.to_owned()));
        let answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
        if stream.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

fn length(head: &str) -> usize {
    let field = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    field.map_or(0, |length| length.parse().unwrap())
}

fn server() -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let told = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (told, from) = (Arc::clone(&told), stream.peer_addr().unwrap().ip().to_string());
            thread::spawn(move || converse(stream, &from, &told));
        }
    });
    (address, seen)
}

/// The heads that the server has seen of a load with these flags.
fn asked(flags: &[&str]) -> Vec<(String, String)> {
    let (address, seen) = server();
    let url = format!("http://{address}/x?y");
    let output = drom(&[&[&url[..], "-q", "--json"], flags].concat());
    let json = document(&output);
    assert_eq!(json["requests"]["failed"], 0, "{json}");
    seen.lock().unwrap().clone()
}

#[test]
fn a_unix_socket_is_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (listener, seen) = (UnixListener::bind(&path).unwrap(), Seen::default());
    let told = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = Arc::clone(&told);
            thread::spawn(move || converse(stream, "", &told));
        }
    });
    let path = path.to_str().unwrap();
    let output = drom(&["http://name/p", "--unix-socket", path, "-n", "20", "--json"]);
    assert_eq!(document(&output)["requests"]["ok"], 20);
    assert_eq!(seen.lock().unwrap()[0].0, "GET /p HTTP/1.1\r\nHost: name\r\n\r\n");
    let output = drom(&["http://name/p", "--unix-socket", "/nonexistent", "-n", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("unix:/nonexistent"), "{said}");
}

#[test]
fn connections_come_from_the_addresses_that_are_given() {
    let flags = ["-n", "40", "-c", "4", "--source-address", "127.0.0.2-127.0.0.4,127.0.0.9"];
    let mut from: Vec<String> = asked(&flags).into_iter().map(|(_, from)| from).collect();
    from.sort();
    from.dedup();
    assert_eq!(from, ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.9"]);
}

#[test]
fn a_name_is_where_resolve_says() {
    let (address, seen) = server();
    let place = address.to_string();
    let url = "http://nowhere.example/";
    let output = drom(&[url, "--resolve", &place, "-n", "1", "--json", "-q"]);
    assert_eq!(document(&output)["requests"]["ok"], 1);
    assert!(seen.lock().unwrap()[0].0.contains("Host: nowhere.example\r\n"));
}

#[test]
fn requests_are_what_the_flags_say() {
    let one = |flags: &[&str]| asked(&[flags, &["-n", "1"]].concat())[0].0.clone();
    let old = one(&["--http1.0"]);
    assert!(old.starts_with("GET /x?y HTTP/1.0\r\n") && old.contains("Connection: keep-alive"));
    assert!(!one(&["--http1.0", "--no-keepalive"]).contains("Connection:"));
    let form = one(&["--form", "a b=1&2", "--form", "c=ü"]);
    assert!(form.starts_with("POST ") && form.ends_with("\r\n\r\na+b=1%262&c=%C3%BC"), "{form}");
    assert!(form.contains("Content-Type: application/x-www-form-urlencoded\r\n"));
    assert!(one(&["--basic", "foo:bar"]).contains("Authorization: Basic Zm9vOmJhcg==\r\n"));
    assert!(one(&["--bearer", "t0k"]).contains("Authorization: Bearer t0k\r\n"));
    assert!(one(&["--gzip"]).contains("Accept-Encoding: gzip\r\n"));
}

#[test]
fn connections_live_as_long_as_they_are_told() {
    let (address, _) = server();
    let url = format!("http://{address}/");
    let flags = ["-n", "100", "-c", "2", "--answers-per-connection", "10", "--json", "-q"];
    let json = document(&drom(&[&[&url[..]], &flags[..]].concat()));
    assert_eq!((&json["requests"]["ok"], &json["requests"]["failed"]), (&100.into(), &0.into()));
    let output = drom(&[&[&url[..]], &flags[..6], &["-q"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let again = |times: &str| text.contains(&format!("{times} again"));
    assert!(again("8") || again("9"), "ten or eleven connections, two of them the first: {text}");
}

#[test]
fn pipelined_requests_have_an_answer_each() {
    let seen = asked(&["-n", "1000", "-c", "3", "--pipeline", "16"]);
    assert_eq!(seen.len(), 1000);
}

/// A listener whose queue is full lets nobody in and refuses nobody.
#[test]
fn a_connection_that_does_not_come_is_waited_for_as_long_as_asked() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("bound");
    socket.listen(0).expect("listening");
    let address = socket.local_addr().expect("an address").as_socket().expect("of IPv4");
    let fill = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _filling: Vec<_> = (0..4).map(fill).collect();
    let url = format!("http://{address}/");
    let output = drom(&[&url, "-c", "1", "-n", "1", "--connect-timeout", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 x connect_timeout"), "{said}");
}

#[test]
fn a_slow_reader_takes_its_time() {
    let (_server, url) = loading::server();
    let output = drom(&[&url, "-c", "1", "-n", "20", "--throttle", "4k", "--json"]);
    let told = document(&output);
    let (seconds, bytes) = (told["duration_s"].as_f64(), told["requests"]["ok"].as_f64());
    assert_eq!(bytes, Some(20.0), "{told:#}");
    assert!(seconds > Some(0.4), "20 answers of dozens of bytes: {seconds:?}");
}

/// A place that needs no connection yet is free, and those that are never needed are not missed.
#[test]
fn a_connection_for_each_request_is_made_when_its_time_comes() {
    let (_server, url) = loading::server();
    let flags = ["--rate", "50", "-n", "5", "-c", "20", "--no-keepalive", "--json", "-q"];
    let told = document(&drom(&[&[&url[..]], &flags[..]].concat()));
    assert_eq!((&told["requests"]["ok"], &told["open"]["queued"]), (&5.into(), &0.into()));
    let checks = told["checks"].as_array().expect("checks");
    let places = checks.iter().find(|check| check["name"] == "connections").expect("it is there");
    assert_eq!(places["state"], "ok", "{places}");
}

/// The window of an open loop ends with its schedule, also when somebody does not wait for the
/// last answers.
#[test]
fn whoever_stops_the_wait_for_the_last_answers_gets_the_planned_window() {
    let delay = drom_testkit::Delay::Constant(Duration::from_secs(30));
    let script = drom_testkit::Script::always(drom_testkit::Turn::after(delay));
    let server = drom_testkit::Server::start(script).expect("a server");
    let url = format!("http://{}/", server.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", &url, "--rate", "4", "-c", "4", "-d", "1s", "--json", "-q"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    thread::sleep(Duration::from_millis(1_800));
    // SAFETY: takes numbers; the child is ours.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    let told = document(&output);
    assert_eq!(output.status.code(), Some(130), "{told:#}");
    assert_eq!((&told["duration_s"], &told["open"]["planned_rps"]), (&1.0.into(), &4.0.into()));
}

#[test]
fn what_would_be_left_out_is_refused() {
    let url = "http://127.0.0.1:9/";
    for (flags, words) in [
        (&["--csv", "both", "--hdr", "both"][..], "two results would go to both"),
        (&["--csv", "./both", "--hdr", "both"][..], "two results would go to both"),
        (&["--bearer", "t", "-H", "Authorization: x"], "--bearer and -H Authorization"),
        (&["--var", "pasword=x"], "nothing in it is {{pasword}}"),
    ] {
        let output = drom(&[&[url], flags].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
    assert!(!std::path::Path::new("both").exists());
}

/// The server here, thirty-one ports, and a client that closes first: each port is used once.
const FEW_PORTS: &str = "\
ip link set lo up && echo 27100 27130 >/proc/sys/net/ipv4/ip_local_port_range || exit 77
\"$DROM\" serve --listen 127.0.0.1:8099 \"$1\" >/dev/null 2>&1 & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.2; \"$DROM\" load -q http://127.0.0.1:8099/a.txt -c 1 -n 1 >/dev/null 2>&1 && break
done
\"$DROM\" load -q http://127.0.0.1:8099/a.txt -c 2 -n 60 --answers-per-connection 1 --json
code=$?; kill $server; exit $code";

#[test]
fn who_runs_out_of_ports_on_the_way_is_told_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "hi").expect("written");
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "-n", "sh", "-c", FEW_PORTS, "sh"]).arg(folder.path());
    let output = command.env("DROM", env!("CARGO_BIN_EXE_drom")).output().expect("timeout");
    if !output.status.success() && output.stdout.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!why.contains("no local port"), "{why}");
        eprintln!("not tested: no network of its own can be made: {why}");
        return;
    }
    let told = document(&output);
    let (ok, failed) = (told["requests"]["ok"].as_u64(), told["requests"]["failed"].as_u64());
    assert!(ok.is_some_and(|ok| (20..=31).contains(&ok)), "{told:#}");
    assert_eq!((ok.zip(failed).map(|(ok, failed)| ok + failed)), Some(60));
    assert_eq!(told["errors"]["connect"].as_u64(), failed, "{told:#}");
    let checks = told["checks"].as_array().expect("checks");
    assert!(checks.iter().any(|check| check["name"] == "ports" && check["state"] == "warning"));
}

/// As a container's profile does it.
fn without_rings() -> io::Result<()> {
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_io_uring_setup as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter is read during the call only; the number of a system call is the first
    // word of what it is given.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn where_rings_are_not_allowed_epoll_is_taken_and_said() {
    let (address, _) = server();
    let url = format!("http://{address}/");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drom"));
    command.args(["load", "-q", "-n", "20", "-c", "2", "--engine", "io_uring", &url]);
    // SAFETY: between fork and exec it makes two system calls with memory of its own stack.
    unsafe { command.pre_exec(without_rings) };
    let output = command.output().expect("drom starts");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{report}");
    let words: Vec<&str> = report.split_whitespace().collect();
    let report = words.join(" ");
    assert!(report.contains("epoll, for io_uring is not allowed here: Operation"), "{report}");
}
