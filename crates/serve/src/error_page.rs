//! Error pages: the short HTML that Apache sends for a status, and what `ErrorDocument` puts in
//! its place. Everything that comes from the client is escaped.

use std::fmt::Write as _;

use crate::config::{ErrorDocument, Policy};
use crate::http::status_text;

/// Content-Type of the standard pages.
pub const CONTENT_TYPE: &str = "text/html; charset=iso-8859-1";

/// What a page may mention.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail<'a> {
    pub method: &'a str,
    /// Where a redirect leads.
    pub location: &'a str,
    /// `ServerAdmin`.
    pub admin: &'a str,
    /// The line under the page (`ServerSignature`); empty for none.
    pub signature: &'a str,
    /// The script's own words for the status.
    pub reason: Option<&'a str>,
    /// How the error document failed.
    pub second: Option<u16>,
}

/// What answers an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorAnswer<'a> {
    /// The standard page, from `html`.
    Standard,
    /// This text, with the error's status, as `text/html`.
    Text(&'a str),
    /// Serve this path in its place, as GET, with the error's status unless it answers with one of
    /// its own.
    Internal(&'a str),
    /// 302 to this URL.
    Redirect(&'a str),
}

/// What the configuration wants for a status.
#[must_use]
pub fn answer(policy: &Policy, status: u16) -> ErrorAnswer<'_> {
    match policy.error_documents.get(&status) {
        None | Some(ErrorDocument::Default) => ErrorAnswer::Standard,
        Some(ErrorDocument::Text(text)) => ErrorAnswer::Text(text),
        Some(ErrorDocument::Local(path)) => ErrorAnswer::Internal(path),
        Some(ErrorDocument::Url(url)) => ErrorAnswer::Redirect(url),
    }
}

/// The standard page of a status.
#[must_use]
pub fn html(status: u16, detail: &Detail) -> String {
    let title = detail.reason.map_or_else(|| status_text(status).to_owned(), escape);
    let mut page = format!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \
         \"http://www.w3.org/TR/html4/strict.dtd\">\n<html><head>\n<title>{status} \
         {title}</title>\n\
         </head><body>\n<h1>{title}</h1>\n{}",
        message(status, detail)
    );
    if let Some(second) = detail.second {
        let _ = writeln!(
            page,
            "<p>Additionally, a {second} {}\nerror was encountered while trying to use an \
             ErrorDocument to handle the request.</p>",
            status_text(second)
        );
    }
    if !detail.signature.is_empty() {
        let _ = write!(page, "<hr>\n<address>{}</address>\n", escape(detail.signature));
    }
    page.push_str("</body></html>\n");
    page
}

fn message(status: u16, detail: &Detail) -> String {
    let (method, location) = (escape(detail.method), escape(detail.location));
    match status {
        301 | 302 | 307 | 308 => {
            format!("<p>The document has moved <a href=\"{location}\">here</a>.</p>\n")
        }
        303 => {
            format!(
                "<p>The answer to your request is located <a href=\"{location}\">here</a>.</p>\n"
            )
        }
        405 => format!("<p>The requested method {method} is not allowed for this URL.</p>\n"),
        501 => format!("<p>{method} not supported for current URL.<br />\n</p>\n"),
        500 => internal_error(detail.admin),
        _ => format!("<p>{}</p>\n", sentence(status)),
    }
}

fn internal_error(admin: &str) -> String {
    let admin = if admin.is_empty() { "[no address given]".to_string() } else { escape(admin) };
    format!(
        "<p>The server encountered an internal error or\nmisconfiguration and was unable to \
         complete\n\
         your request.</p>\n<p>Please contact the server administrator at \n {admin} to inform \
         them of \
         the time this error occurred,\n and the actions you performed just before this \
         error.</p>\n\
         <p>More information about this error may be available\nin the server error log.</p>\n"
    )
}

/// Apache's sentences (`get_canned_error_string`).
fn sentence(status: u16) -> &'static str {
    match status {
        400 => "Your browser sent a request that this server could not understand.<br />\n",
        401 => {
            "This server could not verify that you\nare authorized to access the \
             document\nrequested.  \
             Either you supplied the wrong\ncredentials (e.g., bad password), or your\nbrowser \
             doesn't \
             understand how to supply\nthe credentials required."
        }
        403 => "You don't have permission to access this resource.",
        404 => "The requested URL was not found on this server.",
        408 => "Server timeout waiting for the HTTP request from the client.",
        410 => {
            "The requested resource is no longer available on this server and there is no \
             forwarding \
             address.\nPlease remove all references to this resource."
        }
        411 => "A request of the requested method requires a valid Content-length.",
        412 => "The precondition on the request for this URL evaluated to false.",
        413 => {
            "The requested resource does not allow request data, or the amount of data provided \
             in\n\
                the request exceeds the capacity limit."
        }
        414 => "The requested URL's length exceeds the capacity\nlimit for this server.<br />\n",
        416 => {
            "None of the range-specifier values in the Range\nrequest-header field overlap the \
             current \
             extent\nof the selected resource."
        }
        417 => {
            "The expectation given in the Expect request-header\nfield could not be met by this \
             server."
        }
        431 => "The fields of the request exceed the limits of this server.",
        502 => "The server received an invalid\nresponse from an upstream server.<br />\n",
        503 => {
            "The server is temporarily unable to service your\nrequest due to maintenance \
             downtime or \
             capacity\nproblems. Please try again later."
        }
        504 => {
            "The gateway did not receive a timely response\nfrom the upstream server or \
             application."
        }
        505 => "The HTTP version of the request is not served here.",
        _ => "The request could not be completed.",
    }
}

/// Text as HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_long_as_apaches() {
        // Lengths of the bodies that Apache 2.4.71 sent.
        let put = Detail { method: "PUT", ..Detail::default() };
        let foo = Detail { method: "FOO", ..Detail::default() };
        let moved = Detail { location: "http://127.0.0.1:18231/dir/", ..Detail::default() };
        for (status, detail, length) in [
            (404, Detail::default(), 236),
            (403, Detail::default(), 239),
            (400, Detail::default(), 266),
            (405, put, 260),
            (501, foo, 242),
            (301, moved, 275),
        ] {
            let page = html(status, &detail);
            assert_eq!(page.len(), length, "{page}");
        }
    }

    #[test]
    fn nothing_of_the_client_is_markup() {
        let detail = Detail { method: "<b>", location: "\"><script>", ..Detail::default() };
        assert!(!html(405, &detail).contains("<b>"));
        assert!(!html(301, &detail).contains("<script>"));
    }

    #[test]
    fn error_documents_choose() {
        let mut policy = Policy::default();
        policy.error_documents.insert(404, ErrorDocument::Local("/gone.html".into()));
        policy.error_documents.insert(500, ErrorDocument::Text("sorry".into()));
        policy.error_documents.insert(403, ErrorDocument::Url("http://x/".into()));
        assert_eq!(answer(&policy, 404), ErrorAnswer::Internal("/gone.html"));
        assert_eq!(answer(&policy, 500), ErrorAnswer::Text("sorry"));
        assert_eq!(answer(&policy, 403), ErrorAnswer::Redirect("http://x/"));
        assert_eq!(answer(&policy, 400), ErrorAnswer::Standard);
    }
}
