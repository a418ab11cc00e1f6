//! What a script under Registry or PerlRun finds of the requests before it, and what is called at
//! its end, as under mod_perl.

use crate::support::Server;

const ONE_WORKER: &str = "StartServers 1\nMaxRequestWorkers 1\n";
const HEAD: &str = "print qq{Content-type: text/plain\\n\\n};";

/// Modules have their END when the worker ends: DBI's would cut every connection that is kept.
#[test]
fn end_blocks_are_called_in_the_order_they_were_met_and_those_of_modules_later() {
    let script = format!(
        "use lib '{{}}/lib'; use WithEnd; {HEAD}\n\
         END {{ print 'one ' }}\nEND {{ print 'two ' }}\n\
         {{ package Other; END {{ warn qq{{other\\n}} }} }}\n"
    );
    let module = "package WithEnd; END { warn qq{module\\n} } 1;\n";
    let files = [("perl/end.pl", script.as_str()), ("lib/WithEnd.pm", module)];
    let mut server = Server::start(ONE_WORKER, &files);
    for path in ["/registry/end.pl", "/registry/end.pl", "/perlrun/end.pl"] {
        assert_eq!(server.get(path).text(), "one two ", "{path}");
    }
    assert_eq!(server.error_log().matches("module").count(), 0, "{}", server.error_log());
    server.terminate();
    let log = server.error_log();
    // The package is compiled once by each tier.
    assert_eq!((log.matches("module").count(), log.matches("other").count()), (1, 2), "{log}");
}

/// A script's package is new for each request under PerlRun, so a library without a package is to
/// be loaded into it again; a module has its own and stays.
#[test]
fn perl_run_loads_libraries_again_and_modules_once() {
    let script = format!(
        "require '{{}}/lib/common.pl'; require '{{}}/perl/here.pl';\n\
         use lib '{{}}/lib'; require Once;\n\
         {HEAD} print common(), here(), ' ', ++$Once::requests;\n"
    );
    let files = [
        ("perl/main.pl", script.as_str()),
        ("perl/here.pl", "sub here { 'here' } 1;\n"),
        ("lib/common.pl", "sub common { 'common ' } 1;\n"),
        ("lib/Once.pm", "package Once; our $requests; 1;\n"),
    ];
    let server = Server::start(ONE_WORKER, &files);
    for request in 1..=3 {
        assert_eq!(server.get("/perlrun/main.pl").text(), format!("common here {request}"));
    }
}
