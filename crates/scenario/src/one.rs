//! One request with values in it, as a command line gives it: `http://localhost/item/{{id}}`. It is
//! written down as the scenario of one step that it is, and read as any other.

use std::{fs, path::Path};

use crate::{
    error::Error,
    exchange::{key, quoted},
    scenario::Scenario,
    urls::UrlOrder,
};

/// A request, the texts of which can hold values; and where rows of them come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written<'w> {
    pub url: &'w str,
    pub method: Option<&'w str>,
    pub headers: &'w [(String, String)],
    /// Who asks, as `user:password`.
    pub basic: Option<&'w str>,
    pub body: Option<&'w str>,
    /// In place of a body: fields, which are percent-encoded.
    pub form: &'w [(String, String)],
    /// A file of rows, CSV or JSON lines, and which of them comes next; by weight: by the numbers
    /// in its column `weight`.
    pub feeder: Option<(&'w str, UrlOrder)>,
}

/// Where a command line says what a scenario says elsewhere, or says no value at all.
const UNKNOWN: &str = "unknown variable";
const HINT: &str =
    "; here --var NAME=VALUE or a column of the --feeder file does, and {{\"{{\"}} is written {{";
/// What messages call it.
const NAME: &str = "the request";

impl Scenario {
    /// Makes a scenario of it, in which every round is one such request, without cookies.
    ///
    /// # Errors
    /// A value that nothing gives, a URL that is none, or what is wrong with the file.
    pub fn of_request(written: &Written<'_>, set: &[(String, String)]) -> Result<Self, Error> {
        let read = |path: &Path| fs::read(path);
        let made = Self::parse(&written.text(), Path::new(NAME), set, &read);
        Ok(Self { is_list: true, ..made.map_err(without_line)? })
    }
}

impl Written<'_> {
    fn text(&self) -> String {
        let mut text = "cookies = false\n".to_owned();
        if let Some((file, order)) = self.feeder {
            text += &format!("[feeder.rows]\nfile = {}\n", quoted(file));
            text += match order {
                UrlOrder::RoundRobin | UrlOrder::Each => "",
                UrlOrder::Random => "order = \"random\"\n",
                UrlOrder::Weighted => "weight = \"weight\"\n",
            };
        }
        text += &format!("[[step]]\nurl = {}\n", quoted(self.url));
        let words = [("method", self.method), ("body", self.body)];
        for (name, word) in words.iter().filter_map(|(name, word)| Some((name, (*word)?))) {
            text += &format!("{name} = {}\n", quoted(word));
        }
        if let Some((user, password)) =
            self.basic.map(|who| who.split_once(':').unwrap_or((who, "")))
        {
            let (user, password) = (quoted(user), quoted(password));
            text += &format!("basic = {{ user = {user}, password = {password} }}\n");
        }
        text + &table("headers", self.headers) + &table("form", self.form)
    }
}

fn table(name: &str, pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let line = |(name, value): &(String, String)| format!("{} = {}\n", key(name), quoted(value));
    format!("[step.{name}]\n") + &pairs.iter().map(line).collect::<String>()
}

/// The lines are ours, and nobody sees them.
fn without_line(error: Error) -> Error {
    match error {
        Error::At { path, mut message, .. } if path == Path::new(NAME) => {
            if message.contains(UNKNOWN) {
                message += HINT;
            }
            match message.strip_prefix("`file`: ") {
                Some(reason) => Error::of_file(Path::new("--feeder"), reason),
                None => Error::At { path, line: None, message },
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Next, Part, Share, User, Version};

    fn asked(written: &Written<'_>, set: &[(String, String)], times: usize) -> Vec<String> {
        let scenario = Scenario::of_request(written, set).expect("a good request");
        let mut share = Share::new(&scenario, Part::whole(1));
        let mut user = User::new(&scenario, &share, 0);
        let mut asked = Vec::new();
        while asked.len() < times {
            if user.next(&scenario, &mut share, 0) == Next::Send {
                let mut wire = Vec::new();
                share.request.write_http1(Version::Http11, true, &mut wire);
                asked.push(String::from_utf8(wire).expect("text"));
                user.failed(&scenario, &mut share);
            }
        }
        asked
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn rows_of_a_file_stand_in_every_part_of_a_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("people.csv");
        fs::write(&file, "id,name\n7,Ann\n8,\"B & C\"\n").expect("written");
        let headers = pairs(&[("X-Id", "<{{id}}>"), ("X-Shop", "{{shop}}")]);
        let form = pairs(&[("who", "{{name}}"), ("a b", "1")]);
        let written = Written {
            url: "http://a:81/item/{{id}}?n={{name|url}}",
            method: Some("PUT"),
            headers: &headers,
            form: &form,
            basic: Some("{{name}}:{{id}}"),
            feeder: Some((file.to_str().expect("text"), UrlOrder::RoundRobin)),
            ..Written::default()
        };
        let asked = asked(&written, &pairs(&[("shop", "x")]), 3);
        assert_eq!(
            asked[1],
            "PUT /item/8?n=B%20%26%20C HTTP/1.1\r\nHost: a:81\r\nX-Id: <8>\r\nX-Shop: x\r\n\
             Authorization: Basic QiAmIEM6OA==\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 23\r\n\r\n\
             who=B%20%26%20C&a%20b=1"
        );
        assert!(asked[0].starts_with("PUT /item/7?n=Ann ") && asked[0] == asked[2]);
    }

    #[test]
    fn numbers_need_no_file() {
        let url = "http://a/{{seq}}/{{random 5 5}}";
        let body = Some("[{{iteration}}]");
        let asked = asked(&Written { url, body, ..Written::default() }, &[], 2);
        assert!(
            asked[0].starts_with("POST /1/5 HTTP/1.1\r\n") && asked[0].ends_with("\r\n\r\n[1]")
        );
        assert!(
            asked[1].starts_with("POST /2/5 HTTP/1.1\r\n") && asked[1].ends_with("\r\n\r\n[2]")
        );
    }

    #[test]
    fn a_variable_that_stands_nowhere_is_a_mistake() {
        let read = |url: &str| {
            let written = Written { url, ..Written::default() };
            Scenario::of_request(&written, &pairs(&[("id", "7")])).map_err(|e| e.to_string())
        };
        assert!(read("http://a/{{id}}").is_ok() && read("http://a/{{ id|url }}").is_ok());
        let said = read("http://a/{{idx}}").expect_err("another name");
        assert!(said.contains("nothing in it is {{id}}"), "{said}");
    }

    #[test]
    fn what_is_wrong_is_said_without_a_line_of_ours() {
        let wrong = |url: &str, file: Option<&str>| {
            let feeder = file.map(|file| (file, UrlOrder::Weighted));
            let made = Scenario::of_request(&Written { url, feeder, ..Written::default() }, &[]);
            made.expect_err(url).to_string()
        };
        let unknown = wrong("http://a/{{id}}", None);
        assert!(unknown.starts_with("the request: `url`: unknown variable `id`"), "{unknown}");
        assert!(unknown.ends_with("and {{\"{{\"}} is written {{"), "{unknown}");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.csv");
        fs::write(&file, "user,weight\nann,1\n").expect("written");
        let twice = wrong("http://a/{{user}}", file.to_str());
        assert!(twice.ends_with("a column of `rows`: write rows.user"), "{twice}");
        let none = wrong("http://a/", Some("/no/such.csv"));
        assert!(none.starts_with("--feeder: cannot read /no/such.csv"), "{none}");
        assert!(wrong("ftp://a/{{seq}}", None).starts_with("the request: `url`: "));
    }
}
