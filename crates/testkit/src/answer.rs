//! The bytes of an answer, good ones and each kind of broken one. Pure.

use crate::script::{Fate, Flaw, Form, Then, Turn};

/// More than a head, or the trailers of a body, may have.
const TOO_LONG: usize = 70_000;

/// The body that a good answer of so many bytes has.
#[must_use]
pub fn body(bytes: usize) -> Vec<u8> {
    b"drom ".iter().copied().cycle().take(bytes).collect()
}

/// All bytes of the turn's answer.
#[must_use]
pub fn wire(turn: &Turn, to_head: bool) -> Vec<u8> {
    match &turn.fate {
        Fate::Raw(bytes) => return bytes.clone(),
        Fate::Flawed(flaw) => return flawed(*flaw),
        _ => {}
    }
    let mut bytes = b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n".repeat(turn.interim as usize);
    bytes.extend(head(turn).bytes());
    if !to_head {
        bytes.extend(framed(turn));
    }
    bytes
}

fn head(turn: &Turn) -> String {
    let (status, length) = (turn.status, turn.body_bytes);
    let close = if turn.then == Then::Announced { "Connection: close\r\n" } else { "" };
    match turn.form {
        Form::Length => {
            format!("HTTP/1.1 {status} Said\r\n{close}Content-Length: {length}\r\n\r\n")
        }
        Form::Chunked(_) => {
            format!("HTTP/1.1 {status} Said\r\n{close}Transfer-Encoding: chunked\r\n\r\n")
        }
        Form::UntilClose => format!("HTTP/1.0 {status} Said\r\n\r\n"),
        Form::OldKeepAlive => {
            let keep = if close.is_empty() { "Connection: keep-alive\r\n" } else { close };
            format!("HTTP/1.0 {status} Said\r\n{keep}Content-Length: {length}\r\n\r\n")
        }
        Form::Bodiless => format!("HTTP/1.1 204 Said\r\n{close}\r\n"),
    }
}

fn framed(turn: &Turn) -> Vec<u8> {
    let mut body = body(turn.body_bytes);
    if let (Fate::OtherBody, Some(byte)) = (&turn.fate, body.last_mut()) {
        *byte ^= 1;
    }
    match turn.form {
        Form::Chunked(size) => chunked(&body, size.max(1)),
        Form::Bodiless => Vec::new(),
        _ => body,
    }
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

fn flawed(flaw: Flaw) -> Vec<u8> {
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\nok").into_bytes();
    match flaw {
        Flaw::NotHttp => b"220 mail.example ready\r\n".to_vec(),
        Flaw::BareLineFeed => b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok".to_vec(),
        Flaw::HeadTooLong => with(&format!("A: {}\r\n", "x".repeat(TOO_LONG))),
        Flaw::BadHead => with("A : b\r\nContent-Length: 2\r\n"),
        Flaw::BadLength => with("Content-Length: 2\r\nContent-Length: 3\r\n"),
        Flaw::BothLengths => with("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        Flaw::BadTransferCoding => with("Transfer-Encoding: gzip\r\n"),
        Flaw::BadChunk => with("Transfer-Encoding: chunked\r\n"),
        Flaw::TrailersTooLong => [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ".to_vec(),
            vec![b'x'; TOO_LONG],
            b"\r\n\r\n".to_vec(),
        ]
        .concat(),
        Flaw::Upgraded => b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n".to_vec(),
        Flaw::Excess => [with("Content-Length: 2\r\n"), b" and more".to_vec()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use drom_load::protocol::{Answer, Event, Fault, Heads};

    use super::*;

    /// What a client makes of it: status and body, or the fault.
    fn read(bytes: &[u8]) -> Result<(u16, Vec<u8>), Fault> {
        let (mut answer, mut heads) = (Answer::default(), Heads::new("GET"));
        let (mut status, mut body, mut rest) = (0, Vec::new(), bytes);
        loop {
            let (event, after) = answer.next(&mut heads, rest)?;
            match event {
                Some(Event::Head(head)) => status = head.status,
                Some(Event::Body(piece)) => body.extend(piece),
                Some(Event::Complete { .. }) if after.is_empty() => return Ok((status, body)),
                Some(Event::Complete { .. }) => return Err(Fault::Excess),
                None => return answer.end().map(|_| (status, body)),
            }
            rest = after;
        }
    }

    #[test]
    fn every_form_is_read_as_meant() {
        for form in [Form::Length, Form::Chunked(7), Form::UntilClose, Form::OldKeepAlive] {
            for (interim, then) in [(0, Then::Keep), (2, Then::Announced)] {
                let turn = Turn { form, interim, then, body_bytes: 30, ..Turn::default() };
                assert_eq!(read(&wire(&turn, false)), Ok((200, body(30))), "{turn:?}");
            }
        }
        let turn = Turn { form: Form::Bodiless, ..Turn::default() };
        assert_eq!(read(&wire(&turn, false)), Ok((204, Vec::new())));
    }

    #[test]
    fn every_flaw_is_the_fault_of_its_name() {
        for flaw in Flaw::ALL {
            let fault = read(&wire(&Turn::with(Fate::Flawed(flaw)), false)).expect_err("a fault");
            assert_eq!(format!("{fault:?}"), format!("{flaw:?}"));
        }
    }

    #[test]
    fn another_body_has_the_same_length() {
        let other = wire(&Turn::with(Fate::OtherBody), false);
        let good = wire(&Turn::default(), false);
        assert!(other.len() == good.len() && other != good);
    }
}
