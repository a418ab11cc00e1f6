//! A step of a scenario allocates nothing once its buffers have grown. The allocator of this
//! program counts, so nothing else is tested here.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    path::Path,
};

use drom_scenario::{Answer, Next, Part, Scenario, Share, User, Version};

struct Counting;

thread_local! {
    /// Of this thread: what runs the tests has threads of its own, which allocate when they like.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    // A thread that ends has no counter any more, and is none of ours.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator with the arguments it came with; the counter
// is beside it and never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `System` by `alloc` or `realloc` above, with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: `at` came from `System` with this layout; the size is the caller's promise.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Three steps with cookies and captures, and one of everything else that runs hot.
const SCENARIO: &str = r#"
base = "http://shop.example"

[feeder.people]
file = "people.csv"

[defaults]
headers = { User-Agent = "drom" }
follow = 2

[[step]]
url = "/?n={{random 1 100000}}"
check = { text = "csrf", header = "Content-Type: text/html", title = "Shop" }
capture = { csrf = { regex = 'csrf=(\w+)' } }

[[step]]
url = "/login"
form = { user = "{{people.name}}", csrf = "{{csrf}}", id = "{{uuid}}", n = "{{seq}}" }
basic = { user = "{{people.name}}", password = "secret" }
check = { status = 200, text = "{{people.name}}", ignore_case = true }
capture = { id = { json = "$.user.id" } }

[[step]]
repeat = 2
url = "/user/{{id|url}}"
json = { name = "{{people.name}}" }
check = { json = { "$.user.id" = "{{id}}" }, regex = "us[e]r" }
"#;

/// A small site: a page that sets a cookie, a login that redirects, a JSON document.
fn answer(target: &[u8]) -> (u16, &'static [u8], &'static [u8]) {
    match target {
        b"/login" => (303, b"Location: ../user/me\r\nSet-Cookie: user=Ann; Path=/\r\n", b""),
        _ if target.starts_with(b"/user/") => {
            let head = b"Set-Cookie: old=; Max-Age=0\r\nContent-Type: application/json\r\n";
            (200, head, br#"{"user": {"id": "4 2", "name": "ann bo"}}"#)
        }
        _ => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
                Set-Cookie: sid=abc; Max-Age=60; Path=/; HttpOnly\r\nSet-Cookie: old=1\r\n\r\n";
            (200, head, b"<html><title>Shop</title><p>csrf=t0ken</html>")
        }
    }
}

/// Runs so many iterations; how many requests were sent and checks failed.
fn run(scenario: &Scenario, share: &mut Share, user: &mut User, iterations: u32) -> (u64, u64) {
    let mut wire = Vec::with_capacity(4096);
    let (mut requests, mut failed, mut left) = (0, 0, iterations);
    while left > 0 {
        match user.next(scenario, share, requests) {
            Next::Send => {
                requests += 1;
                wire.clear();
                share.request.write_http1(Version::Http11, true, &mut wire);
                let (status, head, body) = answer(share.request.target());
                let body_bytes = body.len() as u64;
                let answer = Answer { status, head, body, body_bytes, after_ns: 1 };
                failed += u64::from(user.answered(scenario, share, &answer, requests).failed);
            }
            Next::Done => left -= 1,
            other => panic!("{other:?}"),
        }
    }
    (requests, failed)
}

#[test]
fn a_step_allocates_nothing_in_the_steady_state() {
    let rows = |_: &Path| Ok(b"name\nAnn\nBo\n".to_vec());
    let scenario = Scenario::parse(SCENARIO, Path::new("a.toml"), &[], &rows).expect("good");
    let mut share = Share::new(&scenario, Part::whole(1));
    let mut user = User::new(&scenario, &share, 1);
    // Until numbers have as many digits as later.
    assert_eq!(run(&scenario, &mut share, &mut user, 2_000), (10_000, 0));

    let before = allocations();
    let (requests, failed) = run(&scenario, &mut share, &mut user, 1_000);
    // One for the buffer of `run` itself.
    let during = allocations() - before - 1;
    assert_eq!((requests, failed, during), (5_000, 0, 0));
    assert_eq!(share.counts.cookies_refused, 0);
}
