//! Readers of argument values, shared by the setters. Each answers with a sentence when the text
//! is wrong.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::config::access::Network;
use crate::config::fault::not_one_of;
use crate::config::policy::Switches;
use crate::config::settings::Settings;

/// `On` or `Off`.
pub fn on_off(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("\"{text}\" must be On or Off")),
    }
}

/// A whole number of a type.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" must be a whole number in range"))
}

/// A whole number of at least one.
pub fn positive(text: &str) -> Result<u32, String> {
    number(text).and_then(|n: u32| if n == 0 { Err("0 is too few".to_string()) } else { Ok(n) })
}

/// A number of worker processes.
pub fn workers(text: &str) -> Result<u32, String> {
    match positive(text)? {
        count if count > WORKERS_MAX => {
            Err(format!("{count} workers are too many; {WORKERS_MAX} is the most"))
        }
        count => Ok(count),
    }
}

/// As many as Apache's prefork allows a `ServerLimit` to say.
const WORKERS_MAX: u32 = 200_000;

/// Seconds, or a number with `ms`, `s`, `min`, `h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let millis = match &text[digits..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" | "mi" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("\"{text}\" must be a time such as 60, 500ms, 5min")),
    };
    let count: u64 = number(&text[..digits])?;
    count.checked_mul(millis).map(Duration::from_millis).ok_or(format!("\"{text}\" is too long"))
}

/// Bytes, or a number with `K`, `M`, `G`.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[digits..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return Err(format!("\"{text}\" must be a size such as 65536, 64K, 200M")),
    };
    let count: u64 = number(&text[..digits])?;
    count.checked_mul(1 << shift).ok_or(format!("\"{text}\" is too large"))
}

/// One of the words of a table, without regard to case.
pub fn word<T: Copy>(text: &str, table: &[(&str, T)]) -> Result<T, String> {
    let found = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    found.map(|(_, value)| *value).ok_or_else(|| not_one_of(text, &names))
}

/// `[address:]port`; an address is a number, `*` or `localhost`: a name could change under a
/// server.
/// `any` stands for a port alone.
pub fn listen_address(text: &str, any: IpAddr) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("*", text));
    let port: u16 = port.parse().map_err(|_| format!("\"{port}\" must be a port number"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip = match host {
        "*" => any,
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().map_err(|_| format!("\"{host}\" must be an IP address"))?,
    };
    Ok(SocketAddr::new(ip, port))
}

/// `10.1`, `10.0.0.0/8`, …
pub fn network(text: &str) -> Result<Network, String> {
    Network::parse(text).ok_or_else(|| format!("\"{text}\" must be an address or a network"))
}

/// Words with or without signs. As Apache: either all of them have a sign, or none.
pub fn switches(
    target: &mut Switches,
    args: &[String],
    table: &[(&str, u16)],
) -> Result<(), String> {
    let signed = args.iter().filter(|a| a.starts_with(['+', '-'])).count();
    if signed != 0 && signed != args.len() {
        return Err("either all words begin with + or -, or none".to_string());
    }
    if signed == 0 {
        let bits: Result<Vec<u16>, String> = args.iter().map(|a| word(a, table)).collect();
        target.set(bits?.into_iter().fold(0, |all, bit| all | bit));
        return Ok(());
    }
    for arg in args {
        let bit = word(&arg[1..], table)?;
        if arg.starts_with('+') { target.add(bit) } else { target.remove(bit) }
    }
    Ok(())
}

/// An extension without its dot, in lower case.
pub fn extension(text: &str) -> String {
    text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase()
}

/// Replaces nicknames in `CustomLog` lines by their formats; `LogFormat` may stand after its use.
/// Gives the formats that are neither a nickname nor have a `%`: most likely misspelt nicknames.
pub fn resolve_log_formats(server: &mut Settings) -> Vec<String> {
    let mut doubtful = Vec::new();
    let formats = server.log_formats.clone();
    for log in &mut server.custom_logs {
        if let Some((_, format)) = formats.iter().rev().find(|(name, _)| *name == log.format) {
            log.format.clone_from(format);
        } else if !log.format.contains('%') {
            doubtful.push(log.format.clone());
        }
    }
    doubtful
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        assert_eq!(duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(size("64K"), Ok(65_536));
        assert!(duration("5 parsecs").is_err() && size("x").is_err() && size("-1").is_err());
        assert!(size("99999999999999999999").is_err() && size("99999999999999G").is_err());
    }

    #[test]
    fn listen_addresses() {
        let any = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
        for (text, want) in [
            ("80", "[::]:80"),
            ("*:80", "[::]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:81", "[::1]:81"),
            ("localhost:9", "127.0.0.1:9"),
        ] {
            assert_eq!(listen_address(text, any).unwrap(), want.parse().unwrap());
        }
        assert!(listen_address("example.org:80", any).unwrap_err().contains("IP address"));
        assert!(listen_address("99999", any).is_err());
    }

    #[test]
    fn mixed_signs_are_refused() {
        let table = [("A", 1), ("B", 2)];
        let mut target = Switches::default();
        let args = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        assert!(switches(&mut target, &args(&["+A", "B"]), &table).is_err());
        switches(&mut target, &args(&["+A", "-B"]), &table).unwrap();
        assert_eq!(target.over(2), 1);
    }
}
