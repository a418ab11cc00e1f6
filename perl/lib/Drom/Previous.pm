package Drom::Previous;
# The request before an internal redirect, as $r->prev gives it: facts that can be read, and nothing that
# could still change an answer.
use strict;
use warnings;

use APR::Table ();

our $VERSION = '2.000012';

sub new {
    my ($class, $r, $facts) = @_;
    my %self = (r => $r, notes => APR::Table::make(), subprocess_env => APR::Table::make());
    for my $pair (APR::Table::pairs($facts)) {
        my ($kind, $name) = split /:/, $pair->[0], 2;
        if (defined $name) { $self{$kind}->add($name, $pair->[1]) }
        else { $self{$kind} = $pair->[1] }
    }
    return bless \%self, $class;
}

for my $fact (qw(uri args method status filename path_info unparsed_uri)) {
    no strict 'refs';
    *$fact = sub { return $_[0]{$fact} };
}

# Both requests share these: they belong to the client, or to the server.
for my $shared (qw(connection server pool headers_in header_in err_headers_out the_request protocol proto_num
    hostname request_time user ap_auth_type document_root get_server_name get_server_port log_error log)) {
    no strict 'refs';
    *$shared = sub { my $self = shift; return $self->{r}->$shared(@_) };
}

for my $table (qw(notes subprocess_env)) {
    no strict 'refs';
    *$table = sub {
        my ($self, $key) = @_;
        return defined $key ? scalar $self->{$table}->get($key) : $self->{$table};
    };
}

sub next { return $_[0]{r} }
sub prev { return undef }
sub main { return undef }
sub is_initial_req { return 1 }

1;

=head1 NAME

Drom::Previous - the request that an internal redirect led away from

=head1 SYNOPSIS

    # the handler of an ErrorDocument
    sub My::Error::handler {
        my $r = shift;
        my $before = $r->prev or return 404;
        $r->print('no ', $before->uri, ': ', $before->notes->get('error-notes') // '');
        return 0;
    }

=head1 DESCRIPTION

C<< $r->prev >> gives one of these. Own facts: C<uri args method status filename path_info unparsed_uri notes
subprocess_env>. What both requests share is asked of the current one: C<headers_in header_in err_headers_out
connection server pool the_request protocol hostname user> and the like. It is the last request only: its own
C<prev> is undef, also after several redirects.

=cut
