# Every SYNOPSIS compiles, and runs where it needs no server.
use strict;
use warnings;

use File::Find ();
use File::Basename qw(dirname);
use Test::More;

my $lib = dirname(__FILE__) . '/../lib';
my @files;
File::Find::find(sub { push @files, $File::Find::name if /\.pm\z/ }, $lib);

# Those whose first line already asks the server for something.
my %NEEDS_SERVER = map { $_ => 1 } qw(APR/Table.pm Apache/Table.pm Apache/Connection.pm
    Apache/RegistryLoader.pm ModPerl/RegistryLoader.pm Apache2/ServerUtil.pm Drom/Zygote.pm);

for my $file (sort @files) {
    my $name = $file =~ s{^\Q$lib\E/}{}r;
    next if $name =~ m{^Drom/Zygote};
    open my $handle, '<', $file or die "$file: $!";
    my $text = do { local $/; <$handle> };
    my ($synopsis) = $text =~ /^=head1 SYNOPSIS\n\n((?:    .*\n|\n)+)/m;
    $synopsis =~ s/^    //mg;
    my @switch = $NEEDS_SERVER{$name} ? ('-c') : ();
    my $program = "/tmp/drom-synopsis-$$.pl";
    open my $out, '>', $program or die "$program: $!";
    print $out "use strict; use warnings;\n$synopsis";
    close $out;
    my $said = `$^X -I$lib @switch $program 2>&1`;
    is($?, 0, "$name: SYNOPSIS " . (@switch ? 'compiles' : 'runs')) or diag $said;
    unlink $program;
}
done_testing;
