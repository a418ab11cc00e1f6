package Apache2::Log;
# Lines for the error log, by level.
use strict;
use warnings;

use Drom::Request ();

our $VERSION = '2.000012';

my %LEVEL = (emerg => 0, alert => 1, crit => 2, error => 3, warn => 4, notice => 5, info => 6, debug => 7);
$LEVEL{"trace$_"} = 7 for 1 .. 8;

# A code reference is called only to make the text.
sub text_of {
    return ref $_[0] eq 'CODE' ? join '', $_[0]->() : join '', map { $_ // '' } @_;
}

for my $name (keys %LEVEL) {
    my $level = $LEVEL{$name};
    no strict 'refs';
    *$name = sub { shift; Drom::Request::log(undef, $level, text_of(@_)); return };
}

sub LOG_MARK {
    my (undef, $file, $line) = caller;
    return ($file, $line);
}

package Apache2::Log::Request;
our @ISA = ('Apache2::Log');

package Apache2::Log::Server;
our @ISA = ('Apache2::Log');

package Apache2::RequestRec;

sub log { return bless {}, 'Apache2::Log::Request' }
sub log_error { shift; Drom::Request::log(undef, 3, Apache2::Log::text_of(@_)); return }
sub warn { shift; Drom::Request::log(undef, 4, Apache2::Log::text_of(@_)); return }

sub log_reason {
    my ($r, $reason, $file) = @_;
    $file //= $r->uri;
    my $client = $r->connection->client_ip // 'unknown';
    Drom::Request::log($r, 3, "access to $file failed for $client, reason: $reason");
    return;
}

# (file, line, level, status, text...)
sub log_rerror { return Apache2::ServerRec::log_serror(@_) }

package Apache2::ServerRec;

sub log { return bless {}, 'Apache2::Log::Server' }
sub log_error { &message; Drom::Request::log(undef, 3, Apache2::Log::text_of(@_)); return }
sub warn { &message; Drom::Request::log(undef, 4, Apache2::Log::text_of(@_)); return }

# Called as a method or as a function: the object goes.
sub message {
    shift @_ if @_ > 1 && (ref $_[0] && UNIVERSAL::isa($_[0], __PACKAGE__) || $_[0] eq __PACKAGE__);
    return;
}

sub log_serror {
    my (undef, $file, $line, $level, $status, @text) = @_;
    my $text = Apache2::Log::text_of(@text);
    if ($status) {
        local $! = $status;
        $text = "($status)$!: $text";
    }
    Drom::Request::log(undef, ($level // 3) & 7, $text);
    return;
}

1;

=head1 NAME

Apache2::Log - lines for the error log

=head1 SYNOPSIS

    sub My::Page::handler {
        my $r = shift;
        $r->log->info('asked for ', $r->uri);
        $r->log->debug(sub { 'made only when it is wanted' });
        $r->log_error('something broke');
        return 0;
    }

=head1 DESCRIPTION

C<< $r->log >> and C<< $s->log >> have C<emerg alert crit error warn notice info debug> and C<trace1> to
C<trace8>; C<log_error>, C<warn>, C<log_reason>, C<log_rerror> and C<log_serror> are there too.

=cut
