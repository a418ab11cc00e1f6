//! The cases. Perl's side of each is in the snippet, the server's side follows it.

use drom_perl::{Command, End, Number, RunFlags, TableKind, Text};

use crate::{
    Case,
    fake::Fake,
    perl::{Perl, flags, text},
};

macro_rules! cases {
    ($($name:ident)*) => { vec![$(Case { name: stringify!($name), body: $name }),*] };
}
pub(crate) use cases;

pub fn all() -> Vec<Case> {
    cases![
        fields_of_the_request
        tables_of_the_request
        reading_and_writing
        print_sends_the_bytes_of_a_string
        configuration_and_place
        phases
        cleanups_run_in_the_order_of_mod_perl
        responses
        conditions
        access
        logging
        connection_and_server
        redirects_and_urls
        what_is_not_supported_says_so
        first_generation_on_every_request
        first_generation_class
        constants
        apr_tables
        values_of_a_table_are_those_of_their_entries
        apr_pools
        apr_modules
        every_module_loads
        subclass_of_the_request
        cgi_reads_a_query
        cgi_reads_a_form
        cgi_takes_an_upload
        cgi_sets_cookies_and_status
        cgi_carp_shows_the_error
        stale_requests_die
        exit_passes_every_eval
        deaths_have_text
        layers_end_with_the_request
        reopened_stdout_ends_with_the_request
        standard_input
        output_is_sent_when_asked
        tied_handles
        environment_is_the_requests_own
        special_variables_end_with_the_request
        child_processes
        children_print_into_the_answer
        what_is_refused_is_an_error_and_nothing_is_lost
        requests_can_be_interrupted
        end_blocks_of_a_script
        handlers_and_methods
        registries_in_perl
        registry_loader_asks_for_compiles
    ]
}

fn fields_of_the_request() {
    let mut fake = Fake::get("/app/script/more?a=1&b=2");
    Perl::start().check(
        r#"
        is($r->uri, '/app/script/more', 'uri');
        is($r->unparsed_uri, '/app/script/more?a=1&b=2', 'unparsed_uri');
        is($r->args, 'a=1&b=2', 'args');
        is($r->args('c=3'), 'a=1&b=2', 'args returns the old ones');
        is($r->args, 'c=3', 'args are set');
        is($r->path_info, '/more', 'path_info');
        is($r->filename, '/etc/passwd', 'filename');
        is($r->canonical_filename, '/etc/passwd', 'canonical_filename');
        is($r->method, 'GET', 'method');
        is($r->method_number, 0, 'method_number');
        is($r->header_only, 0, 'header_only');
        is($r->protocol, 'HTTP/1.1', 'protocol');
        is($r->proto_num, 1001, 'proto_num');
        is($r->hostname, 'www.example.org', 'hostname');
        is($r->the_request, 'GET /app/script/more?a=1&b=2 HTTP/1.1', 'the_request');
        is($r->request_time, 1000000000, 'request_time');
        is($r->mtime, 900000000, 'mtime');
        is($r->proxyreq, 0, 'proxyreq');
        is($r->handler, 'perl-script', 'handler');
        is($r->content_type('text/plain'), undef, 'content_type returns the old one');
        is($r->content_type, 'text/plain', 'content_type');
        is($r->content_encoding('gzip'), undef, 'content_encoding');
        is($r->status(404), 200, 'status returns the old one');
        is($r->status, 404, 'status');
        is($r->status_line('404 Gone Fishing'), undef, 'status_line');
        is($r->get_status_line, '404 Gone Fishing', 'get_status_line');
        is($r->user('joe'), undef, 'user');
        is($r->ap_auth_type('Basic'), undef, 'ap_auth_type');
        is($r->no_cache(1), 0, 'no_cache returns the old one');
        is($r->no_local_copy(1), 0, 'no_local_copy');
        is($r->no_local_copy, 1, 'no_local_copy is kept');
        is($r->allowed(5), 0, 'allowed'); is($r->allowed, 5, 'allowed is kept');
        is($r->assbackwards, 0, 'assbackwards');
        $r->content_languages(['en', 'de']);
        is("@{$r->content_languages}", 'en de', 'languages');
        is($r->main, undef, 'main'); is($r->prev, undef, 'prev'); is($r->next, undef, 'next');
        is(${$r->last}, $$r, 'last');
        is($r->is_initial_req, 1, 'is_initial_req'); is($r->is_main, 1, 'is_main');
        ok($r->finfo->size == -s '/etc/passwd', 'finfo'); is($r->finfo->filetype, 1, 'finfo type');
        is($r->pnotes->{x} = 5, 5, 'pnotes hash'); is($r->pnotes('x'), 5, 'pnotes entry');
        my $object = {}; $r->pnotes(o => $object); ok($r->pnotes('o') == $object, 'pnotes keep objects');
        $r->pnotes_kill; is($r->pnotes('x'), undef, 'pnotes_kill');
        is($r->read_length, 0, 'read_length'); is($r->chunked, 0, 'chunked'); is($r->range, undef, 'range');
        is($r->bytes_sent, 0, 'bytes_sent');
        ok(eval { $r->protocol('x'); 1 } ? 0 : 1, 'protocol cannot be set');
        "#,
        &mut fake,
    );
    assert_eq!(fake.text_of(Text::ContentType), "text/plain");
    assert_eq!(fake.number_of(Number::Status), 404);
    assert_eq!(fake.text_of(Text::User), "joe");
}

fn tables_of_the_request() {
    let mut fake = Fake::get("/");
    Perl::start().check(
        r#"
        is($r->headers_in->{'user-agent'}, 'test/1', 'headers_in as a hash');
        is($r->headers_in->get('USER-AGENT'), 'test/1', 'headers_in get');
        is($r->header_in('User-Agent'), 'test/1', 'header_in');
        $r->headers_out->{'X-One'} = 1;
        $r->headers_out->add('X-One' => 2);
        is(join(',', $r->headers_out->get('x-one')), '1,2', 'several values');
        is($r->header_out('X-Two' => 'b'), undef, 'header_out');
        $r->err_headers_out->set('X-Err' => 'e'); is($r->err_header_out('X-Err'), 'e', 'err_header_out');
        $r->notes->{n} = 1; is($r->notes('n'), 1, 'notes'); $r->notes(n => 2); is($r->notes->get('n'), 2, 'notes set');
        is($r->subprocess_env('SERVER_NAME'), 'www.example.org', 'subprocess_env');
        $r->subprocess_env(MINE => 'x'); is($r->subprocess_env->{MINE}, 'x', 'subprocess_env set');
        is($r->dir_config('Title'), 'one', 'dir_config');
        is(join(',', $r->dir_config->get('Title')), 'one,two', 'dir_config all');
        is($r->dir_config('None'), undef, 'dir_config of nothing');
        $r->dir_config(Title => 'three'); is($r->dir_config('title'), 'three', 'dir_config set');
        is($r->server->dir_config('Title'), undef, 'the section is none of the server');
        my %in = %{$r->headers_in}; is($in{'User-Agent'}, 'test/1', 'a copy');
        ok(exists $r->headers_in->{'user-AGENT'}, 'exists'); delete $r->headers_in->{'User-Agent'};
        ok(!exists $r->headers_in->{'user-agent'}, 'delete');
        "#,
        &mut fake,
    );
    assert_eq!(fake.out("X-Two").as_deref(), Some("b"));
    assert_eq!(fake.table_of(TableKind::ErrHeadersOut), [("X-Err".to_owned(), "e".to_owned())]);
}

fn reading_and_writing() {
    let body = vec![b'x'; 5000];
    let mut fake = Fake::post("/", "text/plain", &body);
    Perl::start().check(
        r#"
        is($r->should_client_block, 1, 'should_client_block'); is($r->setup_client_block, 0, 'setup');
        is($r->read(my $some, 10), 10, 'read'); is($some, 'x' x 10, 'what was read');
        is($r->read($some, 5, 12), 5, 'read at an offset'); is($some, 'x' x 10 . "\0\0" . 'x' x 5, 'padded');
        is($r->read($some, 3000), 3000, 'read fills the buffer from small pieces');
        is($r->get_client_block($some, 5), 5, 'get_client_block');
        is($r->discard_request_body, 0, 'discard_request_body'); is($r->read($some, 5), 0, 'the end');
        is($r->print('a', 'bc'), 3, 'print'); is($r->print(''), '0E0', 'print of nothing is true');
        $r->puts('d'); $r->printf('%03d', 7);
        is($r->write('hello', 2, 1), 2, 'write'); is($r->rwrite('!'), 1, 'rwrite');
        $r->rflush;
        is($r->sendfile('/etc/hostname', 0, 0), 0, 'sendfile');
        is($r->sendfile('/nowhere'), 2, 'sendfile returns an error');
        dies(sub { $r->sendfile('/nowhere'); 1 }, qr/cannot send \/nowhere: No such file/, 'sendfile');
        ok($r->bytes_sent > 9, 'bytes_sent');
        "#,
        &mut fake,
    );
    let host = std::fs::read_to_string("/etc/hostname").expect("there is a host name");
    assert_eq!(fake.shown(), format!("abcd007el!{host}"));
    assert_eq!(fake.flushes, [10]);
}

fn print_sends_the_bytes_of_a_string() {
    let mut fake = Fake::get("/");
    Perl::start().check(
        r#"
        my ($up, $wide) = ("\xe9", "\x{20ac}"); utf8::upgrade($up);
        local $SIG{__WARN__} = sub { die @_ };
        is($r->print($up), 2, 'its bytes'); $r->puts($up); $r->printf('%s', $up); $r->write($up);
        $r->print("\xe9", $wide); is($r->write($wide), 3, 'all of them');
        tie *OUT, $r; print OUT $up; untie *OUT;
        "#,
        &mut fake,
    );
    assert_eq!(
        fake.output,
        b"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xe9\xe2\x82\xac\xe2\x82\xac\xc3\xa9"
    );
}

fn configuration_and_place() {
    let mut fake = Fake::get("/app");
    Perl::start().check(
        r#"
        ok(Apache2::RequestUtil->request == $r || ${Apache2::RequestUtil->request} == $$r, 'request');
        is(ref(Apache2::RequestUtil->request), 'Apache2::RequestRec', 'its class');
        is($r->document_root, '/srv/www', 'document_root'); is($r->location, '/app', 'location');
        is($r->get_server_name, 'www.example.org', 'get_server_name');
        is($r->get_server_port, 8080, 'get_server_port');
        is($r->server_root_relative('a'), '/srv/root/a', 'server_root_relative');
        is($r->is_perl_option_enabled('SetupEnv'), 1, 'SetupEnv');
        is($r->is_perl_option_enabled('GlobalRequest'), 1, 'GlobalRequest');
        is($r->is_perl_option_enabled('ParseHeaders'), 0, 'ParseHeaders');
        is($r->default_type, 'text/plain', 'default_type'); is($r->psignature('x'), '', 'psignature');
        is($r->location_merge('/x'), 0, 'location_merge'); is($r->get_limit_req_body, 1 << 30, 'limit');
        like($r->as_string, qr{\AGET /app HTTP/1.1\nUser-Agent: test/1\n\nHTTP/1.1 200\n}, 'as_string');
        like(${$r->slurp_filename}, qr/root/, 'slurp_filename');
        $r->set_basic_credentials('joe', 'secret');
        is($r->header_in('Authorization'), 'Basic am9lOnNlY3JldA==', 'set_basic_credentials');
        $r->child_terminate;
        "#,
        &mut fake,
    );
    assert_eq!(fake.commands, [(Command::Retire, String::new())]);
}

fn phases() {
    let mut fake = Fake::get("/");
    let mut perl = Perl::start();
    perl.check(
        r#"
        our @done = ();
        sub late { push @done, "late " . (ref $_[0] ? ref $_[0] : $_[0]) . ' ' . $_[0]->pnotes('kept') }
        $r->pnotes(kept => 'still');
        $r->push_handlers(PerlCleanupHandler => sub { push @done, 'one' });
        $r->push_handlers(PerlCleanupHandler => 'main::late');
        is(scalar @{$r->get_handlers('PerlCleanupHandler')}, 2, 'get_handlers');
        $r->pool->cleanup_register(sub { push @done, "pool $_[0]" }, 'arg');
        $r->register_cleanup(sub { die "in a cleanup\n" });
        $r->post_connection(sub { push @done, 'post' });
        dies(sub { $r->push_handlers(PerlFixupHandler => sub {}) }, qr/PerlFixupHandler.*not supported/, 'phase');
        dies(sub { $r->set_handlers(PerlTransHandler => undef) }, qr/not supported/, 'set_handlers');
        "#,
        &mut fake,
    );
    assert_eq!(fake.logged, [(3, "in a cleanup\n".to_owned())]);
    perl.check(
        "is(join(' ', @main::done), 'one late Apache2::RequestRec still post pool arg', 'cleanups');",
        &mut Fake::get("/"),
    );
    perl.check(
        "our @done = (); $r->push_handlers(PerlCleanupHandler => sub { push @done, 1 });
         $r->set_handlers(PerlCleanupHandler => [sub { push @done, 2 }]);",
        &mut Fake::get("/"),
    );
    perl.check("is(join(' ', @main::done), '2', 'set_handlers');", &mut Fake::get("/"));
}

fn cleanups_run_in_the_order_of_mod_perl() {
    let mut fake = Fake::get("/");
    let mut perl = Perl::start();
    perl.check(
        r#"
        our @done = (); my $p = $r->pool;
        sub to { my $what = shift; sub { push @main::done, $what; 0 } }
        $p->cleanup_register(to('p1')); $r->push_handlers(PerlCleanupHandler => to('h1'));
        my $two = sub { push @main::done, "p2$_[0]"; $p->cleanup_register(to('inner')) };
        $p->cleanup_register($two, '!');
        $p->cleanup_register(sub { die 'dead' }); $r->push_handlers(PerlCleanupHandler => to('h2'));
        "#,
        &mut fake,
    );
    perl.check("is(\"@main::done\", 'h1 h2 p2! inner p1', 'order')", &mut Fake::get("/"));
    assert!(fake.logged.iter().any(|(_, text)| text.contains("dead")), "{:?}", fake.logged);
    perl.check_as(
        RunFlags { mod_perl_1: true, ..flags() },
        "our @done = (); for my $n (1, 2) { $r->register_cleanup(sub { push @main::done, $n }) }",
        &mut Fake::get("/"),
    );
    perl.check("is(\"@main::done\", '1 2', 'of mod_perl 1')", &mut Fake::get("/"));
    perl.check("$r->pool->cleanup_register(sub { exit 3 })", &mut Fake::get("/"));
    perl.check("1", &mut Fake::get("/"));
}

fn responses() {
    let mut fake = Fake::get("/");
    Perl::start().check(
        r#"
        $r->set_content_length(12); is($r->content_length_, 12, 'set_content_length');
        is($r->content_length, 12, 'content_length');
        $r->update_mtime(950000000); is($r->mtime, 950000000, 'update_mtime');
        $r->update_mtime(940000000); is($r->mtime, 950000000, 'update_mtime goes forward only');
        $r->set_last_modified(960000000);
        is($r->header_out('Last-Modified'), 'Sat, 03 Jun 2000 02:40:00 GMT', 'set_last_modified');
        is($r->rationalize_mtime(2000000000), 1000000000, 'rationalize_mtime');
        like($r->make_etag(0), qr/^"[0-9a-f-]+"$/, 'make_etag'); like($r->make_etag(1), qr/^W\//, 'weak');
        $r->set_etag; is($r->header_out('ETag'), $r->make_etag(0), 'set_etag');
        is($r->set_keepalive, 1, 'set_keepalive');
        $r->custom_response(404, '/missing.html');
        $r->send_cgi_header("Status: 201 Made\r\nContent-Type: text/x\r\nSet-Cookie: a=b\r\nX-Y: z\r\n\r\nbody");
        is($r->status, 201, 'Status'); is($r->content_type, 'text/x', 'Content-Type');
        is($r->err_headers_out->{'Set-Cookie'}, 'a=b', 'Set-Cookie'); is($r->header_out('X-Y'), 'z', 'X-Y');
        $r->status(200); $r->send_cgi_header("Location: http://e.org/\n\n"); is($r->status, 302, 'Location');
        $r->status(200); $r->send_cgi_header("Location: /here\n\n"); is($r->status, 200, 'local Location');
        "#,
        &mut fake,
    );
    assert_eq!(fake.shown(), "body");
    assert!(fake.commands.contains(&(Command::CustomResponse, "404 /missing.html".to_owned())));
    assert!(fake.commands.contains(&(Command::Redirect, "/here".to_owned())));
}

fn conditions() {
    let mut fake = Fake::get("/");
    Perl::start().check(
        r#"
        my $try = sub {
            my (%in) = @_;
            $r->headers_in->clear;
            $r->header_in($_ => $in{$_}) for keys %in;
            return $r->meets_conditions;
        };
        my $date = 'Sun, 09 Sep 2001 01:46:40 GMT'; # 1000000000, the time of the request
        my $old = 'Sat, 08 Sep 2001 00:00:00 GMT';
        my $later = 'Mon, 10 Sep 2001 00:00:00 GMT';
        $r->header_out('Last-Modified' => $old); $r->header_out(ETag => '"v1"');
        is($try->(), 0, 'no condition');
        is($try->('If-Modified-Since' => $old), 304, 'same time');
        is($try->('If-Modified-Since' => $date), 304, 'later time');
        is($try->('If-Modified-Since' => $later), 0, 'a time to come means nothing');
        is($try->('If-Modified-Since' => 'Fri, 07 Sep 2001 00:00:00 GMT'), 0, 'changed since');
        is($try->('If-Modified-Since' => 'nonsense'), 0, 'no date');
        is($try->('If-None-Match' => '"v1"'), 304, 'tag'); is($try->('If-None-Match' => 'W/"v1"'), 304, 'weak tag');
        is($try->('If-None-Match' => '"v0", "v1"'), 304, 'list'); is($try->('If-None-Match' => '*'), 304, 'star');
        is($try->('If-None-Match' => '"v0"', 'If-Modified-Since' => $old), 0, 'the tag decides');
        is($try->('If-Match' => '"v1"'), 0, 'If-Match'); is($try->('If-Match' => '"v0"'), 412, 'If-Match fails');
        is($try->('If-Match' => 'W/"v1"'), 412, 'If-Match is strong'); is($try->('If-Match' => '*'), 0, 'any');
        is($try->('If-Unmodified-Since' => $old), 0, 'If-Unmodified-Since');
        is($try->('If-Unmodified-Since' => 'Fri, 07 Sep 2001 00:00:00 GMT'), 412, 'If-Unmodified-Since fails');
        $r->method('POST'); is($try->('If-None-Match' => '"v1"'), 412, 'POST with If-None-Match');
        is($try->('If-Modified-Since' => $old), 0, 'POST with If-Modified-Since');
        $r->status(404); is($try->('If-Match' => '"v0"'), 0, 'an error has no conditions');
        "#,
        &mut fake,
    );
}

fn access() {
    let mut fake = Fake::get("/");
    Perl::start().check(
        r#"
        is(join(',', map { $_ // 'undef' } $r->get_basic_auth_pw), '401,undef', 'no credentials');
        is($r->err_headers_out->{'WWW-Authenticate'}, 'Basic realm="the realm"', 'asked for');
        $r->header_in(Authorization => 'Basic am9lOnNlOmNyZXQ=');
        is(join(',', $r->get_basic_auth_pw), '0,se:cret', 'credentials');
        is($r->user, 'joe', 'user'); is($r->connection->user, 'joe', 'user of the connection');
        is($r->ap_auth_type, 'Basic', 'ap_auth_type'); is($r->connection->auth_type, 'Basic', 'auth_type there');
        is($r->auth_name, 'the realm', 'auth_name'); $r->auth_name('x'); is($r->auth_name, 'x', 'auth_name set');
        is($r->auth_type, 'Basic', 'auth_type'); $r->note_auth_failure;
        is($r->err_headers_out->{'WWW-Authenticate'}, 'Basic realm="x"', 'note_auth_failure');
        is($r->requires->[1]{requirement}, 'user joe', 'requires'); is($r->satisfies, 1, 'satisfies');
        is($r->some_auth_required, 1, 'some_auth_required'); is($r->allow_options, 9, 'allow_options');
        is($r->get_remote_logname, undef, 'get_remote_logname'); is($r->allow_overrides, 0, 'allow_overrides');
        is($r->allow_override_opts, 0, 'allow_override_opts');
        $r->allow_methods(1, 'GET', 'POST'); $r->allow_methods(0, 'PUT', 'GET');
        is($r->header_out('Allow'), 'GET, POST, PUT', 'allow_methods');
        dies(sub { $r->note_digest_auth_failure }, qr/not supported/, 'digest');
        "#,
        &mut fake,
    );
}

fn logging() {
    let mut fake = Fake::get("/a");
    Perl::start().check(
        r#"
        $r->log->$_("r $_") for qw(emerg alert crit error warn notice info debug);
        $r->server->log->warn('s');
        $r->log->info(sub { 'made' });
        $r->log_error('a', 'b'); $r->warn('w'); $r->log_reason('why', '/f');
        $r->server->log_error('e'); $r->server->warn('f'); Apache2::ServerRec::warn('g'); Apache2::ServerRec->warn('h');
        $r->log_rerror(Apache2::Log::LOG_MARK(), 4, 2, 'gone'); $r->server->log_serror('f', 1, 6, 0, 'fine');
        is($r->server->loglevel, 4, 'loglevel');
        "#,
        &mut fake,
    );
    let levels: Vec<i32> = fake.logged.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [0, 1, 2, 3, 4, 5, 6, 7, 4, 6, 3, 4, 3, 3, 4, 4, 4, 4, 6]);
    let texts: Vec<&str> = fake.logged[8..].iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "s",
            "made",
            "ab",
            "w",
            "access to /f failed for 192.0.2.7, reason: why",
            "e",
            "f",
            "g",
            "h",
            "(2)No such file or directory: gone",
            "fine"
        ]
    );
}

fn connection_and_server() {
    let mut fake = Fake::get("/");
    let mut perl = Perl::start();
    perl.check(
        r#"
        my $c = $r->connection;
        is($c->client_ip, '192.0.2.7', 'client_ip'); is($c->remote_ip, '192.0.2.7', 'remote_ip');
        is($c->client_addr->ip_get, '192.0.2.7', 'client_addr'); is($c->remote_addr->port, 4711, 'port');
        is($c->local_ip, '127.0.0.1', 'local_ip'); is($c->local_addr->port, 8080, 'local_addr');
        is($c->remote_host, undef, 'remote_host'); is($c->get_remote_host, '192.0.2.7', 'get_remote_host');
        is($r->get_remote_host, '192.0.2.7', 'on r'); is($r->useragent_ip, '192.0.2.7', 'useragent_ip');
        is($c->keepalive, 1, 'keepalive'); is($c->keepalives, 1, 'keepalives'); is($c->aborted, 0, 'aborted');
        is($c->id, 5, 'id'); is($c->local_host, '127.0.0.1', 'local_host'); is($c->remote_logname, undef, 'logname');
        is(ref $c->pool, 'APR::Pool', 'pool'); is(ref $c->base_server, 'Apache2::ServerRec', 'base_server');
        $c->notes(k => 'v'); is($c->notes->{k}, 'v', 'notes');
        my $s = $r->server;
        is($s->server_hostname, 'server.example.org', 'server_hostname'); is($s->port, 8080, 'port');
        is($s->server_admin, 'webmaster@example.org', 'server_admin'); is($s->is_virtual, 0, 'is_virtual');
        is($s->error_fname, '/var/log/error.log', 'error_fname'); is($s->timeout, 60000000, 'timeout');
        is($s->process->short_name, 'drom', 'process'); is(ref $s->process->pool, 'APR::Pool::Own', 'pool');
        is($s->next, undef, 'next'); is($s->get_server_version, 'Drom/0', 'version');
        is(Apache2::ServerUtil::server_root(), '/srv/root', 'server_root');
        is(Apache2::ServerUtil::server_root_relative($r->pool, 'x'), '/srv/root/x', 'with a pool');
        is(Apache2::ServerUtil::restart_count(), 2, 'restart_count');
        is(Apache2::ServerUtil->server->server_hostname, 'server.example.org', 'server');
        is(Apache2::ServerUtil::user_id(), $>, 'user_id');
        our $kept = $s;
        "#,
        &mut fake,
    );
    let next = "is($main::kept->port, 8080, 'a server outlives its request');";
    perl.check(next, &mut Fake::get("/"));
}

fn redirects_and_urls() {
    let mut fake = Fake::get("/a?b");
    Perl::start().check(
        r#"
        $r->internal_redirect('/b?c');
        require Apache2::URI;
        is($r->construct_url, 'http://www.example.org:8080/a', 'construct_url');
        is($r->construct_url('/x'), 'http://www.example.org:8080/x', 'construct_url of a path');
        is($r->construct_server, 'www.example.org:8080', 'construct_server');
        is($r->parsed_uri->path, '/a', 'parsed_uri'); is($r->parsed_uri->query, 'b', 'query');
        my $path = '/a%20b%zz'; is(Apache2::URI::unescape_url($path), 400, 'bad escape');
        $path = '/a%20b'; is(Apache2::URI::unescape_url($path), 0, 'unescape_url'); is($path, '/a b', 'in place');
        "#,
        &mut fake,
    );
    assert_eq!(fake.commands, [(Command::Redirect, "/b?c".to_owned())]);
}

fn what_is_not_supported_says_so() {
    Perl::start().check(
        r#"
        for my $call (
            sub { $r->lookup_uri('/x') }, sub { $r->lookup_file('/x') }, sub { $r->add_output_filter(sub {}) },
            sub { $r->input_filters }, sub { $r->add_config(["ForceType a/b"]) },
            sub { Apache2::RequestRec->new },
            sub { $r->internal_fast_redirect('/') }, sub { $r->connection->client_socket },
            sub { $r->server->push_handlers(PerlAccessHandler => 'x') }, sub { $r->server->add_config([]) },
            sub { require Apache2::Filter; Apache2::Filter->read }, sub { require APR::Bucket; APR::Bucket::x() },
            sub { require Apache2::Status; Apache2::Status::handler() },
        ) { dies($call, qr/not supported/, 'a clear error') }
        "#,
        &mut Fake::get("/"),
    );
}

fn first_generation_on_every_request() {
    let mut fake = Fake::post("/a?q=1", "application/x-www-form-urlencoded", b"a=1&b=x+%26&c");
    Perl::start().check(
        r#"
        my @form = $r->content; is(join('|', map { $_ // 'undef' } @form), 'a|1|b|x &|c|undef', 'content');
        is(scalar $r->content, '', 'it is read once');
        is($r->send_http_header('text/css'), 1, 'send_http_header'); is($r->content_type, 'text/css', 'its type');
        $r->cgi_header_out('X-A' => 'b'); is($r->header_out('X-A'), 'b', 'cgi_header_out');
        is($r->cgi_env('SERVER_NAME'), 'www.example.org', 'cgi_env');
        my %env = $r->cgi_env; is($env{SERVER_NAME}, 'www.example.org', 'cgi_env in a list');
        is($r->query_string, 'q=1', 'query_string'); is($r->get_handler, 'perl-script', 'get_handler');
        open my $file, '<', '/etc/hostname' or die; my $size = -s $file;
        is($r->send_fd($file), $size, 'send_fd');
        require Cwd; my $home = Cwd::getcwd(); $r->chdir_file; is(Cwd::getcwd(), '/etc', 'chdir_file'); chdir $home;
        is(Apache->request->uri, '/a', 'Apache->request'); is(Apache->server->port, 8080, 'Apache->server');
        is($r->escape_uri('/a b'), '/a%20b', 'escape_uri'); is($r->unescape_url('a%20b'), 'a b', 'unescape_url');
        $r->hard_timeout('x'); $r->soft_timeout('x'); $r->reset_timeout; $r->kill_timeout;
        is($r->module('mod_perl.c'), 1, 'module'); is($r->define('X'), 0, 'define');
        $r->log_message('m'); is($r->is_xlate, 0, 'is_xlate');
        "#,
        &mut fake,
    );
    assert!(fake.commands.contains(&(Command::SendHead, String::new())));
}

fn first_generation_class() {
    let mut fake = Fake::get("/a?x=1&y=a+b");
    let mut perl = Perl::start();
    let first = RunFlags { mod_perl_1: true, ..flags() };
    perl.check_as(
        first,
        r#"
        is(ref $r, 'Apache', 'class'); ok($r->isa('Apache2::RequestRec'), 'isa');
        my %args = $r->args; is($args{y}, 'a b', 'args in a list'); is(scalar $r->args, 'x=1&y=a+b', 'args');
        my %in = $r->headers_in; is($in{'User-Agent'}, 'test/1', 'headers_in in a list');
        is($r->headers_in->get('User-Agent'), 'test/1', 'headers_in');
        $r->header_out(X => 'y'); my %out = $r->headers_out; is($out{X}, 'y', 'headers_out in a list');
        is(Apache->request->uri, '/a', 'request'); is($r->server->port, 8080, 'server');
        my $text = 'by reference'; $r->print(\$text);
        "#,
        &mut fake,
    );
    assert_eq!(fake.shown(), "by reference");
    let handler = perl.compile("$_[0]->print('a'); eval { $_[0]->exit }; $_[0]->print('b');");
    let mut fake = Fake::get("/");
    assert_eq!(perl.run(handler, first, &mut fake).end, End::Exited(0));
    assert_eq!(fake.shown(), "a");
}

fn constants() {
    let fixture = include_str!("constants.txt");
    let script = format!(
        r#"
        require Apache2::Const; require APR::Const; require ModPerl::Const; require Apache::Constants;
        my $class;
        for (split /\n/, <<'FIXTURE') {{
{fixture}FIXTURE
            if (/^\[(.*)\]/) {{ $class = $1; next }}
            my ($group, @pairs) = split ' ';
            $group =~ s/:$//;
            my %want = map {{ split /=/, $_, 2 }} @pairs;
            eval "package Into::$group; $class->import(':$group'); 1" or ok(0, "$class :$group $@");
            no strict 'refs';
            for (sort keys %want) {{
                is(&{{"${{class}}::$_"}}(), $want{{$_}}, "${{class}}::$_");
                ok(defined &{{"Into::${{group}}::$_"}}, "$_ is in :$group");
            }}
        }}
        dies(sub {{ Apache2::Const->import('NOPE') }}, qr/unknown Apache2::Const:: constant NOPE/, 'unknown');
        dies(sub {{ Apache2::Const->import(-compile => ':nope') }}, qr/unknown .* group `nope'/, 'unknown group');
        {{ package Plain; Apache2::Const->import; }} is(Plain::NOT_FOUND(), 404, 'no name means :common');
        {{ package Nothing; Apache2::Const->import(-compile => ':http'); }}
        ok(!defined &Nothing::HTTP_OK, '-compile imports nothing');
        is(eval('package Old; use Apache::Constants qw(:common :response :methods :options :http REDIRECT);
            join ",", OK, DECLINED, NOT_FOUND, REDIRECT, M_POST, OPT_EXECCGI, HTTP_NOT_FOUND') // $@,
            '0,-1,404,302,2,8,404', 'Apache::Constants');
        "#
    );
    Perl::start().check(&script, &mut Fake::get("/"));
}

fn apr_tables() {
    Perl::start().check(
        r#"
        require APR::Table;
        my $t = APR::Table::make($r->pool, 5);
        $t->set(one => 1); $t->add(Two => 2); $t->add(two => 22); $t->merge(two => 'm');
        is($t->get('ONE'), 1, 'get'); is(join('|', $t->get('two')), '2, m|22', 'merge joins the first');
        my @all; while (my ($k, $v) = each %$t) { push @all, "$k=$v" }
        is("@all", 'one=1 Two=2, m two=22', 'each');
        $t->clear; $t->add(a => 1); $t->add(b => 2); $t->add(A => 3);
        @all = (); while (my ($k, $v) = each %$t) { push @all, "$k=$v" }
        is("@all", 'a=1 b=2 A=3', 'each meets every entry');
        is(join(',', keys %$t), 'a,b,A', 'keys'); is(scalar(() = values %$t), 3, 'values');
        @all = (); $t->do(sub { push @all, "@_"; 1 }); is("@all", 'a 1 b 2 A 3', 'do');
        @all = (); $t->do(sub { push @all, "@_"; 1 }, 'A'); is("@all", 'a 1 A 3', 'do with keys');
        @all = (); $t->do(sub { push @all, "@_"; 0 }); is("@all", 'a 1', 'do stops');
        eval { $t->do(sub { die "in do\n" }) }; is($@, "in do\n", 'die in do');
        my $u = $t->copy; $u->unset('a'); is(scalar $u->get('a'), undef, 'unset'); is(join(',', $t->get('a')), '1,3', 'copy');
        my $o = $t->overlay($u); is(join(',', $o->get('a')), '1,3', 'overlay');
        my $v = APR::Table::make(); $v->add(a => 'v'); is(scalar $t->overlay($v)->get('a'), 'v', 'the other first');
        $o->compress(APR::Table::OVERLAP_TABLES_MERGE); is($o->get('b'), '2, 2', 'compress');
        $t->overlap($u, APR::Table::OVERLAP_TABLES_SET); is(join(',', $t->get('b')), '2', 'overlap');
        $t->{c} = 'd'; is($t->{C}, 'd', 'as a hash'); ok(exists $t->{c}, 'exists'); delete $t->{c};
        ok(!exists $t->{c}, 'delete'); ok(scalar(%$t) ? 1 : 0, 'scalar'); %$t = (); ok(!%$t, 'empty');
        is(scalar $t->get('none'), undef, 'nothing'); my @none = $t->get('none'); is(scalar @none, 0, 'an empty list');
        tie my %tied, 'APR::Table', $t; $tied{x} = 1; is($t->get('X'), 1, 'tie');
        eval { $t->get }; like($@, qr/usage/, 'usage');
        $t->set(bytes => "a\0b\xff"); is($t->get('bytes'), "a\0b\xff", 'bytes');
        require Apache::Table;
        my $old = Apache::Table->new($r, 3); $old->add(k => 'v'); is($old->get('K'), 'v', 'Apache::Table');
        "#,
        &mut Fake::get("/"),
    );
}

/// What mod_perl gives for the same lines.
fn values_of_a_table_are_those_of_their_entries() {
    Perl::start().check(
        r#"
        my $t = APR::Table::make($r->pool, 3); $t->add(k => $_) for 1 .. 3; $t->add(b => 9);
        is(join(' ', values %$t), '1 2 3 9', 'values'); my @all = %$t;
        is("@all", 'k 1 k 2 k 3 b 9', 'a list'); my %h = %$t; is("$h{k} $h{b}", '3 9', 'a hash');
        @all = (); push @all, $_ for values %$t; is("@all", '1 2 3 9', 'a loop');
        @all = (); while (my ($k, $v) = each %$t) { push @all, "$k=$v", $t->{$k} }
        is("@all", 'k=1 1 k=2 2 k=3 3 b=9 9', 'each'); is($t->{k}, 1, 'the first, outside of it');
        my @kept = map { \$_ } values %$t; $_ .= 'x' for values %$t;
        is(join(' ', values %$t), '3x 9x', 'values can be set'); is(${$kept[1]}, 2, 'kept');
        keys %$t; my ($k) = each %$t; $t->{k} = 5;
        is($t->{k}, 5, 'set while an iteration stands there');
        for my $v (values %$t) { $v = 7; is("$v $t->{k}", '7 7', 'set'); last }
        $r->headers_out->add('X-A' => $_) for 1, 2;
        is(join(' ', values %{$r->headers_out}), '1 2', 'of the request');
        "#,
        &mut Fake::get("/"),
    );
}

fn apr_pools() {
    Perl::start().check(
        r#"
        require APR::Pool; my @done;
        my $pool = APR::Pool->new; my $child = $pool->new;
        $pool->cleanup_register(sub { push @done, $_[0] }, 'one'); $pool->cleanup_register(sub { push @done, 'two' });
        is($child->parent_get, $pool, 'parent_get'); is($pool->is_ancestor($child), 1, 'is_ancestor');
        $pool->destroy; is("@done", 'two one', 'cleanups, last first');
        { my $short = APR::Pool->new; $short->cleanup_register(sub { push @done, 'gone' }) } is($done[-1], 'gone', 'scope');
        "#,
        &mut Fake::get("/"),
    );
}

fn apr_modules() {
    Perl::start().check(
        r#"
        require APR::Date; require APR::URI; require APR::Util; require APR::Error; require APR::String;
        require APR::UUID; require APR::Base64; require APR::Finfo; require Apache::Util;
        is(APR::Date::parse_http($_), 784111777, $_) for 'Sun, 06 Nov 1994 08:49:37 GMT',
            'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994';
        is(APR::Date::parse_http('x'), 0, 'no date');
        is(APR::Date::parse_rfc('Sun, 06 Nov 1994 10:49:37 +0200'), 784111777, 'parse_rfc');
        my $u = APR::URI->parse($r->pool, 'https://u:p@h.org:8443/a/b?q=1#f');
        is($u->scheme, 'https', 'scheme'); is($u->user, 'u', 'user'); is($u->password, 'p', 'password');
        is($u->hostname, 'h.org', 'hostname'); is($u->port, 8443, 'port'); is($u->path, '/a/b', 'path');
        is($u->query, 'q=1', 'query'); is($u->fragment, 'f', 'fragment'); is($u->hostinfo, 'u:p@h.org:8443', 'info');
        is($u->unparse, 'https://u@h.org:8443/a/b?q=1#f', 'unparse omits the password');
        is($u->unparse(2), 'https://:XXXXXXXX@h.org:8443/a/b?q=1#f', 'or hides it');
        $u->port(443); is($u->unparse(2 | 4), 'https://h.org/a/b?q=1#f', 'the usual port');
        is(APR::URI->parse($r->pool, 'http://h/')->port, undef, 'no port');
        is(APR::URI->parse($r->pool, 'http://[::1]:80/')->hostname, '::1', 'an IPv6 address');
        is(APR::URI::port_of_scheme('ftp'), 21, 'port_of_scheme');
        is(APR::Util::password_validate('secret', '$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/'), 1, 'apr1');
        is(APR::Util::password_validate('password', '{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g='), 1, 'SHA');
        is(APR::Util::password_validate('x', '{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g='), 0, 'SHA of another');
        my $e = APR::Error->new(rc => 2, func => 'f'); ok($e == 2, 'error'); like("$e", qr/f: \(2\) No such file/, 'text');
        is(APR::Error::strerror(70014), 'End of file found', 'strerror');
        is(APR::String::format_size(5), '  5 ', 'format_size'); is(APR::String::format_size(1536), '1.5K', 'K');
        like(APR::UUID->new->format, qr/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'UUID');
        is(APR::Base64::decode(APR::Base64::encode('hi')), 'hi', 'base64');
        is(Apache::Util::escape_html('<a&"b">'), '&lt;a&amp;&quot;b&quot;&gt;', 'escape_html');
        is(Apache::Util::parsedate('Sun, 06 Nov 1994 08:49:37 GMT'), 784111777, 'parsedate');
        is(Apache::Util::ht_time(784111777), 'Sun, 06 Nov 1994 08:49:37 GMT', 'ht_time');
        is(Apache::Util::unescape_uri('a%20b'), 'a b', 'unescape_uri'); is(Apache::Util::size_string(2048), '2.0K', 'size');
        "#,
        &mut Fake::get("/"),
    );
}

/// All files of the library load in one interpreter, from the program and not from Debian's mod_perl.
fn every_module_loads() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../perl/lib");
    let script = format!(
        r#"
        require File::Find; my @files;
        File::Find::find(sub {{ push @files, $File::Find::name =~ s{{^\Q{root}\E/}}{{}}r if /\.pm$/ }}, '{root}');
        ok(@files > 60, 'there are files');
        local $SIG{{__WARN__}} = sub {{ ok(0, "warning: $_[0]") }};
        for my $file (sort @files) {{
            next if $file eq 'Drom/Zygote.pm';
            my $loaded = eval {{ local $^W = 1; require $file; 1 }};
            ok($loaded || $@ =~ /not supported/, "$file: $@");
            is($INC{{$file}}, "drom/$file", "$file comes from the program") if $loaded;
        }}
        "#
    );
    Perl::start().check(&script, &mut Fake::get("/"));
}

fn subclass_of_the_request() {
    Perl::start().check(
        r#"
        { package My::Request; our @ISA = ('Apache2::RequestRec'); sub new { bless { r => $_[1] }, $_[0] } }
        my $mine = My::Request->new($r);
        is($mine->uri, '/x', 'a field'); is($mine->allowed(3), 0, 'a kept value'); is($mine->allowed, 3, 'kept');
        $mine->content_type('a/b'); is($r->content_type, 'a/b', 'the same request');
        "#,
        &mut Fake::get("/x"),
    );
}

fn cgi_reads_a_query() {
    let mut fake = Fake::get("/app/script?a=1&b=x%20y&a=2");
    let end = Perl::start().script(
        "use CGI; my $q = CGI->new; print $q->header('text/plain'),
            join ',', scalar $q->param('b'), $q->multi_param('a'), $q->request_method;",
        &mut fake,
    );
    assert_eq!(end, End::Returned(1));
    assert_eq!(fake.shown(), "x y,1,2,GET");
    assert_eq!(fake.text_of(Text::ContentType), "text/plain; charset=ISO-8859-1");
    assert!(fake.commands.iter().any(|(c, _)| *c == Command::SendHead));
}

fn cgi_reads_a_form() {
    let mut perl = Perl::start();
    let script = "use CGI; my $q = CGI->new; print $q->redirect('http://example.com/'),
                  join ',', map { scalar $q->param($_) } qw(a b c);";
    for _ in 0..2 {
        let body = b"a=1&b=x+y&c=%C3%A9";
        let mut fake = Fake::post("/app", "application/x-www-form-urlencoded", body);
        assert_eq!(perl.script(script, &mut fake), End::Returned(1));
        assert_eq!(fake.output, "1,x y,\u{e9}".as_bytes());
        assert_eq!(fake.out("Location").as_deref(), Some("http://example.com/"));
        assert_eq!(fake.number_of(Number::Status), 302);
    }
}

fn cgi_takes_an_upload() {
    let content = "line one\nline two\0\u{ff}".repeat(500);
    let body = format!(
        "--XX\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\ntext\r\n--XX\r\nContent-Disposition: \
         form-data; name=\"f\"; filename=\"a.bin\"\r\nContent-Type: text/x\r\n\r\n{content}\r\n--XX--\r\n"
    );
    let mut fake = Fake::post("/up", "multipart/form-data; boundary=XX", body.as_bytes());
    let script =
        "use CGI; my $q = CGI->new; my $f = $q->upload('f'); my $all = do { local $/; <$f> };
        print $q->header, join '|', scalar $q->param('t'), scalar $q->param('f'), length $all,
        $q->uploadInfo($f)->{'Content-Type'};";
    assert_eq!(Perl::start().script(script, &mut fake), End::Returned(1));
    assert_eq!(fake.shown(), format!("text|a.bin|{}|text/x", content.len()));
}

fn cgi_sets_cookies_and_status() {
    let mut fake = Fake::get("/");
    fake.header("Cookie", "seen=yes");
    let script = "use CGI; my $q = CGI->new; print $q->header(-status => '404 Gone',
        -cookie => [$q->cookie(a => 1), $q->cookie(b => 2)]), $q->cookie('seen');";
    assert_eq!(Perl::start().script(script, &mut fake), End::Returned(1));
    assert_eq!(fake.shown(), "yes");
    assert_eq!(fake.number_of(Number::Status), 404);
    let cookies = fake.table_of(TableKind::ErrHeadersOut);
    let values: Vec<&str> = cookies.iter().map(|(_, v)| v.as_str()).collect();
    assert_eq!(values, ["a=1; path=/", "b=2; path=/"]);
}

fn cgi_carp_shows_the_error() {
    let mut perl = Perl::start();
    let mut fake = Fake::get("/");
    let end = perl.script("use CGI::Carp 'fatalsToBrowser'; die 'broken here';", &mut fake);
    assert!(matches!(end, End::Died(_) | End::Exited(_)), "{end:?}");
    let custom = fake.commands.iter().find(|(c, _)| *c == Command::CustomResponse);
    let page = custom.map(|(_, text)| text.as_str()).unwrap_or_default();
    assert!(page.starts_with("500 ") && page.contains("broken here"), "{page}");
    let mut late = Fake::get("/");
    perl.script(
        "use CGI::Carp 'fatalsToBrowser'; $_[0]->print('some'); die 'broken late';",
        &mut late,
    );
    assert!(late.shown().starts_with("some") && late.shown().contains("broken late"));
}

fn stale_requests_die() {
    let mut perl = Perl::start();
    perl.check(
        "our $kept = $r; our $c = $r->connection; our $t = $r->headers_in;",
        &mut Fake::get("/one"),
    );
    perl.check(
        r#"
        dies(sub { $main::kept->uri }, qr/request is over/, 'a field');
        dies(sub { $main::kept->print('x') }, qr/request is over/, 'print');
        dies(sub { $main::kept->notes }, qr/request is over/, 'a table');
        dies(sub { $main::kept->allowed }, qr/request is over/, 'a kept value');
        dies(sub { $main::c->client_ip }, qr/request is over/, 'a connection');
        is(scalar $main::t->get('User-Agent'), undef, 'a table is empty');
        is($r->uri, '/two', 'the new one lives');
        "#,
        &mut Fake::get("/two"),
    );
    let handler = perl.compile("Apache2::RequestUtil->request; 1");
    let none = RunFlags { global_request: false, ..flags() };
    match perl.run(handler, none, &mut Fake::get("/")).end {
        End::Died(why) => assert!(text(&why).contains("GlobalRequest"), "{}", text(&why)),
        other => panic!("{other:?}"),
    }
}

fn exit_passes_every_eval() {
    let mut perl = Perl::start();
    for leave in ["exit", "exit 3", "CORE::exit(3)", "ModPerl::Util::exit(3)"] {
        let mut fake = Fake::get("/");
        let script = format!("print 'a'; eval {{ eval {{ {leave} }}; print 'b' }}; print 'c';");
        let status = if leave == "exit" { 0 } else { 3 };
        assert_eq!(perl.script(&script, &mut fake), End::Exited(status), "{leave}");
        assert_eq!(fake.shown(), "a");
    }
    let mut fake = Fake::get("/");
    let sorted = "my @x = sort { print 's'; exit } 1, 2; print 'never'";
    assert_eq!(perl.script(sorted, &mut fake), End::Exited(0));
    let held = "package Held { sub new { bless [] } sub DESTROY { main::seen() } }
        sub main::seen { print 'destroyed' } my $held = Held->new; exit";
    let mut fake = Fake::get("/");
    assert_eq!(perl.script(held, &mut fake), End::Exited(0));
    assert_eq!(fake.shown(), "destroyed");
    perl.check("is(1, 1, 'the interpreter lives');", &mut Fake::get("/"));
}

fn deaths_have_text() {
    let mut perl = Perl::start();
    let died = |perl: &mut Perl, script: &str| match perl.script(script, &mut Fake::get("/")) {
        End::Died(why) => text(&why),
        other => panic!("{script}: {other:?}"),
    };
    assert_eq!(died(&mut perl, "die 'plain'"), "plain at snippet line 1.\n");
    assert_eq!(died(&mut perl, "die \"line\\n\""), "line\n");
    assert!(died(&mut perl, "die { code => 5 }").starts_with("HASH(0x"));
    let shown = "package E1 { use overload '\"\"' => sub { 'shown' } } die bless {}, 'E1'";
    assert_eq!(died(&mut perl, shown), "shown");
    let falsy = "package E2 { use overload 'bool' => sub { 0 }, '\"\"' => sub { 'false' } } die bless {}, 'E2'";
    assert_eq!(died(&mut perl, falsy), "false");
    let rude = "package E3 { use overload '\"\"' => sub { die 'no' } } die bless {}, 'E3'";
    assert!(died(&mut perl, rude).contains("class E3"));
    assert!(died(&mut perl, "my $x = undef; $x->method").contains("undefined value"));
    assert!(
        died(&mut perl, "local $SIG{__DIE__} = sub { die \"wrapped: $_[0]\" }; die 'x'")
            .contains("wrapped: x")
    );
    let leaves = "package E4 { use overload '\"\"' => sub { exit 4 } } die bless {}, 'E4'";
    assert_eq!(perl.script(leaves, &mut Fake::get("/")), End::Exited(4));
    perl.check("is(1, 1, 'the interpreter lives');", &mut Fake::get("/"));
}

fn layers_end_with_the_request() {
    let mut perl = Perl::start();
    let mut fake = Fake::get("/");
    perl.script("binmode STDOUT, ':utf8'; print chr 0xe9, chr 0x263a;", &mut fake);
    assert_eq!(fake.output, "\u{e9}\u{263a}".as_bytes());
    let mut fake = Fake::get("/");
    perl.script("binmode STDOUT, ':encoding(UTF-8)'; print chr 0xe9;", &mut fake);
    assert_eq!(fake.output, "\u{e9}".as_bytes());
    let mut fake = Fake::get("/");
    perl.script("print chr 0xe9;", &mut fake);
    assert_eq!(fake.output, [0xe9]);
    let mut fake = Fake::get("/");
    perl.script("binmode STDOUT, ':crlf'; print qq(a\\n);", &mut fake);
    assert_eq!(fake.shown(), "a\r\n");
    let mut fake = Fake::get("/");
    perl.script("print qq(a\\n); printf '%s', 'b'; syswrite STDOUT, 'c';", &mut fake);
    assert!(fake.shown().starts_with("a\nb"));
}

fn reopened_stdout_ends_with_the_request() {
    let mut perl = Perl::start();
    let name = format!("/tmp/drom-api-{}", std::process::id());
    let mut fake = Fake::get("/");
    let script = format!("print 'a'; open STDOUT, '>', '{name}' or die $!; print 'to the file';");
    assert_eq!(perl.script(&script, &mut fake), End::Returned(1));
    assert_eq!(fake.shown(), "a");
    assert_eq!(std::fs::read_to_string(&name).expect("the script made it"), "to the file");
    std::fs::remove_file(&name).expect("it is there");
    for script in [
        "close STDOUT",
        "my $t = ''; close STDOUT; open STDOUT, '>', \\$t; print 'memory'",
        "local *STDOUT; open STDOUT, '>', '/dev/null'; print 'local'",
        "select STDERR",
        "close STDIN",
    ] {
        perl.script(script, &mut Fake::get("/"));
        let mut fake = Fake::get("/");
        perl.script("print 'works'; print scalar(defined <STDIN>) ? 'data' : 'end';", &mut fake);
        assert_eq!(fake.shown(), "worksend", "after {script}");
    }
}

fn standard_input() {
    let mut perl = Perl::start();
    let body = "one\ntwo\nthree".to_owned() + &"x".repeat(3000);
    let mut fake = Fake::post("/", "text/plain", body.as_bytes());
    perl.check(
        "is(scalar(<STDIN>), qq(one\\n), 'a line'); read STDIN, my $b, 2; is($b, 'tw', 'read');
         is(getc STDIN, 'o', 'getc'); ok(!eof STDIN, 'not the end'); is(scalar(<STDIN>), qq(\\n), 'rest');
         my $rest = do { local $/; <STDIN> }; is(length $rest, 3005, 'slurp'); ok(eof STDIN, 'the end');",
        &mut fake,
    );
    let mut fake = Fake::post("/", "text/plain", b"left over");
    perl.script("read STDIN, my $x, 2;", &mut fake);
    let mut fake = Fake::post("/", "text/plain", b"new");
    perl.script("print <STDIN>", &mut fake);
    assert_eq!(fake.shown(), "new");
}

fn output_is_sent_when_asked() {
    let mut perl = Perl::start();
    let mut fake = Fake::get("/");
    perl.script("print 'a'; print 'b';", &mut fake);
    assert!(fake.flushes.is_empty(), "a script's end is no flush");
    let mut fake = Fake::get("/");
    perl.script("$| = 1; print 'a'; print 'bc'; $_[0]->print('d');", &mut fake);
    assert_eq!(fake.flushes.last(), Some(&4));
    assert!(fake.flushes.contains(&1) && fake.flushes.contains(&3));
    let mut fake = Fake::get("/");
    perl.script("print 'a'; STDOUT->flush;", &mut fake);
    assert_eq!(fake.flushes, [1]);
    let mut fake = Fake::get("/");
    perl.script("print 'a';", &mut fake);
    assert!(fake.flushes.is_empty(), "$| ended with its request");
    let mut broken = Fake::get("/");
    broken.print_errno = Some(libc::EPIPE);
    perl.check(
        "ok(!print('x'), 'print fails'); dies(sub { $r->print('x') }, qr/print/, 'r');",
        &mut broken,
    );
}

fn tied_handles() {
    let mut fake = Fake::post("/", "text/plain", b"l1\nl2\nrest");
    Perl::start().check(
        r#"
        tie *OUT, $r; print OUT 'a', 'b'; printf OUT '%d', 5; { local ($,, $\) = ('-', '!'); print OUT 1, 2 }
        tie *IN, $r; is(scalar <IN>, "l1\n", 'a line'); is(getc IN, 'l', 'getc'); ok(!eof IN, 'not the end');
        my @rest = <IN>; is("@rest", "2\n rest", 'lines'); ok(eof IN, 'the end'); untie *IN; untie *OUT;
        "#,
        &mut fake,
    );
    assert_eq!(fake.shown(), "ab51-2!");
}

fn environment_is_the_requests_own() {
    let mut perl = Perl::start();
    perl.check(
        "is($ENV{SERVER_NAME}, 'www.example.org', 'filled'); $ENV{LEAK} = 1; delete $ENV{PATH};",
        &mut Fake::get("/"),
    );
    perl.check(
        "is($ENV{LEAK}, undef, 'own'); ok($ENV{PATH}, 'new');
         is($ENV{MOD_PERL}, 'mod_perl/2.0.12', 'MOD_PERL'); is($ENV{MOD_PERL_API_VERSION}, 2, 'its API');",
        &mut Fake::get("/"),
    );
    perl.check_as(
        RunFlags { mod_perl_1: true, ..flags() },
        "is($ENV{MOD_PERL}, 'mod_perl/1.27', 'MOD_PERL'); ok(!$ENV{MOD_PERL_API_VERSION}, 'no API of 2');",
        &mut Fake::get("/"),
    );
    let bare = RunFlags { setup_env: false, ..flags() };
    perl.check_as(
        bare,
        "is($ENV{SERVER_NAME}, undef, 'empty'); $r->subprocess_env;
         is($ENV{SERVER_NAME}, 'www.example.org', 'asked for'); is(`echo \\$SERVER_NAME`, qq(www.example.org\\n), 'c');",
        &mut Fake::get("/"),
    );
    perl.check_as(bare, "is($ENV{SERVER_NAME}, undef, 'gone again');", &mut Fake::get("/"));
}

fn special_variables_end_with_the_request() {
    let mut perl = Perl::start();
    perl.script(r#"$/ = undef; $, = '-'; $\ = '!'; print 1, 2;"#, &mut Fake::get("/"));
    perl.check(
        r#"is($/, "\n", 'the line separator'); is($,, undef, 'the list separator'); is($\, undef, 'the end');"#,
        &mut Fake::get("/"),
    );
}

fn child_processes() {
    let mut perl = Perl::start();
    let mut fake = Fake::get("/");
    perl.check(
        r#"
        print 'a'; system('echo system $SERVER_NAME'); print 'b';
        is(`echo back \$SERVER_PORT`, "back 8080\n", 'backticks');
        open my $p, 'echo pipe |' or die; is(scalar <$p>, "pipe\n", 'a pipe'); close $p;
        my $pid = fork // die; exit 7 unless $pid; waitpid $pid, 0; is($? >> 8, 7, 'a child exits');
        $pid = fork // die; unless ($pid) {
            $| = 1; print 'child'; $r->print('x'); $r->rflush; system 'echo y'; exit 5
        }
        waitpid $pid, 0; is($? >> 8, 5, 'a child prints'); print 'c';
        $pid = fork // die; die 'in the child' unless $pid; waitpid $pid, 0; is($? >> 8, 255, 'a child dies');
        system('sh', '-c', 'exit 3'); is($? >> 8, 3, 'a status');
        "#,
        &mut fake,
    );
    assert_eq!(fake.shown(), "asystem www.example.org\nbchildxy\nc");
}

fn children_print_into_the_answer() {
    let mut perl = Perl::start();
    let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = open();
    let mut fake = Fake::post("/", "text/plain", b"body");
    perl.check(
        r#"
        print 'a'; my $pid = open(my $k, '-|') // die;
        unless ($pid) { print 'pipe'; $r->print('d'); exit 2 }
        is(scalar <$k>, 'piped', 'what the child printed'); close $k; is($? >> 8, 2, 'its status');
        $pid = open($k, '|-') // die; unless ($pid) { print '[', <STDIN>, ']'; exit }
        print $k 'to the child'; close $k; print '(closed)';
        is(scalar <STDIN>, 'body', 'STDIN of the parent');
        for my $n (1 .. 3) {
            $pid = fork // die; next if $pid; print "<$n>";
            fork || do { print '<in>'; exit }; wait; exit;
        }
        1 while wait > 0; print 'b';
        $pid = open $k, '-|', 'echo', 'list'; is(<$k>, "list\n", 'a list'); close $k;
        $pid = fork // die; unless ($pid) { print 'x' x 300_000; die 'dead' }
        waitpid $pid, 0; print 'c';
        "#,
        &mut fake,
    );
    let shown = fake.shown();
    let (start, end) = shown.split_once("b").unwrap_or_default();
    for piece in ["a", "[to the child](closed)", "<1>", "<2>", "<3>", "<in><"] {
        assert!(start.contains(piece), "{piece} in {start}");
    }
    assert_eq!(start.matches("<in>").count(), 3);
    assert_eq!(end, format!("{}c", "x".repeat(300_000)));
    let late = "$SIG{CHLD} = 'IGNORE'; pipe my $in, my $out or die; our $pid = fork // die;
        if (!$pid) { close $out; my $wait = <$in>; exit(print('late') ? 1 : 2) } close $in;
        our $keep = $out; print 'early';";
    let mut fake = Fake::get("/");
    perl.script(late, &mut fake);
    assert_eq!(fake.shown(), "early");
    let mut fake = Fake::get("/");
    perl.script(
        "close our $keep; waitpid our $pid, 0; $SIG{CHLD} = 'DEFAULT'; print 'next'",
        &mut fake,
    );
    assert_eq!(fake.shown(), "next", "who prints after the answer prints to nobody");
    assert_eq!(open(), before);
}

/// Everything that the shim takes from the system, asked for once.
const GREEDY: &str = "print 'a'; system('echo b'); print `echo c`; \
    open my $p, 'echo d |' or die \"no pipe\\n\"; print <$p>; close $p; return 0;";

/// Compiles and runs a script in a folder; its answer, or what it died of.
fn in_a_folder(perl: &Perl, id: u64) -> Result<String, String> {
    let text = format!("package Greedy{id}; sub handler {{ {GREEDY} }} 1;");
    let (package, directory) = (format!("Greedy{id}"), Some(c"/"));
    let source =
        drom_perl::Source { package: &package, text: text.as_bytes(), directory, quiet: true };
    let handler = perl.interpreter.compile(&source).map_err(|e| crate::perl::text(&e))?;
    let mut fake = Fake::get("/");
    let call = drom_perl::Call { handler, id, flags: flags(), directory, program: None };
    let end = perl.interpreter.run(&call, &mut fake).end;
    perl.interpreter.release(handler);
    match end {
        End::Returned(_) => Ok(fake.shown()),
        End::Died(why) => Err(crate::perl::text(&why)),
        other => panic!("{other:?}"),
    }
}

fn what_is_refused_is_an_error_and_nothing_is_lost() {
    let perl = Perl::start();
    let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let folder = std::env::current_dir().unwrap();
    perl.interpreter.refuse(0);
    assert_eq!(in_a_folder(&perl, 1000), Ok("ab\nc\nd\n".to_owned()));
    let (calls, before) = (perl.interpreter.refuse(0), open());
    assert!(calls > 5, "{calls} calls");
    for call in 1..=calls {
        perl.interpreter.refuse(call);
        let id = 1000 + 2 * call as u64;
        let why = in_a_folder(&perl, id).expect_err("the script was refused something");
        let known = ["current folder", "what a child prints", "%ENV on to a child"];
        assert!(known.iter().any(|words| why.contains(words)), "call {call}: {why}");
        perl.interpreter.refuse(0);
        assert_eq!(in_a_folder(&perl, id + 1), Ok("ab\nc\nd\n".to_owned()), "after {call}");
        assert_eq!((open(), std::env::current_dir().unwrap()), (before, folder.clone()));
    }
}

/// What the running request must die of, for the handler of SIGVTALRM.
static STOP: std::sync::OnceLock<unsafe extern "C" fn()> = std::sync::OnceLock::new();

extern "C" fn on_alarm(_signal: i32) {
    if let Some(stop) = STOP.get() {
        // SAFETY: the shim says that it may be called from signal handlers.
        unsafe { stop() }
    }
}

fn requests_can_be_interrupted() {
    let mut perl = Perl::start();
    STOP.get_or_init(|| perl.interpreter.signal_functions().0);
    let soon = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: 20_000 },
    };
    // SAFETY: the handler touches nothing but the shim's flag.
    unsafe {
        libc::signal(libc::SIGVTALRM, on_alarm as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_VIRTUAL, &raw const soon, std::ptr::null_mut());
    }
    match perl.script("sub spin { 1 while 1 } spin()", &mut Fake::get("/")) {
        End::TimedOut(why) => assert!(text(&why).contains("spin"), "{}", text(&why)),
        other => panic!("{other:?}"),
    }
    perl.check("is(1, 1, 'the interpreter lives');", &mut Fake::get("/"));
}

fn end_blocks_of_a_script() {
    let mut perl = Perl::start();
    let text = "package Ends; sub handler { print 'run'; END { print 'end' } \
        { package Other; END { print 'other' } } exit if $_[0]->args }";
    let source =
        drom_perl::Source { package: "Ends", text: text.as_bytes(), directory: None, quiet: false };
    let handler = perl.interpreter.compile(&source).expect("compiles");
    for target in ["/", "/?x", "/"] {
        let mut fake = Fake::get(target);
        perl.run(handler, flags(), &mut fake);
        assert_eq!(fake.shown(), "runend", "{target}");
    }
    let source = drom_perl::Source {
        package: "Bad",
        text: b"package Bad; BEGIN { exit 2 }",
        directory: None,
        quiet: false,
    };
    assert!(perl.interpreter.compile(&source).is_err());
}

fn handlers_and_methods() {
    let mut perl = Perl::start();
    perl.check(
        r#"
        { package One; sub handler { $_[0]->print('one'); 0 } }
        { package Base; sub handler : method { $_[1]->print("method of $_[0]"); 404 } sub other { $_[1]->print("$_[0] other"); 0 } }
        { package Child; our @ISA = ('Base'); }
        { package Old; sub handler ($$) { $_[1]->print("old $_[0]"); 0 } }
        sub Free::sub { $_[0]->print('free'); -1 }
        $INC{'Child.pm'} = $INC{'Free.pm'} = 1;
        "#,
        &mut Fake::get("/"),
    );
    for (name, shown, status) in [
        ("One", "one", 0),
        ("Base", "method of Base", 404),
        ("Child", "method of Child", 404),
        ("Child->other", "Child other", 0),
        ("Old", "old Old", 0),
        ("Free::sub", "free", -1),
        ("sub { $_[0]->print('anonymous'); 0 }", "anonymous", 0),
    ] {
        let drom_perl::Resolved { handler, method, .. } =
            perl.interpreter.resolve(name).unwrap_or_else(|e| panic!("{name}: {}", text(&e)));
        let mut fake = Fake::get("/");
        let outcome = perl.run(handler, RunFlags { method, ..flags() }, &mut fake);
        assert_eq!(
            (outcome.end, fake.shown()),
            (End::Returned(status), shown.to_owned()),
            "{name}"
        );
    }
    let missing = perl.interpreter.resolve("No::Such").expect_err("there is none");
    assert!(text(&missing).contains("No/Such.pm"), "{}", text(&missing));
}

fn registries_in_perl() {
    let mut perl = Perl::start();
    let name = format!("/tmp/drom-registry-{}.pl", std::process::id());
    std::fs::write(&name, "#!/usr/bin/perl -w\nour $n++; print \"run $n\"; $_[0]->status(201) if $_[0]->args;\n__END__\nx")
        .expect("/tmp is writable");
    perl.check(
        r#"
        require ModPerl::Registry; require ModPerl::PerlRun; require ModPerl::RegistryBB; require Apache::Registry;
        require ModPerl::RegistryPrefork; require ModPerl::PerlRunPrefork; require Apache::PerlRun;
        { package My::Registry; our @ISA = ('ModPerl::RegistryCooker'); sub should_compile { $_[0]->should_compile_once }
          sub chdir_file { my $self = shift; $self->chdir_file_normal(@_) } }
        "#,
        &mut Fake::get("/"),
    );
    for (class, second, package) in [
        ("ModPerl::Registry", "run 2", "ModPerl::ROOT::ModPerl::Registry::tmp_drom_2dregistry"),
        ("ModPerl::RegistryBB", "run 2", "ModPerl::ROOT::ModPerl::RegistryBB::tmp_drom"),
        ("My::Registry", "run 2", "ModPerl::ROOT::My::Registry::tmp_drom"),
        ("ModPerl::PerlRun", "run 1", "ModPerl::ROOT::ModPerl::PerlRun::tmp_drom"),
        ("Apache::Registry", "run 2", "Apache::ROOT::reg"),
    ] {
        let drom_perl::Resolved { handler, method, .. } =
            perl.interpreter.resolve(class).unwrap_or_else(|e| panic!("{}", text(&e)));
        for (want, target, status) in [("run 1", "/reg", 0), (second, "/reg?x", 201)] {
            let mut fake = Fake::get(target);
            fake.set(Text::Filename, &name);
            fake.set(Text::PathInfo, "");
            let outcome = perl.run(handler, RunFlags { method, ..flags() }, &mut fake);
            assert_eq!(
                (outcome.end, fake.shown()),
                (End::Returned(status), want.to_owned()),
                "{class}"
            );
        }
        perl.check(
            &format!("my $o = {class}->new($r); $o->{{FILENAME}} = '{name}'; like($o->make_namespace, qr/^{package}/, 'p');"),
            &mut Fake::get("/reg"),
        );
    }
    std::fs::write(&name, "my $x = ;").expect("/tmp is writable");
    let drom_perl::Resolved { handler, method, .. } =
        perl.interpreter.resolve("ModPerl::PerlRun").expect("it is loaded");
    let mut fake = Fake::get("/");
    fake.set(Text::Filename, &name);
    assert_eq!(
        perl.run(handler, RunFlags { method, ..flags() }, &mut fake).end,
        End::Returned(500)
    );
    assert!(
        fake.logged[0].1.contains("syntax error") && fake.logged[0].1.contains(&name),
        "{:?}",
        fake.logged
    );
    fake.set(Text::Filename, "/nowhere.pl");
    assert_eq!(
        perl.run(handler, RunFlags { method, ..flags() }, &mut fake).end,
        End::Returned(404)
    );
    fake.set(Text::Filename, "/etc");
    assert_eq!(perl.run(handler, RunFlags { method, ..flags() }, &mut fake).end, End::Returned(-1));
    fake.set(Text::Filename, &name);
    fake.set(Text::AllowOptions, "1");
    assert_eq!(
        perl.run(handler, RunFlags { method, ..flags() }, &mut fake).end,
        End::Returned(403)
    );
    std::fs::remove_file(&name).expect("it is there");
}

fn registry_loader_asks_for_compiles() {
    let mut perl = Perl::start();
    perl.check(
        r#"
        require ModPerl::RegistryLoader; require Apache::RegistryLoader;
        my $l = ModPerl::RegistryLoader->new(package => 'ModPerl::RegistryBB', trans => sub { "/etc$_[0]" });
        is($l->handler('/passwd'), 0, 'handler'); is($l->handler('/none'), 404, 'no file');
        is(Apache::RegistryLoader->new->handler('/x', '/etc/hostname'), 0, 'the first generation');
        "#,
        &mut Fake::get("/"),
    );
    let asked: Vec<String> = perl.interpreter.take_preloads().iter().map(|e| text(e)).collect();
    assert_eq!(
        asked,
        ["ModPerl::RegistryBB\0/etc/passwd\0/passwd", "Apache::Registry\0/etc/hostname\0/x"]
    );
}
