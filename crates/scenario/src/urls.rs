//! A list of URLs as a scenario: one a line, a weight behind it when the order is by weight, `#`
//! begins a comment. One step whose URL comes from a feeder, so that a million cost their text.

use std::{fs, path::Path};

use crate::{
    error::Error,
    feeder::{Feeder, Order, Take},
    head,
    origin::{Origins, Parts},
    read::Compiler,
    scenario::{Scenario, Target},
    table::Source,
    template::{Names, Template},
};

/// Which URL comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlOrder {
    RoundRobin,
    Random,
    /// At random, by the numbers behind the URLs; 1 when there is none.
    Weighted,
    /// In turn whatever their numbers: a test asks for all.
    Each,
}

impl UrlOrder {
    /// # Errors
    /// That there is no such order.
    pub fn of(word: &str) -> Result<Self, String> {
        match word {
            "round-robin" => Ok(Self::RoundRobin),
            "random" => Ok(Self::Random),
            "weighted" => Ok(Self::Weighted),
            _ => Err(format!("{word:?} is no order; write round-robin, random or weighted")),
        }
    }
}

impl Scenario {
    /// Reads a list from a file; paths go to `base`.
    ///
    /// # Errors
    /// What cannot be read, or the first line that is wrong.
    pub fn read_urls(path: &Path, base: Option<&str>, order: UrlOrder) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Self::of_urls(&bytes, path, base, order)
    }

    /// The same for the bytes of a list.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn of_urls(
        bytes: &[u8],
        path: &Path,
        base: Option<&str>,
        order: UrlOrder,
    ) -> Result<Self, Error> {
        let mut list = List { path, order, origins: Origins::default(), base: None };
        if let Some(url) = base {
            let wrong = |reason| Error::of_file(path, format!("{url:?} is no base: {reason}"));
            list.base = Some(list.origins.add(&Parts::of(url.as_bytes()).map_err(wrong)?));
        }
        let feeder = list.feeder(bytes)?;
        let url =
            Template::compile("{{urls.url}}", &Names::default(), std::slice::from_ref(&feeder));
        let url = url.map_err(|reason| Error::of_file(path, reason))?;
        let mut compiler = Compiler::new(Source { path, text: "" });
        compiler.set_places(list.origins, list.base);
        Ok(compiler.single(feeder, Template::fixed("GET"), Target::Open(url), Vec::new()))
    }
}

/// What some editors put in front of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

struct List<'l> {
    path: &'l Path,
    order: UrlOrder,
    origins: Origins,
    base: Option<usize>,
}

impl List<'_> {
    fn feeder(&mut self, bytes: &[u8]) -> Result<Feeder, Error> {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let mut feeder = Feeder::new("urls", vec!["url".to_owned(), "weight".to_owned()]);
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if bytes.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (url, weight) =
                self.line(line).map_err(|reason| Error::at(self.path, at + 1, reason))?;
            feeder.push(url);
            feeder.push(weight);
        }
        if feeder.rows() == 0 {
            return Err(Error::of_file(self.path, "there is no URL in it; write one a line"));
        }
        feeder.take = Take::Request;
        feeder.order = match self.order {
            UrlOrder::RoundRobin | UrlOrder::Each => Order::Sequence,
            _ => Order::Random,
        };
        if self.order == UrlOrder::Weighted {
            feeder.weigh(self.path, "weight")?;
        }
        Ok(feeder)
    }

    fn line<'b>(&mut self, line: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), String> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(url) = words.next() else {
            return Err("an empty line; take it out, or begin it with #".to_owned());
        };
        let weight = words.next();
        let may_weigh = matches!(self.order, UrlOrder::Weighted | UrlOrder::Each);
        if words.next().is_some() || (weight.is_some() && !may_weigh) {
            let more = match may_weigh {
                true => "a URL, a number and nothing else; encode spaces as %20",
                false => {
                    "a URL and nothing else; encode spaces as %20; weights need the order \
                     \"weighted\""
                }
            };
            return Err(format!("{}: {more}", String::from_utf8_lossy(line)));
        }
        let weight = weight.unwrap_or(b"1");
        if !weight.iter().all(u8::is_ascii_digit) || weight.len() > 9 {
            return Err(format!("{:?} is no weight", String::from_utf8_lossy(weight)));
        }
        self.url(url).map_err(|reason| {
            format!("{:?} is no URL that can be loaded: {reason}", String::from_utf8_lossy(url))
        })?;
        Ok((url, weight))
    }

    fn url(&mut self, url: &[u8]) -> Result<(), &'static str> {
        if !head::is_target(url) {
            return Err("letters beyond ASCII must be percent-encoded");
        }
        if url.starts_with(b"/") && !url.starts_with(b"//") {
            return self.base.map(|_| ()).ok_or("a path needs a server in front of it");
        }
        self.origins.add(&Parts::of(url)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, proptest};

    use super::*;
    use crate::{Next, Part, Share, User};

    fn urls(text: &str, order: UrlOrder) -> Result<Scenario, String> {
        let base = Some("http://base.example");
        let read = Scenario::of_urls(text.as_bytes(), Path::new("u.txt"), base, order);
        read.map_err(|error| error.to_string())
    }

    /// Hosts and targets of the first requests.
    fn seen(scenario: &Scenario, count: usize) -> Vec<String> {
        let mut share = Share::new(scenario, Part::whole(1));
        let mut user = User::new(scenario, &share, 0);
        let mut seen = Vec::new();
        while seen.len() < count {
            if user.next(scenario, &mut share, 0) == Next::Send {
                let (host, target) = (share.request.authority(), share.request.target());
                seen.push(String::from_utf8_lossy(&[host, target].concat()).into_owned());
                let answer =
                    crate::Answer { status: 200, head: b"", body: b"", body_bytes: 0, after_ns: 0 };
                user.answered(scenario, &mut share, &answer, 0);
            }
        }
        seen
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_url() {
        assert!(urls("\u{feff}/a\n/b\n", UrlOrder::Random).is_ok());
    }

    #[test]
    fn urls_come_round() {
        let text = "# mine\nhttp://a.example/x?y#z\n/b\r\nhttps://A.example\n";
        let scenario = urls(text, UrlOrder::RoundRobin).expect("good");
        let expected = ["a.example/x?y", "base.example/b", "A.example/", "a.example/x?y"];
        assert_eq!(seen(&scenario, 4), expected);
        assert_eq!(scenario.origins().len(), 3);
        assert_eq!(scenario.steps()[0].wants(), crate::Wants::default());
    }

    #[test]
    fn weights_count() {
        let scenario = urls("/a 9\n/b\n/c 0\n", UrlOrder::Weighted).expect("good");
        let seen = seen(&scenario, 2_000);
        let count = |path| seen.iter().filter(|url| url.ends_with(path)).count();
        assert!((1_740..1_860).contains(&count("/a")), "{}", count("/a"));
        assert_eq!(count("/c"), 0);
        let each = urls("/a 9\n/b\n/c 0\n", UrlOrder::Each).expect("good");
        let ends: Vec<String> = self::seen(&each, 3).iter().map(|url| url[12..].into()).collect();
        assert_eq!(ends, ["/a", "/b", "/c"]);
        let told = urls("/a 9 8\n", UrlOrder::Weighted).expect_err("two numbers");
        assert!(told.contains("a URL, a number and nothing else"), "{told}");
        let scenario = urls("/a\n/b\n", UrlOrder::Random).expect("good");
        let count = self::seen(&scenario, 1_000).iter().filter(|url| url.ends_with('a')).count();
        assert!((400..600).contains(&count), "{count}");
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, said) in [
            ("", "u.txt: there is no URL"),
            ("# a\n", "u.txt: there is no URL"),
            ("/a\n\n/b\n", "u.txt:2: an empty line"),
            ("/a\n \n", "u.txt:2: an empty line"),
            ("/a 2\n", "u.txt:1: /a 2: a URL and nothing else"),
            ("/a\nexample.org/x\n", "u.txt:2: \"example.org/x\" is no URL that can be loaded"),
            ("http://\n", "it names no host"),
            ("/\u{e4}\n", "percent-encoded"),
        ] {
            let told = urls(text, UrlOrder::RoundRobin).expect_err(text);
            assert!(told.contains(said), "{text:?}: {told}");
        }
        assert!(urls("/a x\n", UrlOrder::Weighted).expect_err("x").contains("is no weight"));
        assert!(urls("/a 0\n", UrlOrder::Weighted).expect_err("0").contains("all weights are 0"));
        assert!(UrlOrder::of("sorted").is_err());
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(text in "(https?://|[a-z/:#? ]|\\PC|\n){0,40}") {
            let read = urls(&text, UrlOrder::Weighted);
            let is_used = |scenario: Scenario| seen(&scenario, 2).len() == 2;
            prop_assert!(read.is_err() || read.is_ok_and(is_used));
        }
    }
}
