package APR::Finfo;
# What stat says of a file, by the names that APR gives it.
use strict;
use warnings;

use Fcntl ();

our $VERSION = '0.009000';

use constant NORM => 7582064;

# APR's numbers of the kinds of files, and of their modes.
my @KINDS = ([Fcntl::S_IFREG(), 1], [Fcntl::S_IFDIR(), 2], [Fcntl::S_IFCHR(), 3], [Fcntl::S_IFBLK(), 4],
    [Fcntl::S_IFIFO(), 5], [Fcntl::S_IFLNK(), 6], [Fcntl::S_IFSOCK(), 7]);

# (path, wanted, pool). A file that is not there has the type 0.
sub stat {
    my ($path, $wanted) = @_;
    my @stat = ($wanted // 0) & 1 ? lstat $path : CORE::stat $path;
    my %self = (fname => $path, filetype => 0, stat => [@stat]);
    return bless \%self, __PACKAGE__ unless @stat;
    my $kind = Fcntl::S_IFMT($stat[2]);
    ($self{filetype}) = map { $_->[1] } grep { $_->[0] == $kind } @KINDS;
    return bless \%self, __PACKAGE__;
}

# Three digits of hexadecimal: user, group, world.
sub protection {
    my $mode = $_[0]{stat}[2] // return 0;
    my $bits = $mode & 7 | ($mode & 070) << 1 | ($mode & 0700) << 2;
    return $bits | ($mode & 01000) << 4 | ($mode & 02000) << 4 | ($mode & 04000) << 4;
}

sub fname { return $_[0]{fname} }
sub name { return ($_[0]{fname} // '') =~ m{([^/]+)/*\z} ? $1 : $_[0]{fname} }
sub filetype { return $_[0]{filetype} }
sub valid { return $_[0]{filetype} ? NORM : 0 }
sub device { return $_[0]{stat}[0] }
sub inode { return $_[0]{stat}[1] }
sub nlink { return $_[0]{stat}[3] }
sub user { return $_[0]{stat}[4] }
sub group { return $_[0]{stat}[5] }
sub size { return $_[0]{stat}[7] // 0 }
sub csize { return ($_[0]{stat}[12] // 0) * 512 }
sub atime { return $_[0]{stat}[8] }
sub mtime { return $_[0]{stat}[9] }
sub ctime { return $_[0]{stat}[10] }

1;

=head1 NAME

APR::Finfo - what is known of a file

=head1 SYNOPSIS

    use APR::Finfo ();
    my $finfo = APR::Finfo::stat('/etc/passwd', APR::Finfo::NORM());
    printf "%d bytes, changed at %d\n", $finfo->size, $finfo->mtime;

=head1 DESCRIPTION

C<atime csize ctime device filetype fname group inode mtime name nlink protection size user valid>. Times are
seconds since the epoch.

=cut
