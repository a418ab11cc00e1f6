package ModPerl::PerlRunPrefork;
# PerlRun in the script's own folder.
use strict;
use warnings;

our $VERSION = '2.000012';

use ModPerl::PerlRun ();

our @ISA = ('ModPerl::PerlRun');

sub handler : method {
    my $class = @_ >= 2 ? shift : __PACKAGE__;
    return $class->new($_[0])->default_handler;
}

sub chdir_file { my $self = shift; return $self->chdir_file_normal(@_) }

1;

=head1 NAME

ModPerl::PerlRunPrefork - PerlRun in the folder of the script

=head1 SYNOPSIS

    # in the configuration:
    #   SetHandler perl-script
    #   PerlResponseHandler ModPerl::PerlRunPrefork
    use ModPerl::PerlRunPrefork ();

=head1 DESCRIPTION

As L<ModPerl::PerlRun>.

=cut
