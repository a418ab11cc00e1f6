//! Listening sockets, and which process holds one: who of a server takes connections.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader},
};

/// The inodes of all listening sockets, TCP and Unix, that this network namespace shows.
#[must_use]
pub fn listening() -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // The kernel shows these first, before thousands in TIME_WAIT that nobody wants to read.
        found.extend(lines(table).map_while(|line| listening_tcp(&line)));
    }
    found.extend(lines("/proc/net/unix").filter_map(|line| listening_unix(&line)));
    found
}

/// The inodes of TCP sockets that listen on this port.
#[must_use]
pub fn listening_on(port: u16) -> BTreeSet<u64> {
    let is_its = |line: &str| local_port(line) == Some(port);
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    let all = tables.flat_map(|table| lines(table).map_while(|l| Some((listening_tcp(&l)?, l))));
    all.filter(|(_, line)| is_its(line)).map(|(inode, _)| inode).collect()
}

fn local_port(line: &str) -> Option<u16> {
    let (_, port) = line.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

/// False also where its descriptors are not ours to read.
#[must_use]
pub fn holds_one(pid: i32, listening: &BTreeSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| inode(link.to_str()?)).any(|inode| listening.contains(&inode))
}

/// Without the heading.
fn lines(table: &str) -> impl Iterator<Item = String> {
    let file = File::open(table).ok().map(BufReader::new);
    file.into_iter().flat_map(BufRead::lines).map_while(Result::ok).skip(1)
}

fn listening_tcp(line: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let is_listening = fields.nth(3)? == "0A";
    // The inode is the tenth.
    fields.nth(5)?.parse().ok().filter(|_| is_listening)
}

fn listening_unix(line: &str) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_listening = *fields.get(3)? == "00010000";
    fields.get(6)?.parse().ok().filter(|_| is_listening)
}

fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixListener},
        },
    };

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let tcp = "   0: 0100007F:9575 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                   0        0 11426137 1 00000000f9b5b796 100 0 0 10 0";
        assert_eq!(listening_tcp(tcp), Some(11_426_137));
        assert_eq!(listening_tcp(&tcp.replace(" 0A ", " 01 ")), None);
        assert_eq!(local_port(tcp), Some(0x9575));
        let unix = "00000000fee: 00000002 00000000 00010000 0001 01 20412 /run/x";
        assert_eq!(listening_unix(unix), Some(20_412));
        assert_eq!(listening_unix(&unix.replace("00010000", "00000000")), None);
    }

    #[test]
    fn listeners_are_found_and_connections_are_not() {
        let (tcp, six) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("[::1]:0"));
        let name = format!("drom-observe-{}", std::process::id());
        let name = SocketAddr::from_abstract_name(name).expect("short");
        let unix = UnixListener::bind_addr(&name).expect("bound");
        let tcp = tcp.expect("a port");
        let client = TcpStream::connect(tcp.local_addr().expect("bound")).expect("connected");
        let found = listening();
        let is_listed = |fd: &dyn std::os::fd::AsRawFd| {
            let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("open");
            found.contains(&inode(link.to_str().expect("text")).expect("a socket"))
        };
        assert!(is_listed(&tcp) && is_listed(&unix) && !is_listed(&client));
        assert!(six.as_ref().map_or(true, |six| is_listed(six)), "where there is IPv6");
    }
}
