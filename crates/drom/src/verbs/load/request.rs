//! What is asked: flags of the method, the headers, the body and who asks.

use std::{cell::OnceCell, path::PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use drom_load::Plan;
use drom_scenario::{Scenario, UrlOrder, Written};

use super::Failure;
use crate::exit::Exit;

const NO_TEXT: &str = "the data file is no text, and {{values}} stand in texts only";
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Requests")]
pub struct Request {
    /// A header of the request; can be repeated
    ///
    /// Host can be replaced, by one; headers that would change the framing are refused. Without
    /// any, a request holds Host and what the other flags say, nothing else.
    #[arg(short = 'H', long = "header", value_parser = header, value_name = "K: V")]
    headers: Vec<(String, String)>,
    /// Request method [default: GET; POST when there is data]
    #[arg(short, long)]
    method: Option<String>,
    /// Request body, as a form unless -H says another Content-Type
    #[arg(long, value_name = "STR", conflicts_with_all = ["data_file", "form"])]
    data: Option<String>,
    /// File with the request body
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    data_file: Option<PathBuf>,
    #[arg(skip)]
    file_body: OnceCell<Vec<u8>>,
    /// A field of a form, whose name and value are percent-encoded; can be repeated
    #[arg(long, value_name = "K=V", value_parser = field)]
    form: Vec<(String, String)>,
    /// Say who asks, in the Basic scheme
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "bearer")]
    basic: Option<String>,
    /// Say who asks, with a token
    #[arg(long, value_name = "TOKEN")]
    bearer: Option<String>,
    /// Ask for compressed answers; they are counted as they come
    #[arg(long)]
    gzip: bool,
}

impl Request {
    /// Puts the flags into every step of a scenario that does not say otherwise.
    pub fn apply_to(&self, scenario: &mut Scenario) -> Result<(), Failure> {
        let of_one_request = [
            ("--method", self.method.is_some()),
            ("--data", self.data.is_some()),
            ("--data-file", self.data_file.is_some()),
            ("--form", !self.form.is_empty()),
        ];
        let said = of_one_request.into_iter().find(|(_, is_said)| *is_said);
        let done = match said {
            Some((flag, _)) => Err(format!("{flag} is for one request; here the file says it")),
            None => scenario.add_headers(&self.headers(false)),
        };
        done.map_err(|message| Failure { message, exit: Exit::Usage })
    }

    /// Something in it is not always the same.
    pub fn has_values(&self, url: &str) -> Result<bool, Failure> {
        let pairs = self.headers.iter().chain(&self.form).map(|(_, value)| &**value);
        let words = [&self.basic, &self.bearer].into_iter().flatten();
        let mut texts = pairs.chain(words.map(|word| &**word)).chain([url]);
        let body = self.body_as_written()?.unwrap_or_default();
        let in_body = || body.windows(2).any(|two| two == b"{{") && str::from_utf8(body).is_ok();
        Ok(texts.any(|text| text.contains("{{")) || in_body())
    }

    /// Users who each ask for this with the next row of a file.
    pub fn scenario(
        &self,
        url: &str,
        feeder: Option<(&str, UrlOrder)>,
        variables: &[(String, String)],
    ) -> Result<Scenario, Failure> {
        let usage = |message: String| Failure { message, exit: Exit::Usage };
        let body = self.body_as_written()?;
        let body = body.map(str::from_utf8).transpose();
        let body = body.map_err(|_| usage(NO_TEXT.to_owned()))?;
        let written = Written {
            url,
            method: self.method.as_deref(),
            headers: &Self { basic: None, ..self.clone() }.headers(body.is_some()),
            basic: self.basic.as_deref(),
            body,
            form: &self.form,
            feeder,
        };
        Scenario::of_request(&written, variables).map_err(|error| usage(error.to_string()))
    }

    /// Two ways to say who asks would leave one of them out.
    pub fn check(&self) -> Result<(), String> {
        let flags = [("--basic", &self.basic), ("--bearer", &self.bearer)];
        let flag = flags.into_iter().find(|(_, value)| value.is_some());
        let is_written =
            self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        match flag.filter(|_| is_written) {
            Some((flag, _)) => Err(format!("{flag} and -H Authorization say both who asks")),
            None => Ok(()),
        }
    }

    /// Puts the flags into `plan`.
    pub fn apply(&self, plan: Plan) -> Result<Plan, Failure> {
        let body = self.body()?;
        let default = if body.is_some() { "POST" } else { "GET" };
        let headers = self.headers(body.is_some());
        let method = self.method.clone().unwrap_or_else(|| default.to_owned());
        Ok(Plan { method, headers, body: body.unwrap_or_default(), ..plan })
    }

    /// Those that were written, and those that other flags stand for.
    fn headers(&self, has_body: bool) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let mut say = |name: &str, value: String| {
            if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), value));
            }
        };
        if has_body {
            say("Content-Type", FORM.to_owned());
        }
        if let Some(user) = &self.basic {
            say("Authorization", format!("Basic {}", BASE64_STANDARD.encode(user)));
        }
        if let Some(token) = &self.bearer {
            say("Authorization", format!("Bearer {token}"));
        }
        if self.gzip {
            say("Accept-Encoding", "gzip".to_owned());
        }
        headers
    }

    fn body(&self) -> Result<Option<Vec<u8>>, Failure> {
        if !self.form.is_empty() {
            let pairs =
                form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.form).finish();
            return Ok(Some(pairs.into_bytes()));
        }
        Ok(self.body_as_written()?.map(<[u8]>::to_vec))
    }

    /// A file is read once: it may be a pipe.
    fn body_as_written(&self) -> Result<Option<&[u8]>, Failure> {
        let Some(file) = &self.data_file else {
            return Ok(self.data.as_deref().map(str::as_bytes));
        };
        if self.file_body.get().is_none() {
            let read = std::fs::read(file).map_err(|error| Failure {
                message: format!("cannot read the data file {}: {error}", file.display()),
                exit: Exit::Usage,
            });
            // Nobody else has set it meanwhile: there is one thread.
            let _ = self.file_body.set(read?);
        }
        Ok(self.file_body.get().map(|body| &**body))
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header looks like 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a field looks like name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        request: Request,
    }

    #[test]
    fn a_data_file_is_read_once() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, "a=1").expect("written");
        let path = file.path().to_str().expect("text").to_owned();
        let request = Line::parse_from(["drom", "--data-file", &path]).request;
        assert!(matches!(request.has_values("http://a/"), Ok(false)));
        // As a pipe has nothing more to give.
        std::fs::write(&file, "").expect("written");
        assert!(matches!(request.body(), Ok(Some(body)) if body == b"a=1"));
    }
}
