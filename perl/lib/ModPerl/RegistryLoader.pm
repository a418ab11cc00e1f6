package ModPerl::RegistryLoader;
# Scripts compiled before the first request: once, in memory that all workers share.
use strict;
use warnings;

our $VERSION = '2.000012';

use Drom::Request ();

# The classes whose scripts the server compiles and runs itself.
my %OURS = map { $_ => 1 } qw(ModPerl::Registry ModPerl::RegistryBB ModPerl::RegistryPrefork ModPerl::PerlRun
    ModPerl::PerlRunPrefork Apache::Registry Apache::PerlRun);

sub new {
    my ($class, %self) = @_;
    $self{package} //= 'ModPerl::Registry';
    return bless {%self}, $class;
}

# (uri [, filename [, virtual host]]): compiles before workers are forked. OK, or the status of what failed.
sub handler {
    my ($self, $uri, $file, $host) = @_;
    $self = $self->new unless ref $self;
    $file = $self->file_of($uri) unless defined $file;
    if (!-f $file) {
        Drom::Request::log(undef, 3, ref($self) . ": cannot preload $uri: there is no file $file");
        return -e _ ? -1 : 404;
    }
    Drom::Request::log(undef, 7, ref($self) . ": $uri is $file") if $self->{debug};
    return $self->compile_own($uri, $file, $host) unless $OURS{$self->{package}};
    Drom::Request::command(undef, Drom::Request::PRELOAD, join "\0", $self->{package}, $file, $uri);
    return 0;
}

sub file_of {
    my ($self, $uri) = @_;
    return $self->{trans}->($uri) if $self->{trans};
    require Apache2::ServerUtil;
    return Apache2::ServerUtil::server_root_relative($uri =~ s{^/+}{}r);
}

# A class of the user's: compiled by its own steps, on a request that has only a place.
sub compile_own {
    my ($self, $uri, $file, $host) = @_;
    (my $module = "$self->{package}.pm") =~ s{::}{/}g;
    require $module unless $self->{package}->can('new');
    my $r = bless {uri => $uri, filename => $file, host => $host}, 'ModPerl::RegistryLoader::Request';
    my $cook = $self->{package}->new($r);
    $cook->make_namespace;
    return 0 unless $cook->should_compile;
    my $status = $cook->can_compile;
    return $status ? $status : $cook->convert_script_to_compiled_handler;
}

package ModPerl::RegistryLoader::Request;

sub uri { return $_[0]{uri} }
sub filename { return $_[0]{filename} }
sub get_server_name { return $_[0]{host} // 'localhost' }
sub server { return $_[0] }
sub is_virtual { return defined $_[0]{host} ? 1 : 0 }
sub path_info { return '' }
sub status { return 200 }
sub allow_options { return 8 }
sub allow_options_ { return 8 }
sub finfo { require APR::Finfo; return APR::Finfo::stat($_[0]{filename}, APR::Finfo::NORM()) }
sub notes { return }

1;

=head1 NAME

ModPerl::RegistryLoader - compile scripts at start

=head1 SYNOPSIS

    # in a file that PerlRequire names
    use ModPerl::RegistryLoader ();
    my $loader = ModPerl::RegistryLoader->new(
        package => 'ModPerl::Registry',
        trans   => sub { "/srv/perl/" . substr $_[0], 6 },
    );
    $loader->handler('/perl/hello.pl');

=head1 DESCRIPTION

C<new> takes C<package> (the class that will run the script), C<trans> (a sub from URI to file) and
C<debug>. C<handler> takes a URI and, instead of C<trans>, a file name; a virtual host's name may follow.

=cut
