//! The cases. Perl's side of each is in the snippet, the server's side follows it.

use drom_perl::{Command, End, Text};

use crate::{Case, fake::Fake, perl::Perl};

macro_rules! cases {
    ($($name:ident)*) => { vec![$(Case { name: stringify!($name), body: $name }),*] };
}

pub fn all() -> Vec<Case> {
    cases![
        fields_of_the_request
        cgi_reads_a_query
        cgi_reads_a_form
    ]
}

fn fields_of_the_request() {
    let mut fake = Fake::get("/app/script/more?a=1&b=2");
    Perl::start().check(
        r#"
        is($r->uri, '/app/script/more', 'uri');
        is($r->args, 'a=1&b=2', 'args');
        is($r->method, 'GET', 'method');
        is($r->protocol, 'HTTP/1.1', 'protocol');
        is($r->hostname, 'www.example.org', 'hostname');
        is($r->content_type('text/plain'), undef, 'content_type returns the old one');
        is($r->content_type, 'text/plain', 'content_type');
        $r->print('hello ', 'world');
        "#,
        &mut fake,
    );
    assert_eq!(fake.shown(), "hello world");
    assert_eq!(fake.text_of(Text::ContentType), "text/plain");
}

fn cgi_reads_a_query() {
    let mut fake = Fake::get("/app/script?a=1&b=x%20y&a=2");
    let end = Perl::start().script(
        "use CGI; my $q = CGI->new; print $q->header('text/plain'), join ',', scalar $q->param('b'), $q->multi_param('a');",
        &mut fake,
    );
    assert_eq!(end, End::Returned(1));
    assert_eq!(fake.shown(), "x y,1,2");
    assert_eq!(fake.text_of(Text::ContentType), "text/plain; charset=ISO-8859-1");
    assert!(fake.commands.iter().any(|(c, _)| *c == Command::SendHead));
}

fn cgi_reads_a_form() {
    let body = b"a=1&b=x+y&c=%C3%A9";
    let mut fake = Fake::post("/app", "application/x-www-form-urlencoded", body);
    let script = "use CGI; my $q = CGI->new; print $q->redirect('http://example.com/'), \
                  join ',', map { scalar $q->param($_) } qw(a b c);";
    assert_eq!(Perl::start().script(script, &mut fake), End::Returned(1));
    assert_eq!(fake.output, "1,x y,\u{e9}".as_bytes());
    assert_eq!(fake.out("Location").as_deref(), Some("http://example.com/"));
}
