package Apache::File;
# Files of mod_perl 1; loading it brings nothing to $r that is not there.
use strict;
use warnings;

our $VERSION = '1.01';

use IO::File ();

our @ISA = ('IO::File');

my $number = 0;

# A new file that goes with the request: (name, handle), or the handle.
sub tmpfile {
    my ($class) = @_;
    require Fcntl;
    for (1 .. 100) {
        my $name = sprintf '%s/drom-%d-%d-%d', $ENV{TMPDIR} // '/tmp', $$, time, $number++;
        my $how = Fcntl::O_RDWR() | Fcntl::O_CREAT() | Fcntl::O_EXCL();
        my $file = $class->SUPER::new($name, $how, 0600) or next;
        my $r = Drom::Request::current();
        $r->pool->cleanup_register(sub { unlink $name }) if $r;
        return wantarray ? ($name, $file) : $file;
    }
    die "no temporary file can be made: $!\n";
}

1;

=head1 NAME

Apache::File - files that go with the request

=head1 SYNOPSIS

    use Apache::File ();
    my $file = Apache::File->new('/etc/hostname') or die $!;
    print scalar <$file>;

=head1 DESCRIPTION

An L<IO::File> with C<tmpfile>. The methods that mod_perl 1 adds to $r with this module
(C<set_last_modified>, C<meets_conditions>, ...) are always there.

=cut
