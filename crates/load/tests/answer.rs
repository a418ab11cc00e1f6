//! The protocol core against every split of its input, against faults and against noise.

use drom_load::protocol::{Answer, Event, Fault, Framing, Head, Heads};
use proptest::prelude::*;

/// An answer as the core told it, independent of how its body came in pieces.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    head: Head,
    body: Vec<u8>,
    reusable: Option<bool>,
}

#[derive(Debug, PartialEq)]
struct Story {
    answers: Vec<Told>,
    end: Result<(), Fault>,
}

fn tell(answers: &mut Vec<Told>, event: &Event<'_>) {
    match event {
        Event::Head(head) => answers.push(Told { head: *head, body: Vec::new(), reusable: None }),
        Event::Body(body) => answers.last_mut().expect("a head came before").body.extend(*body),
        Event::Complete { reusable } => {
            answers.last_mut().expect("a head came before").reusable = Some(*reusable);
        }
    }
}

fn feed(
    answer: &mut Answer,
    heads: &mut Heads,
    mut input: &[u8],
    answers: &mut Vec<Told>,
) -> Result<(), Fault> {
    // Each call consumes bytes or ends an answer: more calls than this would be a loop without end.
    for _ in 0..input.len() * 2 + 3 {
        let (event, rest) = answer.next(heads, input)?;
        let Some(event) = event else {
            assert!(rest.is_empty(), "no event although bytes are left");
            return Ok(());
        };
        tell(answers, &event);
        input = rest;
    }
    panic!("the core loops")
}

fn read(method: &str, reads: &[&[u8]], close: bool) -> Story {
    let (mut answer, mut heads, mut answers) = (Answer::default(), Heads::new(method), Vec::new());
    for input in reads {
        if let Err(fault) = feed(&mut answer, &mut heads, input, &mut answers) {
            return Story { answers, end: Err(fault) };
        }
    }
    let mut end = Ok(());
    if close {
        match answer.end() {
            Ok(event) => tell(&mut answers, &event),
            Err(fault) => end = Err(fault),
        }
    }
    Story { answers, end }
}

const STREAMS: &[(&str, &[u8])] = &[
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "GET",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n\
          HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx",
    ),
    ("GET", b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 103 Hint\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n"),
    (
        "GET",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;q=1\r\ndefg\r\n\
          0\r\nT: 1\r\nU: 2\r\n\r\nHTTP/1.1 304 N\r\nContent-Length: 7\r\n\r\n",
    ),
    ("GET", b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nuntil the close"),
    ("GET", b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok"),
    (
        "HEAD",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    ),
    ("GET", b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbye"),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 two hundred\r\n\r\n"),
    ("GET", b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n"),
    ("GET", b"220 smtp.example ESMTP\r\n"),
];

#[test]
fn every_split_in_two_tells_the_same_story() {
    for (method, stream) in STREAMS {
        for close in [false, true] {
            let whole = read(method, &[stream], close);
            for at in 0..=stream.len() {
                let (front, back) = stream.split_at(at);
                assert_eq!(read(method, &[front, back], close), whole, "split at {at}");
            }
        }
    }
}

#[test]
fn every_split_in_three_and_single_bytes_tell_the_same_story() {
    for (method, stream) in STREAMS {
        let whole = read(method, &[stream], true);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(method, &bytes, true), whole);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let reads = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(read(method, &reads, true), whole, "split at {first} and {second}");
            }
        }
    }
}

#[test]
fn the_stories_are_the_right_ones() {
    let bodies = |at: usize| -> Vec<(u16, String, Option<bool>)> {
        let (method, stream) = STREAMS[at];
        let story = read(method, &[stream], true);
        let told = story.answers.into_iter();
        told.map(|t| (t.head.status, String::from_utf8(t.body).expect("text"), t.reusable))
            .collect()
    };
    let one = |status: u16, body: &str, reusable| (status, body.to_owned(), Some(reusable));
    assert_eq!(bodies(0), [one(200, "hello", true)]);
    assert_eq!(bodies(1), [one(200, "", true), one(404, "x", true)]);
    assert_eq!(bodies(2), [one(204, "", true)]);
    assert_eq!(bodies(3), [one(200, "abcdefg", true), one(304, "", true)]);
    assert_eq!(bodies(4), [one(200, "until the close", false)]);
    assert_eq!(bodies(5), [one(200, "ok", true)]);
    assert_eq!(bodies(6), [one(200, "", true), one(200, "", true)]);
    assert_eq!(bodies(7), [one(200, "bye", false)]);
}

#[test]
fn a_close_in_the_middle_is_truncation() {
    let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for at in 0..whole.len() {
        assert_eq!(read("GET", &[&whole[..at]], true).end, Err(Fault::Truncated), "at {at}");
    }
    let length = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell";
    assert_eq!(read("GET", &[length], true).end, Err(Fault::Truncated));
}

/// Text that comes close to HTTP, so that noise gets past the first byte.
fn nearly_http() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Just(b"HTTP/1.0 404 No\r\n".to_vec()),
        Just(b"HTTP/1.1 100 Go\r\n\r\n".to_vec()),
        Just(b"Content-Length: 3\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Connection: close\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"3\r\nabc\r\n".to_vec()),
        Just(b"0\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.concat())
}

fn cut<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    points.extend([0, stream.len()]);
    points.sort_unstable();
    points.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

/// `PROPTEST_CASES` asks for more.
fn at_least_2000_cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2_000), ..default }
}

proptest! {
    #![proptest_config(at_least_2000_cases())]

    #[test]
    fn noise_never_panics_never_loops_and_splits_do_not_matter(
        stream in nearly_http(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        prop_assert_eq!(read("GET", &cut(&stream, &cuts), true), read("GET", &[&stream], true));
    }

    #[test]
    fn random_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..300)) {
        read("GET", &[&stream], true);
    }

    #[test]
    fn good_answers_come_out_as_they_went_in(
        answers in prop::collection::vec(
            (200u16..600, prop::collection::vec(any::<u8>(), 0..40), any::<bool>()),
            1..5,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut stream = Vec::new();
        for (status, body, chunked) in &answers {
            stream.extend(format!("HTTP/1.1 {status} X\r\n").bytes());
            if *status == 204 || *status == 304 {
                stream.extend(b"\r\n");
            } else if *chunked {
                stream.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for part in body.chunks(7) {
                    stream.extend(format!("{:x}\r\n", part.len()).bytes());
                    stream.extend(part);
                    stream.extend(b"\r\n");
                }
                stream.extend(b"0\r\n\r\n");
            } else {
                stream.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                stream.extend(body);
            }
        }
        let story = read("GET", &cut(&stream, &cuts), false);
        prop_assert_eq!(story.end, Ok(()));
        prop_assert_eq!(story.answers.len(), answers.len());
        for (told, (status, body, _)) in story.answers.iter().zip(&answers) {
            let empty = told.head.framing == Framing::Empty;
            prop_assert_eq!(told.head.status, *status);
            prop_assert!(empty || told.body == *body);
            prop_assert_eq!(told.reusable, Some(true));
        }
    }
}
