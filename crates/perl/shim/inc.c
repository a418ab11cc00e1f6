/* inc.c - what a request does to @INC ends with it, as under mod_perl's perl-script; what a script
 * of PerlRun requires that is no module leaves %INC again.
 *
 * The strings of @INC share their text with copies of ours (copy on write), so that one comparison
 * of pointers an element tells whether a script changed anything, even in place.
 */
#include "internal.h"

static AV *array; /* @INC itself, with a reference of ours */
static AV *known; /* copies of its elements; NULL: to be taken by the next request */

static void share_text(pTHX_ SV *element)
{
    STRLEN len;
    if (!SvPOK(element) || SvROK(element) || SvREADONLY(element) || SvMAGICAL(element))
        return;
    const char *text = SvPV(element, len);
    I32 signed_len = SvUTF8(element) ? -(I32)len : (I32)len;
    SV *shared = newSVpvn_share(text, signed_len, 0);
    sv_setsv(element, shared);
    SvREFCNT_dec(shared);
}

static void forget(pTHX)
{
    SvREFCNT_dec(known);
    SvREFCNT_dec(array);
    known = array = NULL;
}

/* Before code of a request is loaded or run. */
void drom_inc_keep(pTHX)
{
    if (LIKELY(known != NULL))
        return;
    array = (AV *)SvREFCNT_inc(GvAVn(PL_incgv));
    known = newAV();
    for (SSize_t i = 0; i < (SSize_t)av_count(array); i++) {
        SV **element = av_fetch(array, i, 0);
        if (element)
            share_text(aTHX_ *element);
        av_push(known, element ? newSVsv(*element) : newSV(0));
    }
}

static int same(const SV *now, const SV *then)
{
    U32 kind = SvFLAGS(then) & (SVf_POK | SVf_ROK);
    if (!now || (SvFLAGS(now) & (SVf_POK | SVf_ROK)) != kind)
        return 0;
    if (!kind || now->sv_u.svu_rv == then->sv_u.svu_rv) /* a text's pointer is there too */
        return 1;
    return kind == SVf_POK && SvCUR(now) == SvCUR(then)
        && memEQ(SvPVX_const(now), SvPVX_const(then), SvCUR(now));
}

static int is_unusual(AV *av) { return SvMAGICAL(av) || SvREADONLY(av); }

static int is_unchanged(pTHX)
{
    AV *now = GvAV(PL_incgv);
    if (now != array || is_unusual(now) || AvFILLp(now) != AvFILLp(known))
        return 0;
    for (SSize_t i = 0; i <= AvFILLp(known); i++)
        if (!same(AvARRAY(now)[i], AvARRAY(known)[i]))
            return 0;
    return 1;
}

/* Code of destructors must not meet a half-made @INC: what goes is freed last. */
static void put_back(pTHX)
{
    AV *now = GvAV(PL_incgv), *gone = newAV();
    if (is_unusual(array)) {
        av_push(gone, (SV *)array);
        array = newAV();
    }
    for (SSize_t i = 0; i <= AvFILLp(array); i++)
        if (AvARRAY(array)[i])
            av_push(gone, SvREFCNT_inc(AvARRAY(array)[i]));
    av_clear(array);
    for (SSize_t i = 0; i <= AvFILLp(known); i++)
        av_push(array, newSVsv(AvARRAY(known)[i]));
    if (now != array) {
        GvAV(PL_incgv) = (AV *)SvREFCNT_inc(array);
        if (now)
            av_push(gone, (SV *)now);
    }
    drom_protected(aTHX_ drom_free, gone);
}

/* After a request: a script's changes end, those of a handler without script IO stay. */
void drom_inc_end(pTHX_ int restore)
{
    if (LIKELY(!known || is_unchanged(aTHX)))
        return;
    if (restore)
        put_back(aTHX);
    else
        forget(aTHX);
}

/* ---- libraries ----------------------------------------------------------------------------- */

static HV *libraries;      /* the keys of %INC that are no modules, */
static size_t known_count; /* when it had this many keys; 0: to be looked at again */

static int is_module(pTHX_ SV *key)
{
    STRLEN len;
    const char *name = SvPV(key, len);
    return len > 3 && memEQ(name + len - 3, ".pm", 3);
}

/* Before a script of PerlRun runs. */
void drom_libraries_keep(pTHX)
{
    HV *inc = GvHVn(PL_incgv);
    if (LIKELY(known_count == HvUSEDKEYS(inc)))
        return;
    SvREFCNT_dec(libraries);
    libraries = newHV();
    hv_iterinit(inc);
    for (HE *entry; (entry = hv_iternext(inc));) {
        SV *key = hv_iterkeysv(entry);
        if (!is_module(aTHX_ key))
            (void)hv_store_ent(libraries, key, newSV(0), 0);
    }
    known_count = HvUSEDKEYS(inc);
}

/* After it: a library has put its subs into the script's package, which is forgotten. */
void drom_libraries_end(pTHX)
{
    HV *inc = GvHVn(PL_incgv);
    if (LIKELY(known_count == HvUSEDKEYS(inc)) || !libraries)
        return;
    ENTER;
    SAVETMPS;
    AV *names = (AV *)sv_2mortal((SV *)newAV()), *gone = newAV();
    hv_iterinit(inc);
    for (HE *entry; (entry = hv_iternext(inc));) {
        SV *key = hv_iterkeysv(entry);
        if (!is_module(aTHX_ key) && !hv_exists_ent(libraries, key, 0))
            av_push(names, SvREFCNT_inc(key));
    }
    for (SSize_t i = 0; i < (SSize_t)av_count(names); i++)
        av_push(gone, SvREFCNT_inc(hv_delete_ent(inc, AvARRAY(names)[i], 0, 0)));
    known_count = known_count == HvUSEDKEYS(inc) ? known_count : 0;
    FREETMPS;
    LEAVE;
    drom_protected(aTHX_ drom_free, gone);
}
