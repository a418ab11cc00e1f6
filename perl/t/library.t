# What can be said of every file of the library without a server.
use strict;
use warnings;

use File::Find ();
use File::Basename qw(dirname);
use Pod::Checker ();
use Test::More;

my $lib = dirname(__FILE__) . '/../lib';
my @files;
File::Find::find(sub { push @files, $File::Find::name if /\.pm\z/ }, $lib);

sub text_of {
    my ($file) = @_;
    open my $handle, '<', $file or die "$file: $!";
    local $/;
    return <$handle>;
}

sub subs_too_long {
    my ($code) = @_;
    my ($name, $start, @long);
    my $line = 0;
    for (split /\n/, $code) {
        $line++;
        ($name, $start) = ($1, $line) if /^sub (\w+)[^}]*\z/;
        next unless /^\}/ && defined $name;
        push @long, $name if $line - $start - 1 > 20;
        undef $name;
    }
    return @long;
}

# The POD of a file and the code before it.
sub check_file {
    my ($file) = @_;
    my ($code, $pod) = split /^1;\n/m, text_of($file), 2;
    my ($package) = $code =~ /^package ([\w:]+);/ or return fail("$file names no package");
    my $checker = Pod::Checker->new;
    open my $nothing, '>', \my $said;
    $checker->parse_from_file($file, $nothing);
    is($checker->num_errors, 0, "$file: POD is well-formed") or diag $said;
    like($pod // '', qr/=head1 NAME\n\n\Q$package\E - \w/, "$file: names itself");
    like($pod // '', qr/=head1 SYNOPSIS\n\n    \S/, "$file: shows its use");
    like($code, qr/^use strict;\nuse warnings;/m, "$file: is strict");
    is(join(' ', subs_too_long($code)), '', "$file: subs fit a screen");
    is(scalar(() = $code =~ /^.{111,}$/mg), 0, "$file: lines fit");
    return;
}

check_file($_) for sort @files;
cmp_ok(scalar @files, '>', 60, 'the library is there');
done_testing;
