package APR::URI;
# A URL in its parts.
use strict;
use warnings;

our $VERSION = '0.009000';

my @PARTS = qw(scheme hostinfo user password hostname port path query fragment);
my %PORT = (ftp => 21, ssh => 22, telnet => 23, gopher => 70, http => 80, pop => 110, nntp => 119,
    imap => 143,
    prospero => 191, wais => 210, ldap => 389, https => 443, rtsp => 554, snews => 563, acap => 674,
    nfs => 2049, tip => 3372, sip => 5060);

# RFC 3986, appendix B.
sub parse {
    my ($class, undef, $text) = @_;
    my %self;
    @self{qw(scheme hostinfo path query fragment)} =
        $text =~ m{^(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?}s;
    my $self = bless \%self, $class;
    $self->split_host if defined $self{hostinfo};
    $self{path} = undef unless length($self{path} // '');
    return $self;
}

sub split_host {
    my ($self) = @_;
    my ($info, $host) = $self->{hostinfo} =~ /^(?:(.*)@)?(.*)$/;
    @$self{qw(user password)} = split /:/, $info, 2 if defined $info;
    @$self{qw(hostname port)} = $host =~ /^(\[[^]]*\]|[^:]*)(?::(\d*))?$/;
    $self->{hostname} =~ s/^\[(.*)\]$/$1/ if defined $self->{hostname};
    return;
}

for my $part (@PARTS) {
    no strict 'refs';
    *$part = sub {
        my ($self, @new) = @_;
        my $old = $self->{$part};
        $self->{$part} = $new[0] if @new;
        return $old;
    };
}

sub rpath { return $_[0]{path} }
sub is_initialized { return 1 }
sub port_of_scheme { return $PORT{lc $_[-1]} // 0 }

# Bits: 1 no site, 2 no user, 4 no password, 8 password readable, 16 no path, 32 no query.
sub unparse {
    my ($self, $omit) = @_;
    $omit //= 4;
    my $text = $omit & 1 ? '' : $self->site($omit);
    return $text if $omit & 16;
    $text .= $self->{path} // '';
    $text .= "?$self->{query}" if defined $self->{query} && !($omit & 32);
    $text .= "#$self->{fragment}" if defined $self->{fragment} && !($omit & 32);
    return $text;
}

sub site {
    my ($self, $omit) = @_;
    my $scheme = defined $self->{scheme} ? "$self->{scheme}:" : '';
    return $scheme unless defined $self->{hostname};
    my $host = $self->{hostname} =~ /:/ ? "[$self->{hostname}]" : $self->{hostname};
    my $text = "$scheme//" . $self->login($omit) . $host;
    my $port = $self->{port} // '';
    $text .= ":$port" if length $port && $port != port_of_scheme($self->{scheme} // '');
    return $text;
}

sub login {
    my ($self, $omit) = @_;
    my $user = $omit & 2 ? '' : $self->{user} // '';
    my $password = $omit & 4 ? undef : $self->{password};
    return '' unless length $user || defined $password;
    $password = 'XXXXXXXX' if defined $password && !($omit & 8);
    return $user . (defined $password ? ":$password" : '') . '@';
}

1;

=head1 NAME

APR::URI - a URL in its parts

=head1 SYNOPSIS

    use APR::URI ();
    my $uri = APR::URI->parse(undef, 'http://example.org:8080/a?b#c');
    print join(' ', $uri->hostname, $uri->port, $uri->path, $uri->query), "\n";
    $uri->path('/z');
    print $uri->unparse, "\n";

=head1 DESCRIPTION

C<parse>, C<unparse>, C<port_of_scheme> and the parts: C<scheme hostinfo user password hostname port path
query fragment rpath>.

=cut
