//! Users on their way, answer by answer.

use std::{io, path::Path};

use crate::{Answer, Judged, Judgement, Next, Part, Scenario, Share, Unsent, User, Version};

const ROWS: &[u8] = b"name,path\nAnn,/a\nBo,/b\nCy,http://other.example/c\n";

fn file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("people.csv") => Ok(ROWS.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// One user, and what it needs.
struct World {
    scenario: Scenario,
    share: Share,
    user: User,
    now_ns: u64,
}

impl World {
    fn new(text: &str) -> Self {
        let text = format!("base = 'http://h.example'\n{text}");
        let read = Scenario::parse(&text, Path::new("a.toml"), &[], &file);
        let scenario = read.unwrap_or_else(|error| panic!("{error}"));
        let share = Share::new(&scenario, Part::whole(1));
        let user = User::new(&scenario, &share, 0);
        Self { scenario, share, user, now_ns: 0 }
    }

    fn next(&mut self) -> Next {
        self.user.next(&self.scenario, &mut self.share, self.now_ns)
    }

    /// The request that comes next, as text.
    fn sent(&mut self) -> String {
        assert_eq!(self.next(), Next::Send);
        let mut out = Vec::new();
        self.share.request.write_http1(Version::Http11, true, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn line(&mut self) -> String {
        self.sent().lines().next().unwrap_or_default().to_owned()
    }

    fn answer(&mut self, status: u16, head: &str, body: &str) -> Judgement {
        let (head, body) = (head.as_bytes(), body.as_bytes());
        let body_bytes = body.len() as u64;
        let answer = Answer { status, head, body, body_bytes, after_ns: 5_000_000 };
        self.user.answered(&self.scenario, &mut self.share, &answer, self.now_ns)
    }

    fn ok(&mut self) -> Judgement {
        self.answer(200, "", "")
    }

    fn failed_names(&self) -> Vec<&str> {
        let failed = self.share.verdicts().iter().filter(|verdict| !verdict.passed);
        failed.map(|verdict| &*self.scenario.checks()[verdict.check].name).collect()
    }
}

#[test]
fn steps_come_in_order_and_again() {
    let mut world = World::new("[[step]]\nurl='/a'\n[[step]]\nmethod='POST'\nurl='http://x:81'\n");
    for _ in 0..2 {
        assert_eq!(world.line(), "GET /a HTTP/1.1");
        world.ok();
        let post = "POST / HTTP/1.1\r\nHost: x:81\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(world.sent(), post);
        assert_eq!(world.share.request.origin, 1);
        world.ok();
        assert_eq!(world.next(), Next::Done);
    }
}

#[test]
fn pauses_end_when_their_time_has_come() {
    let mut world = World::new("[[step]]\nurl='/a'\nthink='2s'\n[[step]]\nurl='/b'\n");
    world.line();
    world.now_ns = 10;
    world.ok();
    let until_ns = 2_000_000_010;
    assert_eq!(world.next(), Next::Pause { until_ns });
    assert_eq!(world.next(), Next::Pause { until_ns }, "asked too early");
    world.now_ns = until_ns;
    assert_eq!(world.line(), "GET /b HTTP/1.1");
}

#[test]
fn drawn_pauses_have_their_mean() {
    for (think, mean_ms) in [("{ from = 1, to = 3 }", 2_000), ("{ mean = '2s' }", 2_000)] {
        let mut world = World::new(&format!("[[step]]\nurl='/'\nthink={think}\n"));
        let mut sum_ns = 0;
        for _ in 0..2_000 {
            while world.next() != Next::Send {}
            world.ok();
            let Next::Pause { until_ns } = world.next() else { panic!("no pause") };
            sum_ns += until_ns - world.now_ns;
            world.now_ns = until_ns;
            assert_eq!(world.next(), Next::Done);
        }
        let mean = sum_ns / 2_000 / 1_000_000;
        assert!((mean_ms * 95 / 100..mean_ms * 105 / 100).contains(&mean), "{think}: {mean}");
    }
}

#[test]
fn pauses_can_be_scaled() {
    for (think, least_ns) in [("'2s'", 1_000_000_000), ("{ from = 2, to = 2 }", 1_000_000_000)] {
        let mut world = World::new(&format!("[[step]]\nurl='/'\nthink={think}\n"));
        world.scenario.scale_think(0.5);
        world.line();
        world.ok();
        assert_eq!(world.next(), Next::Pause { until_ns: least_ns });
    }
}

#[test]
fn loops_and_chances_are_run_as_often_as_they_say() {
    let mut world = World::new(
        "[[step]]\nrepeat = 2\n[[step.step]]\nurl='/a'\nrepeat = 3\n[[step.step]]\nurl='/b'\n\
         chance = 0\n[[step.step]]\nurl='/c'\nchance = 1\n[[step]]\nurl='/d'\nrepeat = 0\n",
    );
    let mut seen = String::new();
    while world.next() == Next::Send {
        seen.push(char::from(world.share.request.target()[1]));
        world.ok();
    }
    assert_eq!(seen, "aaacaaac");
}

#[test]
fn flows_are_drawn_by_weight_and_the_seed_repeats_them() {
    let text = "[[scenario]]\nname='a'\nweight=3\n[[scenario.step]]\nurl='/a'\n\
                [[scenario]]\nname='b'\n[[scenario.step]]\nurl='/b'\n";
    let run = |number| {
        let mut world = World::new(text);
        world.user = User::new(&world.scenario, &world.share, number);
        let mut seen = String::new();
        for _ in 0..4_000 {
            assert_eq!(world.next(), Next::Send);
            seen.push(char::from(world.share.request.target()[1]));
            world.ok();
            assert_eq!(world.next(), Next::Done);
        }
        seen
    };
    let count = run(0).matches('a').count();
    assert!((2_850..3_150).contains(&count), "{count}");
    assert_eq!(run(0), run(0));
    assert_ne!(run(0), run(1));
}

#[test]
fn what_is_captured_is_sent_with_the_next_request() {
    let mut world = World::new(
        "[[step]]\nurl='/login'\n[step.capture]\nid = { json = '$.user.id' }\n\
         key = { header = 'X-Key' }\ncsrf = { regex = 'v=\"(\\w+)\"' }\nc = { cookie = 's' }\n\
         [[step]]\nurl='/u/{{id}}?k={{key|url}}'\nform = { t = '{{csrf}}', c = '{{c}}' }\n",
    );
    world.line();
    let head = "X-Key: a b\r\nSet-Cookie: s=1\r\n";
    let judgement = world.answer(200, head, "{\"user\":{\"id\":\"7\"}} v=\"t0\"");
    assert_eq!((judgement.passed, judgement.failed), (5, 0));
    assert_eq!(
        world.sent(),
        "POST /u/7?k=a%20b HTTP/1.1\r\nHost: h.example\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nCookie: s=1\r\nContent-Length: 8\r\n\r\nt=t0&c=1"
    );
}

#[test]
fn a_capture_without_a_find_is_a_failed_check_and_ends_the_iteration() {
    let text = "[[step]]\nurl='/'\ncapture={ id = { json = '$.id' } }\n[[step]]\nurl='/{{id}}'\n";
    let mut world = World::new(text);
    world.line();
    let judgement = world.ok();
    assert!(judgement.is_stopped);
    assert_eq!(world.failed_names(), ["capture id"]);
    assert_eq!(world.next(), Next::Done);

    let mut world = World::new(&format!("defaults = {{ stop_on = 'never' }}\n{text}"));
    world.line();
    world.ok();
    let variable = 0;
    assert_eq!(world.next(), Next::Unsent { step: 1, why: Unsent::Unset { variable } });
    assert_eq!(world.failed_names(), ["request"]);
    assert_eq!(world.next(), Next::Done);
}

#[test]
fn a_value_cannot_break_a_request() {
    let cases = [
        ("url='/{{v}}'", "a b", Unsent::Target),
        ("url='/{{v}}'", "a\r\nX: y", Unsent::Target),
        ("url='/'\nheaders = { a = '{{v}}' }", "a\r\nX: y", Unsent::Field),
        ("url='/'\nheaders = { host = '{{v}}' }", "a\nX: y", Unsent::Field),
        ("url='/'\nmethod='{{v}}'", "GET /x", Unsent::Method),
        ("url='{{v}}'", "http://elsewhere.example/", Unsent::Elsewhere),
        ("url='{{v}}'", "nonsense", Unsent::Target),
    ];
    for (step, value, why) in cases {
        let capture = "[[step]]\nurl='/'\ncapture={ v = { json = '$.v' } }\n[[step]]\n";
        let mut world = World::new(&format!("{capture}{step}\n"));
        world.line();
        let body = serde_json::json!({ "v": value }).to_string();
        world.answer(200, "", &body);
        assert_eq!(world.next(), Next::Unsent { step: 1, why }, "{step}");
        assert!(!world.scenario.why(why).is_empty());
    }
}

#[test]
fn a_header_whose_value_comes_out_empty_is_not_sent() {
    let capture = "capture = { v = { json = '$.v', default = '' } }\n";
    let headers = "headers = { A = '{{v}}', B = '' }\n";
    let step = "[[step]]\nurl='/'\n";
    let mut world = World::new(&format!("{step}{capture}{step}{headers}"));
    world.line();
    world.ok();
    let sent = world.sent();
    assert!(!sent.contains("A:") && sent.contains("\r\nB: \r\n"), "{sent}");
    let defaults = "variables = { p = '' }\ndefaults = { headers = { C = 'c' } }\n";
    let mut world = World::new(&format!("{defaults}{step}headers = {{ C = '{{{{p}}}}' }}\n"));
    assert!(!world.sent().contains("C:"));
}

#[test]
fn cookies_live_as_long_as_the_session() {
    let step = "[[step]]\nurl='/'\n";
    for (session, second) in [("iteration", false), ("user", true)] {
        let mut world = World::new(&format!("session='{session}'\n{step}"));
        assert!(!world.sent().contains("Cookie"));
        world.answer(200, "Set-Cookie: s=1; Path=/\r\n", "");
        assert_eq!(world.next(), Next::Done);
        assert_eq!(world.sent().contains("Cookie: s=1"), second, "{session}");
    }
    let mut world = World::new(&format!("cookies = false\nsession='user'\n{step}"));
    world.line();
    assert_eq!(world.share.request.wants, crate::Wants::default());
    world.answer(200, "Set-Cookie: s=1\r\n", "");
    world.next();
    assert!(!world.sent().contains("Cookie"));
}

#[test]
fn cookies_of_ones_own_and_of_the_jar_go_together() {
    let mut world =
        World::new("session='user'\n[[step]]\nurl='/'\nheaders = { Cookie = 'mine=1' }\n");
    assert!(world.sent().contains("Cookie: mine=1\r\n"));
    world.answer(200, "Set-Cookie: s=2\r\nSet-Cookie: t=3; Max-Age=60\r\n", "");
    world.next();
    assert!(world.sent().contains("Cookie: mine=1; s=2; t=3\r\n"));
    world.now_ns = 61_000_000_000;
    world.ok();
    world.next();
    assert!(world.sent().contains("Cookie: mine=1; s=2\r\n"));
}

#[test]
fn redirects_are_followed_as_browsers_do_it() {
    let mut world = World::new(
        "origins = ['http://other.example']\n[[step]]\nurl='/a/b?c'\nfollow = 3\nform={ a = 'b' }\n\
         bearer = 'secret'\n",
    );
    assert!(world.sent().starts_with("POST /a/b?c "));
    let head = "Location: ../x?y#z\r\nSet-Cookie: s=1; path=/\r\n";
    assert!(world.answer(307, head, "").is_redirect);
    let again = world.sent();
    assert!(again.starts_with("POST /x?y ") && again.ends_with("\r\n\r\na=b"), "{again}");
    assert!(world.answer(303, "Location: d\r\n", "").is_redirect);
    let get = world.sent();
    let expected =
        "GET /d HTTP/1.1\r\nHost: h.example\r\nAuthorization: Bearer secret\r\nCookie: s=1";
    assert_eq!(get, format!("{expected}\r\n\r\n"));
    assert!(world.answer(302, "Location: http://other.example\r\n", "").is_redirect);
    assert_eq!(world.sent(), "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n");
    let judgement = world.answer(302, "Location: /more\r\n", "");
    assert!(!judgement.is_redirect);
    assert_eq!(world.failed_names(), ["redirects"]);
}

/// RFC 3986, 4.2, and what servers write where it forbids them to.
#[test]
fn redirects_are_what_servers_write() {
    let places = [
        ("//other.example/x", "GET /x HTTP/1.1\r\nHost: other.example\r\n"),
        ("//h.example", "GET / HTTP/1.1\r\nHost: h.example\r\n"),
        ("/a b", "GET /a%20b HTTP/1.1\r\nHost: h.example\r\n"),
        ("caf\u{e9}?q=\u{e9}#z", "GET /caf%C3%A9?q=%C3%A9 HTTP/1.1\r\nHost: h.example\r\n"),
    ];
    for (place, expected) in places {
        let origins = "origins = ['http://other.example']\n";
        let mut world = World::new(&format!("{origins}[[step]]\nurl='/'\nfollow = 1\n"));
        world.line();
        assert!(world.answer(302, &format!("Location: {place}\r\n"), "").is_redirect, "{place}");
        assert!(world.sent().starts_with(expected), "{place}");
    }
}

#[test]
fn a_captured_place_without_a_scheme_has_the_bases() {
    let text = "origins = ['http://other.example']\n[[step]]\nurl='/'\n\
                capture = { next = { header = 'Location' } }\n[[step]]\nurl='{{next}}'\n";
    let mut world = World::new(text);
    world.line();
    world.answer(200, "Location: //other.example/x\r\n", "");
    assert!(world.sent().starts_with("GET /x HTTP/1.1\r\nHost: other.example\r\n"));
}

#[test]
fn why_a_redirect_is_not_followed_is_told() {
    let cases = [
        ("/again", "there are more than 0 redirects"),
        ("//h.example/again", "there are more than 0 redirects"),
        ("http://evil.example/", "http://evil.example/ is a server that nobody named"),
        ("//evil.example/", "//evil.example/ is a server that nobody named"),
        ("mailto:x", "mailto:x is not followed: it must begin with http:// or https://"),
        ("http://u@h.example/", "http://u@h.example/ is not followed: user names in URLs"),
    ];
    for (place, expected) in cases {
        let world = World::new("[[step]]\nurl='/'\nfollow = 1\n");
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\n\r\n");
        let said = world.scenario.why_not_followed(0, head.as_bytes());
        assert!(said.starts_with(expected), "{place}: {said}");
    }
}

#[test]
fn a_redirect_to_a_server_that_nobody_named_is_not_followed() {
    for place in ["http://evil.example/", "//evil.example/", "ftp://h.example/", "mailto:x"] {
        let mut world = World::new("[[step]]\nurl='/'\nfollow = 3\n");
        world.line();
        let judgement = world.answer(302, &format!("Location: {place}\r\n"), "");
        assert!(!judgement.is_redirect, "{place}");
        assert_eq!(world.failed_names(), ["redirects"]);
    }
}

#[test]
fn rows_are_taken_when_they_are_due() {
    for (take, expected) in [
        ("iteration", "Ann Ann Bo Bo Cy Cy"),
        ("request", "Ann Bo Cy Ann Bo Cy"),
        ("user", "Ann Ann Ann Ann Ann Ann"),
    ] {
        let feeder = format!("[feeder.p]\nfile='people.csv'\ntake='{take}'\n");
        let step = "[[step]]\nurl='/{{p.name}}'\n";
        let mut world = World::new(&format!("{feeder}{step}{step}"));
        let mut seen = Vec::new();
        while seen.len() < 6 {
            if world.next() == Next::Send {
                let target = world.share.request.target()[1..].to_vec();
                seen.push(String::from_utf8(target).expect("text"));
                world.ok();
            }
        }
        assert_eq!(seen.join(" "), expected, "{take}");
    }
}

#[test]
fn rows_for_once_come_to_an_end() {
    let feeder = "origins=['http://other.example']\n[feeder.p]\nfile='people.csv'\nonce=true\n";
    let mut world = World::new(&format!("{feeder}[[step]]\nurl='{{{{p.path}}}}'\n"));
    for line in ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1"] {
        assert_eq!(world.line(), line);
        world.ok();
        assert_eq!(world.next(), Next::Done);
    }
    assert_eq!(world.share.request.authority(), b"other.example");
    assert_eq!(world.next(), Next::Exhausted { feeder: 0 });
    assert_eq!(world.next(), Next::Exhausted { feeder: 0 });
}

#[test]
fn every_check_can_fail_and_pass() {
    let head = "Content-Type: text/HTML\r\nX-A: b\r\n";
    let body = "<html><TITLE lang=en> Hi </TITLE>Welcome</html>";
    let json = "{\"n\":2.0,\"s\":\"x\\u0041\",\"b\":true,\"l\":[1]}";
    let cases = [
        ("status = 200", body, true),
        ("status = ['3xx', '500-503', 404]", body, false),
        ("header = ['content-type: text/', 'x-a']", body, true),
        ("header = 'content-type: text/html'", body, false),
        ("header = 'content-type: text/html'\nignore_case = true", body, true),
        ("no_header = 'x-a: c'", body, true),
        ("no_header = 'x-a'", body, false),
        ("text = ['Welcome', 'html']", body, true),
        ("text = 'welcome'", body, false),
        ("text = 'welcome'\nignore_case = true", body, true),
        ("text = '{{v}}'", body, true),
        ("text = 'W{{v}}'", body, false),
        ("text = 'W{{v}}'\nignore_case=true", body, false),
        ("no_text = 'Error'", body, true),
        ("no_text = 'come'", body, false),
        ("regex = 'W[el]+come'", body, true),
        ("regex = 'w[el]+come'", body, false),
        ("regex = 'w[el]+come'\nignore_case = true", body, true),
        ("no_regex = 'W.l'", body, false),
        ("min_bytes = 10\nmax_bytes = 100", body, true),
        ("min_bytes = 100", body, false),
        ("max_bytes = 10", body, false),
        ("min_time = '5ms'\nmax_time = '5ms'", body, true),
        ("min_time = '6ms'", body, false),
        ("max_time = '4ms'", body, false),
        ("title = 'Hi'", body, true),
        ("title = 'hi'", body, false),
        ("title = 'hi'\nignore_case = true", body, true),
        ("title = 'Hi'", "no title", false),
        ("title = 'A & B\u{e4}'", "<title>A &amp; B&auml;</title>", true),
        ("json = { '$.n' = 2, '$.s' = 'xA', '$.b' = true, '$.l[0]' = 1 }", json, true),
        ("json = { '$.n' = 3 }", json, false),
        ("json = { '$.s' = 'x' }", json, false),
        ("json = { '$.b' = false }", json, false),
        ("json = { '$.none' = 1 }", json, false),
        ("json = ['$.n', '$.l']", json, true),
        ("json = '$.none'", json, false),
        ("no_json = '$.none'", json, true),
        ("no_json = '$.n'", json, false),
    ];
    for (check, body, expected) in cases {
        let text = "[variables]\nv='{{\"W\"}}elcome'\n[[step]]\nurl='/'\n[step.check]\n";
        let mut world = World::new(&format!("{text}{check}\n"));
        world.line();
        let judgement = world.answer(200, head, body);
        assert_eq!(judgement.failed == 0, expected, "{check}");
        if let Some(first) = judgement.first_failed {
            let answer = Answer {
                status: 200,
                head: head.as_bytes(),
                body: body.as_bytes(),
                body_bytes: body.len() as u64,
                after_ns: 5_000_000,
            };
            let judged = Judged::of(&world.scenario, &world.share, &world.share.request, &answer);
            assert_eq!(judged.took_ns, Some(5_000_000));
            let failed = judged.checks.iter().find(|check| check.found.is_some());
            assert_eq!(failed.map(|check| &check.name), Some(&world.scenario.checks()[first].name));
            assert_eq!(world.share.counts.failed(first), 1);
        }
    }
    let mut world = World::new("[[step]]\nurl='/'\n");
    world.line();
    assert_eq!(world.answer(404, "", "").failed, 1, "a status below 400 goes without saying");
}

#[test]
fn a_packed_body_is_looked_at_unpacked() {
    // gzip of "hello hello hello\n", without a name.
    const PACKED: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90,
        0x5c, 0, 0x3b, 0x7c, 0x8a, 0xdf, 18, 0, 0, 0,
    ];
    let step = "[[step]]\nurl='/'\ngzip = true\ncheck = { text = 'hello hello' }\n";
    let mut world = World::new(step);
    assert!(world.sent().contains("Accept-Encoding: gzip\r\n"));
    let answer = |head: &'static [u8]| Answer {
        status: 200,
        head,
        body: PACKED,
        body_bytes: PACKED.len() as u64,
        after_ns: 0,
    };
    let packed = answer(b"Content-Encoding: GZIP\r\n");
    let judgement = world.user.answered(&world.scenario, &mut world.share, &packed, 0);
    assert_eq!(judgement.failed, 0);
    world.next();
    world.next();
    let judgement = world.user.answered(&world.scenario, &mut world.share, &answer(b""), 0);
    assert_eq!(judgement.failed, 1, "the answer does not say that it is packed");
}

#[test]
fn a_renewed_user_is_like_a_new_one() {
    let text = "session='user'\n[variables]\nv='x'\n[[step]]\n\
                url='/{{random 1 1000000}}/{{user}}/{{iteration}}'\n\
                capture={ v = { json = '$', default='' } }\nheaders={ V = '{{v}}' }\n";
    let mut world = World::new(text);
    let first = world.sent();
    world.answer(200, "Set-Cookie: a=1; Path=/\r\n", "7");
    world.next();
    assert!(world.sent().contains("V: 7\r\nCookie: a=1"));
    world.user.renew(&world.share, 0);
    assert_eq!(world.sent(), first);
    world.user.renew(&world.share, 9);
    assert_ne!(world.sent(), first);
    assert_eq!(world.user.number(), 9);
}

#[test]
fn threads_can_have_their_parts() {
    fn is_for_threads<T: Send + Sync>() {}
    is_for_threads::<Scenario>();
    is_for_threads::<Share>();
    is_for_threads::<User>();
}

#[test]
fn a_request_without_an_answer_ends_the_iteration_unless_told() {
    for (stop_on, goes_on) in [("capture", false), ("check", false), ("never", true)] {
        let text = format!("defaults={{ stop_on = '{stop_on}' }}\n[[step]]\nurl='/a'\n");
        let mut world = World::new(&format!("{text}[[step]]\nurl='/b'\n"));
        world.line();
        world.user.failed(&world.scenario, &mut world.share);
        assert_eq!(world.next() == Next::Send, goes_on, "{stop_on}");
    }
    let mut world = World::new("[[step]]\nurl='/a'\nstop_on='check'\n[[step]]\nurl='/b'\n");
    world.line();
    assert!(world.answer(500, "", "").is_stopped);
    assert_eq!(world.next(), Next::Done);
}

#[test]
fn numbers_are_unique_over_the_shares() {
    let text = "base='http://h'\n[[step]]\nurl='/{{seq}}/{{user}}/{{iteration}}/{{seq}}'\n";
    let scenario = Scenario::parse(text, Path::new("a"), &[], &file).expect("good");
    let mut seen = Vec::new();
    for number in 0..2 {
        let mut share = Share::new(&scenario, Part { number, of: 2, ..Part::whole(1) });
        let mut user = User::new(&scenario, &share, 7 + u64::from(number));
        while seen.len() < 2 * (number as usize + 1) {
            if user.next(&scenario, &mut share, 0) == Next::Send {
                seen.push(String::from_utf8_lossy(share.request.target()).into_owned());
                let answer =
                    Answer { status: 200, head: b"", body: b"", body_bytes: 0, after_ns: 0 };
                user.answered(&scenario, &mut share, &answer, 0);
            }
        }
    }
    assert_eq!(seen, ["/1/7/1/1", "/3/7/2/3", "/2/8/1/2", "/4/8/2/4"]);
}
