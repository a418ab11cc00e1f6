//! HTTP archives (HAR 1.2), as browsers save them: JSON in, exchanges out. Takes what it needs and
//! forgives the rest, because every browser writes them a little differently.

use std::{fmt::Write as _, path::Path};

use serde_json::Value;

use crate::{cookie_date, error::Error, exchange::Exchange, secrets};

/// # Errors
/// What is no archive, with the line of JSON that is broken; or the entry that is.
pub fn read_har(path: &Path, bytes: &[u8]) -> Result<Vec<Exchange>, Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let tree: Value = serde_json::from_slice(bytes).map_err(|error| {
        Error::at(path, error.line().max(1), format!("this is no HAR file: {error}"))
    })?;
    let Some(entries) = tree["log"]["entries"].as_array() else {
        let message = "this is no HAR file: there are no log.entries; save one with a browser";
        return Err(Error::of_file(path, message));
    };
    if entries.is_empty() {
        return Err(Error::of_file(path, "there is no request in it"));
    }
    let numbered = entries.iter().enumerate();
    let read = numbered.map(|(at, entry)| {
        exchange(entry).map_err(|reason| {
            Error::of_file(path, format!("entry {} of log.entries: {reason}", at + 1))
        })
    });
    read.collect()
}

fn exchange(entry: &Value) -> Result<Exchange, String> {
    let request = &entry["request"];
    let text = |key: &str| {
        let value = request[key].as_str();
        value.map(str::to_owned).ok_or_else(|| format!("request.{key} is missing"))
    };
    let started = entry["startedDateTime"].as_str().unwrap_or_default();
    let at_ns = timestamp(started).ok_or_else(|| {
        format!("startedDateTime {started:?} is no time like 2026-01-31T10:00:00Z")
    })?;
    let status = entry["response"]["status"].as_u64().unwrap_or(0);
    Ok(Exchange {
        at_ns,
        took_ns: (entry["time"].as_f64().unwrap_or(0.0).max(0.0) * 1e6) as u64,
        method: text("method")?,
        url: text("url")?,
        headers: headers(request),
        body: body(&request["postData"]),
        status: u16::try_from(status).unwrap_or(0),
        answer_headers: fields(&entry["response"]["headers"]),
    })
}

fn fields(list: &Value) -> Vec<(String, String)> {
    let fields = list.as_array().into_iter().flatten();
    let pair = |field: &Value| {
        Some((field["name"].as_str()?.to_owned(), field["value"].as_str()?.to_owned()))
    };
    fields.filter_map(pair).collect()
}

/// The type of a body stands beside it, too, and not always among the headers.
fn headers(request: &Value) -> Vec<(String, String)> {
    let mut headers = fields(&request["headers"]);
    let is_told = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = request["postData"]["mimeType"].as_str().filter(|kind| !kind.is_empty());
    headers
        .extend(kind.filter(|_| !is_told).map(|kind| ("Content-Type".to_owned(), kind.to_owned())));
    headers
}

fn body(data: &Value) -> Vec<u8> {
    if let Some(text) = data["text"].as_str().filter(|text| !text.is_empty()) {
        return text.as_bytes().to_vec();
    }
    let mut out = Vec::new();
    if let Some(boundary) = secrets::boundary(data["mimeType"].as_str().unwrap_or_default()) {
        return parts(data, &boundary);
    }
    for (name, value) in fields(&data["params"]) {
        if !out.is_empty() {
            out.push(b'&');
        }
        crate::escape::Escape::Url.put(name.as_bytes(), &mut out);
        out.push(b'=');
        crate::escape::Escape::Url.put(value.as_bytes(), &mut out);
    }
    out
}

/// A form with files (RFC 7578), of which browsers do not always keep the contents.
fn parts(data: &Value, boundary: &str) -> Vec<u8> {
    let mut out = String::new();
    let mut put = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("writing to memory cannot fail");
    };
    let params = data["params"].as_array().into_iter().flatten();
    for param in params {
        let text = |key: &str| param[key].as_str().map(|text| text.replace('"', "%22"));
        let Some(name) = text("name") else { continue };
        put(format_args!("{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
        if let Some(file) = text("fileName") {
            put(format_args!("; filename=\"{file}\""));
        }
        if let Some(kind) = text("contentType") {
            put(format_args!("\r\nContent-Type: {kind}"));
        }
        put(format_args!("\r\n\r\n{}\r\n", param["value"].as_str().unwrap_or_default()));
    }
    if !out.is_empty() {
        out += &format!("{boundary}--\r\n");
    }
    out.into_bytes()
}

/// ISO 8601 as RFC 3339 writes it; nanoseconds since 1970.
fn timestamp(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        digits?.parse::<i64>().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix('.').unwrap_or_default();
    let digits = digits.find(|c: char| !c.is_ascii_digit()).map_or(digits, |end| &digits[..end]);
    let zone = &rest[if digits.is_empty() { 0 } else { digits.len() + 1 }..];
    let fraction: f64 = format!("0.{digits}0").parse().ok()?;
    let days = cookie_date::days(year, month, day);
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset_s(zone)?;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add((fraction * 1e9) as u64)
}

/// Of `Z`, `+02:00` or `+0200`; nothing is UTC.
fn offset_s(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: String = zone.strip_prefix(['+', '-'])?.chars().filter(|c| *c != ':').collect();
    let number: i64 = digits.parse().ok().filter(|_| digits.len() == 4)?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::{prop_assert, proptest};

    use super::*;
    use crate::{Scenario, WriteOptions, write_scenario};

    const HAR: &str = r#"{"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-01-31T10:00:00.250+02:00", "time": 100.5,
         "request": {"method": "GET", "url": "https://h.example/", "headers": [
             {"name": ":authority", "value": "h.example"}, {"name": "accept", "value": "*/*"}]},
         "response": {"status": 200, "headers": [{"name": "Set-Cookie", "value": "a=1"}]}},
        {"startedDateTime": "2026-01-31T08:00:01.000Z", "time": -1,
         "request": {"method": "POST", "url": "https://h.example/f", "headers": [],
             "postData": {"mimeType": "x", "params": [{"name": "a b", "value": "1&2"}]}},
         "response": {"status": 0}}]}}"#;

    fn read(text: &str) -> Result<Vec<Exchange>, String> {
        read_har(Path::new("a.har"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_archive_becomes_a_scenario() {
        let exchanges = read(HAR).expect("good");
        assert_eq!(exchanges[0].at_ns, 1_769_846_400_250_000_000);
        assert_eq!((exchanges[0].took_ns, exchanges[1].took_ns), (100_500_000, 0));
        assert_eq!(exchanges[1].body, b"a%20b=1%262");
        assert_eq!(exchanges[1].headers, [("Content-Type".to_owned(), "x".to_owned())]);
        let text = write_scenario("a", &exchanges, &WriteOptions::default());
        assert!(text.contains("think = \"650ms\""), "{text}");
        assert!(!text.contains("authority"), "{text}");
        let file = |_: &Path| Err(io::ErrorKind::NotFound.into());
        let scenario = Scenario::parse(&text, Path::new("a"), &[], &file).expect("it can be read");
        assert_eq!(scenario.steps().len(), 2);
    }

    #[test]
    fn a_form_with_files_is_put_together_from_its_fields() {
        let data = serde_json::json!({
            "mimeType": "multipart/form-data; boundary=B",
            "params": [
                {"name": "who \"x\"", "value": "\"ann\""},
                {"name": "f", "fileName": "a.txt", "contentType": "text/plain", "value": "hello"},
            ],
        });
        let wanted = "--B\r\nContent-Disposition: form-data; name=\"who %22x%22\"\r\n\r\n\
                      \"ann\"\r\n--B\r\nContent-Disposition: form-data; name=\"f\"; \
                      filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--B--\r\n";
        assert_eq!(String::from_utf8_lossy(&body(&data)), wanted);
        let none = serde_json::json!({"mimeType": "multipart/form-data; boundary=B"});
        assert!(body(&none).is_empty());
    }

    #[test]
    fn what_is_no_archive_says_why() {
        assert!(read("{\n\"log\": ").expect_err("cut").starts_with("a.har:2: this is no HAR"));
        assert!(read("{}").expect_err("empty").contains("no log.entries"));
        assert!(read("{\"log\":{\"entries\":[]}}").expect_err("none").contains("no request"));
        let told = read("{\"log\":{\"entries\":[{}]}}").expect_err("a bad entry");
        assert!(told.contains("entry 1 of log.entries: startedDateTime"), "{told}");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(timestamp("1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert_eq!(timestamp("1970-01-01T01:00:00.5+0100"), Some(500_000_000));
        assert_eq!(timestamp("1970-01-01T00:00:00-00:01"), Some(60_000_000_000));
        for bad in
            ["", "1970", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00X", "1969-01-01T00:00:00"]
        {
            assert_eq!(timestamp(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_change_makes_it_panic(at in 0..HAR.len(), with in "\\PC{0,3}", cut in 0usize..30) {
            let mut bytes = HAR.as_bytes().to_vec();
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, with.bytes());
            if let Ok(exchanges) = read_har(Path::new("a"), &bytes) {
                let options = WriteOptions { mask: at % 2 == 0, host: None };
                let text = write_scenario("a", &exchanges, &options);
                let file = |_: &Path| Err(io::ErrorKind::NotFound.into());
                let read = Scenario::parse(&text, Path::new("a"), &[], &file);
                prop_assert!(read.is_ok() || !text.contains("[[step]]"), "{read:?}: {text}");
            }
        }

        #[test]
        fn no_time_makes_it_panic(text in "[0-9]{4}-\\PC{0,25}|[0-9T:.Z+-]{0,30}") {
            timestamp(&text);
        }
    }
}
