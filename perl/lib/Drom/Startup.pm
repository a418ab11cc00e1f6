package Drom::Startup;
# What every interpreter needs before the first line of a user's code. The template process loads this
# once and workers are forked from it. Constants and rarely used modules are loaded by those who use them.
use strict;
use warnings;

use XSLoader (); # its start looks at the environment, which is for a process of one thread
use Drom::Request ();
use APR::Table ();
use APR::Pool ();
use Apache2::RequestRec ();
use Apache2::RequestIO ();
use Apache2::RequestUtil ();
use Apache2::Response ();
use Apache2::Access ();
use Apache2::Log ();
use Apache2::Connection ();
use Apache2::ServerRec ();
use Apache2::ServerUtil ();
use Apache2::SubRequest ();
use ModPerl::Util ();
use Drom::FirstGeneration ();
use Drom::Child ();

our $VERSION = '2.000012';

1;

=head1 NAME

Drom::Startup - what is loaded before a user's code

=head1 SYNOPSIS

    use Drom::Startup ();

=head1 DESCRIPTION

Loads the request object and its relatives. All their methods exist from then on, whether the code that
calls them has loaded the module that mod_perl keeps them in or not.

=cut
