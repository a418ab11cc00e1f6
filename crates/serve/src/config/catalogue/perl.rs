//! mod_perl's directives, with the names of mod_perl 1 that Debian's mod_perl 2 accepts too.

use std::path::PathBuf;
use std::sync::Arc;

use super::Context::{Both, Server};
use super::values::{on_off, word};
use super::{Cx, Directive, MANY, refused, set};
use crate::config::fault::not_one_of;
use crate::config::policy::{PerlHandler, perl_option, replace_pairs};
use crate::config::settings::{PerlStep, PerlStepKind};

/// Why other phases are refused.
const PHASES: &str = "only PerlResponseHandler runs; do the work there";

pub(super) static DIRECTIVES: &[Directive] = &[
    set(
        "PerlModule",
        (1, MANY),
        "Module …",
        Both,
        "",
        "Modules loaded at start, in order.",
        |cx, a| {
            a.iter().for_each(|name| step(cx, PerlStepKind::Module(name.clone())));
            Ok(())
        },
    ),
    set(
        "PerlRequire",
        (1, MANY),
        "file …",
        Both,
        "",
        "Files run at start, in order; looked for as `require` does, with ServerRoot in @INC.",
        |cx, a| {
            a.iter().for_each(|file| step(cx, PerlStepKind::Require(PathBuf::from(file))));
            Ok(())
        },
    ),
    set(
        "PerlConfigRequire",
        (1, MANY),
        "file …",
        Server,
        "",
        "As PerlRequire, before everything else of Perl's.",
        |cx, a| {
            a.iter().for_each(|file| step(cx, PerlStepKind::ConfigRequire(PathBuf::from(file))));
            Ok(())
        },
    ),
    set(
        "PerlPostConfigRequire",
        (1, MANY),
        "file …",
        Server,
        "",
        "As PerlRequire, after all modules.",
        |cx, a| {
            a.iter()
                .for_each(|file| step(cx, PerlStepKind::PostConfigRequire(PathBuf::from(file))));
            Ok(())
        },
    ),
    set(
        "PerlSwitches",
        (1, MANY),
        "-switch …",
        Server,
        "",
        "Command line switches of the interpreter.",
        |cx, a| {
            cx.perl.switches.extend(a.iter().map(|switch| (switch.clone(), cx.place.clone())));
            Ok(())
        },
    ),
    set(
        "PerlSetVar",
        (2, 2),
        "name value",
        Both,
        "",
        "A variable for `$r->dir_config`.",
        |cx, a| {
            cx.policy.perl_vars.retain(|(name, _)| *name != a[0]);
            cx.policy.perl_vars.push((a[0].clone(), a[1].clone()));
            cx.policy.perl_vars_set.push(a[0].clone());
            Ok(())
        },
    ),
    set(
        "PerlAddVar",
        (2, MANY),
        "name value …",
        Both,
        "",
        "Further values of such a variable.",
        |cx, a| {
            cx.policy.perl_vars.extend(a[1..].iter().map(|value| (a[0].clone(), value.clone())));
            Ok(())
        },
    ),
    set(
        "PerlSetEnv",
        (2, 2),
        "name value",
        Both,
        "",
        "An environment variable of Perl code.",
        |cx, a| {
            let pair = [(a[0].clone(), a[1].clone())];
            if !cx.in_section {
                replace_pairs(&mut cx.perl.set_env, &pair);
            }
            replace_pairs(&mut cx.policy.perl_set_env, &pair);
            Ok(())
        },
    ),
    set(
        "PerlPassEnv",
        (1, MANY),
        "name …",
        Server,
        "PATH TZ",
        "Variables of the server's own environment that Perl code sees.",
        |cx, a| {
            cx.perl.pass_env.extend_from_slice(a);
            Ok(())
        },
    ),
    set(
        "PerlOptions",
        (1, MANY),
        "[+|-]option …",
        Both,
        "",
        "SetupEnv, GlobalRequest (both on under perl-script), ParseHeaders, MergeHandlers.",
        perl_options,
    ),
    set(
        "PerlSendHeader",
        (1, 1),
        "On|Off",
        Both,
        "Off",
        "The old form of `PerlOptions +ParseHeaders`.",
        |cx, a| flag(cx, perl_option::PARSE_HEADERS, &a[0]),
    ),
    set(
        "PerlSetupEnv",
        (1, 1),
        "On|Off",
        Both,
        "On",
        "The old form of `PerlOptions +SetupEnv`.",
        |cx, a| flag(cx, perl_option::SETUP_ENV, &a[0]),
    ),
    set(
        "PerlResponseHandler",
        (1, MANY),
        "handler …",
        Both,
        "",
        "What answers under `perl-script` and `modperl`.",
        |cx, a| add_handlers(cx, a, PerlHandler::parse),
    ),
    set(
        "PerlHandler",
        (1, MANY),
        "handler …",
        Both,
        "",
        "The old name of PerlResponseHandler: a handler of mod_perl 1 gets its own kind of $r.",
        |cx, a| add_handlers(cx, a, PerlHandler::parse_old),
    ),
    set(
        "PerlChildInitHandler",
        (1, MANY),
        "handler …",
        Server,
        "",
        "Called with a pool and the server when a worker starts.",
        |cx, a| {
            cx.perl.child_init.extend_from_slice(a);
            Ok(())
        },
    ),
    set(
        "PerlChildExitHandler",
        (1, MANY),
        "handler …",
        Server,
        "",
        "Called with a pool and the server when a worker ends.",
        |cx, a| {
            cx.perl.child_exit.extend_from_slice(a);
            Ok(())
        },
    ),
    set(
        "PerlTaintCheck",
        (1, 1),
        "On|Off",
        Server,
        "Off",
        "Taint checks for all of Perl, as -T.",
        |cx, a| {
            cx.perl.taint = on_off(&a[0])?;
            Ok(())
        },
    ),
    set(
        "PerlWarn",
        (1, 1),
        "On|Off",
        Server,
        "Off",
        "Warnings for all of Perl, as -w.",
        |cx, a| {
            cx.perl.warn = on_off(&a[0])?;
            Ok(())
        },
    ),
    refused("PerlInitHandler", "A phase.", PHASES),
    refused("PerlPostReadRequestHandler", "A phase.", PHASES),
    refused("PerlTransHandler", "A phase.", PHASES),
    refused("PerlMapToStorageHandler", "A phase.", PHASES),
    refused("PerlHeaderParserHandler", "A phase.", PHASES),
    refused("PerlAccessHandler", "A phase.", PHASES),
    refused("PerlAuthenHandler", "A phase.", PHASES),
    refused("PerlAuthzHandler", "A phase.", PHASES),
    refused("PerlTypeHandler", "A phase.", PHASES),
    refused("PerlFixupHandler", "A phase.", PHASES),
    refused("PerlLogHandler", "A phase.", PHASES),
    refused("PerlCleanupHandler", "A phase.", "use $r->pool->cleanup_register"),
    refused("PerlPostConfigHandler", "A phase.", "use PerlPostConfigRequire"),
    refused("PerlOpenLogsHandler", "A phase.", "use PerlPostConfigRequire"),
    refused("PerlPreConnectionHandler", "A phase.", PHASES),
    refused("PerlProcessConnectionHandler", "A phase.", PHASES),
    refused("PerlInputFilterHandler", "Filters.", "there are no filters"),
    refused("PerlOutputFilterHandler", "Filters.", "there are no filters"),
    refused("PerlSetInputFilter", "Filters.", "there are no filters"),
    refused("PerlSetOutputFilter", "Filters.", "there are no filters"),
    refused("PerlLoadModule", "Directives made in Perl.", "use PerlModule"),
    refused("PerlRestartHandler", "A phase.", PHASES),
    refused("PerlDispatchHandler", "A phase.", PHASES),
    refused("PerlFreshRestart", "Reloading.", "a reload always starts from fresh code"),
    refused("Perl", "Perl code in the configuration.", "move it to a file and PerlRequire that"),
];

fn step(cx: &mut Cx, kind: PerlStepKind) {
    cx.perl.steps.push(PerlStep { kind, place: cx.place.clone() });
}

fn flag(cx: &mut Cx, bit: u16, text: &str) -> Result<(), String> {
    if on_off(text)? {
        cx.policy.perl_options.add(bit);
    } else {
        cx.policy.perl_options.remove(bit);
    }
    Ok(())
}

/// Per-directory flags change the policy; per-server ones are checked and have no effect here.
fn perl_options(cx: &mut Cx, args: &[String]) -> Result<(), String> {
    const SERVER_FLAGS: [&str; 6] =
        ["Enable", "Clone", "Parent", "InheritSwitches", "Autoload", "None"];
    for arg in args {
        let name = arg.trim_start_matches(['+', '-']);
        if let Ok(bit) = word(name, &perl_option::NAMES) {
            if arg.starts_with('-') {
                cx.policy.perl_options.remove(bit);
            } else {
                cx.policy.perl_options.add(bit);
            }
        } else if SERVER_FLAGS.iter().any(|f| f.eq_ignore_ascii_case(name)) {
            cx.notice(format!("PerlOptions: {name} has no effect here"));
        } else {
            let names = perl_option::NAMES.map(|(name, _)| name);
            return Err(not_one_of(name, &names));
        }
    }
    Ok(())
}

fn add_handlers(
    cx: &mut Cx,
    args: &[String],
    parse: fn(&str) -> PerlHandler,
) -> Result<(), String> {
    let before = cx.policy.perl_handlers.take();
    let before = before.iter().flat_map(|h| h.iter()).cloned();
    let all: Arc<[PerlHandler]> = before.chain(args.iter().map(|a| parse(a))).collect();
    cx.policy.perl_handlers = Some(all);
    Ok(())
}
