/* request.c - $r and its relatives: Apache2::RequestRec, ::Connection, ::ServerRec.
 *
 * An object is a blessed number: the request it stands for. Methods ask the host; a method on a request
 * that is over dies with a message, so that a reference kept in a global cannot reach the next request.
 */
#include "internal.h"

SV *drom_sv(pTHX_ drom_str text) { return text.ptr ? newSVpvn(text.ptr, text.len) : newSV(0); }

SV *drom_request_object(pTHX_ const char *class)
{
    SV *number = newSVuv(drom.current);
    return sv_bless(newRV_noinc(number), gv_stashpv(class, GV_ADD));
}

/* Whether a handler is written for mod_perl 1: our Perl reads its source. */
int drom_speaks_first(pTHX_ const char *name, size_t len, CV *cv)
{
    CV *judge = get_cv("Drom::FirstGeneration::speaks", 0);
    int first = 0;
    dSP;
    if (!judge)
        return 0;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHp(name, len);
    mXPUSHs(newSVpv(CvFILE(cv) ? CvFILE(cv) : "", 0));
    PUTBACK;
    if (call_sv((SV *)judge, G_SCALAR) == 1) {
        SPAGAIN;
        SV *said = POPs;
        first = SvTRUE(said);
        PUTBACK;
    }
    FREETMPS;
    LEAVE;
    return first;
}

uint64_t drom_request_id(pTHX_ SV *object)
{
    if (SvROK(object)) {
        SV *inner = SvRV(object);
        if (SvTYPE(inner) == SVt_PVHV) { /* a subclass that wraps: { r => $r } or { _r => $r } */
            SV **r = hv_fetchs((HV *)inner, "r", 0);
            if (!r)
                r = hv_fetchs((HV *)inner, "_r", 0);
            if (r && SvROK(*r))
                inner = SvRV(*r);
        }
        if (SvIOK(inner) && SvUVX(inner) == drom.current && drom.current)
            return drom.current;
        if (SvIOK(inner))
            croak("this request is over: a request object must not be kept beyond its request");
    } else if (drom.current && drom.request) {
        return drom.current; /* class method, Apache->request style */
    }
    croak("not a request object, or no request is being answered");
}

static uint64_t self(pTHX_ SV *object)
{
    if (LIKELY(SvROK(object) && SvIOK(SvRV(object)) && SvUVX(SvRV(object)) == drom.current && drom.current))
        return drom.current;
    return drom_request_id(aTHX_ object);
}

/* A server outlives requests: its object, kept since the start, answers for the request of the moment. */
static uint64_t owner(pTHX_ SV *object, I32 any)
{
    return any & 0x200 ? drom.current : self(aTHX_ object);
}

static XSPROTO(xs_text)
{
    dXSARGS;
    if (items < 1)
        croak("a method needs an object");
    int field = XSANY.any_i32 & 0xff, writable = XSANY.any_i32 & 0x100;
    uint64_t r = owner(aTHX_ ST(0), XSANY.any_i32);
    SV *old = GIMME_V == G_VOID ? &PL_sv_undef : sv_2mortal(drom_sv(aTHX_ drom.host->text(r, field)));
    if (items > 1) {
        if (!writable)
            croak("this field cannot be set");
        STRLEN len = 0;
        const char *text = SvOK(ST(1)) ? SvPV(ST(1), len) : NULL;
        drom.host->set_text(r, field, text, len);
    }
    ST(0) = old;
    XSRETURN(1);
}

static XSPROTO(xs_number)
{
    dXSARGS;
    if (items < 1)
        croak("a method needs an object");
    int field = XSANY.any_i32 & 0xff, writable = XSANY.any_i32 & 0x100;
    uint64_t r = owner(aTHX_ ST(0), XSANY.any_i32);
    SV *old = sv_2mortal(newSViv((IV)drom.host->number(r, field)));
    if (items > 1) {
        if (!writable)
            croak("this field cannot be set");
        drom.host->set_number(r, field, SvIV(ST(1)));
    }
    ST(0) = old;
    XSRETURN(1);
}

static XSPROTO(xs_table)
{
    dXSARGS;
    if (items < 1)
        croak("a method needs an object");
    uint64_t r = self(aTHX_ ST(0));
    ST(0) = sv_2mortal(drom_table_object(aTHX_ drom.host->table(r, XSANY.any_i32), 0));
    XSRETURN(1);
}

/* $s->dir_config: what stands outside of all sections, also while a request runs. */
static XSPROTO(xs_server_vars)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    ST(0) = sv_2mortal(drom_table_object(aTHX_ drom.host->table(0, DROM_TABLE_DirConfig), 0));
    XSRETURN(1);
}

/* A short way to one entry: ($r, key), ($r, key, value); undef as value removes. */
static XSPROTO(xs_entry)
{
    dXSARGS;
    if (items < 2)
        croak("usage: $r->header_in(name [, value])");
    uint64_t table = drom.host->table(self(aTHX_ ST(0)), XSANY.any_i32);
    STRLEN klen, vlen;
    const char *key = SvPV(ST(1), klen);
    SV *old = sv_2mortal(drom_sv(aTHX_ drom.host->table_get(table, key, klen, 0)));
    if (items > 2 && SvOK(ST(2))) {
        const char *value = SvPV(ST(2), vlen);
        drom.host->table_put(table, key, klen, value, vlen, DROM_PUT_SET);
    } else if (items > 2) {
        drom.host->table_unset(table, key, klen);
    }
    ST(0) = old;
    XSRETURN(1);
}

static void print_sv(pTHX_ uint64_t r, SV *text, STRLEN *sum)
{
    STRLEN len;
    if (SvROK(text) && !SvAMAGIC(text) && SvTYPE(SvRV(text)) < SVt_PVAV && drom.flags & DROM_MOD_PERL_1)
        text = SvRV(text); /* mod_perl 1 prints what a scalar reference points to */
    const char *bytes = SvPV(text, len);
    int failed = drom_print(r, bytes, len);
    if (failed)
        croak("Apache2::RequestIO::print: (%d) %s", failed, Strerror(failed));
    *sum += len;
}

static XSPROTO(xs_print)
{
    dXSARGS;
    STRLEN sum = 0;
    if (items < 1)
        croak("usage: $r->print(text...)");
    uint64_t r = self(aTHX_ ST(0));
    for (I32 i = 1; i < items; i++)
        print_sv(aTHX_ r, ST(i), &sum);
    IO *out = drom.flags & DROM_SCRIPT_IO ? GvIO(PL_defoutgv) : NULL;
    if (UNLIKELY(out && IoFLAGS(out) & IOf_FLUSH))
        drom_flush(r);
    if (GIMME_V == G_VOID)
        XSRETURN_EMPTY;
    ST(0) = sum ? sv_2mortal(newSVuv(sum)) : newSVpvs_flags("0E0", SVs_TEMP);
    XSRETURN(1);
}

static XSPROTO(xs_write) /* ($r, buffer, length, offset) */
{
    dXSARGS;
    if (items < 2)
        croak("usage: $r->write(buffer [, length [, offset]])");
    uint64_t r = self(aTHX_ ST(0));
    STRLEN len;
    const char *bytes = SvPV(ST(1), len);
    IV offset = items > 3 ? SvIV(ST(3)) : 0;
    IV count = items > 2 && SvIV(ST(2)) >= 0 ? SvIV(ST(2)) : (IV)len - offset;
    if (offset < 0 || offset > (IV)len)
        croak("the offset of write lies outside the buffer");
    if (count > (IV)len - offset)
        count = (IV)len - offset;
    int failed = drom_print(r, bytes + offset, count);
    if (failed)
        croak("Apache2::RequestIO::write: (%d) %s", failed, Strerror(failed));
    ST(0) = sv_2mortal(newSViv(count));
    XSRETURN(1);
}

static XSPROTO(xs_read) /* ($r, buffer, length [, offset]) */
{
    dXSARGS;
    if (items < 3)
        croak("usage: $r->read(buffer, length [, offset])");
    uint64_t r = self(aTHX_ ST(0));
    SV *buffer = ST(1);
    IV want = SvIV(ST(2)), offset = items > 3 ? SvIV(ST(3)) : 0;
    STRLEN old;
    if (want < 0)
        croak("a negative length to read");
    if (!SvOK(buffer))
        sv_setpvs(buffer, "");
    (void)SvPV_force(buffer, old);
    if (offset < 0)
        offset += (IV)old;
    if (offset < 0)
        croak("the offset of read lies outside the buffer");
    char *bytes = SvGROW(buffer, (STRLEN)(offset + want + 1));
    if ((STRLEN)offset > old)
        Zero(bytes + old, offset - old, char);
    IV got = 0;
    while (got < want) {
        ssize_t n = drom_read(r, bytes + offset + got, want - got);
        if (n < 0)
            croak("Apache2::RequestIO::read: (%d) %s", (int)-n, Strerror((int)-n));
        if (n == 0)
            break;
        got += n;
    }
    SvCUR_set(buffer, offset + got);
    *SvEND(buffer) = '\0';
    SvPOK_only(buffer);
    SvSETMAGIC(buffer);
    ST(0) = sv_2mortal(newSViv(got));
    XSRETURN(1);
}

static XSPROTO(xs_flush)
{
    dXSARGS;
    if (items < 1)
        croak("usage: $r->rflush");
    drom_flush(self(aTHX_ ST(0)));
    XSRETURN_EMPTY;
}

static XSPROTO(xs_log) /* ($object, level, text...) */
{
    dXSARGS;
    SV *text = newSVpvs_flags("", SVs_TEMP);
    if (items < 2)
        croak("usage: log(object, level, text...)");
    for (I32 i = 2; i < items; i++)
        sv_catsv(text, ST(i));
    drom.host->log(drom.current, (int)SvIV(ST(1)), SvPV_nolen(text), SvCUR(text));
    XSRETURN_EMPTY;
}

static XSPROTO(xs_command) /* ($r, what, text) */
{
    dXSARGS;
    if (items < 2)
        croak("usage: command(r, what [, text])");
    STRLEN len = 0;
    const char *text = items > 2 && SvOK(ST(2)) ? SvPV(ST(2), len) : "";
    drom.host->command(drom.current, (int)SvIV(ST(1)), text, len);
    XSRETURN_EMPTY;
}

static XSPROTO(xs_send_file) /* ($r, path, offset, length) -> errno */
{
    dXSARGS;
    if (items < 2)
        croak("usage: $r->sendfile(path [, offset [, length]])");
    uint64_t r = self(aTHX_ ST(0));
    STRLEN len;
    const char *path = SvPV(ST(1), len);
    int failed = drom.host->send_file(r, path, len, items > 2 && SvOK(ST(2)) ? SvIV(ST(2)) : 0,
                                      items > 3 && SvOK(ST(3)) ? SvIV(ST(3)) : -1);
    ST(0) = sv_2mortal(newSViv(failed));
    XSRETURN(1);
}

static XSPROTO(xs_current)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    if (items > 1 && SvROK(ST(1)) && drom.current)
        drom.flags |= DROM_GLOBAL_REQUEST;
    int named = drom.request && drom.flags & DROM_GLOBAL_REQUEST;
    if (!named)
        croak("there is no global request object here: set \"PerlOptions +GlobalRequest\" or "
              "\"SetHandler perl-script\"");
    ST(0) = sv_2mortal(newSVsv(drom.request));
    XSRETURN(1);
}

/* The request being answered, whatever GlobalRequest says, or undef: for our own modules. */
static XSPROTO(xs_current_request)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    ST(0) = drom.request ? sv_2mortal(newSVsv(drom.request)) : &PL_sv_undef;
    XSRETURN(1);
}

static XSPROTO(xs_relative) /* $r->connection, $r->server: the same number, another class */
{
    dXSARGS;
    static const char *const classes[] = { "Apache2::Connection", "Apache2::ServerRec", "APR::Pool",
                                           "Apache2::RequestRec" };
    PERL_UNUSED_VAR(items);
    ST(0) = sv_2mortal(drom_request_object(aTHX_ classes[XSANY.any_i32]));
    XSRETURN(1);
}

/* $r->subprocess_env in void context: %ENV of this request gets its variables. */
static XSPROTO(xs_fill_env)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    if (drom.current)
        drom_env_fill(aTHX_ drom_env_own(aTHX_ 1), drom.current);
    XSRETURN_EMPTY;
}

static XSPROTO(xs_pnotes) /* ($r), ($r, key), ($r, key, value) */
{
    dXSARGS;
    if (items < 1)
        croak("usage: $r->pnotes([key [, value]])");
    (void)self(aTHX_ ST(0));
    if (!drom.pnotes)
        drom.pnotes = newHV();
    if (items == 1) {
        ST(0) = sv_2mortal(newRV((SV *)drom.pnotes));
        XSRETURN(1);
    }
    HE *entry = hv_fetch_ent(drom.pnotes, ST(1), 0, 0);
    SV *old = entry ? sv_2mortal(newSVsv(HeVAL(entry))) : &PL_sv_undef;
    if (items > 2)
        (void)hv_store_ent(drom.pnotes, ST(1), newSVsv(ST(2)), 0);
    ST(0) = items > 2 ? ST(2) : old;
    XSRETURN(1);
}

static XSPROTO(xs_cleanup_register) /* ($pool, code [, argument]) */
{
    dXSARGS;
    if (items < 2)
        croak("usage: $pool->cleanup_register(code [, argument])");
    if (!drom.cleanups)
        drom.cleanups = newAV();
    av_push(drom.cleanups, items > 2 ? newSVsv(ST(2)) : newSV(0));
    av_push(drom.cleanups, newSVsv(ST(1)));
    XSRETURN_EMPTY;
}

static XSPROTO(xs_cleanup_phase) /* (code) */
{
    dXSARGS;
    if (items != 1)
        croak("usage: cleanup_phase(code)");
    if (!drom.cleanups)
        drom.cleanups = newAV();
    SvREFCNT_dec(drom.cleanup_phase);
    drom.cleanup_phase = newSVsv(ST(0));
    XSRETURN_EMPTY;
}

static XSPROTO(xs_child_exit)
{
    dXSARGS;
    my_exit(items > 0 && SvOK(ST(0)) && looks_like_number(ST(0)) ? (U32)SvIV(ST(0)) : 0);
    XSRETURN_EMPTY;
}

void drom_define(pTHX_ const char *name, XSUBADDR_t code, I32 which)
{
    CV *cv = newXS(name, code, "shim");
    CvXSUBANY(cv).any_i32 = which;
}

static void boot_fields(pTHX)
{
#define RO 0
#define RW 0x100
#define SERVER(class) (strEQ(class, "ServerRec") ? 0x200 : 0)
#define TEXT(variant, class, name, access, doc) \
    drom_define(aTHX_ "Apache2::" #class "::" #name, xs_text, DROM_TEXT_##variant | access | SERVER(#class));
#define NUMBER(variant, class, name, access, doc) \
    drom_define(aTHX_ "Apache2::" #class "::" #name, xs_number, DROM_NUMBER_##variant | access | SERVER(#class));
#define TABLE(variant, class, name, doc) \
    drom_define(aTHX_ "Apache2::" #class "::" #name, xs_table, DROM_TABLE_##variant);
#include "methods.def"
#undef TEXT
#undef NUMBER
#undef TABLE
#undef RO
#undef RW
#undef SERVER
}

void drom_boot_request(pTHX)
{
    boot_fields(aTHX);
    drom_define(aTHX_ "Apache2::RequestRec::print", xs_print, 0);
    drom_define(aTHX_ "Apache2::RequestRec::puts", xs_print, 0);
    drom_define(aTHX_ "Apache2::RequestRec::write", xs_write, 0);
    drom_define(aTHX_ "Apache2::RequestRec::read", xs_read, 0);
    drom_define(aTHX_ "Apache2::RequestRec::rflush", xs_flush, 0);
    drom_define(aTHX_ "Apache2::RequestRec::header_in", xs_entry, DROM_TABLE_HeadersIn);
    drom_define(aTHX_ "Apache2::RequestRec::header_out", xs_entry, DROM_TABLE_HeadersOut);
    drom_define(aTHX_ "Apache2::RequestRec::err_header_out", xs_entry, DROM_TABLE_ErrHeadersOut);
    drom_define(aTHX_ "Apache2::RequestRec::connection", xs_relative, 0);
    drom_define(aTHX_ "Apache2::RequestRec::server", xs_relative, 1);
    drom_define(aTHX_ "Apache2::RequestRec::pool", xs_relative, 2);
    drom_define(aTHX_ "Apache2::Connection::pool", xs_relative, 2);
    drom_define(aTHX_ "Apache2::ServerRec::dir_config_", xs_server_vars, 0);
    drom_define(aTHX_ "Apache2::RequestRec::pnotes", xs_pnotes, 0);
    drom_define(aTHX_ "Apache2::RequestUtil::request", xs_current, 0);
    drom_define(aTHX_ "Drom::Request::fill_env", xs_fill_env, 0);
    drom_define(aTHX_ "Drom::Request::current", xs_current_request, 0);
    drom_define(aTHX_ "APR::Pool::cleanup_register", xs_cleanup_register, 0);
    drom_define(aTHX_ "Drom::Request::cleanup_phase", xs_cleanup_phase, 0);
    drom_define(aTHX_ "Drom::Request::log", xs_log, 0);
    drom_define(aTHX_ "Drom::Request::command", xs_command, 0);
    drom_define(aTHX_ "Drom::Request::send_file", xs_send_file, 0);
}

void drom_boot_util(pTHX)
{
    drom_define(aTHX_ "ModPerl::Util::exit", xs_child_exit, 0);
}
