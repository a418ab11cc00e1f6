package Apache::URI;
# URLs of mod_perl 1.
use strict;
use warnings;

our $VERSION = '1.00';

use APR::URI ();
use Apache2::URI ();

our @ISA = ('APR::URI');

sub parse {
    my ($class, $r, $text) = @_;
    return $class->SUPER::parse(undef, $text // $r->unparsed_uri);
}

sub unescape_url { return Apache2::URI::unescape_url(@_) }

1;

=head1 NAME

Apache::URI - URLs

=head1 SYNOPSIS

    use Apache::URI ();
    my $uri = Apache::URI->parse(undef, 'http://example.org/a');
    print $uri->path, "\n";

=head1 DESCRIPTION

See L<APR::URI>.

=cut
