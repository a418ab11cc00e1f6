# A file that does not come back.
use strict;
use warnings;
main::hold();
1;
