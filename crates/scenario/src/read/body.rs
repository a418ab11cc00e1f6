//! What a request carries: `body`, `body_file`, `body_base64`, `form` or `json`.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Compiler, step::put_header};
use crate::{
    error::Error,
    escape::Escape,
    table::{Plain, Table, Value},
    template::Template,
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

impl<'s> Compiler<'s> {
    /// The body, with the content type in `headers` unless there is one.
    pub fn body(
        &self,
        table: &mut Table<'s>,
        headers: &mut Vec<(String, Template)>,
    ) -> Result<Option<Template>, Error> {
        let keys = ["body", "body_file", "body_base64", "form", "json"];
        let given: Vec<Value<'s>> = keys.iter().filter_map(|key| table.take(key)).collect();
        let value = match &*given {
            [] => return Ok(None),
            [one] => one,
            [_, other, ..] => {
                return Err(other.error("a request has one body; there is another above"));
            }
        };
        let (body, kind) = match &*value.key {
            "body" => (self.template(value, &value.text()?)?, None),
            "body_file" => (Template::fixed(self.file(value)?.1), None),
            "body_base64" => (Template::fixed(decode(value)?), None),
            "form" => (self.form(value)?, Some(FORM)),
            _ => {
                let mut template = Template::default();
                self.put_json(value, &mut template)?;
                (template, Some(JSON))
            }
        };
        let has_kind = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if let Some(kind) = kind.filter(|_| !has_kind) {
            put_header(headers, "Content-Type", Template::fixed(kind));
        }
        Ok(Some(body))
    }

    fn form(&self, value: &Value<'s>) -> Result<Template, Error> {
        let mut form = Template::default();
        let mut separator: &[u8] = b"";
        for field in value.table()?.entries() {
            for item in field.items() {
                form.add_text(separator);
                let mut name = Vec::new();
                Escape::Url.put(field.key.as_bytes(), &mut name);
                name.push(b'=');
                form.add_text(&name);
                self.add(&item, &plain_text(&item)?, Escape::Url, &mut form)?;
                separator = b"&";
            }
        }
        Ok(form)
    }

    fn put_json(&self, value: &Value<'s>, out: &mut Template) -> Result<(), Error> {
        if value.is_list() {
            out.add_text(b"[");
            for (at, item) in value.items().iter().enumerate() {
                out.add_text(if at > 0 { b"," } else { b"" });
                self.put_json(item, out)?;
            }
            out.add_text(b"]");
        } else if value.is_table() {
            out.add_text(b"{");
            for (at, item) in value.table()?.entries().iter().enumerate() {
                out.add_text(if at > 0 { b",\"" } else { b"\"" });
                let mut name = Vec::new();
                Escape::Json.put(item.key.as_bytes(), &mut name);
                name.extend_from_slice(b"\":");
                out.add_text(&name);
                self.put_json(item, out)?;
            }
            out.add_text(b"}");
        } else if let Plain::Text(text) = value.plain()? {
            out.add_text(b"\"");
            self.add(value, &text, Escape::Json, out)?;
            out.add_text(b"\"");
        } else {
            out.add_text(plain_text(value)?.as_bytes());
        }
        Ok(())
    }

    fn add(
        &self,
        value: &Value<'s>,
        text: &str,
        escape: Escape,
        out: &mut Template,
    ) -> Result<(), Error> {
        let added = out.add(text, escape, &self.names, &self.feeders);
        added.map_err(|reason| value.error(reason))
    }
}

fn plain_text(value: &Value<'_>) -> Result<String, Error> {
    Ok(match value.plain()? {
        Plain::Text(text) => text,
        Plain::Whole(number) => number.to_string(),
        Plain::Number(number) if !number.is_finite() => {
            return Err(value.error("this number cannot be written"));
        }
        Plain::Number(number) => number.to_string(),
        Plain::Flag(flag) => flag.to_string(),
    })
}

fn decode(value: &Value<'_>) -> Result<Vec<u8>, Error> {
    STANDARD.decode(value.text()?).map_err(|error| value.error(format!("no Base64: {error}")))
}
