//! The file of `--wsesslog`: [`Session`]s as lists of bursts. Pure.
//!
//! A line is a URI with `method=`, `think=` and `contents=` behind it; one that begins with white
//! space belongs to the burst of the line before. Empty lines part sessions, `#` at the begin of a
//! line makes a comment of it.

use super::STATUS_WRONG;
use crate::Refusal;

/// Those that httperf knows; a longer word that begins as one of them is that one.
const METHODS: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    pub bursts: Vec<Burst>,
}

/// A page and what comes with it, and the pause behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst {
    pub calls: Vec<Call>,
    pub think_s: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: &'static str,
    pub uri: String,
    pub contents: Vec<u8>,
}

/// Reads them; a burst without `think=` is followed by a pause of `think_s`.
///
/// # Errors
/// The line that says something else, or that there is no session.
pub fn sessions(text: &str, file: &str, think_s: f64) -> Result<Vec<Session>, Refusal> {
    let mut reader = Reader { left: text, number: 0, sessions: vec![Session::default()] };
    while let Some(line) = reader.line() {
        let read = reader.take(line, think_s);
        read.map_err(|what| refused(&format!("{file}, line {}: {what}", reader.number)))?;
    }
    reader.sessions.retain(|session| !session.bursts.is_empty());
    if reader.sessions.is_empty() {
        return Err(refused(&format!("no session in {file}: write a URI on a line of its own")));
    }
    Ok(reader.sessions)
}

fn refused(what: &str) -> Refusal {
    Refusal::new(STATUS_WRONG, format!("httperf: {what}\n"))
}

struct Reader<'t> {
    left: &'t str,
    /// Of the line that was read last.
    number: usize,
    /// The last one grows.
    sessions: Vec<Session>,
}

impl<'t> Reader<'t> {
    fn line(&mut self) -> Option<&'t str> {
        if self.left.is_empty() {
            return None;
        }
        self.number += 1;
        let (line, left) = self.left.split_once('\n').unwrap_or((self.left, ""));
        self.left = left;
        Some(line)
    }

    fn take(&mut self, line: &'t str, think_s: f64) -> Result<(), String> {
        if line.starts_with('#') {
            return Ok(());
        }
        let words = line.trim_start();
        let Some(uri) = words.split_ascii_whitespace().next() else {
            self.sessions.push(Session::default());
            return Ok(());
        };
        let mut call = Call { method: "GET", uri: uri.to_owned(), contents: Vec::new() };
        let mut think = None;
        let mut rest = words[uri.len()..].trim_start();
        while !rest.is_empty() {
            rest = self.attribute(rest, &mut call, &mut think)?.trim_start();
        }
        self.add(call, line.starts_with(|first: char| first.is_ascii_whitespace()), think, think_s);
        Ok(())
    }

    /// The first burst of a session begins with its first line, however that stands.
    fn add(&mut self, call: Call, is_with: bool, think: Option<f64>, think_s: f64) {
        let Some(session) = self.sessions.last_mut() else { return };
        match session.bursts.last_mut().filter(|_| is_with) {
            Some(burst) => {
                burst.calls.push(call);
                burst.think_s = think.unwrap_or(burst.think_s);
            }
            None => {
                let think_s = think.unwrap_or(think_s);
                session.bursts.push(Burst { calls: vec![call], think_s });
            }
        }
    }

    /// Takes one off the front of a line; what is behind it, perhaps of a later line.
    fn attribute(
        &mut self,
        text: &'t str,
        call: &mut Call,
        think: &mut Option<f64>,
    ) -> Result<&'t str, String> {
        if let Some(value) = text.strip_prefix("contents=") {
            return self.contents(value, &mut call.contents);
        }
        let (word, rest) = text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, ""));
        let known = |method: &&&'static str| word["method=".len()..].starts_with(**method);
        if word.starts_with("method=") {
            let method = METHODS.iter().find(known);
            call.method = method.ok_or_else(|| format!("did not recognize {word:?}"))?;
        } else {
            let seconds = word.strip_prefix("think=").and_then(super::think_s_of);
            *think = Some(seconds.ok_or_else(|| format!("did not recognize {word:?}"))?);
        }
        Ok(rest)
    }

    /// Up to white space that is in no quotes. A backslash makes letters of quotes and line ends of
    /// letters; before the end of a line it goes on with the next one.
    fn contents(&mut self, text: &'t str, contents: &mut Vec<u8>) -> Result<&'t str, String> {
        let (mut text, mut at, mut quote) = (text, 0, None);
        loop {
            let Some(letter) = text[at..].chars().next() else { return Ok("") };
            at += letter.len_utf8();
            match (letter, quote) {
                ('\\', _) => match text[at..].chars().next() {
                    None => {
                        contents.push(b'\n');
                        let next = self.line();
                        text = next.ok_or("the contents go on, and there is no next line")?;
                        at = 0;
                    }
                    Some(escaped) => {
                        at += escaped.len_utf8();
                        push(contents, unescaped(escaped));
                    }
                },
                (letter, Some(open)) if letter == open => quote = None,
                ('"' | '\'', None) => quote = Some(letter),
                (' ' | '\t', None) => return Ok(&text[at..]),
                _ => push(contents, letter),
            }
        }
    }
}

fn unescaped(letter: char) -> char {
    match letter {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

fn push(contents: &mut Vec<u8>, letter: char) {
    contents.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::proptest;

    use super::*;

    fn read(text: &str) -> Result<Vec<Session>, String> {
        sessions(text, "f", 0.5).map_err(|refusal| refusal.message)
    }

    fn lines(text: &str) -> Vec<String> {
        let session = |session: &Session| {
            let burst = |burst: &Burst| {
                let uri = |call: &Call| format!("{} {}", call.method, call.uri);
                let calls: Vec<String> = burst.calls.iter().map(uri).collect();
                format!("{} +{}", calls.join(", "), burst.think_s)
            };
            session.bursts.iter().map(burst).collect::<Vec<_>>().join("; ")
        };
        read(text).expect("good sessions").iter().map(session).collect()
    }

    /// Two sessions, as httperf's manual has them.
    #[test]
    fn sessions_are_bursts_of_calls() {
        let text = "# a comment\n/foo.html think=2.0\n\t/pict1.gif\n\t/pict2.gif\n\
                    /foo2.html method=POST contents='Post data'\n  /pict3.gif\n\n\n  \n\
                    /foo3.html method=HEAD\n/foo4.html\n";
        let first = "GET /foo.html, GET /pict1.gif, GET /pict2.gif +2; \
                     POST /foo2.html, GET /pict3.gif +0.5";
        assert_eq!(lines(text), [first, "HEAD /foo3.html +0.5; GET /foo4.html +0.5"]);
        assert_eq!(lines("\n\t/a\n /b think=1"), ["GET /a, GET /b +1"]);
    }

    #[test]
    fn contents_have_quotes_and_go_on_behind_a_backslash() {
        let of = |text: &str| {
            let read = read(text).expect("a good line");
            let call = &read[0].bursts[0].calls[0];
            (call.method, String::from_utf8_lossy(&call.contents).into_owned())
        };
        let post = |contents: &str| ("POST", contents.to_owned());
        assert_eq!(of("/ contents='a \"b\" c' method=POST"), post("a \"b\" c"));
        assert_eq!(of("/ method=POST contents=a\\ b\\n\\\"c"), post("a b\n\"c"));
        assert_eq!(of("/ method=POST contents='a\\\nb' think=1\n/next"), post("a\nb"));
    }

    #[test]
    fn what_is_no_line_of_a_session_is_said() {
        for (text, why) in [
            ("", "httperf: no session in f: write a URI on a line of its own\n"),
            ("# x\n \n", "httperf: no session in f: write a URI on a line of its own\n"),
            ("/a\n/b size=3\n", "httperf: f, line 2: did not recognize \"size=3\"\n"),
            ("/a think=soon", "httperf: f, line 1: did not recognize \"think=soon\"\n"),
            ("/a method=BREW", "httperf: f, line 1: did not recognize \"method=BREW\"\n"),
            (
                "/a contents=x\\",
                "httperf: f, line 1: the contents go on, and there is no next line\n",
            ),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ \\t\\n/a\\\\'\"=#methodcontsink.]{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn contents_are_what_was_quoted(contents in "[ -~]{0,40}") {
            let quoted = contents.replace('\\', "\\\\").replace('"', "\\\"");
            let read = read(&format!("/a contents=\"{quoted}\"\n")).expect("a good line");
            assert_eq!(read[0].bursts[0].calls[0].contents, contents.as_bytes());
        }
    }
}
