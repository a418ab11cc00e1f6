#!/usr/bin/perl
# Draws docs/ladder.svg out of a kept run: bars of requests a second with their intervals, one panel a group.
#   scripts/picture.pl RUN > docs/ladder.svg
# RUN is what `drom report` lists, or a folder. Light and dark, no fonts or scripts from elsewhere.
use strict;
use warnings;
use utf8;
use JSON::PP ();
use POSIX qw(floor);

my ($run) = @ARGV or die "usage: scripts/picture.pl RUN > docs/ladder.svg\n";
my $drom = $ENV{DROM} // 'target/release/drom';
open my $report, '-|', $drom, 'report', $run, '--json' or die "$drom: $!\n";
my $result = JSON::PP->new->utf8->decode(do { local $/; <$report> });
close $report or die "$drom report $run failed\n";

my ($WIDTH, $LEFT, $RIGHT, $ROW, $TOP) = (800, 104, 266, 30, 58);

sub escape { my $text = shift; $text =~ s/([<>&"])/'&#' . ord($1) . ';'/ge; $text }

# Three significant digits, never in the form 2e-05.
sub three {
    my $value = shift or return 0;
    my $decimals = 2 - floor(log(abs $value) / log 10);
    return sprintf '%.*f', $decimals, $value if $decimals > 0;
    return sprintf '%.0f', sprintf '%.2e', $value;
}

sub grouped { my $n = sprintf '%.0f', shift; 1 while $n =~ s/^(\d+)(\d{3})/$1,$2/; $n }

sub text {
    my ($class, $x, $y, $words) = @_;
    return qq{<text class="$class" x="$x" y="$y">} . escape($words) . "</text>\n";
}

sub bar {
    my ($row, $y, $scale) = @_;
    my ($rps, $ratio) = @$row{qw(rps ratio)};
    my ($low, $value, $high) = map { $LEFT + $_ * $scale } @$rps{qw(low value high)};
    my $middle = $y + 9;
    my $rate = ($row->{at_least} ? '≥ ' : '') . grouped(three($rps->{value})) . '/s';
    my $said = $ratio ? sprintf '%s× (%s to %s)', map { three($_) } @$ratio{qw(value low high)} : '';
    return text('name', $LEFT - 10, $y + 14, $row->{variant})
        . sprintf(qq{<rect class="bar" x="%d" y="%d" width="%.1f" height="18" rx="3"/>\n},
            $LEFT, $y, $value - $LEFT)
        . sprintf(qq{<path class="whisker" d="M%.1f %dH%.1f"/>\n}, $low, $middle, $high)
        . text('value right', $WIDTH - $RIGHT + 70, $y + 14, $rate)
        . text('value', $WIDTH - $RIGHT + 84, $y + 14, $said);
}

sub panel {
    my ($group, $top) = @_;
    my @rows = grep { $_->{role} ne 'control' } @{ $group->{rows} };
    my ($most) = sort { $b <=> $a } map { $_->{rps}{high} } @rows;
    my $scale = ($WIDTH - $LEFT - $RIGHT) / $most;
    my $out = text('group', $LEFT, $top, $group->{name} . ", $group->{blocks} blocks");
    my $y = $top + 12;
    for my $row (@rows) { $out .= bar($row, $y, $scale); $y += $ROW }
    return ($out, $y);
}

my ($body, $y) = ('', $TOP);
for my $group (@{ $result->{findings}{groups} }) {
    (my $panel, $y) = panel($group, $y + 14);
    $body .= $panel;
    $y += 14;
}
my $title = $result->{manifest}{title};
my $machine = join ', ', map { "$_->{name}: $_->{value}" }
    grep { $_->{name} =~ /^(?:CPU|cores)$/ } @{ $result->{manifest}{machine} || [] };

binmode STDOUT, ':encoding(UTF-8)';
print <<"HEAD", $body, "</svg>\n";
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $WIDTH $y" width="$WIDTH" role="img">
<style>
text{font:13px system-ui,"DejaVu Sans",sans-serif;fill:#1d2026}.title{font-size:17px;font-weight:600}
.group{font-weight:600}.name,.right{text-anchor:end}.dim,.value{fill:#69707d;font-size:12px}
.bar{fill:#2f6db5;opacity:.85}.paper{fill:#fff}.whisker{stroke:#1d2026;stroke-width:2}
\@media(prefers-color-scheme:dark){text{fill:#e6e4df}.paper{fill:#17191d}.dim,.value{fill:#9aa1ad}.whisker{stroke:#e6e4df}}
</style>
<rect class="paper" width="$WIDTH" height="$y" rx="6"/>
@{[text('title', 14, 26, $title)]}@{[text('dim', 14, 46, "requests a second, 95 % intervals, ratio to the baseline. $machine")]}
HEAD
