/* library.c - the modules that the program carries: `require` finds them although no folder of @INC
 * has them.
 *
 * @INC is the user's: a hook in it would be part of every message about a module that is not there.
 * So it is there only while a module of ours is loaded for the first time.
 */
#include "internal.h"

static SV *hook;
static Perl_ppaddr_t usual_require;

/* The hook's method: a reference to the text. */
static XSPROTO(xs_module_source)
{
    dXSARGS;
    STRLEN len;
    if (items != 2)
        XSRETURN_EMPTY;
    const char *path = SvPV(ST(1), len);
    drom_str source = drom.host->module_source(path, len);
    if (!source.ptr)
        XSRETURN_EMPTY;
    SV *text = newSVpvf("#line 1 \"drom/%.*s\"\n", (int)len, path);
    SV *place = newSVpvf("drom/%.*s", (int)len, path);
    if (!hv_store(GvHVn(PL_incgv), path, (I32)len, place, 0)) /* else %INC would hold the hook */
        SvREFCNT_dec(place);
    sv_catpvn(text, source.ptr, source.len);
    ST(0) = sv_2mortal(newRV_noinc(text));
    XSRETURN(1);
}

static int hook_is_in(pTHX)
{
    SV **first = av_fetch(GvAVn(PL_incgv), 0, 0);
    return first && SvROK(*first) && SvRV(*first) == SvRV(hook);
}

static int is_ours(pTHX_ SV *name)
{
    if (!SvPOK(name) || SvVOK(name) || SvTAINTED(name) || SvCUR(name) < 4
        || memNE(SvEND(name) - 3, ".pm", 3))
        return 0;
    return !hv_exists_ent(GvHVn(PL_incgv), name, 0)
        && drom.host->module_source(SvPVX(name), SvCUR(name)).ptr && !hook_is_in(aTHX);
}

/* For the time of the scope. */
static void put_hook_in(pTHX)
{
    AV *outer = GvAVn(PL_incgv);
    save_ary(PL_incgv);
    AV *inc = GvAVn(PL_incgv);
    av_push(inc, newSVsv(hook));
    for (SSize_t i = 0; i <= av_top_index(outer); i++) {
        SV **folder = av_fetch(outer, i, 0);
        av_push(inc, folder ? SvREFCNT_inc(*folder) : newSV(0));
    }
}

static void load(pTHX_ SV *name)
{
    dSP;
    SV *error = NULL;
    ENTER;
    SAVETMPS;
    put_hook_in(aTHX);
    PUSHSTACKi(PERLSI_REQUIRE);
    SV *code = sv_2mortal(newSVpvf("require \"%" SVf "\"", SVfARG(name))); /* no name is odd */
    eval_sv(code, G_VOID | G_DISCARD | G_EVAL);
    POPSTACK;
    if (SvTRUE(ERRSV))
        error = newSVsv(ERRSV);
    FREETMPS;
    LEAVE;
    if (error)
        croak_sv(sv_2mortal(error));
}

static OP *pp_require(pTHX)
{
    SV *name = *PL_stack_sp;
    if (is_ours(aTHX_ name))
        load(aTHX_ name);
    return usual_require(aTHX); /* which finds it in %INC by now */
}

/* As in mod_perl @INC ends with ServerRoot, and with its lib/perl when that is there. */
static void push_server_root(pTHX)
{
    drom_str root = drom.host->text(0, DROM_TEXT_ServerRoot);
    AV *inc = GvAVn(PL_incgv);
    Stat_t found;
    if (!root.ptr || !root.len)
        return;
    av_push(inc, drom_sv(aTHX_ root));
    const char *slash = root.ptr[root.len - 1] == '/' ? "" : "/";
    SV *lib = newSVpvf("%.*s%slib/perl", (int)root.len, root.ptr, slash);
    if (PerlLIO_stat(SvPVX(lib), &found) == 0 && S_ISDIR(found.st_mode))
        av_push(inc, lib);
    else
        SvREFCNT_dec(lib);
}

void drom_boot_library(pTHX)
{
    push_server_root(aTHX);
    drom_define(aTHX_ "Drom::Library::INC", xs_module_source, 0);
    hook = sv_bless(newRV_noinc(newSVpvs("drom")), gv_stashpvs("Drom::Library", GV_ADD));
    usual_require = PL_ppaddr[OP_REQUIRE];
    PL_ppaddr[OP_REQUIRE] = pp_require;
}

int drom_library_is_there(void) { return hook != NULL; }
