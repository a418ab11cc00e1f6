package ModPerl::MethodLookup;
# Which module brings a method.
use strict;
use warnings;

our $VERSION = '2.000012';

my %MODULE = (
    'Apache2::RequestIO' => [qw(print puts printf write rflush read sendfile discard_request_body)],
    'Apache2::RequestUtil' => [qw(dir_config push_handlers set_handlers get_handlers document_root location
        get_server_name get_server_port is_initial_req slurp_filename as_string child_terminate)],
    'Apache2::Response' => [qw(custom_response meets_conditions set_content_length set_etag
        set_last_modified update_mtime make_etag send_cgi_header)],
    'Apache2::Access' => [qw(get_basic_auth_pw note_basic_auth_failure auth_name auth_type requires
        satisfies some_auth_required allow_options allow_methods)],
    'Apache2::Log' => [qw(log log_error log_reason warn log_rerror log_serror)],
    'Apache2::SubRequest' => [qw(internal_redirect lookup_uri lookup_file)],
    'Apache2::URI' => [qw(construct_url construct_server parsed_uri unescape_url)],
    'Apache2::ServerUtil' => [qw(server server_root server_root_relative restart_count)],
    'Apache2::RequestRec' => [qw(uri args method headers_in headers_out content_type status filename
        notes subprocess_env finfo the_request unparsed_uri user)],
    'APR::Table' => [qw(get set add merge unset clear copy overlap overlay compress)],
    'APR::Pool' => [qw(cleanup_register)],
);

# (hint, modules)
sub lookup_method {
    my ($method) = @_;
    my @found = grep { grep { $_ eq $method } @{$MODULE{$_}} } sort keys %MODULE;
    return ("do not know the method '$method'\n") unless @found;
    return ("to use the method '$method' add:\n" . join('', map { "\tuse $_ ();\n" } @found), @found);
}

sub print_method { print +(lookup_method($_))[0] for @_ ? @_ : @ARGV; return }

sub lookup_module { return ('', @{$MODULE{$_[0]} || []}) }
sub preload_all_modules { require Drom::Startup; require Apache2::URI; return }

1;

=head1 NAME

ModPerl::MethodLookup - which module brings a method

=head1 SYNOPSIS

    use ModPerl::MethodLookup ();
    my ($hint, @modules) = ModPerl::MethodLookup::lookup_method('rflush');
    print $hint;

=head1 DESCRIPTION

All methods exist here without being loaded; the answer is what mod_perl needs.

=cut
