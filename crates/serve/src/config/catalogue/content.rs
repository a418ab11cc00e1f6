//! Directives about places and what is in them: aliases, handlers, types, access, error pages.

use regex::bytes::Regex;

use super::Context::{Both, Server};
use super::values::{extension, network, number, on_off, switches, word};
use super::{Cx, Directive, MANY, accepted, refused, set};
use crate::config::access::{Access, From, Legacy, Require};
use crate::config::bad_regex;
use crate::config::policy::{
    AcceptPathInfo, ErrorDocument, FileETag, HandlerName, option, replace_pairs,
};
use crate::config::settings::{Alias, AliasSource};
use crate::http::status_text;

pub(super) static DIRECTIVES: &[Directive] = &[
    set(
        "Alias",
        (2, 2),
        "url-path path",
        Server,
        "",
        "Serves a URL prefix from elsewhere.",
        |cx, a| prefix_alias(cx, a, false),
    ),
    set(
        "AliasMatch",
        (2, 2),
        "regex path",
        Server,
        "",
        "Alias by regular expression; the path may use $1.",
        |cx, a| regex_alias(cx, a, false),
    ),
    set(
        "ScriptAlias",
        (2, 2),
        "url-path path",
        Server,
        "",
        "As Alias; everything there is a CGI script.",
        |cx, a| prefix_alias(cx, a, true),
    ),
    set(
        "ScriptAliasMatch",
        (2, 2),
        "regex path",
        Server,
        "",
        "As AliasMatch; everything there is a CGI script.",
        |cx, a| regex_alias(cx, a, true),
    ),
    set(
        "SetHandler",
        (1, 1),
        "cgi-script|perl-script|modperl|default-handler|None",
        Both,
        "None",
        "What answers requests here.",
        |cx, a| {
            cx.policy.set_handler = Some(handler(cx, &a[0])?);
            Ok(())
        },
    ),
    set(
        "AddHandler",
        (2, MANY),
        "handler extension …",
        Both,
        "",
        "What answers requests for files with these extensions.",
        add_handler,
    ),
    set(
        "RemoveHandler",
        (1, MANY),
        "extension …",
        Both,
        "",
        "Takes AddHandler back.",
        |cx, a| {
            cx.policy.add_handler.extend(a.iter().map(|e| (extension(e), None)));
            Ok(())
        },
    ),
    set(
        "AddType",
        (2, MANY),
        "media-type extension …",
        Both,
        "",
        "The media type of files with these extensions.",
        |cx, a| {
            cx.policy.add_type.extend(a[1..].iter().map(|e| (extension(e), Some(a[0].clone()))));
            Ok(())
        },
    ),
    set("RemoveType", (1, MANY), "extension …", Both, "", "Takes AddType back.", |cx, a| {
        cx.policy.add_type.extend(a.iter().map(|e| (extension(e), None)));
        Ok(())
    }),
    set(
        "AddCharset",
        (2, MANY),
        "charset extension …",
        Both,
        "",
        "The character set of files with these extensions.",
        |cx, a| {
            cx.policy.add_charset.extend(a[1..].iter().map(|e| (extension(e), a[0].clone())));
            Ok(())
        },
    ),
    set(
        "AddEncoding",
        (2, MANY),
        "encoding extension …",
        Both,
        "",
        "The Content-Encoding of files with these extensions.",
        |cx, a| {
            cx.policy.add_encoding.extend(a[1..].iter().map(|e| (extension(e), a[0].clone())));
            Ok(())
        },
    ),
    set(
        "AddLanguage",
        (2, MANY),
        "language extension …",
        Both,
        "",
        "The Content-Language of files with these extensions.",
        |cx, a| {
            cx.policy.add_language.extend(a[1..].iter().map(|e| (extension(e), a[0].clone())));
            Ok(())
        },
    ),
    set(
        "AddDefaultCharset",
        (1, 1),
        "On|Off|charset",
        Both,
        "Off",
        "Character set added to text/plain and text/html without one; On is iso-8859-1.",
        default_charset,
    ),
    set(
        "ForceType",
        (1, 1),
        "media-type|None",
        Both,
        "None",
        "The media type of all files here.",
        |cx, a| {
            let none = a[0].eq_ignore_ascii_case("none");
            cx.policy.force_type = Some((!none).then(|| a[0].clone()));
            Ok(())
        },
    ),
    set(
        "Options",
        (1, MANY),
        "[+|-]option …",
        Both,
        "FollowSymLinks",
        "What is allowed here: ExecCGI, FollowSymLinks, SymLinksIfOwnerMatch; Indexes, Includes \
         and MultiViews have no effect yet.",
        options,
    ),
    set(
        "DirectoryIndex",
        (1, MANY),
        "file …|disabled",
        Both,
        "index.html",
        "Files tried for a directory.",
        directory_index,
    ),
    set(
        "DirectorySlash",
        (1, 1),
        "On|Off",
        Both,
        "On",
        "Whether a directory without its last slash is redirected.",
        |cx, a| {
            cx.policy.directory_slash = Some(on_off(&a[0])?);
            Ok(())
        },
    ),
    set(
        "ErrorDocument",
        (2, 2),
        "status text|url|path|default",
        Both,
        "default",
        "What is sent for an error status.",
        error_document,
    ),
    set(
        "SetEnv",
        (1, 2),
        "name [value]",
        Both,
        "",
        "An environment variable of scripts.",
        |cx, a| {
            let value = a.get(1).cloned().unwrap_or_default();
            replace_pairs(&mut cx.policy.set_env, &[(a[0].clone(), value)]);
            Ok(())
        },
    ),
    set(
        "PassEnv",
        (1, MANY),
        "name …",
        Both,
        "",
        "Variables of the server's own environment that scripts see.",
        |cx, a| {
            cx.policy.pass_env.extend_from_slice(a);
            Ok(())
        },
    ),
    set("UnsetEnv", (1, MANY), "name …", Both, "", "Takes SetEnv and PassEnv back.", |cx, a| {
        cx.policy.unset_env.extend_from_slice(a);
        Ok(())
    }),
    set(
        "Require",
        (1, MANY),
        "[not] all granted|all denied|local|ip network …|method name …",
        Both,
        "all granted",
        "Who may come here; several lines are alternatives.",
        require,
    ),
    set(
        "Order",
        (1, 1),
        "allow,deny|deny,allow|mutual-failure",
        Both,
        "deny,allow",
        "Old form of Require.",
        order,
    ),
    set("Allow", (2, MANY), "from all|network …", Both, "", "Old form of Require.", |cx, a| {
        let from = from(a)?;
        legacy(cx).allow.extend(from);
        Ok(())
    }),
    set("Deny", (2, MANY), "from all|network …", Both, "", "Old form of Require.", |cx, a| {
        let from = from(a)?;
        legacy(cx).deny.extend(from);
        Ok(())
    }),
    set(
        "AllowOverride",
        (1, MANY),
        "None",
        Both,
        "None",
        "`.htaccess` files are not read.",
        |cx, a| {
            if !a[0].eq_ignore_ascii_case("none") {
                cx.notice("AllowOverride: .htaccess files are not read".to_string());
            }
            Ok(())
        },
    ),
    set(
        "LimitRequestBody",
        (1, 1),
        "bytes",
        Both,
        "1073741824",
        "Largest request body; 0 is no limit.",
        |cx, a| {
            cx.policy.limit_request_body = Some(number(&a[0])?);
            Ok(())
        },
    ),
    set(
        "AcceptPathInfo",
        (1, 1),
        "On|Off|Default",
        Both,
        "Default",
        "Whether a path may go on after a file's name.",
        |cx, a| {
            const WORDS: [(&str, AcceptPathInfo); 3] = [
                ("On", AcceptPathInfo::On),
                ("Off", AcceptPathInfo::Off),
                ("Default", AcceptPathInfo::Default),
            ];
            cx.policy.accept_path_info = Some(word(&a[0], &WORDS)?);
            Ok(())
        },
    ),
    set(
        "FileETag",
        (1, MANY),
        "None|All|[INode] [MTime] [Size]",
        Both,
        "MTime Size",
        "What entity tags of files are made of.",
        file_etag,
    ),
    set(
        "ServerSignature",
        (1, 1),
        "On|Off|EMail",
        Both,
        "Off",
        "Whether error pages end with the server's name.",
        |cx, a| {
            cx.policy.server_signature =
                Some(word(&a[0], &[("On", true), ("Off", false), ("EMail", true)])?);
            Ok(())
        },
    ),
    set(
        "CGIPassAuth",
        (1, 1),
        "On|Off",
        Both,
        "Off",
        "Whether scripts see the Authorization header.",
        |cx, a| {
            cx.policy.cgi_pass_auth = Some(on_off(&a[0])?);
            Ok(())
        },
    ),
    accepted("IndexOptions", "Directory listings.", "there are no listings"),
    accepted("AddIcon", "Directory listings.", "there are no listings"),
    accepted("AddIconByType", "Directory listings.", "there are no listings"),
    accepted("AddIconByEncoding", "Directory listings.", "there are no listings"),
    accepted("AddAlt", "Directory listings.", "there are no listings"),
    accepted("AddDescription", "Directory listings.", "there are no listings"),
    accepted("DefaultIcon", "Directory listings.", "there are no listings"),
    accepted("ReadmeName", "Directory listings.", "there are no listings"),
    accepted("HeaderName", "Directory listings.", "there are no listings"),
    accepted("IndexIgnore", "Directory listings.", "there are no listings"),
    accepted("LanguagePriority", "Content negotiation.", "there is no negotiation"),
    accepted("ForceLanguagePriority", "Content negotiation.", "there is no negotiation"),
    accepted("BrowserMatch", "Workarounds for old browsers.", "they are gone"),
    refused("AuthType", "Authentication.", "check the user in the handler or in front"),
    refused("AuthName", "Authentication.", "check the user in the handler or in front"),
    refused("AuthUserFile", "Authentication.", "check the user in the handler or in front"),
    refused("AddOutputFilter", "Filters.", "there are no filters"),
    refused("SetOutputFilter", "Filters.", "there are no filters"),
    refused("SetInputFilter", "Filters.", "there are no filters"),
    refused("Action", "mod_actions.", "use SetHandler or AddHandler"),
    refused("SetEnvIf", "mod_setenvif.", "set the variable in the handler"),
    refused("SetEnvIfNoCase", "mod_setenvif.", "set the variable in the handler"),
    refused("FallbackResource", "mod_dir.", "use ErrorDocument 404 or a <Location>"),
];

fn prefix_alias(cx: &mut Cx, args: &[String], script: bool) -> Result<(), String> {
    if !args[0].starts_with('/') {
        return Err(format!("\"{}\" must begin with a slash", args[0]));
    }
    let to = cx.path(&args[1]).to_string_lossy().into_owned();
    cx.aliases.push(Alias { from: AliasSource::Prefix(args[0].clone()), to, script });
    Ok(())
}

fn regex_alias(cx: &mut Cx, args: &[String], script: bool) -> Result<(), String> {
    let regex = Regex::new(&args[0]).map_err(|e| bad_regex(&args[0], &e))?;
    let to = cx.path(&args[1]).to_string_lossy().into_owned();
    cx.aliases.push(Alias { from: AliasSource::Regex(regex), to, script });
    Ok(())
}

/// A handler's name; those of Apache's that are not built in are noticed and have no effect.
fn handler(cx: &mut Cx, text: &str) -> Result<HandlerName, String> {
    const FOREIGN: [&str; 5] =
        ["server-status", "server-info", "type-map", "send-as-is", "imap-file"];
    if FOREIGN.iter().any(|f| f.eq_ignore_ascii_case(text)) {
        cx.notice(format!("the handler {text} is not supported yet; it has no effect"));
        return Ok(HandlerName::None);
    }
    word(text, &HandlerName::NAMES)
}

fn add_handler(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let handler = handler(cx, &args[0])?;
    cx.policy.add_handler.extend(args[1..].iter().map(|e| (extension(e), Some(handler))));
    Ok(())
}

fn default_charset(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let charset = match args[0].to_ascii_lowercase().as_str() {
        "off" => None,
        "on" => Some("iso-8859-1".to_string()),
        _ => Some(args[0].clone()),
    };
    cx.policy.default_charset = Some(charset);
    Ok(())
}

fn options(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    switches(&mut cx.policy.options, args, &option::NAMES)?;
    const IDLE: [&str; 4] = ["Indexes", "Includes", "IncludesNOEXEC", "MultiViews"];
    for arg in args.iter().filter(|a| !a.starts_with('-')) {
        let name = arg.trim_start_matches('+');
        if IDLE.iter().any(|idle| idle.eq_ignore_ascii_case(name)) {
            cx.notice(format!("Options: {name} has no effect yet"));
        }
    }
    Ok(())
}

fn directory_index(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let names = cx.policy.directory_index.get_or_insert_default();
    match args {
        [only] if only.eq_ignore_ascii_case("disabled") => names.clear(),
        _ => names.extend_from_slice(args),
    }
    Ok(())
}

fn error_document(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let status: u16 = number(&args[0])?;
    if !(400..600).contains(&status) {
        if status_text(status) == "Unknown" {
            return Err(format!("{status} is no status"));
        }
        cx.notice(format!("ErrorDocument: {status} is no error; the line has no effect"));
        return Ok(());
    }
    let text = args[1].clone();
    let document = match text.as_str() {
        "default" => ErrorDocument::Default,
        t if t.starts_with('/') => ErrorDocument::Local(text),
        t if t.starts_with("http://") || t.starts_with("https://") => ErrorDocument::Url(text),
        _ => ErrorDocument::Text(text),
    };
    if status == 401 && matches!(document, ErrorDocument::Url(_)) {
        // The client would never see the 401; Apache ignores the line as well.
        cx.notice("ErrorDocument: a full URL cannot be used for 401; ignored".to_string());
        return Ok(());
    }
    cx.policy.error_documents.insert(status, document);
    Ok(())
}

fn require(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    if args[0].eq_ignore_ascii_case("not") && !cx.in_require_all {
        // It could only refuse what an alternative beside it allows. Apache says the same.
        return Err("\"not\" has no effect outside of <RequireAll>".to_string());
    }
    let node = match args[0].to_ascii_lowercase().as_str() {
        "not" => Require::Not(Box::new(require_node(&args[1..])?)),
        _ => require_node(args)?,
    };
    cx.policy.access.get_or_insert_with(Access::default).require.push(node);
    Ok(())
}

fn require_node(args: &[String]) -> Result<Require, String> {
    let words: Vec<String> = args.iter().map(|a| a.to_ascii_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all", "granted"] => Ok(Require::Granted),
        ["all", "denied"] => Ok(Require::Denied),
        ["local"] => Ok(Require::Local),
        ["ip", networks @ ..] if !networks.is_empty() => {
            Ok(Require::Ip(networks.iter().map(|n| network(n)).collect::<Result<_, _>>()?))
        }
        ["method", _, ..] => {
            Ok(Require::Method(args[1..].iter().map(|m| method(m)).collect::<Result<_, _>>()?))
        }
        _ => Err(format!(
            "\"{}\" is not supported; use \"all granted\", \"all denied\", \"local\", \"ip \
             network\" or \"method name\"",
            args.join(" ")
        )),
    }
}

/// As in Apache's list, and in its case.
fn method(name: &str) -> Result<String, String> {
    match crate::environment::method_number(name.as_bytes()) == crate::environment::METHOD_UNKNOWN {
        true => Err(format!("{name} is no method")),
        false => Ok(name.to_string()),
    }
}

fn legacy<'a>(cx: &'a mut Cx) -> &'a mut Legacy {
    let access = cx.policy.access.get_or_insert_with(Access::default);
    access.legacy.get_or_insert_with(Legacy::default)
}

fn order(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    const WORDS: [(&str, bool); 3] =
        [("allow,deny", true), ("deny,allow", false), ("mutual-failure", true)];
    legacy(cx).allow_first = word(&args[0], &WORDS)?;
    Ok(())
}

fn from(args: &[String]) -> Result<Vec<From>, String> {
    if !args[0].eq_ignore_ascii_case("from") {
        return Err(format!("\"{}\" must be \"from\"", args[0]));
    }
    let one = |text: &String| match text.eq_ignore_ascii_case("all") {
        true => Ok(From::All),
        false => network(text).map(From::Network),
    };
    args[1..].iter().map(one).collect()
}

fn file_etag(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let mut tag = FileETag { inode: false, mtime: false, size: false };
    for arg in args {
        match arg.to_ascii_lowercase().as_str() {
            "none" => tag = FileETag { inode: false, mtime: false, size: false },
            "all" => tag = FileETag { inode: true, mtime: true, size: true },
            "inode" => tag.inode = true,
            "mtime" => tag.mtime = true,
            "size" => tag.size = true,
            _ => return Err(format!("\"{arg}\" is none of None, All, INode, MTime, Size")),
        }
    }
    cx.policy.file_etag = Some(tag);
    Ok(())
}
