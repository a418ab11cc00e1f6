/* io.c - STDIN and STDOUT of a script and its %ENV. What child processes see of both: children.c.
 *
 * STDOUT is a PerlIO layer that hands bytes to the host; it has no descriptor (fileno -1), as under
 * mod_perl. %ENV is a plain hash: the usual one calls setenv for each store, seven times the price;
 * `environ` is made from it just before a child process starts.
 */
#include "internal.h"
#include <perliol.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the layer ----------------------------------------------------------------------------- */

static PerlIO *out_stream, *in_stream; /* ours while open; NULL once a script closed them */

static IV layer_pushed(pTHX_ PerlIO *f, const char *mode, SV *arg, PerlIO_funcs *tab)
{
    IV code = PerlIOBase_pushed(aTHX_ f, mode, arg, tab);
    if (*PerlIONext(f) == NULL)
        PerlIOBase(f)->flags |= mode && *mode == 'r' ? PERLIO_F_CANREAD : PERLIO_F_CANWRITE;
    return code;
}

static IV layer_popped(pTHX_ PerlIO *f)
{
    if (f == out_stream)
        out_stream = NULL;
    if (f == in_stream)
        in_stream = NULL;
    return 0;
}

static SSize_t layer_write(pTHX_ PerlIO *f, const void *bytes, Size_t count)
{
    int failed = drom.current ? drom_print(drom.current, bytes, count) : EBADF;
    if (!failed)
        return count;
    errno = failed;
    PerlIOBase(f)->flags |= PERLIO_F_ERROR; /* print() looks at this, not at the count */
    return -1;
}

static SSize_t layer_read(pTHX_ PerlIO *f, void *into, Size_t room)
{
    ssize_t got = drom.current ? drom_read(drom.current, into, room) : -EBADF;
    if (got < 0) {
        errno = (int)-got;
        PerlIOBase(f)->flags |= PERLIO_F_ERROR;
        return -1;
    }
    if (got == 0)
        PerlIOBase(f)->flags |= PERLIO_F_EOF;
    return got;
}

static int leaving; /* the end of a script is no reason to send what may still fit into one answer */

static IV layer_flush(pTHX_ PerlIO *f)
{
    if (drom.current && !leaving && f == out_stream && PerlIOBase(f)->flags & PERLIO_F_CANWRITE)
        drom_flush(drom.current);
    return 0;
}

static IV layer_fileno(pTHX_ PerlIO *f)
{
    PERL_UNUSED_ARG(f);
    return -1;
}

static PerlIO *layer_open(pTHX_ PerlIO_funcs *self, PerlIO_list_t *layers, IV n, const char *mode, int fd,
                          int imode, int perm, PerlIO *f, int narg, SV **args)
{
    PERL_UNUSED_ARG(layers); PERL_UNUSED_ARG(n); PERL_UNUSED_ARG(fd); PERL_UNUSED_ARG(imode);
    PERL_UNUSED_ARG(perm); PERL_UNUSED_ARG(narg); PERL_UNUSED_ARG(args);
    if (!f)
        f = PerlIO_allocate(aTHX);
    f = PerlIO_push(aTHX_ f, self, mode, NULL);
    if (f)
        PerlIOBase(f)->flags |= PERLIO_F_OPEN;
    return f;
}

static PerlIO *layer_dup(pTHX_ PerlIO *f, PerlIO *o, CLONE_PARAMS *params, int flags)
{
    return PerlIOBase_dup(aTHX_ f, o, params, flags);
}

static PerlIO_funcs layer = {
    sizeof(PerlIO_funcs), "Drom", sizeof(struct _PerlIO), PERLIO_K_RAW | PERLIO_K_MULTIARG,
    layer_pushed, layer_popped, layer_open, PerlIOBase_binmode, NULL, layer_fileno, layer_dup,
    layer_read, PerlIOBase_unread, layer_write, NULL, NULL, PerlIOBase_close, layer_flush,
    PerlIOBase_noop_fail, PerlIOBase_eof, PerlIOBase_error, PerlIOBase_clearerr, PerlIOBase_setlinebuf,
    NULL, NULL, NULL, NULL, NULL,
};

void drom_io_register(pTHX) { PerlIO_define_layer(aTHX_ &layer); }

/* A standard handle: the server's outside of requests, the request's inside. A script may put anything
 * in its place (`*STDOUT = *F`, `undef *STDIN`, `*STDERR = *STDOUT{IO}`), so we hold what we come
 * back to. */
struct standard {
    GV *gv;
    GP *body;   /* of the glob; another while a script has its own there */
    IO *script; /* NULL for STDERR, which stays the server's */
    IO *server;
    int is_tied; /* the server's */
};

static struct standard out, in, err;

static int is_tied(IO *io)
{
    return io && SvMAGIC(io) && SvTIED_mg((SV *)io, PERL_MAGIC_tiedscalar);
}

static PerlIO *open_stream(pTHX_ const char *mode)
{
    return layer_open(aTHX_ &layer, NULL, 0, mode, -1, 0, 0, NULL, 0, NULL);
}

/* Layers that a script pushed (:utf8, :encoding) end with its request. */
static void strip_layers(pTHX_ PerlIO *f)
{
    while (*f && PerlIOBase(f)->tab != &layer)
        PerlIO_pop(aTHX_ f);
    if (*f)
        PerlIOBase(f)->flags &= ~(PERLIO_F_UTF8 | PERLIO_F_ERROR | PERLIO_F_EOF | PERLIO_F_CRLF);
}

static void ready_out(pTHX)
{
    if (!out.script)
        out.script = newIO();
    if (!out_stream)
        out_stream = open_stream(aTHX_ "w");
    else
        strip_layers(aTHX_ out_stream);
    IoIFP(out.script) = IoOFP(out.script) = out_stream;
    IoTYPE(out.script) = IoTYPE_WRONLY;
    IoFLAGS(out.script) = 0;
    IoLINES(out.script) = 0;
}

static void ready_in(pTHX)
{
    if (!in.script)
        in.script = newIO();
    if (!in_stream)
        in_stream = open_stream(aTHX_ "r");
    else
        strip_layers(aTHX_ in_stream);
    PerlIO_push(aTHX_ in_stream, PERLIO_FUNCS_CAST(&PerlIO_perlio), "r", NULL);
    IoIFP(in.script) = in_stream;
    IoOFP(in.script) = NULL;
    IoTYPE(in.script) = IoTYPE_RDONLY;
    IoFLAGS(in.script) = 0;
    IoLINES(in.script) = 0;
}

/* Puts the script's IO into the glob, if it is to have one. */
static void lend(pTHX_ struct standard *handle, GV *gv)
{
    if (handle->gv != gv) { /* the first time, and when a script deleted the name */
        SvREFCNT_dec(handle->gv);
        handle->gv = (GV *)SvREFCNT_inc(gv);
    }
    handle->body = gp_ref(GvGP(gv));
    handle->server = GvIOp(gv);
    handle->is_tied = is_tied(handle->server);
    if (handle->script)
        GvIOp(gv) = (IO *)SvREFCNT_inc(handle->script);
    else
        SvREFCNT_inc(handle->server);
}

static void drop_body(pTHX_ void *gv) { gp_free((GV *)gv); }
static void drop_tie(pTHX_ void *io) { sv_unmagic((SV *)io, PERL_MAGIC_tiedscalar); }

static void take_back(pTHX_ struct standard *handle)
{
    GV *gv = handle->gv;
    if (LIKELY(GvGP(gv) == handle->body)) {
        handle->body->gp_refcnt--;
    } else {
        drom_protected(aTHX_ drop_body, gv);
        GvGP_set(gv, handle->body);
        handle->body->gp_egv = gv;
    }
    IO *left = GvIOp(gv);
    GvIOp(gv) = handle->server;
    if (LIKELY(left && SvREFCNT(left) > 1))
        SvREFCNT_dec(left);
    else
        drom_protected(aTHX_ drom_free, left);
    if (UNLIKELY(!handle->is_tied && is_tied(handle->server)))
        drom_protected(aTHX_ drop_tie, handle->server);
}

static void select_out(pTHX_ void *gv) { setdefout((GV *)gv); }

/* A tie, a format, an opendir: what `ready` does not undo. */
static int is_worn(IO *io)
{
    return SvMAGIC(io) || IoDIRP(io) || IoFMT_NAME(io) || IoFMT_GV(io) || IoTOP_NAME(io)
        || IoTOP_GV(io) || IoPAGE(io) || IoLINES_LEFT(io) || IoPAGE_LEN(io) != 60;
}

static void replace_worn(pTHX_ struct standard *handle)
{
    IO *io = handle->script;
    if (LIKELY(!is_worn(io)))
        return;
    handle->script = NULL;
    drom_protected(aTHX_ drom_free, io);
}

void drom_io_open(pTHX)
{
    GV *gv = gv_fetchpvs("STDOUT", GV_ADD | GV_NOTQUAL, SVt_PVIO);
    ready_out(aTHX);
    ready_in(aTHX);
    lend(aTHX_ &out, gv);
    lend(aTHX_ &in, PL_stdingv);
    lend(aTHX_ &err, PL_stderrgv);
    if (PL_defoutgv != gv)
        setdefout(gv);
}

/* A stream that the script reopened on a file is closed, one that it closed is made anew next time. */
static void leave_stream(pTHX_ IO *io, PerlIO *ours)
{
    if (IoIFP(io) && IoIFP(io) != ours)
        (void)PerlIO_close(IoIFP(io));
    else if (ours)
        PerlIO_flush(ours);
    IoIFP(io) = IoOFP(io) = NULL;
}

void drom_io_close(pTHX)
{
    leaving = 1;
    leave_stream(aTHX_ out.script, out_stream);
    leave_stream(aTHX_ in.script, in_stream);
    if (out_stream)
        strip_layers(aTHX_ out_stream);
    if (in_stream)
        strip_layers(aTHX_ in_stream);
    leaving = 0;
    if (PL_defoutgv != out.gv) /* it may have been the last to know what the script selected */
        drom_protected(aTHX_ select_out, out.gv);
    take_back(aTHX_ &err);
    take_back(aTHX_ &in);
    take_back(aTHX_ &out);
    replace_worn(aTHX_ &out);
    replace_worn(aTHX_ &in);
}

/* ---- %ENV ---------------------------------------------------------------------------------- */

/* Gives the request a %ENV of its own, empty or with what the process has. */
static HV *script_env; /* the hash of the last request: mostly the same names, often the same values */

HV *drom_env_own(pTHX_ int copy)
{
    if (!drom.outer_env) {
        drom.outer_env = GvHV(PL_envgv);
        if (!copy && !script_env)
            script_env = newHV();
        GvHV(PL_envgv) = copy ? newHVhv(drom.outer_env) : (HV *)SvREFCNT_inc(script_env);
    }
    return GvHV(PL_envgv);
}

void drom_env_restore(pTHX)
{
    if (!drom.outer_env)
        return;
    SvREFCNT_dec(GvHV(PL_envgv));
    GvHV(PL_envgv) = drom.outer_env;
    drom.outer_env = NULL;
    if (script_env && (SvREFCNT(script_env) > 1 || SvMAGICAL(script_env))) {
        SvREFCNT_dec(script_env); /* somebody keeps or tied it: the next request gets another */
        script_env = NULL;
    }
}

/* By these two a program knows where it runs. They are no part of the CGI environment, so not the host's. */
static void put_env(pTHX_ HV *env, const drom_pair *pair)
{
    SV **slot = hv_fetch(env, pair->key.ptr, (I32)pair->key.len, 1);
    SV *value = slot ? *slot : NULL;
    if (value && SvREFCNT(value) == 1 && !SvTHINKFIRST(value) && !SvMAGICAL(value)) {
        int same = SvPOK(value) && !SvUTF8(value) && SvCUR(value) == pair->value.len
            && memEQ(SvPVX(value), pair->value.ptr, pair->value.len);
        if (same)
            return;
        SvUTF8_off(value);
        sv_setpvn(value, pair->value.ptr, pair->value.len);
        return;
    }
    (void)hv_store(env, pair->key.ptr, (I32)pair->key.len, newSVpvn(pair->value.ptr, pair->value.len), 0);
}

#define ENV_MARK(name, value) { { name, sizeof name - 1 }, { value, sizeof value - 1 } }
static const drom_pair marks[] = { ENV_MARK("MOD_PERL_API_VERSION", "2"), ENV_MARK("MOD_PERL", "mod_perl/2.0.12") };
static const drom_pair marks_1[] = { ENV_MARK("MOD_PERL", "mod_perl/1.27") };

static size_t mark_env(pTHX_ HV *env)
{
    int old = drom.flags & DROM_MOD_PERL_1;
    size_t count = old ? C_ARRAY_LENGTH(marks_1) : C_ARRAY_LENGTH(marks);
    for (size_t i = 0; i < count; i++)
        put_env(aTHX_ env, (old ? marks_1 : marks) + i);
    return count;
}

/* Values are put into the hash of the request before; a name that is left over makes it all new. */
void drom_env_fill(pTHX_ HV *env, uint64_t r)
{
    size_t count;
    const drom_pair *pairs = drom.host->environment(r, &count);
    for (size_t i = 0; i < count; i++)
        put_env(aTHX_ env, pairs + i);
    size_t marked = mark_env(aTHX_ env);
    if (env != script_env || HvUSEDKEYS(env) == count + marked)
        return;
    hv_clear(env);
    hv_ksplit(env, count + marked);
    for (size_t i = 0; i < count; i++)
        put_env(aTHX_ env, pairs + i);
    mark_env(aTHX_ env);
}

/* NAME=VALUE of each entry, a NUL after each. */
static SV *env_text(pTHX_ HV *env, size_t *count)
{
    SV *text = newSVpvs_flags("", SVs_TEMP);
    HE *entry;
    hv_iterinit(env);
    while ((entry = hv_iternext(env))) {
        SV *value = HeVAL(entry);
        STRLEN len;
        const char *name = HePV(entry, len);
        if (!SvOK(value) || !*name || strchr(name, '='))
            continue; /* such a name is in no environment */
        const char *bytes = SvPV_nolen(value);
        sv_catpvn(text, name, strlen(name));
        sv_catpvs(text, "=");
        sv_catpvn(text, bytes, strlen(bytes) + 1); /* with its NUL */
        ++*count;
    }
    return text;
}

/* For a child process: the C environment becomes what %ENV says. In one piece of memory that goes
 * with the next one: setenv() keeps every value it was ever given, such as the ports of clients. */
void drom_env_export(pTHX)
{
    static char **ours, **older; /* another thread may just look at ours */
    HV *env = GvHV(PL_envgv);
    size_t count = 0;
    if (!env || !drom.outer_env)
        return;
    ENTER;
    SAVETMPS;
    SV *text = env_text(aTHX_ env, &count);
    char **made = drom_env_memory((count + 1) * sizeof *made + SvCUR(text));
    if (!made)
        croak("Drom: cannot pass %%ENV on to a child: %s", Strerror(errno));
    char *at = (char *)(made + count + 1);
    memcpy(at, SvPVX(text), SvCUR(text));
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        made[i] = at;
    made[count] = NULL;
    environ = made;
    free(older);
    older = ours;
    ours = made;
    FREETMPS;
    LEAVE;
}
