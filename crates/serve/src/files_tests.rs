//! Static files against what Apache 2.4.71 answered for a file of 100 bytes changed at 2026-01-02
//! 03:04:05.

use proptest::prelude::*;

use super::*;
use crate::map::files::FileKind;

const MTIME: i64 = 1_767_323_045;
const ETAG: &[u8] = b"\"64-6475ef64cf340\"";
const MODIFIED: &[u8] = b"Fri, 02 Jan 2026 03:04:05 GMT";
const EARLIER: &[u8] = b"Fri, 02 Jan 2026 03:04:04 GMT";

fn stat() -> Stat {
    Stat {
        kind: FileKind::File,
        size: 100,
        mtime_s: MTIME,
        mtime_ns: 0,
        inode: 0xabc,
        device: 1,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        atime_s: 0,
        ctime_s: 0,
    }
}

proptest! {
    /// Whatever is asked for: ranges lie inside the file, and one good range is that range.
    #[test]
    fn ranges_lie_inside_the_file(
        text in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "bytes=[0-9, -]{0,40}".prop_map(String::into_bytes),
        ],
        size in 0u64..1000,
        (first, len) in (0u64..1000, 1u64..1000),
    ) {
        if let Ranges::Some(ranges) = parse_ranges(&text, size) {
            prop_assert!(ranges.iter().all(|(first, last)| first <= last && *last < size));
        }
        let one = parse_ranges(format!("bytes={first}-{}", first + len - 1).as_bytes(), size);
        match first < size {
            true => prop_assert_eq!(
                one,
                Ranges::Some(vec![(first, (first + len - 1).min(size - 1))])
            ),
            false => prop_assert_eq!(one, Ranges::Unsatisfiable),
        }
    }

    #[test]
    fn no_list_of_types_makes_it_panic(text in "\\PC*") {
        let _ = MediaTypes::parse(&text);
    }
}

fn ask(request: &Conditions) -> FilePlan {
    ask_with(request, &Policy::default())
}

fn ask_with(request: &Conditions, policy: &Policy) -> FilePlan {
    let facts = FileFacts {
        stat: &stat(),
        name: b"h.txt",
        now_unix_s: MTIME + 1000,
        boundary: 0x732b_bd72_7f4e_82b3,
    };
    let request = Conditions {
        method: if request.method.is_empty() { b"GET" } else { request.method },
        ..*request
    };
    plan(&request, &facts, policy, &MediaTypes::built_in())
}

fn header<'a>(plan: &'a FilePlan, name: &str) -> &'a str {
    plan.headers.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v)
}

#[test]
fn a_plain_get_and_head() {
    let plan = ask(&Conditions::default());
    assert_eq!((plan.status, plan.length), (200, Some(100)));
    assert_eq!(header(&plan, "ETag").as_bytes(), ETAG);
    assert_eq!(header(&plan, "Last-Modified").as_bytes(), MODIFIED);
    assert_eq!(header(&plan, "Content-Type"), "text/plain");
    assert_eq!(plan.parts, [Part::FileRange { offset: 0, len: 100 }]);
    let head = ask(&Conditions { method: b"HEAD", ..Conditions::default() });
    assert_eq!((head.length, head.parts.len()), (Some(100), 0));
}

#[test]
fn methods() {
    for (method, status) in [
        (&b"POST"[..], 200),
        (b"PUT", 405),
        (b"DELETE", 405),
        (b"OPTIONS", 200),
        (b"FOO", 501),
        (b"get", 501),
    ] {
        let plan = ask(&Conditions { method, ..Conditions::default() });
        assert_eq!(plan.status, status);
        assert_eq!(header(&plan, "Allow").is_empty(), method == b"POST");
    }
}

#[test]
fn ranges_as_apache_answers_them() {
    for (range, want) in [
        ("0-4", "206 bytes 0-4/100"),
        ("5-", "206 bytes 5-99/100"),
        ("-3", "206 bytes 97-99/100"),
        ("200-", "416 bytes */100"),
        ("0-0,0-0", "206 bytes 0-0/100"),
        ("5-2", "200 "),
        ("abc", "200 "),
        ("0-99", "206 bytes 0-99/100"),
        ("0-200", "206 bytes 0-99/100"),
        ("-0", "200 "),
        ("-200", "206 bytes 0-99/100"),
        ("0-4,200-", "206 bytes 0-4/100"),
        ("0-1,1-2,2-3", "206 bytes 0-3/100"),
        ("0-0, x", "200 "),
        ("+1-2", "200 "),
        ("0-60,70-99,0-60", "200 "),
        ("18446744073709551615-", "416 bytes */100"),
    ] {
        let field = format!("bytes={range}");
        let plan = ask(&Conditions { range: Some(field.as_bytes()), ..Conditions::default() });
        assert_eq!(format!("{} {}", plan.status, header(&plan, "Content-Range")), want, "{range}");
    }
    let other = ask(&Conditions { range: Some(b"lines=0-1"), ..Conditions::default() });
    assert_eq!(other.status, 200);
}

#[test]
fn several_ranges_are_a_multipart_of_apaches_length() {
    for (range, length) in [("50-60,0-1", 199), ("0-0,2-3", 187), ("0-0,2-2,4-4,6-6", 348)] {
        let field = format!("bytes={range}");
        let plan = ask(&Conditions { range: Some(field.as_bytes()), ..Conditions::default() });
        assert_eq!((plan.status, plan.length), (206, Some(length)), "{range}");
        let kind = "multipart/byteranges; boundary=732bbd727f4e82b3";
        assert_eq!(header(&plan, "Content-Type"), kind);
        assert_eq!(header(&plan, "Content-Range"), "");
    }
    let plan = ask(&Conditions { range: Some(b"bytes=50-60,0-1"), ..Conditions::default() });
    let head = "\r\n--732bbd727f4e82b3\r\nContent-type: text/plain\r\nContent-range: bytes \
     50-60/100\r\n\r\n";
    assert_eq!(plan.parts[0], Part::Bytes(head.as_bytes().to_vec()));
    assert_eq!(plan.parts[1], Part::FileRange { offset: 50, len: 11 });
}

#[test]
fn too_many_ranges_get_the_whole_file() {
    let many: Vec<String> = (0..40).map(|n| format!("{0}-{0}", 2 * (39 - n))).collect();
    let field = format!("bytes={}", many.join(","));
    let plan = ask(&Conditions { range: Some(field.as_bytes()), ..Conditions::default() });
    assert_eq!(plan.status, 200);
}

#[test]
fn conditions_as_apache_answers_them() {
    let d = Conditions::default();
    let future = Some(&b"Fri, 02 Jan 2099 03:04:04 GMT"[..]);
    let weak = [b"W/", ETAG].concat();
    let cases = [
        (Conditions { if_none_match: Some(ETAG), ..d }, 304),
        (Conditions { if_none_match: Some(&weak), ..d }, 304),
        (Conditions { if_none_match: Some(b"*"), ..d }, 304),
        (Conditions { if_none_match: Some(b"\"a\", \"64-6475ef64cf340\""), ..d }, 304),
        (Conditions { method: b"POST", if_none_match: Some(ETAG), ..d }, 412),
        (Conditions { if_modified_since: Some(MODIFIED), ..d }, 304),
        (Conditions { if_modified_since: Some(EARLIER), ..d }, 200),
        (Conditions { if_modified_since: future, ..d }, 200),
        (Conditions { if_modified_since: Some(b"nonsense"), ..d }, 200),
        (Conditions { if_unmodified_since: Some(EARLIER), ..d }, 412),
        (Conditions { if_unmodified_since: Some(MODIFIED), ..d }, 200),
        (Conditions { if_match: Some(b"\"x\""), ..d }, 412),
        (Conditions { if_match: Some(ETAG), ..d }, 200),
        (Conditions { if_match: Some(&weak), ..d }, 412),
        (Conditions { if_none_match: Some(ETAG), if_modified_since: Some(EARLIER), ..d }, 200),
        (Conditions { if_none_match: Some(b"\"x\""), if_modified_since: Some(MODIFIED), ..d }, 200),
        (Conditions { if_none_match: Some(ETAG), range: Some(b"bytes=0-1"), ..d }, 304),
        (Conditions { if_range: Some(ETAG), range: Some(b"bytes=0-1"), ..d }, 206),
        (Conditions { if_range: Some(b"\"x\""), range: Some(b"bytes=0-1"), ..d }, 200),
        (Conditions { if_range: Some(MODIFIED), range: Some(b"bytes=0-1"), ..d }, 206),
        (Conditions { if_range: Some(EARLIER), range: Some(b"bytes=0-1"), ..d }, 200),
        (Conditions { method: b"HEAD", range: Some(b"bytes=0-1"), ..d }, 206),
    ];
    for (request, status) in cases {
        assert_eq!(ask(&request).status, status, "{request:?}");
    }
}

#[test]
fn tags_by_policy_and_age() {
    let all = FileETag { inode: true, mtime: true, size: true };
    let policy = Policy { file_etag: Some(all), ..Policy::default() };
    let plan = ask_with(&Conditions::default(), &policy);
    assert_eq!(header(&plan, "ETag"), "\"abc-64-6475ef64cf340\"");
    let none = FileETag { inode: false, mtime: false, size: false };
    let policy = Policy { file_etag: Some(none), ..Policy::default() };
    assert_eq!(header(&ask_with(&Conditions::default(), &policy), "ETag"), "");
    let young = FileFacts { stat: &stat(), name: b"h", now_unix_s: MTIME, boundary: 0 };
    assert!(etag(&young, None).unwrap().starts_with("W/"));
}

#[test]
fn types_by_extension_and_policy() {
    let types =
        MediaTypes::parse("# comment\ntext/html html\napplication/gzip gz\n\ntext/plain\ttxt\n");
    let mut policy = Policy::default();
    let of = |name: &str, policy: &Policy| types.of(name.as_bytes(), policy);
    assert_eq!(of("a.HTML", &policy).content_type.as_deref(), Some("text/html"));
    assert_eq!(of("a.html.bak", &policy).content_type.as_deref(), Some("text/html"));
    assert_eq!(of("html", &policy).content_type, None);
    policy.default_charset = Some(Some("utf-8".into()));
    policy.add_language.insert("de".into(), "de".into());
    policy.add_encoding.insert("gz".into(), "x-gzip".into());
    policy.add_type.insert("gz".into(), None);
    let page = of("a.html.de.gz", &policy);
    assert_eq!(page.content_type.as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!((page.encoding.as_deref(), page.language.as_deref()), (Some("x-gzip"), Some("de")));
    policy.force_type = Some(Some("image/gif".into()));
    assert_eq!(of("a.html", &policy).content_type.as_deref(), Some("image/gif"));
}
