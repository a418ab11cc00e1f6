//! Directives about the server as a whole: addresses, processes, connections, limits, logs,
//! identity.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::Context::{Both, Server};
use super::values::{duration, listen_address, number, on_off, positive, size, word, workers};
use super::{Cx, Directive, MANY, accepted, refused, set};
use crate::config::policy::replace_pairs;
use crate::config::settings::{CustomLog, LogLevel, ServerTokens};

pub(super) static DIRECTIVES: &[Directive] = &[
    set(
        "Listen",
        (1, 2),
        "[address:]port",
        Server,
        "127.0.0.1:8080",
        "An address to accept connections on; several are allowed. A port alone is every address \
         of the machine, IPv6 and IPv4.",
        listen,
    ),
    set(
        "ServerName",
        (1, 1),
        "host[:port]",
        Server,
        "",
        "The name used in redirects and SERVER_NAME when the client sent none.",
        server_name,
    ),
    set(
        "ServerRoot",
        (1, 1),
        "directory",
        Server,
        "the file's directory",
        "Where relative paths start.",
        |cx, a| {
            cx.server.server_root = cx.config_dir.join(&a[0]);
            is_directory(cx, &cx.server.server_root)
        },
    ),
    set(
        "DocumentRoot",
        (1, 1),
        "directory",
        Server,
        "htdocs",
        "Where files of `/` are.",
        |cx, a| {
            cx.server.document_root = cx.path(&a[0]).components().collect();
            is_directory(cx, &cx.server.document_root)
        },
    ),
    set(
        "ServerAdmin",
        (1, 1),
        "email|url",
        Server,
        "",
        "SERVER_ADMIN, and named on error pages.",
        |cx, a| {
            cx.server.server_admin = Some(a[0].clone());
            Ok(())
        },
    ),
    set(
        "ServerTokens",
        (1, 1),
        "Full|OS|Minimal|Minor|Major|Prod",
        Server,
        "Full",
        "How much the Server header tells.",
        server_tokens,
    ),
    set(
        "UseCanonicalName",
        (1, 1),
        "On|Off",
        Server,
        "Off",
        "Whether redirects use ServerName instead of the Host the client sent.",
        |cx, a| {
            cx.server.use_canonical_name = on_off(&a[0])?;
            Ok(())
        },
    ),
    set("StartServers", (1, 1), "number", Server, "5", "Workers at start.", |cx, a| {
        cx.server.start_servers = workers(&a[0])?;
        Ok(())
    }),
    set("MinSpareServers", (1, 1), "number", Server, "5", "Fewest idle workers.", |cx, a| {
        cx.server.min_spare = workers(&a[0])?;
        Ok(())
    }),
    set("MaxSpareServers", (1, 1), "number", Server, "10", "Most idle workers.", |cx, a| {
        cx.server.max_spare = workers(&a[0])?;
        Ok(())
    }),
    set("MaxRequestWorkers", (1, 1), "number", Server, "256", "Most workers.", max_request_workers),
    set(
        "MaxClients",
        (1, 1),
        "number",
        Server,
        "256",
        "The old name of MaxRequestWorkers.",
        max_request_workers,
    ),
    set(
        "ServerLimit",
        (1, 1),
        "number",
        Server,
        "",
        "Most workers ever; MaxRequestWorkers is lowered to it.",
        |cx, a| {
            cx.server.max_request_workers = cx.server.max_request_workers.min(workers(&a[0])?);
            Ok(())
        },
    ),
    set(
        "MaxConnectionsPerChild",
        (1, 1),
        "number",
        Server,
        "0",
        "Requests after which a worker is replaced; 0 is never. Counted per request, so that \
         keep-alive cannot hide them.",
        max_per_child,
    ),
    set(
        "MaxRequestsPerChild",
        (1, 1),
        "number",
        Server,
        "0",
        "The old name of MaxConnectionsPerChild.",
        max_per_child,
    ),
    set(
        "ListenBacklog",
        (1, 1),
        "number",
        Server,
        "511",
        "Length of the queue of connections not yet accepted.",
        |cx, a| {
            cx.server.listen_backlog = positive(&a[0])?;
            Ok(())
        },
    ),
    set(
        "KeepAlive",
        (1, 1),
        "On|Off",
        Server,
        "On",
        "Whether connections stay open for further requests.",
        |cx, a| {
            cx.server.keep_alive = on_off(&a[0])?;
            Ok(())
        },
    ),
    set(
        "KeepAliveTimeout",
        (1, 1),
        "seconds[ms]",
        Server,
        "5",
        "How long an idle connection stays open.",
        |cx, a| {
            cx.server.keep_alive_timeout = duration(&a[0])?;
            Ok(())
        },
    ),
    set(
        "MaxKeepAliveRequests",
        (1, 1),
        "number",
        Server,
        "100",
        "Requests on one connection; 0 is no limit.",
        |cx, a| {
            cx.server.max_keep_alive_requests = number(&a[0])?;
            Ok(())
        },
    ),
    set(
        "Timeout",
        (1, 1),
        "seconds",
        Server,
        "60",
        "How long to wait for a client's bytes, and for a CGI script's.",
        |cx, a| {
            cx.server.timeout = duration(&a[0])?;
            Ok(())
        },
    ),
    set("LimitRequestLine", (1, 1), "bytes", Server, "8190", "Longest request line.", |cx, a| {
        cx.server.limit_request_line = number(&a[0])?;
        Ok(())
    }),
    set(
        "LimitRequestFields",
        (1, 1),
        "number",
        Server,
        "100",
        "Most header fields; 0 is no limit.",
        |cx, a| {
            cx.server.limit_request_fields = number(&a[0])?;
            Ok(())
        },
    ),
    set(
        "LimitRequestFieldSize",
        (1, 1),
        "bytes",
        Server,
        "8190",
        "Longest header field.",
        |cx, a| {
            cx.server.limit_request_field_size = number(&a[0])?;
            Ok(())
        },
    ),
    set(
        "ErrorLog",
        (1, 1),
        "file",
        Server,
        "standard error",
        "Where errors are written.",
        error_log,
    ),
    set(
        "LogLevel",
        (1, MANY),
        "[module:]level …",
        Server,
        "warn",
        "Least severe message written to the error log.",
        log_level,
    ),
    set(
        "LogFormat",
        (1, 2),
        "format [nickname]",
        Server,
        "",
        "Names an access log format.",
        log_format,
    ),
    set("CustomLog", (2, 2), "file format|nickname", Server, "", "An access log.", custom_log),
    set(
        "TransferLog",
        (1, 1),
        "file",
        Server,
        "",
        "An access log in the common format.",
        |cx, a| push_log(cx, "TransferLog", &a[0], "common"),
    ),
    set(
        "PidFile",
        (1, 1),
        "file",
        Server,
        "",
        "Where the master's process id is written.",
        |cx, a| {
            cx.server.pid_file = Some(cx.path(&a[0]));
            Ok(())
        },
    ),
    set(
        "User",
        (1, 1),
        "user|#uid",
        Server,
        "",
        "Who the workers run as, when started by root.",
        |cx, a| {
            cx.server.user = Some(a[0].clone());
            let known = cx.source.has_user(&a[0]);
            if known { Ok(()) } else { Err(format!("bad user name {}", a[0])) }
        },
    ),
    set(
        "Group",
        (1, 1),
        "group|#gid",
        Server,
        "",
        "The group the workers run as, when started by root.",
        |cx, a| {
            cx.server.group = Some(a[0].clone());
            let known = cx.source.has_group(&a[0]);
            if known { Ok(()) } else { Err(format!("bad group name {}", a[0])) }
        },
    ),
    set(
        "TypesConfig",
        (1, 1),
        "file",
        Server,
        "/etc/mime.types",
        "The table of media types by extension.",
        |cx, a| {
            cx.server.types_config = Some(cx.path(&a[0]));
            Ok(())
        },
    ),
    set(
        "HostnameLookups",
        (1, 1),
        "Off",
        Server,
        "Off",
        "Names of clients are not looked up: it would make each request wait for DNS.",
        only_off,
    ),
    set("TraceEnable", (1, 1), "Off", Server, "Off", "TRACE is always refused.", only_off),
    set(
        "LoadModule",
        (2, 2),
        "module file",
        Server,
        "",
        "Accepted for modules that are built in; others are named in a notice.",
        load_module,
    ),
    set(
        "DromRequestTimeout",
        (1, 1),
        "seconds[ms]",
        Both,
        "0",
        "Longest time a request may run before its client gets 504; 0 is no limit.",
        |cx, a| {
            cx.policy.request_timeout = Some(Some(duration(&a[0])?).filter(|d| !d.is_zero()));
            Ok(())
        },
    ),
    set(
        "DromWorkerMemoryLimit",
        (1, 1),
        "bytes[K|M|G]",
        Server,
        "0",
        "Private memory after which a worker is replaced, once its request is done; 0 is no limit.",
        |cx, a| {
            cx.server.worker_memory_limit = Some(size(&a[0])?).filter(|&s| s > 0);
            Ok(())
        },
    ),
    set(
        "DromResponseBufferLimit",
        (1, 1),
        "bytes[K|M|G]",
        Server,
        "1M",
        "How much of a response is kept in memory for a slow reader before it spills.",
        |cx, a| {
            cx.server.response_buffer_limit = size(&a[0])?;
            Ok(())
        },
    ),
    set(
        "DromReadTimeout",
        (1, 1),
        "seconds[ms]",
        Server,
        "0",
        "Time for a whole request head; 0: none but Timeout between bytes.",
        |cx, a| {
            cx.server.read_timeout = duration(&a[0])?;
            Ok(())
        },
    ),
    set(
        "DromCGIPreload",
        (1, MANY),
        "Module …",
        Server,
        "",
        "Modules that are loaded before CGI scripts are forked.",
        |cx, a| {
            cx.server.cgi_preload.extend_from_slice(a);
            Ok(())
        },
    ),
    set(
        "DromCGIReuse",
        (1, 1),
        "On|Off",
        Server,
        "On",
        "Whether the process of a Perl CGI script that left nothing behind runs another.",
        |cx, a| {
            cx.server.cgi_reuse = on_off(&a[0])?;
            Ok(())
        },
    ),
    accepted("Mutex", "Lock of accept().", "there is no such lock here"),
    accepted("AcceptMutex", "Lock of accept().", "there is no such lock here"),
    accepted("LockFile", "Lock of accept().", "there is no such lock here"),
    accepted("AcceptFilter", "Kernel filter of connections.", "none is needed here"),
    accepted("ScoreBoardFile", "File of the scoreboard.", "it is in shared memory here"),
    accepted("CoreDumpDirectory", "Where a crash leaves its memory image.", "set it in the kernel"),
    accepted("RequestReadTimeout", "Time for a client's bytes.", "see DromReadTimeout and Timeout"),
    accepted("MinSpareThreads", "Threads of a worker.", "workers have no threads for requests"),
    accepted("MaxSpareThreads", "Threads of a worker.", "workers have no threads for requests"),
    accepted("ThreadLimit", "Threads of a worker.", "workers have no threads for requests"),
    accepted("DefaultRuntimeDir", "Where lock files are.", "there are none"),
    accepted("ThreadsPerChild", "Threads of a worker.", "workers have no threads for requests"),
    accepted("ExtendedStatus", "Details of mod_status.", "they are always kept"),
    accepted("GracefulShutdownTimeout", "Time for running requests.", "a reload waits for them"),
    accepted("EnableSendfile", "Use of sendfile().", "it is used where it helps"),
    accepted("EnableMMAP", "Use of mmap().", "files are not mapped"),
    accepted("AccessFileName", "Name of .htaccess files.", "such files are not read"),
    accepted("HttpProtocolOptions", "Strictness of parsing.", "it is always strict"),
    refused("NameVirtualHost", "Virtual hosts.", "one server per configuration"),
    refused("ServerAlias", "Virtual hosts.", "one server per configuration"),
    refused("RewriteEngine", "mod_rewrite.", "use Alias, ScriptAliasMatch or a handler"),
    refused("RewriteRule", "mod_rewrite.", "use Alias, ScriptAliasMatch or a handler"),
    refused("RewriteCond", "mod_rewrite.", "use Alias, ScriptAliasMatch or a handler"),
    refused("Redirect", "mod_alias redirects.", "send the redirect from a handler"),
    refused("RedirectMatch", "mod_alias redirects.", "send the redirect from a handler"),
    refused("ProxyPass", "Proxying.", "put another server in front"),
    refused("ProxyPassReverse", "Proxying.", "put another server in front"),
    refused("SSLEngine", "TLS.", "put a TLS terminator in front"),
    refused("SSLCertificateFile", "TLS.", "put a TLS terminator in front"),
    refused("SSLCertificateKeyFile", "TLS.", "put a TLS terminator in front"),
    refused("Header", "mod_headers.", "set the header in the handler"),
    refused("RequestHeader", "mod_headers.", "set the header in the handler"),
];

fn listen(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    if args.get(1).is_some_and(|protocol| !protocol.eq_ignore_ascii_case("http")) {
        return Err(format!("the protocol \"{}\" is not supported; only http is", args[1]));
    }
    // An IPv6 socket for every address takes IPv4 too.
    let any = if cx.source.has_ipv6() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    let address = listen_address(&args[0], any)?;
    if cx.listen.contains(&address) {
        return Err(format!("{address} is listened on already"));
    }
    cx.listen.push(address);
    Ok(())
}

fn server_name(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    let name = args[0].trim_start_matches("http://");
    let bare_v6 = name.matches(':').count() > 1 && !name.contains(']');
    match name.rsplit_once(':') {
        Some((host, port)) if !bare_v6 && !port.ends_with(']') => {
            cx.server.server_port = Some(number(port)?);
            cx.server.server_name = Some(host.to_string());
        }
        _ => cx.server.server_name = Some(name.to_string()),
    }
    Ok(())
}

fn server_tokens(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    const WORDS: [(&str, ServerTokens); 8] = [
        ("Full", ServerTokens::Full),
        ("OS", ServerTokens::Os),
        ("Minimal", ServerTokens::Minimal),
        ("Min", ServerTokens::Minimal),
        ("Minor", ServerTokens::Minor),
        ("Major", ServerTokens::Major),
        ("Prod", ServerTokens::Prod),
        ("ProductOnly", ServerTokens::Prod),
    ];
    cx.server.server_tokens = word(&args[0], &WORDS)?;
    Ok(())
}

fn max_request_workers(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    cx.server.max_request_workers = workers(&args[0])?;
    Ok(())
}

fn max_per_child(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    cx.server.max_connections_per_child = number(&args[0])?;
    Ok(())
}

fn is_directory(cx: &Cx, path: &Path) -> Result<(), String> {
    match cx.source.is_directory(path) {
        true => Ok(()),
        false => Err(format!("{} is not a directory, or not readable", path.display())),
    }
}

fn error_log(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    if args[0].starts_with(['|']) || args[0].starts_with("syslog") {
        return Err(
            "only files are supported, no programs (\"|…\") and no syslog; start Drom with \
            its standard error at the program, without ErrorLog"
                .to_string(),
        );
    }
    cx.server.error_log = (args[0] != "/dev/stderr").then(|| cx.path(&args[0]));
    cx.server.log_places.retain(|(name, ..)| *name != "ErrorLog");
    cx.note_log("ErrorLog", &args[0]);
    Ok(())
}

fn log_level(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    for arg in args {
        let text = if arg.starts_with("trace") { "trace1" } else { arg };
        match text.split_once(':') {
            Some((module, _)) => {
                cx.notice(format!("LogLevel: no separate level for {module} here"))
            }
            None => cx.server.log_level = word(text, &LogLevel::NAMES)?,
        }
    }
    Ok(())
}

fn log_format(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    crate::log::LogFormat::parse(&args[0])?;
    let name = args.get(1).map_or("common", String::as_str);
    replace_pairs(&mut cx.server.log_formats, &[(name.to_string(), args[0].clone())]);
    Ok(())
}

fn custom_log(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    push_log(cx, "CustomLog", &args[0], &args[1])
}

fn push_log(cx: &mut Cx, name: &'static str, file: &str, format: &str) -> Result<(), String> {
    if file.starts_with('|') {
        return Err(
            "only files are supported, no programs (\"|…\"); a program can read a named pipe \
            or follow the file"
                .to_string(),
        );
    }
    if format.contains('%') {
        crate::log::LogFormat::parse(format)?;
    }
    cx.server.custom_logs.push(CustomLog { path: cx.path(file), format: format.to_string() });
    cx.note_log(name, file);
    Ok(())
}

fn only_off(_cx: &mut Cx, args: &[String]) -> Result<(), String> {
    match on_off(&args[0])? {
        false => Ok(()),
        true => Err("only Off is supported".to_string()),
    }
}

fn load_module(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    match crate::config::parse::is_built_in(&args[0]) {
        true => cx.notice(format!("LoadModule: {} is built in", args[0])),
        false => cx.notice(format!("LoadModule: {} does not exist here; ignored", args[0])),
    }
    Ok(())
}
