package Apache2::HookRun;
# Running a phase by hand: only the response phase runs Perl.
use strict;
use warnings;

use Drom::Absent ();

our $VERSION = '2.000012';

Drom::Absent::all(__PACKAGE__, 'name handlers in the configuration');
Drom::Absent::methods('Apache2::RequestRec', 'name handlers in the configuration',
    qw(invoke_handler run_access_checker run_auth_checker run_check_user_id run_create_request run_fixups
    run_handler run_header_parser run_log_transaction run_map_to_storage run_post_read_request
    run_process_connection run_translate_name run_type_checker));

1;

=head1 NAME

Apache2::HookRun - running a phase by hand (not supported)

=head1 SYNOPSIS

    use Apache2::HookRun ();
    eval { Apache2::HookRun->run };
    print $@;

=head1 DESCRIPTION

Can be loaded. Whatever is called dies with a message that says what to do instead.

=cut
