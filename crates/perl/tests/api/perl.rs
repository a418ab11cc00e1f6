//! One interpreter for a case, and the words in which cases speak.

use drom_perl::{Call, End, Handler, Interpreter, Outcome, RunFlags, Source};

use crate::fake::Fake;

/// Assertions for snippets: the run dies with every failure at its end.
const PRELUDE: &str = r#"
package Check;
our @failures;
sub main::is {
    my ($got, $want, $name) = @_;
    return if defined $got ? defined $want && $got eq $want : !defined $want;
    $_ = defined ? "'$_'" : 'undef' for $got, $want;
    push @failures, "$name: got $got, want $want (line " . (caller)[2] . ")";
}
sub main::ok { my ($ok, $name) = @_; push @failures, "$name (line " . (caller)[2] . ")" unless $ok }
sub main::like {
    my ($got, $want, $name) = @_;
    push @failures, "$name: got '" . ($got // 'undef') . "', want $want (line " . (caller)[2] . ")"
        unless defined $got && $got =~ $want;
}
sub main::dies { my ($code, $want, $name) = @_; eval { $code->(); 1 } ? main::ok(0, "$name lives") : main::like($@, $want, $name) }
sub failed { my $text = join "\n", @failures; @failures = (); return $text }
1;
"#;

pub struct Perl {
    pub interpreter: Interpreter,
    next_id: u64,
    scripts: usize,
}

pub fn flags() -> RunFlags {
    RunFlags { setup_env: true, global_request: true, script_io: true, ..RunFlags::default() }
}

impl Perl {
    pub fn start() -> Self {
        // SAFETY: one thread. The server sets these before perl starts; CGI.pm looks when it is loaded.
        unsafe {
            std::env::set_var("MOD_PERL", "mod_perl/2.0.12");
            std::env::set_var("MOD_PERL_API_VERSION", "2");
        }
        let interpreter = Interpreter::start(&[]).expect("perl starts");
        let startup = interpreter.require("Drom::Startup", false);
        startup.unwrap_or_else(|e| panic!("Drom::Startup: {}", text(&e)));
        let mut perl = Self { interpreter, next_id: 0, scripts: 0 };
        perl.compile(PRELUDE);
        perl
    }

    /// A script as a Registry has it: `$_[0]` is the request.
    pub fn compile(&mut self, script: &str) -> Handler {
        self.scripts += 1;
        let package = format!("Case{}", self.scripts);
        let code = format!(
            "package {package}; sub handler {{ package main;\n#line 1 snippet\n{script}\n}}\n1;"
        );
        let source =
            Source { package: &package, text: code.as_bytes(), directory: None, quiet: false };
        let handler = self.interpreter.compile(&source);
        let handler = handler.unwrap_or_else(|e| panic!("does not compile: {}", text(&e)));
        if self.scripts == 1 {
            self.run(handler, RunFlags::default(), &mut Fake::default()); // defines the prelude
        }
        handler
    }

    pub fn run(&mut self, handler: Handler, flags: RunFlags, fake: &mut Fake) -> Outcome {
        self.next_id += 1;
        let call = Call { handler, id: self.next_id, flags, directory: None, program: None };
        let outcome = self.interpreter.run(&call, fake);
        if outcome.cleanups {
            self.interpreter.cleanup(self.next_id, fake);
        }
        outcome
    }

    /// Runs a script and takes whatever comes.
    pub fn script(&mut self, script: &str, fake: &mut Fake) -> End {
        let handler = self.compile(script);
        self.run(handler, flags(), fake).end
    }

    /// Runs a script of assertions, `$r` being the request; panics with what failed.
    pub fn check_as(&mut self, flags: RunFlags, script: &str, fake: &mut Fake) {
        let whole = format!(
            "my $r = shift; {script}\n; my $f = Check::failed(); die \"$f\\n\" if $f; return 0;"
        );
        let handler = self.compile(&whole);
        let end = self.run(handler, flags, fake).end;
        if let End::Died(why) = &end {
            panic!("{}", text(why));
        }
        assert_eq!(end, End::Returned(0));
    }

    pub fn check(&mut self, script: &str, fake: &mut Fake) {
        self.check_as(flags(), script, fake);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
