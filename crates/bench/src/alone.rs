//! Figures of `drom load` that have no peer: its memory, how soon it begins, how late it is.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    time::Duration,
};

use drom_observe::clock;
use serde_json::Value;

use crate::{
    client::pinned,
    contest::Place,
    cost::{self, Race, Ran, Work},
    error::Error,
    server::{Ground, end_with_us},
    table::{Alone, Row},
};

/// Ten thousand connections are not there at once.
const PEAK_TIME_MIN: Duration = Duration::from_secs(8);
/// The client that never comes is given up.
const START_WAIT: Duration = Duration::from_secs(10);

pub fn measure(
    figure: Alone,
    row: &Row,
    ground: &Ground,
    place: &Place,
    url: &str,
    time: Duration,
) -> Result<f64, Error> {
    let time = if figure == Alone::PeakMemory { time.max(PEAK_TIME_MIN) } else { time };
    let run = |flags: &[&str]| {
        let work = Work::For(time);
        let connections = row.connections;
        let race = Race { url, connections, work, core: place.core, script: Path::new("") };
        cost::drom_document(&ground.drom, race, flags)
    };
    match figure {
        Alone::PeakMemory => peak(row, run(&[])?),
        Alone::MemoryGrowth => run(&[]).map(|(_, ran)| ran.growth_mib),
        Alone::StartToRequest => start_to_request(ground, place),
        Alone::LagP99 { rate } => {
            let (document, _) = run(&["--rate", &rate.to_string()])?;
            let p99_us = document["open"]["lag_us"]["p99"].as_f64();
            p99_us.ok_or_else(|| Error::Client("drom load", document.to_string()))
        }
    }
}

/// With all connections there: fewer would need less.
fn peak(row: &Row, (document, ran): (Value, Ran)) -> Result<f64, Error> {
    let mut checks = document["checks"].as_array().into_iter().flatten();
    let check = checks.find(|check| check["name"] == "connections");
    let evidence = check.and_then(|check| check["evidence"].as_str()).unwrap_or_default();
    if evidence.starts_with(&format!("{0} of {0} established", row.connections)) {
        return Ok(ran.peak_mib);
    }
    let what = format!("not all {} connections were established: {evidence}", row.connections);
    Err(Error::Client("drom load", what))
}

/// In milliseconds.
fn start_to_request(ground: &Ground, place: &Place) -> Result<f64, Error> {
    let wrong = |error| Error::Start("a listener for the first request".to_owned(), error);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let url = format!("http://{}/", listener.local_addr().map_err(wrong)?);
    let mut command = pinned(ground.drom.as_os_str(), place.core);
    command.args(["load", &url, "-n", "1", "-c", "1", "--quiet"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    end_with_us(&mut command);
    let began = clock::now();
    let mut child = command.spawn().map_err(|error| Error::Start("drom load".to_owned(), error))?;
    let taken = first_request(&listener).map(|mut stream| {
        let taken = clock::now() - began;
        // It is judged by its time only.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        taken
    });
    if taken.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    taken.map(|taken| taken.as_secs_f64() * 1e3).map_err(wrong)
}

/// A connection whose first bytes have come.
fn first_request(listener: &TcpListener) -> std::io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let until = clock::now() + START_WAIT;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if clock::now() > until => return Err(error),
            Err(_) => clock::sleep(Duration::from_micros(100)),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(START_WAIT))?;
    match stream.read(&mut [0; 1024])? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_its_first_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET").unwrap();
        assert!(first_request(&listener).is_ok());
        drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        assert!(first_request(&listener).is_err());
    }
}
