//! What a load test's users do, as data and as a state machine. No sockets, no clock, no threads.
//!
//! A [`Scenario`] is read from TOML, a list of URLs, or made of a recording. Each thread of a load
//! has a [`Share`] of it, each user a [`User`], which says what to do next and judges the answers:
//!
//! ```
//! use drom_scenario::{Answer, Next, Part, Scenario, Share, User, Version};
//!
//! let text = "base = 'http://localhost'\n[[step]]\nurl = '/'\ncheck = { text = 'hello' }\n";
//! let scenario = Scenario::parse(text, "a.toml".as_ref(), &[], &|_| unreachable!()).unwrap();
//! let mut share = Share::new(&scenario, Part::whole(1));
//! let mut user = User::new(&scenario, &share, 0);
//! assert_eq!(user.next(&scenario, &mut share, 0), Next::Send);
//! let mut wire = Vec::new();
//! share.request.write_http1(Version::Http11, true, &mut wire);
//! assert_eq!(wire, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
//! let answer = Answer { status: 200, head: b"", body: b"hello", body_bytes: 5, after_ns: 9 };
//! assert_eq!(user.answered(&scenario, &mut share, &answer, 9).failed, 0);
//! assert_eq!(user.next(&scenario, &mut share, 9), Next::Done);
//! ```
//!
//! A step allocates nothing once the buffers have grown (`tests/allocations.rs`).

mod access_log;
mod build;
mod check;
mod cookie_date;
mod cookies;
mod counts;
pub mod duration;
mod error;
mod escape;
mod exchange;
mod feeder;
mod gzip;
mod har;
mod head;
mod json_path;
mod one;
mod origin;
mod read;
mod report;
mod request;
mod scenario;
mod secrets;
mod share;
mod table;
mod template;
mod urls;
mod user;

pub use access_log::{AccessLog, BadLine, LogOptions};
pub use check::Answer;
pub use counts::Counts;
pub use error::Error;
pub use exchange::{Exchange, WriteOptions, write_scenario};
pub use feeder::Feeder;
pub use har::read_har;
pub use one::Written;
pub use origin::Origin;
pub use report::{Judged, JudgedCheck, bail_out, junit, tap};
pub use request::{Request, Version, Wants};
pub use scenario::{CheckName, Flow, Scenario, Step};
pub use secrets::{MASKED, is_secret, masked_url};
pub use share::{Part, Share, Verdict};
pub use urls::UrlOrder;
pub use user::{Judgement, Next, Unsent, User};
